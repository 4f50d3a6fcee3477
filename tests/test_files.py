"""Files are there whole or not at all, one process at a time writes, and a log loses nothing but a cut-off line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from aceirl.errors import InputError
from aceirl.runs import files
from aceirl.runs.files import DRAFT, LogFile, alone, disk, replace

HOLD = """
import sys
from pathlib import Path

from aceirl.runs.files import alone

with alone(Path(sys.argv[1]), "another process is at work"):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    """A process that has the lock of a folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_two_processes_do_not_hold_one_folder(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    with holder(folder) as process:
        with (
            pytest.raises(InputError, match="folder is in use: a run is being written"),
            alone(folder, "a run is being written"),
        ):
            pass
        process.communicate()
    with alone(folder, "nobody is there any more"):
        pass


def test_the_lock_ends_with_the_process_that_had_it(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    with alone(tmp_path, "it was killed"):
        pass


def test_two_threads_do_not_hold_one_folder(tmp_path: Path) -> None:
    refused: list[str] = []

    def try_it() -> None:
        try:
            with alone(tmp_path, "the first thread has it"):
                pass
        except InputError as error:
            refused.append(str(error))

    def in_a_thread() -> None:
        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()

    with alone(tmp_path, ""):
        in_a_thread()
    assert [message.partition(" in use: ")[2] for message in refused] == ["the first thread has it"]
    in_a_thread()
    assert len(refused) == 1


def test_a_lock_is_given_back_when_something_goes_wrong(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="broken"), alone(tmp_path, ""):
        raise RuntimeError("broken")
    with alone(tmp_path, ""):
        pass


@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("wait", [True, False])
def test_a_file_is_replaced_whole(tmp_path: Path, private: bool, wait: bool) -> None:
    path = tmp_path / "state"
    for content in (b"", b"first", b"second" * 10_000):
        replace(path, content, private=private, wait=wait)
        assert path.read_bytes() == content
        assert [found.name for found in tmp_path.iterdir()] == ["state"]
    if os.name != "nt":
        assert bool(path.stat().st_mode & 0o077) != private


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_file_that_cannot_be_written_leaves_the_old_one_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    path = tmp_path / "state"
    replace(path, b"before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, broken, full)
    with pytest.raises(OSError, match="No space left"):
        replace(path, b"after")
    monkeypatch.undo()
    assert path.read_bytes() == b"before"
    assert [found.name for found in tmp_path.iterdir()] == ["state"]


def test_an_interrupt_leaves_no_draft_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        assert [found.name for found in tmp_path.iterdir() if found.name.endswith(DRAFT)]
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace(tmp_path / "state", b"content")
    assert list(tmp_path.iterdir()) == []


def test_trouble_with_the_disk_is_one_line_that_says_what_is_kept(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"cannot write to .*: No space left on device; all is kept$"),
        disk(tmp_path, "all is kept"),
    ):
        raise OSError(28, "No space left on device")


def logged(path: Path) -> list[dict[str, Any]]:
    """What a log holds when it is opened anew."""
    log = LogFile(path)
    try:
        return list(log)
    finally:
        log.close()


def test_a_log_keeps_what_was_appended(tmp_path: Path) -> None:
    path, events = tmp_path / "log.jsonl", [{"number": number, "name": "ä\n"} for number in range(5)]
    for event in events:
        log = LogFile(path)
        log.append([event], wait=bool(event["number"]))
        log.close()
    assert logged(path) == events


def test_a_log_goes_on_from_where_it_was_read(tmp_path: Path) -> None:
    log, events = LogFile(tmp_path / "log.jsonl"), [{"number": number, "name": "ä\n"} for number in range(5)]
    log.append(events[:3])
    for first in (0, 2, 1, 3, 0, 3):
        assert list(log.after(first)) == events[first:3]
    assert list(log.after(3)) == []
    log.append(events[3:])
    for first in (3, 4, 5, 2, 0):
        assert list(log.after(first)) == events[first:]
    assert (log.content(), log.size) == (log.path.read_bytes(), log.path.stat().st_size)
    log.close()


@pytest.mark.parametrize("cut", [1, 2, 10])
def test_a_last_line_that_was_cut_off_is_dropped_and_the_next_is_whole(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "log.jsonl"
    log = LogFile(path)
    log.append([{"number": 1}, {"number": 2}])
    log.close()
    path.write_bytes(path.read_bytes()[:-cut])
    assert logged(path) == [{"number": 1}]
    log = LogFile(path)
    log.append([{"number": 3}])
    log.close()
    assert logged(path) == [{"number": 1}, {"number": 3}]
    assert len(path.read_bytes().splitlines()) == 2


def test_a_disk_that_is_full_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.jsonl"
    log = LogFile(path)
    log.append([{"number": 1}])

    def half(file: Any, content: bytes) -> None:
        file.write(content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "_write_all", half)
    with pytest.raises(InputError, match="No space left on device"):
        log.append([{"number": 2}])
    monkeypatch.undo()
    log.append([{"number": 3}])
    assert list(log) == [{"number": 1}, {"number": 3}]
    log.close()


def test_a_line_that_is_no_event_is_named(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"number": 1}\nnonsense\n')
    with pytest.raises(InputError, match=r"log\.jsonl, line 2 is not an event"):
        logged(tmp_path / "log.jsonl")


def test_what_is_left_of_a_line_goes_before_the_next_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if it could not be removed at once."""
    path = tmp_path / "log.jsonl"
    log = LogFile(path)
    log.append([{"number": 1}])

    def half(file: Any, content: bytes) -> None:
        file.write(content[: len(content) // 2])
        monkeypatch.setattr(LogFile, "_keep_whole_lines", lambda log: None)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(files, "_write_all", half)
    with pytest.raises(InputError, match="Input/output error"):
        log.append([{"number": 2}])
    assert not path.read_bytes().endswith(b"\n")
    monkeypatch.undo()
    log.append([{"number": 3}])
    assert list(log) == [{"number": 1}, {"number": 3}]
    log.close()


@pytest.mark.parametrize("line", ["[]", "3", '"text"', "[" * 100_000])
def test_json_that_is_no_event_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "log.jsonl").write_text(f'{{"number": 1}}\n{line}\n')
    with pytest.raises(InputError, match=r"log\.jsonl, line 2 is not an event"):
        logged(tmp_path / "log.jsonl")


@pytest.mark.skipif(os.name == "nt", reason="links need rights there, and modes are other ones")
def test_a_log_is_its_owners_and_no_link_to_something_else(tmp_path: Path) -> None:
    LogFile(tmp_path / "log.jsonl").close()
    assert (tmp_path / "log.jsonl").stat().st_mode & 0o777 == 0o600
    precious = tmp_path / "precious.txt"
    precious.write_text("no whole line")
    (tmp_path / "link.jsonl").symlink_to(precious)
    with pytest.raises(InputError, match=r"link\.jsonl is a symbolic link"):
        LogFile(tmp_path / "link.jsonl")
    assert precious.read_text() == "no whole line"


WITHOUT_FCNTL = """
import sys
import warnings

sys.modules["fcntl"] = None
warnings.simplefilter("ignore")

import json
from pathlib import Path

import aceirl.learner.engine
import aceirl.runs.files
import aceirl.runs

folder = Path(sys.argv[1])
with aceirl.runs.files.alone(folder, "the first has it"):
    try:
        with aceirl.runs.files.alone(folder, "the first has it"):
            said = "both have it"
    except aceirl.runs.files.InputError as error:
        said = str(error)
print(json.dumps(said))
"""


def test_a_system_without_fcntl_can_do_all_this_too(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_FCNTL, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout).endswith("is in use: the first has it")
