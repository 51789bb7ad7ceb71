"""A private JupyterLab on loopback that serves a copy of the course, so that no committed file is ever written."""
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat

START_SECONDS = 60
SETTINGS = {
    "docmanager-extension/plugin": {"autosave": False},
    "notebook-extension/tracker": {"windowingMode": "none"},  # otherwise cells out of sight are not drawn
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
}


def copy_of_course(course: Path, folder: Path) -> None:
    """Copy what a reader has open, with no outputs and no counts: whatever the page shows, this run has made."""
    shutil.copytree(course / "figures", folder / "figures")
    shutil.copy(course / "requirements.txt", folder)
    (folder / "notebooks").mkdir()
    for path in sorted((course / "notebooks").glob("*.ipynb")):
        copy_without_outputs(path, folder / "notebooks" / path.name)


def copy_without_outputs(source: Path, target: Path) -> None:
    notebook = nbformat.read(source, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(notebook, target)


class Lab:
    """`jupyter lab` with its settings, workspaces, checkpoints and history in a folder of its own."""

    def __init__(self, root: Path, private: Path):
        self.root = root
        settings = private / "settings" / "@jupyterlab"
        for name, value in SETTINGS.items():
            path = settings / f"{name}.jupyterlab-settings"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(value))
        self._runtime = private / "runtime"
        folders = {
            "JUPYTERLAB_SETTINGS_DIR": private / "settings",
            "JUPYTERLAB_WORKSPACES_DIR": private / "workspaces",
            "JUPYTER_CONFIG_DIR": private / "config",
            "JUPYTER_DATA_DIR": private / "data",
            "JUPYTER_RUNTIME_DIR": self._runtime,
            "IPYTHONDIR": private / "ipython",
        }
        options = [
            "--no-browser",
            "--allow-root",
            "--ServerApp.ip=127.0.0.1",
            "--ServerApp.port=0",  # any free one; `url` reads which
            "--IdentityProvider.token=",
            "--ServerApp.disable_check_xsrf=True",
            f"--ServerApp.root_dir={root}",
            f"--FileCheckpoints.checkpoint_dir={private / 'checkpoints'}",
        ]
        self._log = (private / "lab.log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "jupyter", "lab", *options],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=os.environ | {name: str(folder) for name, folder in folders.items()},
        )
        self.url = self._wait_for_url()

    def _wait_for_url(self) -> str:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            for info in self._runtime.glob("jpserver-*.json"):
                try:
                    port = json.loads(info.read_text())["port"]
                    url = f"http://127.0.0.1:{port}"
                    urllib.request.urlopen(f"{url}/api/status", timeout=5).close()
                    return url
                except (OSError, ValueError):
                    pass  # not written to its end, or not listening yet
            time.sleep(0.1)
        self.stop()
        raise RuntimeError("JupyterLab did not start:\n" + Path(self._log.name).read_text()[-2_000:])

    def close_kernels(self) -> None:
        with urllib.request.urlopen(f"{self.url}/api/sessions", timeout=10) as answer:
            sessions = json.load(answer)
        for session in sessions:
            request = urllib.request.Request(f"{self.url}/api/sessions/{session['id']}", method="DELETE")
            urllib.request.urlopen(request, timeout=30).close()

    def stop(self) -> None:
        self._process.terminate()  # it shuts its kernels down too
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
