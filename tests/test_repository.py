"""What a visitor of the repository would trip over: machine paths, stray files, figures that nothing shows."""
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
VISIBLE = {"README.md", "requirements.txt", "notebooks", "lib", "figures", "tests"}
SKIPPED = {".git", "__pycache__", ".ipynb_checkpoints", ".pytest_cache", ".hypothesis", ".ruff_cache"}
TEXT = {".py", ".ipynb", ".md", ".txt", ".toml", ".ini", ".yml", ".svg", ".json", ""}
# A dot in brackets, so that this file does not find itself.
BANNED = {
    "the path of a machine": r"(?<![\w.:/])/(?:home|root|work|tmp|Users)/|[A-Z]:\\\\?Users",
    "the host of a package index": r"pypi[.]org|pythonhosted[.]org|download[.]pytorch[.]org|anaconda[.]org|npmjs[.]",
}


def is_environment(folder: Path) -> bool:
    return (folder / "pyvenv.cfg").exists()


def text_files(folder: Path = ROOT) -> list[Path]:
    """The files a person wrote, or that are committed: no caches, no virtual environment."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.name in SKIPPED or path.suffix == ".egg-info":
            continue
        if path.is_dir() and not is_environment(path):
            found += text_files(path)
        elif path.is_file() and path.suffix in TEXT:
            found.append(path)
    return found


@pytest.mark.parametrize("what", BANNED)
def test_no_file_names_a_machine_or_a_package_index(what):
    found = [
        f"{path.relative_to(ROOT)}: {hit[0]}"
        for path in text_files()
        for hit in re.finditer(BANNED[what], path.read_text(encoding="utf-8"))
    ]
    assert not found, f"{what}:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("the path of a machine", "File " + "/home" + "/ada/course/x.py"),
        ("the path of a machine", "see " + "/tmp" + "/x"),
        ("the path of a machine", "C:" + "\\Users\\ada"),
        ("the host of a package index", "https://" + "pypi" + ".org/simple"),
    ],
)
def test_a_banned_text_is_found(what, text):
    assert re.search(BANNED[what], text)


def test_the_top_level_stays_small():
    visible = {p.name for p in ROOT.iterdir() if not p.name.startswith(".") and not is_environment(p)}
    assert visible == VISIBLE, f"only in the folder: {visible - VISIBLE}; missing: {VISIBLE - visible}"


def test_every_figure_is_shown_somewhere():
    readers = [ROOT / "README.md", *(ROOT / "notebooks").glob("*.ipynb")]
    shown = "".join(path.read_text(encoding="utf-8") for path in readers)
    unused = [path.name for path in sorted((ROOT / "figures").glob("*.svg")) if f"figures/{path.name}" not in shown]
    assert not unused, f"no notebook and no README shows {unused}"
