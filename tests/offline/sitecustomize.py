"""Python imports this file when it starts, if it finds it: tests/conftest.py puts it on the path of every kernel."""
import no_network  # noqa: F401
