"""What every test relies on: one thread, no network, progress in a folder of its own, a notebook on one worker."""
import importlib
import os
import re
import sys
import tempfile
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

TESTS = Path(__file__).resolve().parent

# Kernels and servers that the tests start inherit all this, so it is set before anything runs. Two workers with two
# threads each are slower on two cores than with one thread each, and less repeatable.
os.environ["OMP_NUM_THREADS"] = "1"
_progress = tempfile.TemporaryDirectory(prefix="progress-")
os.environ["TRANSFORMER_LAB_PROGRESS"] = _progress.name
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(TESTS / "offline"), os.environ.get("PYTHONPATH", "")])
)
sys.path.insert(0, str(TESTS / "offline"))
importlib.import_module("no_network")  # the tests' own process is offline too


def pytest_unconfigure():
    _progress.cleanup()


@pytest.fixture(autouse=True, scope="module")
def closed_widgets():
    """ipywidgets holds on to every widget that is not closed, with its pictures: some 2 GB over a whole run."""
    yield
    if "ipywidgets" in sys.modules:
        sys.modules["ipywidgets"].Widget.close_all()


@pytest.fixture
def plain_errors():
    """Switches the executed shape annotations off, so that a bad argument meets the library's own checks."""
    from jaxtyping import config

    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", before)


class OneNotebookOneWorker(LoadFileScheduling):
    """A notebook's cells share a kernel and a file's tests share their fixtures: each stays on one worker.

    Tests that take the notebooks one after another, named `…[02_attention]`, are shared out by notebook.
    """

    def _split_scope(self, nodeid: str) -> str:
        notebook = re.search(r"\[\d\d_\w+", nodeid)
        return super()._split_scope(nodeid) + (notebook[0] if notebook else "")


def pytest_xdist_make_scheduler(config, log):
    return OneNotebookOneWorker(config, log)
