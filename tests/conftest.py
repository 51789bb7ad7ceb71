"""What every test relies on: one torch thread, no network, progress in a folder of its own, one notebook per worker."""
import importlib
import os
import sys
import tempfile
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent

# Kernels and servers that the tests start inherit these two, so they are set before anything runs.
_progress = tempfile.TemporaryDirectory(prefix="progress-")
os.environ["TRANSFORMER_LAB_PROGRESS"] = _progress.name
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(TESTS / "offline"), os.environ.get("PYTHONPATH", "")])
)
sys.path.insert(0, str(TESTS / "offline"))
importlib.import_module("no_network")  # the tests' own process is offline too


@pytest.fixture(scope="session", autouse=True)
def one_torch_thread():
    """Two workers with two threads each are slower on two cores than one thread each, and less repeatable."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def plain_errors():
    """Switches the executed shape annotations off, so that a bad argument meets the library's own checks."""
    from jaxtyping import config

    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", before)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """A notebook's cells share a kernel and a file's tests share their fixtures: each stays on one worker."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.name))
