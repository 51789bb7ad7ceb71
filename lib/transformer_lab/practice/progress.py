"""What a learner has done, in one small file on their own machine. Nothing leaves it.

The file is ``progress.json`` in the user's data folder; the environment variable ``TRANSFORMER_LAB_PROGRESS`` names
another folder. It is plain JSON, safe to read and to delete. A file that cannot be read, or that another version
of the course wrote, is kept aside under a new name. Where nothing can be saved the lesson goes on.

    progress.show()          what is done so far
    progress.where()         the path of the file
    progress.move(folder)    keep the file somewhere else from now on
    progress.reset()         start again; the old file is kept beside the new one
"""

import json
import os
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_data_dir

from transformer_lab.practice.summary import Summary

VERSION = 1
ENVIRONMENT_VARIABLE = "TRANSFORMER_LAB_PROGRESS"
_FILE = "progress.json"
_MOVED = "moved_to.txt"
_LOCK_SECONDS = 2
_locked: set[Path] = set()  # files that another program holds; this session does not wait for them again
_said: set[str] = set()  # warnings of this session that need no repeating


class _NotOurs(Exception):
    """A file that is there but cannot be used; the message says why."""


def record_exercise(name: str, right: bool) -> str | None:
    """Add one attempt at an exercise. Returns a sentence when something about the file needs saying."""

    def change(record: dict) -> None:
        entry = record["exercises"].setdefault(name, {"tries": 0, "solved": False})
        entry["tries"] += 1
        entry["solved"] = entry["solved"] or right
        entry["last"] = _now()

    return _update(change)


def record_answer(question_id: str, answer: int | float, right: bool) -> str | None:
    """Add one committed answer: the index of an option, or a number. The first one is never overwritten.

    ``right_in_a_row`` and ``last`` are what spaced retrieval needs to choose the next question.
    """

    def change(record: dict) -> None:
        first = {"first_answer": answer, "first_right": right, "tries": 0, "right_in_a_row": 0}
        entry = record["questions"].setdefault(question_id, first)
        entry["tries"] += 1
        entry["right_in_a_row"] = entry["right_in_a_row"] + 1 if right else 0
        entry["last"] = _now()

    return _update(change)


def answers() -> dict[str, dict]:
    """What is recorded about every question answered so far, by question id."""
    return _read()["questions"]


def where() -> Path:
    """The path of the progress file, whether or not it exists yet."""
    try:
        moved_to = (_home() / _MOVED).read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError):  # never moved
        moved_to = ""
    if "\0" in moved_to:  # no folder has such a name: the note is damaged
        moved_to = ""
    return (Path(moved_to) if moved_to else _home()) / _FILE


def show() -> Summary:
    """What is done so far, as a table."""
    record = _read()
    return Summary(record["exercises"], record["questions"])


def reset() -> None:
    """Start again. The old file is kept beside the new one, so nothing is lost by mistake."""
    path = where()
    try:
        with _lock(path):
            kept = _set_aside(path, "before-reset") if path.exists() else None
    except OSError as error:
        print(f"Nothing was reset: {_reason(error)}.")
        return
    print("Your progress is empty." + (f" The old file is kept as {kept.name}." if kept else ""))


def move(folder: str | Path) -> None:
    """Keep the progress file in ``folder`` from now on, in this session and later ones.

    Raises:
        ValueError: ``folder`` already holds a progress file; nothing is overwritten.
    """
    old, folder = where(), Path(folder).expanduser().resolve()
    if folder == old.parent.resolve():
        print("Your progress is there already.")
        return
    if (folder / _FILE).exists():
        raise ValueError(f"{folder} already holds a {_FILE}; rename that file first, or choose another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(old):
            # an empty record too, which shows whether the folder can be written to
            _write_text(folder / _FILE, old.read_text(encoding="utf-8-sig") if old.exists() else _as_text(_empty()))
            pointer = _home() / _MOVED
            if folder == _home().resolve():
                pointer.unlink(missing_ok=True)
            else:
                _write_text(pointer, f"{folder}\n")
            old.unlink(missing_ok=True)
    except OSError as error:
        print(f"Your progress stays where it is: {_reason(error)}.")
        return
    print(f"Your progress is kept in {folder} from now on.")


def _home() -> Path:
    chosen = os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(chosen or user_data_dir("transformer-lab", appauthor=False)).expanduser()


def _read() -> dict:
    """The record as it is; a file that cannot be used is set aside first. Empty where nothing can be read."""
    try:
        return _parse(where())
    except OSError:
        return _empty()
    except _NotOurs:
        note = _update(lambda record: None)
        if note:
            print(note)
        return _empty()


def _update(change: Callable[[dict], None]) -> str | None:
    path, note = where(), None
    if path in _locked:
        return None
    try:
        with _lock(path):
            if where() != path:  # another notebook moved the file while this one waited
                return _update(change)
            try:
                record = _parse(path)
            except _NotOurs as reason:
                kept = _set_aside(path, "kept-aside")
                note = f"Your progress file {reason}. It is kept as {kept.name}, and a new one begins."
                record = _empty()
            change(record)
            _write_text(path, _as_text(record))
    except Timeout:
        _locked.add(path)
        return f"Nothing is saved in this session: another program holds {path}. The lesson works all the same."
    except OSError as error:
        return _once(f"Your progress is not saved: {_reason(error)}. The lesson works all the same.")
    return note


def _parse(path: Path) -> dict:
    try:
        record = json.loads(path.read_text(encoding="utf-8-sig"))  # some editors begin a file with a mark
    except FileNotFoundError:
        return _empty()
    except (ValueError, RecursionError):  # broken JSON or broken UTF-8
        raise _NotOurs("could not be read") from None
    version = record.get("version") if isinstance(record, dict) else None
    if type(version) is int and version != VERSION:
        raise _NotOurs(f"was written by {'a newer' if version > VERSION else 'an older'} version of the course")
    if type(version) is not int or not _fits(record):
        raise _NotOurs("does not hold what this course writes")
    return record


def _fits(record: dict) -> bool:
    """Whether every entry has the fields that this module counts with; anything more is left alone."""
    exercises, questions = record.get("exercises"), record.get("questions")
    if not isinstance(exercises, dict) or not isinstance(questions, dict):
        return False
    fields = [(e, {"tries": int, "solved": bool}) for e in exercises.values()]
    fields += [(q, {"tries": int, "right_in_a_row": int, "first_right": bool}) for q in questions.values()]
    return all(
        isinstance(entry, dict) and all(type(entry.get(name)) is kind for name, kind in kinds.items())
        for entry, kinds in fields
    )


def _empty() -> dict:
    return {"version": VERSION, "exercises": {}, "questions": {}}


def _as_text(record: dict) -> str:
    return json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _lock(path: Path) -> FileLock:
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(f"{path}.lock", timeout=_LOCK_SECONDS)


def _write_text(path: Path, text: str) -> None:
    """Write a whole file or leave the old one untouched, whatever happens on the way."""
    path = Path(os.path.realpath(path))  # a link stays a link, and its target is what changes
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".new")
    try:
        # a lone surrogate in a hand-edited file goes back as the JSON escape it came from
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _set_aside(path: Path, why: str) -> Path:
    path, number = Path(os.path.realpath(path)), 1
    while (kept := path.with_name(f"progress.{why}-{number}.json")).exists():
        number += 1
    return path.rename(kept)


def _once(sentence: str) -> str | None:
    if sentence in _said:
        return None
    _said.add(sentence)
    return sentence


def _reason(error: OSError) -> str:
    return f"{error.strerror or type(error).__name__} ({error.filename or where()})"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
