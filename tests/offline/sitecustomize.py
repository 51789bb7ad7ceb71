"""Python imports this file when it starts and finds it on its path; tests/conftest.py puts it there for every kernel."""
import no_network  # noqa: F401
