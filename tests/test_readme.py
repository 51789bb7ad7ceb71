"""The README's commands are the ones that run: locally, in .ci/run and in the workflow."""
import re
import subprocess
from pathlib import Path

import nbformat
import pytest

from transformer_lab.draw.diagrams import LESSONS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RUN = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
WORKFLOW = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", README, re.DOTALL) for line in block.splitlines()]


def test_the_readme_opens_the_course_and_runs_the_tests_in_one_command_each():
    opening, testing = (next(c for c in COMMANDS if end in c) for end in ("jupyter lab", "pytest"))
    for command in (opening, testing):
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -r requirements.txt ")
    assert opening.endswith("&& .venv/bin/jupyter lab notebooks/00_start_here.ipynb")
    assert testing.endswith(" -r tests/requirements.txt && .venv/bin/python -m pytest")


def test_ci_runs_the_readmes_own_command():
    extract = next(line for line in RUN.splitlines() if line.startswith("command="))
    program = f'{extract}\necho "$command"'
    said = subprocess.run(["bash", "-c", program], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.strip() == next(command for command in COMMANDS if "pytest" in command)


def test_the_workflow_calls_ci_run_on_every_supported_python():
    assert re.findall(r"- run: (.*)", WORKFLOW) == ['sudo env "PATH=$PATH" .ci/run']
    supported = re.search(r"Python (3\.\d+), (3\.\d+) or (3\.\d+)", README).groups()
    assert tuple(re.findall(r'"(3\.\d+)"', WORKFLOW)) == supported


def test_the_scripts_can_be_run():
    for name in ("run", "refresh"):
        assert (ROOT / ".ci" / name).stat().st_mode & 0o111, f"chmod +x .ci/{name}"


@pytest.mark.parametrize("path", sorted(set(re.findall(r"(?:tests|notebooks|figures|lib|\.ci)/[\w./]*\w", README))))
def test_every_path_in_the_readme_exists(path):
    assert (ROOT / path).exists()


def test_the_readme_lists_the_lessons_that_exist():
    listed = sorted(set(re.findall(r"notebooks/(\d\d_\w+\.ipynb)", README)))
    assert listed == sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))


def test_a_lesson_takes_as_long_wherever_it_is_mentioned():
    planned = {f"{lesson.number:02}": str(lesson.minutes) for lesson in LESSONS}
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        number = path.name[:2]
        opening = nbformat.read(path, as_version=4).cells[0].source
        listed = re.search(rf"\| \[{number} .*\| (\d+) \|", README)[1]
        assert re.search(r"\b(\d+) minutes", opening)[1] == listed == planned[number], path.name
        assert opening.startswith(f"# {number} ")
