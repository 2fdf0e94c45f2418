"""The record keeps whole lines whatever happens to the program or the disk, and a later attempt wins."""

import errno
import json
import math
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from septuagint.errors import StorageError
from septuagint.telemetry import events
from septuagint.telemetry.events import EventLog, LineFile, escape_controls, latest, number, read_events, record_path

WRITER = """
import itertools, sys
from pathlib import Path
from septuagint.telemetry.events import EventLog
with EventLog(Path(sys.argv[1]), attempt=int(sys.argv[2])) as log:
    for step in itertools.count():
        log.emit("sample", step=step, translation="x" * 300_000)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return record_path(tmp_path, rank=0)


class Disk:
    """Takes `free_bytes` more bytes, then says that it is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free_bytes: int | None = None
        self._write = os.write
        monkeypatch.setattr(events.os, "write", self.write)

    def write(self, descriptor: int, data: bytes) -> int:
        if self.free_bytes is None:
            return self._write(descriptor, data)
        if self.free_bytes == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._write(descriptor, data[: self.free_bytes])
        self.free_bytes -= written
        return written


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def steps_of(path: Path) -> list[int]:
    return [event["step"] for event in read_events(path) if "step" in event]


def test_sinks_see_in_order_what_the_file_says(path):
    seen = []
    sinks = [lambda event: seen.append((1, event)), lambda event: seen.append((2, event))]
    with EventLog(path, attempt=3, sinks=sinks) as log:
        log.emit("attempt", start_step=0)
        log.emit("train", step=1, loss_nats_per_token=2.5)
    written = list(read_events(path))
    assert seen == [(1, written[0]), (2, written[0]), (1, written[1]), (2, written[1])]
    fields = {"event": "train", "attempt": 3, "step": 1, "loss_nats_per_token": 2.5}
    assert written[1] == {"time": written[1]["time"], **fields}
    assert abs(written[1]["time"] - time.time()) < 60


def test_a_reader_sees_an_event_at_once(path):
    with EventLog(path, attempt=1) as log:
        for step in range(3):
            log.emit("train", step=step)
            assert steps_of(path) == list(range(step + 1))


def test_a_kill_leaves_at_most_half_a_line_that_the_reader_passes_over(path):
    for attempt in range(1, 6):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(attempt)])
        size = path.stat().st_size if path.exists() else 0
        while not path.exists() or path.stat().st_size < size + 3_000_000:
            assert process.poll() is None
            time.sleep(0.002)
        process.kill()
        process.wait()
        damaged: list[int] = []
        found = [event["step"] for event in read_events(path, damaged) if event["attempt"] == attempt]
        assert len(found) >= 5 and found == list(range(len(found)))
        assert len(damaged) < attempt, "only the torn ends of attempts before this one"


def test_half_a_line_at_the_end_does_not_spoil_the_next(path):
    with EventLog(path, attempt=1) as log:
        log.emit("train", step=1)
        log.emit("train", step=2)
    path.write_bytes(path.read_bytes()[:-5])
    assert steps_of(path) == [1]
    with EventLog(path, attempt=2) as log:
        log.emit("train", step=3)
    damaged: list[int] = []
    assert [event["step"] for event in read_events(path, damaged)] == [1, 3]
    assert damaged == [2]


@pytest.mark.parametrize(
    "line", [b"\0\0\0", b"\xff", b"[]", b"5", b"{}", b'{"event": 1, "attempt": 1, "time": 1}', b"", b"[" * 100_000]
)
def test_a_damaged_line_is_passed_over_and_counted(path, line):
    with EventLog(path, attempt=1) as log:
        log.emit("train", step=1)
    with path.open("ab") as file:
        file.write(line + b"\n")
    with EventLog(path, attempt=1) as log:
        log.emit("train", step=2)
    damaged: list[int] = []
    assert [event["step"] for event in read_events(path, damaged)] == [1, 2]
    assert damaged == [2]


def test_a_file_that_does_not_exist_yet_has_no_events(path):
    assert list(read_events(path)) == []


def test_a_full_disk_makes_lines_wait_and_loses_none(path, disk):
    said: list[str] = []
    seen: list[int] = []
    with EventLog(path, 1, [lambda event: seen.append(event["step"])], warn=said.append) as log:
        log.emit("train", step=0)
        disk.free_bytes = 20  # enough for a part of a line
        for step in range(1, 5):
            log.emit("train", step=step)
        assert seen == [0, 1, 2, 3, 4], "the sinks do not wait"
        assert steps_of(path) == [0] and len(said) == 1 and "No space left on device" in said[0]
        disk.free_bytes = None
        log.emit("train", step=5)
    damaged: list[int] = []
    written = list(read_events(path, damaged))
    assert [event["step"] for event in written if event["event"] == "train"] == [0, 1, 2, 3, 4, 5]
    assert damaged == []
    assert len(said) == 2 and "nothing was lost" in said[1]
    assert [event["message"] for event in written if event["event"] == "warning"] == said


def test_a_disk_that_stays_full_costs_the_newest_lines_and_no_memory(path, disk, monkeypatch):
    monkeypatch.setattr(events, "_MAX_WAITING_BYTES", 5000)
    said: list[str] = []
    with EventLog(path, 1, warn=said.append) as log:
        disk.free_bytes = 0
        for step in range(1000):
            log.emit("train", step=step)
        disk.free_bytes = None
        log.emit("train", step=1000)
        log.emit("train", step=1001)
    kept = steps_of(path)
    assert 30 < len(kept) < 100 and kept[-1] == 1001
    assert kept[:-1] == list(range(len(kept) - 1))
    assert f"{1002 - len(kept):,} lines were lost" in said[1]


def test_a_disk_that_is_full_to_the_end_says_what_is_lost(path, disk):
    said: list[str] = []
    with EventLog(path, 1, warn=said.append) as log:
        disk.free_bytes = 0
        log.emit("train", step=1)
    assert steps_of(path) == [] and "2 lines could not be written" in said[-1]


def test_a_folder_that_cannot_be_made_is_the_users_to_mend(tmp_path):
    (tmp_path / "events").write_text("a file")
    with pytest.raises(StorageError):
        EventLog(record_path(tmp_path, rank=0), attempt=1)


def test_numbers_that_are_not_finite_stay_readable(path):
    seen = []
    with EventLog(path, attempt=1, sinks=[seen.append]) as log:
        log.emit("skipped", step=1, loss_nats_per_token=math.nan, gradient_norm=math.inf, loss_scale=None, in_a_row=1)
        log.emit("validation", step=2, bleu=1.5, sets={"news": {"bleu": -math.inf}}, other=[1, math.nan])

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    for line in path.read_text().splitlines():
        json.loads(line, parse_constant=refuse)
    skipped, validation = read_events(path)
    assert seen == [skipped, validation]
    assert skipped["loss_nats_per_token"] is None
    assert skipped["not_finite"] == {"loss_nats_per_token": "nan", "gradient_norm": "inf"}
    assert math.isnan(number(skipped, "loss_nats_per_token"))
    assert number(skipped, "gradient_norm") == math.inf
    assert number(skipped, "loss_scale") is None and number(skipped, "missing") is None
    assert number(skipped, "in_a_row") == 1
    assert validation["not_finite"] == {"sets.news.bleu": "-inf", "other.1": "nan"}
    assert validation["bleu"] == 1.5


def test_text_of_any_kind_comes_back_as_it_was(path):
    text = "Grüße\n\t\x1b[2J \u2028 日本 \udc80 \x9b"
    with EventLog(path, attempt=1) as log:
        log.emit("sample", translation=text)
    assert [event["translation"] for event in read_events(path)] == [text]
    assert path.read_bytes().isascii() and path.read_bytes().count(b"\n") == 1


def test_threads_do_not_mix_their_lines(path):
    with EventLog(path, attempt=1) as log, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda step: log.emit("train", step=step % 200), range(800)))
    assert sorted(steps_of(path)) == sorted(list(range(200)) * 4)


def test_steps_that_were_done_again_count_once(path):
    for attempt, start_step, end_step in [(1, 0, 7), (2, 4, 9), (3, 4, 6)]:
        with EventLog(path, attempt) as log:
            log.emit("attempt", start_step=start_step)
            for step in range(start_step + 1, end_step + 1):
                log.emit("train", step=step)
                if step == 4:
                    log.emit("sample", step=step, source="a")
                    log.emit("sample", step=step, source="b")
            log.emit("warning", message="hm")
    found = latest(read_events(path))
    trained = [(event["attempt"], event["step"]) for event in found if event["event"] == "train"]
    assert trained == [(1, 1), (1, 2), (1, 3), (1, 4), (3, 5), (3, 6)]
    assert [event["source"] for event in found if event["event"] == "sample"] == ["a", "b"]
    for kind in ("attempt", "warning"):
        assert [event["attempt"] for event in found if event["event"] == kind] == [1, 2, 3]


def test_what_a_later_attempt_says_of_the_step_it_began_with_wins(path):
    for attempt, start_step in [(1, 0), (2, 4)]:
        with EventLog(path, attempt) as log:
            log.emit("attempt", start_step=start_step)
            log.emit("validation", step=4, weights="current")
            log.emit("validation", step=4, weights="ema")
    found = [event for event in latest(read_events(path)) if event["event"] == "validation"]
    assert [(event["attempt"], event["weights"]) for event in found] == [(2, "current"), (2, "ema")]


def test_an_average_validated_by_a_later_attempt_leaves_the_validation_before_it(path):
    for attempt, weights in [(1, "current"), (2, "average of 5 checkpoints")]:
        with EventLog(path, attempt) as log:
            log.emit("attempt", start_step=4 * (attempt - 1))
            log.emit("validation", step=4, weights=weights)
    found = [event for event in latest(read_events(path)) if event["event"] == "validation"]
    assert [event["attempt"] for event in found] == [1, 2]


def test_control_characters_are_escaped_and_letters_are_not():
    assert escape_controls("a\x1b[2J\n\x9b\u202e\udc80b") == r"a\x1b[2J\n\x9b\u202e\udc80b"
    untouched = "Grüße [red] </script> 日本 می\u200cخواهم 5\u00a0% 🙂"
    assert escape_controls(untouched) == untouched


def test_lines_of_many_threads_are_whole(tmp_path):
    file = LineFile(tmp_path / "log.txt", pytest.fail)
    lines = [f"{thread} {number} " + "x" * 2000 for thread in range(8) for number in range(50)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(file.append, lines))
    file.close()
    assert sorted((tmp_path / "log.txt").read_text().splitlines()) == sorted(lines)
