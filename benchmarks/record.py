"""What the record costs a step: the event in JSON lines, the log, the live line and TensorBoard, all at once.

    python benchmarks/record.py [--step-milliseconds 50]

A line of the log is written every `log_every` steps; between lines a step only moves the number on the screen and
sends its own numbers on their way. Both are timed here, on standard error as it is, and set against a step.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from septuagint.batch import Cursor, StepData
from septuagint.config import TrainingConfig
from septuagint.telemetry.console import Display
from septuagint.telemetry.events import EventLog, record_path
from septuagint.telemetry.tensorboard import TensorBoardMirror
from septuagint.training.meter import Meter
from septuagint.training.step import StepResult


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1000)
    parser.add_argument("--step-milliseconds", type=float, default=50.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        per_line, per_step = measure(Path(folder), arguments.events)
    log_every = TrainingConfig().log_every
    step_seconds = arguments.step_milliseconds / 1e3
    print(f"a line of the log: {per_line * 1e6:.0f} µs; every step: {per_step * 1e6:.0f} µs (medians)")
    for every in (1, log_every):
        share = (per_step + per_line / every) / step_seconds
        print(f"of a step of {arguments.step_milliseconds:g} ms with a line every {every:>3} steps: {share:.3%}")


def measure(run: Path, num_events: int) -> tuple[float, float]:
    """(seconds per line of the log, seconds per step), medians."""
    zero = torch.zeros(())
    result = StepResult(
        loss_sum=zero, num_tokens=zero, gradient_norm=zero, loss_scale=None, skipped_steps=zero, skipped_in_a_row=zero
    )
    data = StepData(microbatches=(), next=Cursor(), epochs=1.0)
    meter = Meter(source_budget=1, target_budget=1)
    with (
        Display(run / "log.txt") as display,
        TensorBoardMirror(run / "tensorboard", 0, display.warn) as tensorboard,
        EventLog(record_path(run, 0), 1, [display.show, tensorboard.write]) as events,
    ):

        def line(step: int) -> None:
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
                data_wait_seconds_per_step=0.0,
                eta_seconds=1234.5,
            )

        def step(number: int) -> None:
            list(meter.add(number, result, data, data_wait_seconds=0.0))
            display.tick(number)

        return _median(line, num_events), _median(step, num_events)


def _median(function: Callable[[int], None], times: int) -> float:
    seconds = []
    for number in range(times):
        start = time.perf_counter()
        function(number)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


if __name__ == "__main__":
    main()
