"""The rooms of the library import each other in one direction only (.importlinter)."""
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "lib" / "transformer_lab"
# room -> the rooms it may import
ALLOWED = {
    "model": set(),
    "tasks": set(),
    "training": set(),
    "draw": set(),
    "accounting": {"model"},
    "experiments": {"model", "tasks", "training"},
    "widgets": {"experiments", "draw", "accounting", "tasks"},
    "practice": {"model", "accounting"},
    "lesson": {"draw"},
}
# What a room that is meant to be read as a textbook may use beside the standard library.
OUTSIDE = {"model": {"torch", "jaxtyping"}, "tasks": {"torch", "jaxtyping"}}
OUTSIDE_IMPORTS = """
import sys, grimp
graph = grimp.build_graph("transformer_lab", include_external_packages=True, cache_dir=None)
for module in {sys.argv[1]} | graph.find_descendants(sys.argv[1]):
    print(*{other.split(".")[0] for other in graph.find_modules_directly_imported_by(module)})
"""


def lint(library_parent: Path) -> subprocess.CompletedProcess:
    """Check the contract on the copy of the library that lies in this folder."""
    program = "import sys; from importlinter.cli import lint_imports_command as lint; sys.argv[1:] = %r; lint()"
    options = [str(ROOT / ".importlinter"), "--no-cache"]
    return subprocess.run(
        [sys.executable, "-c", program % options], cwd=library_parent, capture_output=True, text=True
    )


def external_imports(room: str, library_parent: Path) -> set[str]:
    """Top-level names of the packages outside ours and outside the standard library that a room imports."""
    # in a process of its own: here the installed library may be imported already, and would be looked at instead
    done = subprocess.run(
        [sys.executable, "-c", OUTSIDE_IMPORTS, f"transformer_lab.{room}"],
        cwd=library_parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split()) - {"transformer_lab"} - sys.stdlib_module_names


def imports_of(rooms: set[str]) -> str:
    return "\n".join(f"import transformer_lab.{room}.inside" for room in sorted(rooms))


@pytest.fixture(scope="module")
def bare_library(tmp_path_factory) -> Path:
    """A library with every room and not one import, so that each test below adds the only edge."""
    parent = tmp_path_factory.mktemp("bare")
    for room in ALLOWED:
        folder = parent / "transformer_lab" / room
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
        (folder / "inside.py").touch()
    (parent / "transformer_lab" / "__init__.py").touch()
    return parent


@pytest.fixture
def add_import(bare_library):
    """Writes one import into a room of the bare library and takes it out again."""
    written = []

    def add(room: str, statement: str) -> Path:
        module = bare_library / "transformer_lab" / room / "inside.py"
        module.write_text(statement + "\n")
        written.append(module)
        return bare_library

    yield add
    for module in written:
        module.write_text("")


def test_the_library_keeps_its_contract():
    result = lint(ROOT / "lib")
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_room_of_the_library_is_known_to_the_contract():
    found = {path.stem for path in LIBRARY.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    unknown = found - set(ALLOWED) - {"__init__"}
    assert not unknown, f"{unknown}: add the room to .importlinter and to ALLOWED here, or move it into a room"


@pytest.mark.parametrize("room", ALLOWED)
def test_every_other_import_breaks_the_contract(add_import, room):
    forbidden = set(ALLOWED) - ALLOWED[room] - {room}
    result = lint(add_import(room, imports_of(forbidden)))
    missed = {other for other in forbidden if f"{room}.inside -> transformer_lab.{other}.inside" not in result.stdout}
    assert result.returncode != 0
    assert not missed, f"{room} can import {missed} and nothing complains"


def test_all_allowed_imports_together_keep_the_contract(add_import):
    for room, others in ALLOWED.items():
        library_parent = add_import(room, imports_of(others))
    result = lint(library_parent)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("room", OUTSIDE)
def test_the_textbook_rooms_need_only_torch(room):
    extra = external_imports(room, ROOT / "lib") - OUTSIDE[room]
    assert not extra, f"{room} imports {sorted(extra)}; it may use {sorted(OUTSIDE[room])} and the standard library"


def test_an_outside_import_is_seen(add_import):
    assert external_imports("model", add_import("model", "import math, numpy.linalg, torch.nn")) == {"numpy", "torch"}
