"""`septuagint` with a machine that errs: one rank does something wrong at one step, and all else is the real program.

    python -m tests.distributed.faulty flip@1:23 train config.toml --run runs/faulty

- `flip`: after the step, one bit of one weight is another
- `nan`: a gradient of the step is not a number
- `hang`: the rank never gets the data of the step
- `slow`: from the step on, the rank computes LAG_SECONDS longer in each
- `slow-validation`: the validation at the step takes the rank SLOW_SECONDS longer
"""

import contextlib
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch

from septuagint import cli
from septuagint.batch import Microbatch
from septuagint.data.loader import Loader
from septuagint.training import loop
from septuagint.training.step import StepResult, Training, train_step
from septuagint.training.validation import Share, measure_share

SLOW_SECONDS = 12.0
LAG_SECONDS = 0.15


def install(fault: str, at: int) -> None:
    """Puts the fault into this process."""
    if fault == "flip":
        _during_step(at, after=_flip)
    elif fault == "nan":
        _during_step(at, before=_spoil_gradient)
    elif fault == "slow":
        _compute_slowly(at)
    elif fault == "hang":
        _hang(at)
    elif fault == "slow-validation":
        _validate_slowly(at)
    else:
        raise SystemExit(f"no such fault: {fault}")


def _during_step(at: int, before: Any = None, after: Any = None) -> None:
    def faulty(training: Training, microbatches: Sequence[Microbatch], step: int, **options: Any) -> StepResult:
        handle = before(training) if before is not None and step == at else None
        result = train_step(training, microbatches, step, **options)
        if handle is not None:
            handle.remove()
        if after is not None and step == at:
            after(training)
        return result

    loop.train_step = faulty


def _compute_slowly(at: int) -> None:
    def faulty(training: Training, microbatches: Sequence[Microbatch], step: int, **options: Any) -> StepResult:
        hook = training.model.encoder_norm.register_forward_hook(lambda *_: time.sleep(LAG_SECONDS / len(microbatches)))
        with contextlib.ExitStack() as stack:
            stack.callback(hook.remove)
            if step < at:
                stack.close()
            return train_step(training, microbatches, step, **options)

    loop.train_step = faulty


def _flip(training: Training) -> None:
    weight = next(iter(training.model.parameters()))
    with torch.no_grad():
        # Not the lowest bit, which later steps may round away.
        weight.view(-1).view(torch.int32)[7] ^= 1 << 16


def _spoil_gradient(training: Training) -> torch.utils.hooks.RemovableHandle:
    weight = next(iter(training.model.parameters()))
    return weight.register_hook(lambda gradient: gradient * float("nan"))


def _hang(at: int) -> None:
    class Hanging(Loader):
        num_steps = 0

        def __next__(self) -> Any:
            self.num_steps += 1
            if self.num_steps == at:
                time.sleep(3600)
            return super().__next__()

    loop.Loader = Hanging


def _validate_slowly(at: int) -> None:
    made = 0

    def count(training: Training, microbatches: Sequence[Microbatch], step: int, **options: Any) -> StepResult:
        nonlocal made
        made = step
        return train_step(training, microbatches, step, **options)

    def faulty(*arguments: Any, **options: Any) -> Share:
        if made == at:
            time.sleep(SLOW_SECONDS)
        return measure_share(*arguments, **options)

    loop.train_step, loop.measure_share = count, faulty


def main() -> None:
    fault, _, place = sys.argv.pop(1).partition("@")
    rank, _, step = place.partition(":")
    if rank == os.environ.get("RANK", os.environ.get("OMPI_COMM_WORLD_RANK")):
        install(fault, int(step))
    cli.main()


if __name__ == "__main__":
    main()
