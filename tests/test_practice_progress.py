"""The progress file: nothing is lost, nothing stops the lesson."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from transformer_lab.practice import progress


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LAB_PROGRESS", str(tmp_path))
    monkeypatch.setattr(progress, "_said", set())
    monkeypatch.setattr(progress, "_locked", set())
    return tmp_path


def stored(folder):
    return json.loads((folder / "progress.json").read_text(encoding="utf-8"))


def test_the_file_is_readable_and_holds_what_was_recorded(home):
    assert progress.record_exercise("attention", right=False) is None
    progress.record_exercise("attention", right=True)
    progress.record_exercise("attention", right=False)
    progress.record_answer("scores-shape", 2, right=True)
    progress.record_answer("scores-shape", 0, right=False)
    text = (home / "progress.json").read_text(encoding="utf-8")
    record = json.loads(text)
    assert text == json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert record["version"] == 1
    attention, question = record["exercises"]["attention"], record["questions"]["scores-shape"]
    assert (attention["tries"], attention["solved"]) == (3, True)
    assert (question["first_answer"], question["first_right"]) == (2, True)
    assert (question["tries"], question["right_in_a_row"]) == (2, 0)
    assert not list(home.glob("*.new")), "the temporary file is gone"


def test_the_variable_moves_the_file_and_the_default_is_the_users_data_folder(home, monkeypatch):
    assert progress.where() == home / "progress.json"
    monkeypatch.delenv("TRANSFORMER_LAB_PROGRESS")
    monkeypatch.setattr(progress, "user_data_dir", lambda name, appauthor: f"/data/{name}")
    assert progress.where() == Path("/data/transformer-lab/progress.json")


GOOD = {"version": 1, "exercises": {"a": {"tries": 1, "solved": True}}, "questions": {}}
UNUSABLE = {
    "empty": ("", "could not be read"),
    "truncated": (json.dumps(GOOD)[:30], "could not be read"),
    "not text": (b"\xff\xfe\x00", "could not be read"),
    "deeply nested": ("[" * 100_000, "could not be read"),
    "another thing": ("[1, 2]", "does not hold"),
    "no version": ('{"exercises": {}, "questions": {}}', "does not hold"),
    "older": (json.dumps(GOOD | {"version": 0}), "older version"),
    "newer": (json.dumps(GOOD | {"version": 2, "more": 1}), "newer version"),
    "odd version": (json.dumps(GOOD | {"version": True}), "does not hold"),
    "entries of another kind": (json.dumps(GOOD | {"exercises": {"a": 3}}), "does not hold"),
    "a count of another kind": (json.dumps(GOOD).replace('"tries": 1', '"tries": "1"'), "does not hold"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_file_that_cannot_be_used_is_kept_aside_and_said_once(home, name):
    content, reason = UNUSABLE[name]
    content = content if isinstance(content, bytes) else content.encode()
    (home / "progress.json").write_bytes(content)
    note = progress.record_exercise("attention", right=True)
    assert reason in note and "progress.kept-aside-1.json" in note
    assert (home / "progress.kept-aside-1.json").read_bytes() == content
    assert list(stored(home)["exercises"]) == ["attention"]
    assert progress.record_exercise("attention", right=True) is None


def test_a_second_bad_file_does_not_replace_the_first(home):
    for number in (1, 2):
        (home / "progress.json").write_text(f"bad {number}", encoding="utf-8")
        progress.record_exercise("attention", right=True)
    assert (home / "progress.kept-aside-1.json").read_text() == "bad 1"
    assert (home / "progress.kept-aside-2.json").read_text() == "bad 2"


def test_reading_sets_a_bad_file_aside_too(home, capsys):
    (home / "progress.json").write_text("bad", encoding="utf-8")
    assert progress.answers() == {}
    assert "kept as progress.kept-aside-1.json" in capsys.readouterr().out
    assert progress.answers() == {} and capsys.readouterr().out == ""


def test_unknown_fields_of_a_good_file_survive(home):
    record = GOOD | {"theme": "dark"}
    record["exercises"]["a"]["note"] = "mine \ud800"
    (home / "progress.json").write_text(json.dumps(record), encoding="utf-8")
    progress.record_answer("q", 1, right=True)
    assert stored(home)["theme"] == "dark" and stored(home)["exercises"]["a"]["note"] == "mine \ud800"


def test_a_folder_that_cannot_be_made_is_said_once_and_the_lesson_goes_on(home, monkeypatch):
    (home / "file").write_text("in the way")
    monkeypatch.setenv("TRANSFORMER_LAB_PROGRESS", str(home / "file" / "folder"))
    note = progress.record_exercise("attention", right=True)
    assert "is not saved" in note and "The lesson works all the same" in note
    assert progress.record_exercise("attention", right=True) is None
    assert progress.answers() == {} and progress.show().exercises == {}


def test_a_read_only_folder_is_said_and_what_is_there_still_reads(home):
    progress.record_exercise("attention", right=True)
    home.chmod(0o555)
    try:
        if os.access(home, os.W_OK):
            pytest.skip("this user may write anywhere")
        assert "is not saved" in progress.record_exercise("attention", right=True)
        assert progress.show().exercises["attention"]["tries"] == 1
    finally:
        home.chmod(0o755)


def test_a_failed_write_leaves_the_old_file_whole(home, monkeypatch):
    progress.record_exercise("attention", right=True)
    before = (home / "progress.json").read_bytes()

    def full(*names):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(progress.os, "replace", full)
    assert "No space left" in progress.record_exercise("mixed_row", right=True)
    assert (home / "progress.json").read_bytes() == before
    assert not list(home.glob("*.new"))


WRITER = """
import sys
from transformer_lab.practice import progress
for i in range(60):
    assert progress.record_exercise("shared", right=False) is None
    assert progress.record_answer(f"{sys.argv[1]}-{i}", i, right=True) is None
"""


def test_two_processes_that_write_at_once_lose_nothing(home):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, name]) for name in ("left", "right")]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    record = stored(home)
    assert record["exercises"]["shared"]["tries"] == 120
    assert len(record["questions"]) == 120
    assert not list(home.glob("*kept-aside*"))


def test_importing_progress_needs_no_torch():
    program = "import sys; import transformer_lab.practice.progress; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_reset_starts_again_and_keeps_the_old_file(home, capsys):
    progress.reset()
    assert capsys.readouterr().out == "Your progress is empty.\n"
    progress.record_exercise("attention", right=True)
    before = (home / "progress.json").read_bytes()
    progress.reset()
    assert progress.show().exercises == {}
    assert "progress.before-reset-1.json" in capsys.readouterr().out
    assert (home / "progress.before-reset-1.json").read_bytes() == before


def test_move_takes_the_file_along_for_later_sessions_and_back(home, capsys):
    progress.record_exercise("attention", right=True)
    other = home / "synced" / "course"
    progress.move(other)
    assert progress.where() == other / "progress.json"
    assert stored(other)["exercises"]["attention"]["tries"] == 1
    assert not (home / "progress.json").exists()
    progress.record_exercise("attention", right=True)
    assert stored(other)["exercises"]["attention"]["tries"] == 2
    program = "from transformer_lab.practice import progress; print(progress.show().exercises['attention']['tries'])"
    later = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert later.stdout.strip() == "2"
    progress.move(other)
    assert "there already" in capsys.readouterr().out
    progress.move(home)
    assert progress.where() == home / "progress.json" and stored(home)["exercises"]["attention"]["tries"] == 2


def test_what_another_notebook_records_during_a_move_follows_the_file(home):
    other = home / "other"
    other.mkdir()
    waiting = threading.Thread(target=progress.record_exercise, args=("attention", True))
    with progress._lock(home / "progress.json"):
        waiting.start()
        time.sleep(0.3)  # it has read the old place by now and waits for the lock
        (home / "moved_to.txt").write_text(f"{other}\n", encoding="utf-8")
    waiting.join(timeout=10)
    assert stored(other)["exercises"]["attention"]["tries"] == 1
    assert not (home / "progress.json").exists()


def test_move_overwrites_nothing_and_survives_a_bad_place(home, tmp_path, capsys):
    progress.record_exercise("attention", right=True)
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "progress.json").write_text("someone's")
    with pytest.raises(ValueError, match=r"already holds a progress\.json"):
        progress.move(taken)
    assert (taken / "progress.json").read_text() == "someone's"
    (tmp_path / "file").write_text("")
    progress.move(tmp_path / "file" / "below")
    assert "stays where it is" in capsys.readouterr().out
    assert stored(home)["exercises"]["attention"]["tries"] == 1


def test_the_table_escapes_what_the_file_holds(home):
    progress.record_exercise("<script>alert(1)</script>", right=True)
    progress.record_answer("b<i>", 1, right=False)
    progress.record_answer("a", 1, right=True)
    table = progress.show()
    assert "<script" not in table._repr_html_() and "&lt;script&gt;" in table._repr_html_()
    assert repr(table).splitlines() == [
        "Exercises solved: 1 of 1 tried. Questions answered: 2.",
        "✓ <script>alert(1)</script>  solved              1 try",
        "✓ a                          right at first      1 try",
        "○ b<i>                       not right at first  1 try",
    ]
    assert repr(table) == repr(progress.show())


def test_an_empty_table_is_a_sentence():
    assert repr(progress.show()) == "Exercises solved: 0 of 0 tried. Questions answered: 0."


HOLDER = """
import sys, time
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_file_that_another_program_holds_is_waited_for_once(home):
    progress.record_exercise("attention", right=True)
    command = [sys.executable, "-c", HOLDER, str(home / "progress.json.lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            process.stdout.readline()
            start = time.monotonic()
            note = progress.record_exercise("attention", right=True)
            waited = time.monotonic() - start
            assert "Nothing is saved in this session" in note and "progress.json" in note
            assert 1.5 < waited < 8
            assert progress.record_exercise("attention", right=True) is None
            assert progress.record_answer("q", 1, right=True) is None
            assert time.monotonic() - start - waited < 1, "it does not wait again"
        finally:
            process.kill()
    assert progress.show().exercises["attention"]["tries"] == 1, "reading needs no lock"


def test_a_link_stays_a_link_and_its_target_is_written(home, tmp_path):
    synced = tmp_path / "synced"
    synced.mkdir()
    (synced / "mine.json").write_text(json.dumps(GOOD), encoding="utf-8")
    (home / "progress.json").symlink_to(synced / "mine.json")
    progress.record_exercise("a", right=True)
    assert (home / "progress.json").is_symlink()
    assert json.loads((synced / "mine.json").read_text())["exercises"]["a"]["tries"] == 2
    (synced / "mine.json").write_text("bad", encoding="utf-8")
    assert "progress.kept-aside-1.json" in progress.record_exercise("a", right=True)
    assert (synced / "progress.kept-aside-1.json").read_text() == "bad"
    assert (home / "progress.json").is_symlink() and stored(synced.parent)["exercises"]["a"]["tries"] == 1


def test_a_byte_order_mark_is_no_damage(home, tmp_path):
    (home / "progress.json").write_text(json.dumps(GOOD), encoding="utf-8-sig")
    assert progress.record_exercise("a", right=True) is None
    assert stored(home)["exercises"]["a"]["tries"] == 2
    other = tmp_path / "other"
    other.mkdir()
    (home / "moved_to.txt").write_text(str(other), encoding="utf-8-sig")
    assert progress.where() == other / "progress.json"


def test_a_damaged_note_of_a_move_is_passed_over(home):
    (home / "moved_to.txt").write_bytes(b"/some\0where")
    assert progress.where() == home / "progress.json"
    assert progress.record_exercise("a", right=True) is None


@pytest.mark.parametrize("begun", [True, False])
def test_a_move_to_a_place_that_cannot_be_written_is_said(home, tmp_path, monkeypatch, capsys, begun):
    if begun:
        progress.record_exercise("a", right=True)
    shut, make = tmp_path / "shut", progress.tempfile.mkstemp

    def refused(dir, **names):
        if Path(dir) == shut:
            raise PermissionError(13, "Permission denied", str(dir))
        return make(dir=dir, **names)

    monkeypatch.setattr(progress.tempfile, "mkstemp", refused)
    progress.move(shut)
    assert "stays where it is: Permission denied" in capsys.readouterr().out
    assert progress.where() == home / "progress.json"


def test_a_move_before_anything_is_recorded(home, tmp_path):
    progress.move(tmp_path / "other")
    assert progress.where() == tmp_path / "other" / "progress.json"
    assert progress.record_exercise("a", right=True) is None and stored(tmp_path / "other")["exercises"]["a"]["solved"]
