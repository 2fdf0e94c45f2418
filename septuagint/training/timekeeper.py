"""The timekeeper: the stopwatches of all ranks, put together. What a rank waits for is known only from the others."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from septuagint.cluster.probe import ClockOffset, measure_clock
from septuagint.telemetry.stopwatch import (
    Stopwatch,
    Times,
    Traffic,
    find_bottleneck,
    find_slowest,
    split_waits,
)
from septuagint.world import World

# Quartz clocks part by some ten microseconds a second: by less than a millisecond until they are compared again.
_CLOCK_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Power:
    """What the processors could do, and what is asked of them."""

    peak_flops_per_second: float | None  # of all ranks together
    flops_per_source_token: int
    flops_per_target_token: int

    def utilisation(self, source_tokens_per_second: float, target_tokens_per_second: float) -> float | None:
        """Model FLOP utilisation: the products that the network is made of, as a share of the peak."""
        if not self.peak_flops_per_second:
            return None
        flops = source_tokens_per_second * self.flops_per_source_token
        flops += target_tokens_per_second * self.flops_per_target_token
        return flops / self.peak_flops_per_second


class Timekeeper:
    """Made by every rank at the start of an attempt: from then on time counts."""

    def __init__(
        self, world: World, clock_name: str, power: Power, read_traffic: Callable[[], Traffic | None] = lambda: None
    ) -> None:
        """Ranks with the same `clock_name` have the same clock."""
        self.stopwatch = Stopwatch(world.device, read_traffic)
        self.power = power
        self._world, self._clock_name = world, clock_name
        self.seconds_in_steps = 0.0
        self._compare_clocks()

    def take(self, step: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """(the fields of a `steps` event that ends with this step, those of a `train` event). A collective."""
        times = self.stopwatch.take()
        arrivals = self._exchange_arrivals(times)
        parts = split_waits(times, self._world.rank, arrivals) if self._world.size > 1 else times.parts
        self.seconds_in_steps += float(times.wall.sum())
        has_network = len(set(self._world.hosts)) > 1
        means = _train_fields(parts, arrivals, has_network=has_network) if times.num_steps else {}
        return _steps_fields(step, times, parts), means

    def _exchange_arrivals(self, times: Times) -> list[list[float]]:
        """When each rank had its last gradients, step by step, by the clock of rank 0."""
        own = [None if np.isnan(arrival) else arrival - self.offset.seconds for arrival in times.arrivals.tolist()]
        is_stale = time.monotonic() - self._compared > _CLOCK_SECONDS
        shares = self._world.gather({"arrivals": own, "is_stale": is_stale})
        if shares[0]["is_stale"]:
            self._compare_clocks()
        nothing = float("nan")
        return [[nothing if arrival is None else arrival for arrival in share["arrivals"]] for share in shares]

    def _compare_clocks(self) -> None:
        self.offset = ClockOffset() if self._world.size == 1 else measure_clock(self._world, self._clock_name)
        self._compared = time.monotonic()


def _steps_fields(step: int, times: Times, parts: dict[str, np.ndarray]) -> dict[str, Any]:
    traffic = [None, None] if times.traffic is None else times.traffic.T.astype(int).tolist()
    return {
        "step": step,
        "first_step": step - times.num_steps + 1,
        "wall": _rounded(times.wall),
        **{part: _rounded(seconds) for part, seconds in parts.items()},
        "sent_bytes": traffic[0],
        "received_bytes": traffic[1],
        "outside_seconds": {part: round(seconds, 6) for part, seconds in times.outside.items()},
    }


def _rounded(seconds: np.ndarray) -> list[float]:
    numbers: list[float] = np.round(seconds, 6).tolist()
    return numbers


def _train_fields(
    parts: dict[str, np.ndarray], arrivals: Sequence[Sequence[float]], *, has_network: bool
) -> dict[str, Any]:
    means = {part: float(seconds.mean()) for part, seconds in parts.items()}
    slowest, seconds_for_slowest = find_slowest(arrivals)
    bottleneck, share = find_bottleneck(means, seconds_for_slowest, has_network=has_network)
    return {
        **{f"{part}_seconds_per_step": seconds for part, seconds in means.items()},
        "bottleneck": bottleneck,
        "bottleneck_share": share,
        "slowest_rank": slowest if bottleneck == "slow_rank" else None,
    }
