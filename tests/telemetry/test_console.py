"""A terminal has one live line with the rest above it; a pipe and the log have plain lines; trouble ends no run."""

import errno
import io
import os
import re
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from septuagint.telemetry import events
from septuagint.telemetry.console import Display
from tests.telemetry.test_wording import TRAIN

CONTROL_CODE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ATTEMPT = {"event": "attempt", "time": 1e9, "attempt": 1, "start_step": 12_000, "max_steps": 50_000}
VALIDATION = {"event": "validation", "time": 1e9, "step": 12_300, "bleu": 27.31}
SAMPLE = {
    "event": "sample",
    "time": 1e9,
    "step": 12_300,
    "source": "[red]a[/red]",
    "reference": "\x1b[2J b",
    "translation": "</script>" * 20,
}
WARNING = {"event": "warning", "time": 1e9, "message": "[bold]watch out"}
EVENTS = [ATTEMPT, TRAIN, VALIDATION, SAMPLE, WARNING]


def show_all(display: Display) -> None:
    for event in EVENTS:
        display.show(event)


def terminal(width: int = 80) -> Console:
    return Console(force_terminal=True, force_interactive=True, width=width, file=io.StringIO(), color_system=None)


def output(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def wait_for(console: Console, text: str) -> None:
    end = time.monotonic() + 5
    while text not in output(console):
        assert time.monotonic() < end, output(console)
        time.sleep(0.02)


def test_a_pipe_gets_plain_lines(capsys):
    with Display() as display:
        show_all(display)
        display.tick(12_345)
    out, err = capsys.readouterr()
    assert out == "" and "\x1b" not in err and "\r" not in err
    assert err.splitlines() == [
        "attempt 1  from step 12,000  to step 50,000",
        "step 12,300  loss 3.214  lr 9.9e-04  grad 0.52  0.31 s/step  105k tok/s  epoch 1.23  ETA 1 h 05 min",
        "step 12,300 validation  BLEU 27.31",
        "step 12,300 sample",
        "    source       [red]a[/red]",
        r"    reference    \x1b[2J b",
        "    translation  " + "</script>" * 20,
        "warning: [bold]watch out",
    ]


def test_a_quiet_run_shows_warnings_only_and_logs_everything(tmp_path, capsys):
    with Display(tmp_path / "log.txt", is_quiet=True) as display:
        show_all(display)
    assert capsys.readouterr().err == "warning: [bold]watch out\n"
    assert len((tmp_path / "log.txt").read_text().splitlines()) == 8


def test_the_log_has_the_plain_lines_with_their_time_and_is_added_to(tmp_path, capsys):
    path = tmp_path / "log.txt"
    for _ in range(2):
        with Display(path) as display:
            show_all(display)
    stamp = datetime.fromtimestamp(1e9).astimezone().isoformat(timespec="seconds")
    lines = path.read_text().splitlines()
    assert all(line.startswith(f"{stamp}  ") for line in lines)
    assert [line.removeprefix(f"{stamp}  ") for line in lines] == capsys.readouterr().err.splitlines()


def test_a_terminal_of_80_columns_has_one_live_line_that_fits():
    console = terminal()
    with Display(console=console) as display:
        wait_for(console, "step 0  starting")
        display.show(ATTEMPT)
        display.show(TRAIN)
        display.show(VALIDATION)
        display.tick(12_345)
        wait_for(console, "step 12,345/50,000  loss 3.214  105k tok/s  ETA 1 h 05 min  best BLEU 27.3")
        display.tick(12_346)
        wait_for(console, "step 12,346/50,000")
    drawn = [CONTROL_CODE.sub("", line) for line in re.split(r"[\r\n]", output(console))]
    assert max(cell_len(line) for line in drawn) <= 80
    # Between two drawings of the live line the cursor stays on its line: it never leaves a copy behind.
    live = output(console).rpartition("BLEU 27.31\n")[2].partition("12,346/50,000")[0]
    assert "step 12,345/50,000" in live and "\n" not in live


def test_lines_that_stay_are_printed_above_the_live_line():
    console = terminal()
    with Display(console=console) as display:
        show_all(display)
    lines = CONTROL_CODE.sub("", output(console)).replace("\r", "\n").splitlines()
    for stays in ("step 12,300 validation  BLEU 27.31", r"    reference    \x1b[2J b", "warning: [bold]watch out"):
        assert stays in lines
    assert not any(line.startswith("step 12,300  loss") and "epoch" in line for line in lines)
    assert "\x1b[2J" not in output(console)


def test_long_lines_are_broken_between_words_on_a_terminal_and_whole_in_the_log(tmp_path):
    console = terminal()
    message = "the link between the hosts is slow, " * 5 + "and that is all"
    with Display(tmp_path / "log.txt", console=console) as display:
        display.warn(message)
        display.show(SAMPLE | {"source": "[red]a[/red] " * 20})
    drawn = CONTROL_CODE.sub("", output(console)).replace("\r", "\n").splitlines()
    assert max(map(cell_len, drawn)) <= 80
    shown = " ".join(" ".join(drawn).split())
    assert f"warning: {message}" in shown
    assert f"source {'[red]a[/red] ' * 20}reference" in shown
    assert f"warning: {message}\n" in (tmp_path / "log.txt").read_text()


def test_a_tick_costs_nearly_nothing():
    console = terminal()
    with Display(console=console) as display:
        display.show(TRAIN)
        start = time.perf_counter()
        for step in range(20_000):
            display.tick(step)
        assert (time.perf_counter() - start) / 20_000 < 20e-6


def test_the_live_line_is_drawn_at_most_four_times_a_second():
    console = terminal()
    with Display(console=console) as display:
        end = time.monotonic() + 1
        while (now := time.monotonic()) < end:
            display.tick(int(now * 1000))
            time.sleep(0.001)
    assert 2 <= output(console).count("step ") <= 6  # one more when the line ends


def test_a_full_disk_makes_the_log_wait_and_is_told(tmp_path, capsys, monkeypatch):
    real_write = os.write

    def refuse(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with Display(tmp_path / "log.txt", is_quiet=True) as display:
        monkeypatch.setattr(events.os, "write", refuse)
        display.show(TRAIN)
        display.show(VALIDATION)
        monkeypatch.setattr(events.os, "write", real_write)
        display.show(TRAIN)
    assert len((tmp_path / "log.txt").read_text().splitlines()) == 3
    first, second = capsys.readouterr().err.splitlines()
    assert "No space left on device" in first and "can be written again" in second


@pytest.mark.parametrize("stderr", ["closed pipe", "/dev/full"])
def test_standard_error_that_goes_away_does_not_end_the_run(tmp_path, stderr):
    if stderr == "closed pipe":
        reading, writing = os.pipe()
        os.close(reading)
    else:
        if not Path(stderr).exists():
            pytest.skip(f"needs {stderr}")
        writing = os.open(stderr, os.O_WRONLY)
    program = (
        "import sys; from pathlib import Path; from septuagint.telemetry.console import Display\n"
        "with Display(Path(sys.argv[1])) as display:\n"
        "    for step in range(2000): display.show({'event': 'train', 'time': 1e9, 'step': step})\n"
        "print('went on')"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "log.txt"], stderr=writing, stdout=subprocess.PIPE, text=True
    )
    os.close(writing)
    assert result.stdout == "went on\n"
    assert len((tmp_path / "log.txt").read_text().splitlines()) == 2000
