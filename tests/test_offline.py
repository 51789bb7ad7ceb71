"""Nothing in the course needs a network: the kernels of the test run cannot reach one, and every notebook passes."""
import socket
from queue import Empty

import pytest
from jupyter_client.manager import start_new_kernel

ELSEWHERE = "198.51.100.7"  # an address reserved for documentation: nobody answers there


@pytest.fixture(scope="module")
def ask_kernel():
    """Runs a line in a kernel started the way nbval starts one; returns what it printed or the error it raised."""
    manager, client = start_new_kernel()

    def ask(code: str) -> str:
        said = []
        try:
            client.execute_interactive(code, timeout=30, output_hook=said.append)
        except Empty:
            pytest.fail(f"the kernel did not answer: {code}")
        texts = [m["content"].get("text") or m["content"].get("evalue") for m in said]
        return "".join(text for text in texts if text)

    yield ask
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.mark.parametrize(
    "attempt",
    [
        f"socket.create_connection(('{ELSEWHERE}', 443), timeout=2)",
        f"socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('{ELSEWHERE}', 53))",
        f"__import__('_socket').socket().connect(('{ELSEWHERE}', 80))",
        "socket.getaddrinfo('example.org', 443)",
        "__import__('urllib.request').request.urlopen('http://example.org', timeout=2)",
    ],
)
def test_a_kernel_refuses_to_leave_the_machine(ask_kernel, attempt):
    assert "the course runs offline: refused to reach" in ask_kernel(f"import socket\n{attempt}")


def test_a_kernel_still_talks_to_its_own_machine(ask_kernel):
    answer = ask_kernel(
        "import socket\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "caller = socket.create_connection(('localhost', server.getsockname()[1]), timeout=5)\n"
        "print('connected', socket.getaddrinfo('localhost', 80) != [])"
    )
    assert answer == "connected True\n"


def test_the_test_process_is_offline_too():
    with pytest.raises(ConnectionRefusedError, match="the course runs offline"):
        socket.create_connection((ELSEWHERE, 443), timeout=2)
