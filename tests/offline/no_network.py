"""Importing this module makes the process refuse to reach any other machine.

An audit hook sees connections that are made from C too, and nothing can take it off again.
"""
import sys

NAME_LOOKUPS = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}
CONNECTIONS = {"socket.connect", "socket.sendto", "socket.sendmsg"}


def is_local(host: object) -> bool:
    """Loopback addresses and names, and the empty host that stands for this machine."""
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    return host in (None, "", "localhost", "::1", "0.0.0.0") or str(host).startswith("127.")


def refuse(event: str, arguments: tuple) -> None:
    if event in NAME_LOOKUPS:
        host = arguments[0]
    elif event in CONNECTIONS and isinstance(arguments[1], tuple):  # a plain string is a Unix socket
        host = arguments[1][0]
    else:
        return
    if not is_local(host):
        raise ConnectionRefusedError(f"the course runs offline: refused to reach {host!r}")


sys.addaudithook(refuse)
