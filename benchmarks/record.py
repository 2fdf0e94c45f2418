"""What the record costs a step: the event in JSON lines, the log, the live line and TensorBoard, all at once.

    python benchmarks/record.py [--step-milliseconds 50]

A line of the log is written every `log_every` steps; between lines a step only moves the number on the screen and
sends its own numbers on their way, with the laps of the stopwatch. A line takes the split of `log_every` steps with it.
Both are timed here, on standard error as it is, and set against a step.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from arguments import at_least_one

from septuagint.config import TrainingConfig
from septuagint.telemetry.console import Display
from septuagint.telemetry.events import EventLog, record_path
from septuagint.telemetry.tensorboard import TensorBoardMirror
from septuagint.training.meter import Meter, Tally
from septuagint.training.step import StepResult
from septuagint.training.timekeeper import Power, Timekeeper
from septuagint.world import World


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=at_least_one, default=300, help="lines of the log")
    parser.add_argument("--step-milliseconds", type=float, default=50.0)
    arguments = parser.parse_args()
    log_every = TrainingConfig().log_every
    with tempfile.TemporaryDirectory() as folder:
        per_line, per_step = measure(Path(folder), arguments.events, log_every)
    step_seconds = arguments.step_milliseconds / 1e3
    print(f"a line of the log: {per_line * 1e6:.0f} µs; every step: {per_step * 1e6:.0f} µs (medians)")
    for every in (1, log_every):
        share = (per_step + per_line / every) / step_seconds
        print(f"of a step of {arguments.step_milliseconds:g} ms with a line every {every:>3} steps: {share:.3%}")


def measure(run: Path, num_events: int, log_every: int) -> tuple[float, float]:
    """(seconds per line of the log, seconds per step), medians."""
    zero = torch.zeros(())
    result = StepResult(
        loss_sum=zero,
        num_tokens=zero,
        tally=torch.zeros(len(Tally()), dtype=torch.float64),
        gradient_norm=zero,
        loss_scale=None,
        skipped_steps=zero,
        skipped_in_a_row=zero,
    )
    meter = Meter(source_budget=1, target_budget=1, num_packs=1)
    power = Power(peak_flops_per_second=1e12, flops_per_source_token=1, flops_per_target_token=1)
    timekeeper = Timekeeper(World(), "clock", power)
    with (
        Display(run / "log.txt") as display,
        TensorBoardMirror(run / "tensorboard", 0, display.warn) as tensorboard,
        EventLog(record_path(run, 0), 1, [display.show, tensorboard.write]) as events,
    ):

        def line(step: int) -> None:
            timekeeper.stopwatch.end_step()
            split, means = timekeeper.take(step)
            events.emit("steps", **split)
            events.emit(
                "train",
                step=step,
                epochs=1.5,
                loss_nats_per_token=4.321,
                learning_rate=9.9e-4,
                gradient_norm=0.5,
                seconds_per_step=0.05,
                target_tokens_per_second=580_000.0,
                source_tokens_per_second=560_000.0,
                fill_source=0.999,
                fill_target=0.999,
                skipped_steps=0,
                loss_scale=None,
                eta_seconds=1234.5,
                model_flop_utilisation=0.4,
                **means,
            )

        def step(number: int) -> None:
            stopwatch.begin_step()
            for part in ("rest", "compute", "to_device", "compute", "communication", "optimizer", "rest"):
                stopwatch.lap(part)
            list(meter.add(number, result))
            display.tick(number)

        stopwatch = timekeeper.stopwatch
        per_step, per_line = [], []
        for number in range(num_events):
            per_step.append(statistics.median(_seconds(step, place) for place in range(log_every)))
            per_line.append(_seconds(line, number))
        return statistics.median(per_line), statistics.median(per_step)


def _seconds(function: Callable[[int], None], number: int) -> float:
    start = time.perf_counter()
    function(number)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
