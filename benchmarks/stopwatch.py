"""What the stopwatch costs a step, and how much of a step it can name.

    python benchmarks/stopwatch.py CONFIG [--set KEY=VALUE] [--steps 30] [--rounds 7]

CONFIG is the configuration of a prepared data folder. Rounds with and without the stopwatch take turns over the
program's own loader and step; the ratio of their times is its cost, as well as the machine lets one see. Beside it
stands the time of the stopwatch alone, all its laps of a step without anything between them. On a GPU where there is
one. What several ranks wait for is measured by benchmarks/scaling.py.
"""

import argparse
import statistics
import time
from pathlib import Path

import torch
from arguments import add_settings, at_least_one, mistakes_told

from septuagint.batch import Cursor
from septuagint.config_file import load_config
from septuagint.data.dataset import open_dataset
from septuagint.data.loader import Loader
from septuagint.data.packing import pack_shape
from septuagint.machine import available_cores
from septuagint.progress import ProgressReport
from septuagint.telemetry.stopwatch import Stopwatch
from septuagint.training.precision import choose_device
from septuagint.training.state import build_training
from septuagint.training.step import Training, train_step
from septuagint.world import World

_NUM_EMPTY_STEPS = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    add_settings(parser)
    parser.add_argument("--steps", type=at_least_one, default=30, help="of a round")
    parser.add_argument("--rounds", type=at_least_one, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(available_cores())
    config = load_config(arguments.config, arguments.overrides)
    dataset, device = open_dataset(config.data, ProgressReport(is_quiet=True)), choose_device()
    shape = pack_shape(config.training.microbatch_tokens, dataset.totals())
    training = build_training(config, dataset.vocabulary.size, shape.max_length, World(device=device))
    num_microbatches = config.training.num_microbatches
    seconds: dict[bool, list[float]] = {False: [], True: []}
    stopwatch = Stopwatch(device)
    with Loader(
        dataset.train,
        dataset.order(config.training.seed),
        shape,
        num_microbatches=num_microbatches,
        start=Cursor(),
        pin_memory=device.type == "cuda",
    ) as loader:
        run_steps(training, loader, 10, None)
        for _ in range(arguments.rounds):
            for is_timed in (True, False):
                watch = stopwatch if is_timed else None
                seconds[is_timed].append(run_steps(training, loader, arguments.steps, watch))
        times = stopwatch.take()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {available_cores()} threads"
    per_step = statistics.median(seconds[False]) / arguments.steps
    ratios = [timed / bare for timed, bare in zip(seconds[True], seconds[False], strict=True)]
    alone = time_alone(device, num_microbatches)
    wall = times.wall.sum()
    print(f"{name}, torch {torch.__version__}: {per_step * 1e3:.2f} ms a step of {num_microbatches} packs")
    print(f"with / without: {statistics.median(ratios):.4f} (rounds {min(ratios):.4f} to {max(ratios):.4f})")
    print(f"the stopwatch alone: {alone * 1e6:.0f} µs a step, {alone / per_step:.3%} of it")
    print(", ".join(f"{part} {values.sum() / wall:.2%}" for part, values in times.parts.items()))
    print(f"named: {1 - times.parts['rest'].sum() / wall:.2%} of all steps")


def run_steps(training: Training, loader: Loader, number: int, stopwatch: Stopwatch | None) -> float:
    """Seconds, until the device is done."""
    _synchronise(training.world.device)
    begin = time.perf_counter()
    for step in range(1, number + 1):
        if stopwatch is None:
            train_step(training, next(loader).microbatches, step)
            continue
        stopwatch.begin_step()
        data = next(loader)
        stopwatch.lap("rest")
        train_step(training, data.microbatches, step, lap=stopwatch.lap)
        stopwatch.lap("rest")
    _synchronise(training.world.device)
    seconds = time.perf_counter() - begin
    if stopwatch is not None:
        stopwatch.end_step()
    return seconds


def time_alone(device: torch.device, num_microbatches: int) -> float:
    """Seconds a step: every lap that a step of several ranks has, and reading them."""
    stopwatch = Stopwatch(device)
    begin = time.perf_counter()
    for _ in range(_NUM_EMPTY_STEPS):
        stopwatch.begin_step()
        stopwatch.lap("rest")
        for _ in range(num_microbatches):
            stopwatch.lap("to_device")
            stopwatch.lap("compute")
        for part in ("communication", "optimizer", "rest"):
            stopwatch.lap(part)
    stopwatch.end_step()
    stopwatch.take()
    return (time.perf_counter() - begin) / _NUM_EMPTY_STEPS


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    with mistakes_told():
        main()
