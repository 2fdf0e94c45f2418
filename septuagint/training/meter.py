"""The meter: what the steps since the last line of the log did, in numbers.

A step's numbers travel to the host while the next step is already under way, so that nobody waits for them.
"""

import math
import signal
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from septuagint.batch import StepData
from septuagint.training.step import StepResult


class Tally(NamedTuple):
    """What the ranks add up in a step beside its loss: what they read, rank 0's clock, and signals received."""

    num_pairs: float = 0
    num_source_tokens: float = 0
    num_target_tokens: float = 0
    seconds: float = 0  # of the run so far
    num_sigint: float = 0
    num_sigterm: float = 0
    num_sighup: float = 0
    num_sigusr1: float = 0

    @classmethod
    def of(cls, data: StepData, *, seconds: float, received: signal.Signals | None) -> "Tally":
        """One rank's part."""
        packs = data.microbatches
        return cls(
            sum(pack.num_pairs for pack in packs),
            sum(pack.num_source_tokens for pack in packs),
            sum(pack.num_target_tokens for pack in packs),
            seconds,
            *(float(received == number) for number in _SIGNALS),
        )

    @property
    def received(self) -> signal.Signals | None:
        """A signal that some rank received: the same on all, so that all stop at the same step."""
        counts = (self.num_sigint, self.num_sigterm, self.num_sighup, self.num_sigusr1)
        return next((number for number, count in zip(_SIGNALS, counts, strict=True) if count), None)


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepNumbers:
    """A step as the host sees it; of the whole world."""

    step: int
    loss_sum: float
    num_tokens: int
    tally: Tally
    gradient_norm: float
    loss_scale: float | None
    skipped_steps: int
    skipped_in_a_row: int

    @property
    def loss(self) -> float:
        """Nats per token, with dropout and label smoothing."""
        return self.loss_sum / max(1, self.num_tokens)


class _Readout:
    """The numbers of a step on their way from the device."""

    def __init__(self, step: int, result: StepResult) -> None:
        self.step = step
        self._has_scale = result.loss_scale is not None
        values = [
            result.loss_sum,
            result.num_tokens,
            result.gradient_norm,
            result.skipped_steps,
            result.skipped_in_a_row,
            result.loss_scale if result.loss_scale is not None else result.loss_sum,
        ]
        numbers = torch.stack([value.double() for value in values])
        self._values = torch.cat([numbers, result.tally]).to("cpu", non_blocking=True)
        self._arrival = None
        if result.loss_sum.is_cuda:
            self._arrival = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch does not type it
            self._arrival.record()

    def wait(self) -> StepNumbers:
        if self._arrival is not None:
            self._arrival.synchronize()
        loss_sum, num_tokens, gradient_norm, skipped_steps, in_a_row, scale, *tally = self._values.tolist()
        return StepNumbers(
            step=self.step,
            loss_sum=loss_sum,
            num_tokens=int(num_tokens),
            tally=Tally(*tally),
            gradient_norm=gradient_norm,
            loss_scale=scale if self._has_scale else None,
            skipped_steps=int(skipped_steps),
            skipped_in_a_row=int(in_a_row),
        )


class Meter:
    """Gathers steps; `add` and `flush` give back those whose numbers have arrived."""

    def __init__(self, *, source_budget: int, target_budget: int, num_packs: int) -> None:
        """The budgets are those of one pack, the packs those of the world in a step."""
        self._budgets = num_packs * source_budget, num_packs * target_budget
        self._under_way: deque[_Readout] = deque()
        self._last: StepNumbers | None = None
        self._clear()

    def add(self, step: int, result: StepResult) -> Iterator[StepNumbers]:
        """After each step. On a GPU the numbers of this one are still on their way."""
        self._under_way.append(_Readout(step, result))
        self._num_steps += 1
        return self._arrived(keep=1 if result.loss_sum.is_cuda else 0)

    def flush(self) -> Iterator[StepNumbers]:
        """Waits for all."""
        return self._arrived(keep=0)

    def take(self, seconds: float) -> dict[str, Any]:
        """The means since the last time, by the names of the record. Everything has arrived; the steps took so long."""
        assert not self._under_way and self._num_steps
        seconds = max(seconds, 1e-9)
        last = self._last
        assert last is not None
        fields = {
            "loss_nats_per_token": self._loss_sum / self._num_tokens if self._num_tokens else last.loss,
            "gradient_norm": self._gradient_norms / self._num_finite if self._num_finite else last.gradient_norm,
            "seconds_per_step": seconds / self._num_steps,
            "target_tokens_per_second": self._num_target_tokens / seconds,
            "source_tokens_per_second": self._num_source_tokens / seconds,
            "fill_source": self._num_source_tokens / (self._num_steps * self._budgets[0]),
            "fill_target": self._num_target_tokens / (self._num_steps * self._budgets[1]),
            "skipped_steps": last.skipped_steps,
            "loss_scale": last.loss_scale,
        }
        self._clear()
        return fields

    def _arrived(self, keep: int) -> Iterator[StepNumbers]:
        while len(self._under_way) > keep:
            numbers = self._under_way.popleft().wait()
            self._last = numbers
            self._num_source_tokens += int(numbers.tally.num_source_tokens)
            self._num_target_tokens += int(numbers.tally.num_target_tokens)
            if numbers.skipped_in_a_row == 0:  # a skipped step would make every mean not a number
                self._loss_sum += numbers.loss_sum
                self._num_tokens += numbers.num_tokens
            if math.isfinite(numbers.gradient_norm):
                self._gradient_norms += numbers.gradient_norm
                self._num_finite += 1
            yield numbers

    def _clear(self) -> None:
        self._num_steps = self._num_finite = 0
        self._num_source_tokens = self._num_target_tokens = self._num_tokens = 0
        self._loss_sum = self._gradient_norms = 0.0
        self._last = None
