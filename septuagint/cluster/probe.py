"""The machines, measured for a moment: the peak of a device, the capacity of the link, the offset between clocks.

All but `measure_peak` are collectives: every rank calls them.
"""

import time
from dataclasses import dataclass

import torch
import torch.distributed as dist

from septuagint.world import World

# Large enough for a GPU to reach its peak; a CPU's is reached sooner.
_GPU_MATRIX, _CPU_MATRIX = 8192, 1024
_PEAK_SECONDS = 0.05
# Bursts that a switch lets through make small messages look fast: what counts is the largest that the time allows.
_SWEEP_BYTES = tuple(2**exponent for exponent in (15, 18, 21, 24))
_SWEEP_SECONDS = 5.0
_NUM_PINGS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """What all-reduces between the hosts achieved."""

    sizes_bytes: list[int]
    seconds: list[float]  # the best of each size
    bus_bytes_per_second: float  # of the largest
    latency_seconds: float  # of the smallest
    sweep_seconds: float  # that measuring took


@dataclass(frozen=True, kw_only=True, slots=True)
class ClockOffset:
    """This host's monotonic clock minus that of rank 0."""

    seconds: float = 0.0
    error_seconds: float = 0.0  # at most


def measure_peak(device: torch.device, dtype: torch.dtype) -> float | None:
    """Floating-point operations a second of one large matrix product; None where there is no room for it."""
    size = _GPU_MATRIX if device.type == "cuda" else _CPU_MATRIX
    try:
        # Random numbers, and none of torch's own: equal ones flip fewer bits, and a GPU is 10% faster with them.
        generator = torch.Generator(device).manual_seed(0)
        left = torch.empty(size, size, device=device, dtype=dtype).normal_(generator=generator)
        right, product = left.clone(), torch.empty_like(left)
        _multiply(left, right, product)  # the first one chooses its kernel
        best, begin = float("inf"), time.perf_counter()
        while time.perf_counter() - begin < _PEAK_SECONDS:
            best = min(best, _multiply(left, right, product))
    except torch.OutOfMemoryError:
        return None
    return 2.0 * size**3 / best


def _multiply(left: torch.Tensor, right: torch.Tensor, product: torch.Tensor) -> float:
    begin = time.perf_counter()
    torch.mm(left, right, out=product)
    if left.is_cuda:
        torch.cuda.synchronize(left.device)
    return time.perf_counter() - begin


def measure_link(world: World) -> Link:
    """All-reduces of growing size, about five seconds at most: a slow link does not get to the largest."""
    sizes: list[int] = []
    seconds: list[float] = []
    begin = time.perf_counter()
    for size in _SWEEP_BYTES:
        spent = time.perf_counter() - begin
        expected = seconds[-1] * size / sizes[-1] if seconds else 0.0
        # All ranks go by the clock of rank 0.
        if world.broadcast(seconds != [] and spent + 2 * expected > _SWEEP_SECONDS):
            break
        sizes.append(size)
        seconds.append(min(_sum_bytes(world, size) for _ in range(2)))
    return Link(
        sizes_bytes=sizes,
        seconds=seconds,
        bus_bytes_per_second=ring_bytes(sizes[-1], world.size) / seconds[-1],
        latency_seconds=seconds[0],
        sweep_seconds=time.perf_counter() - begin,
    )


def ring_bytes(num_bytes: int, num_ranks: int) -> float:
    """What passes each link of a ring, one way, when so many bytes are added up over the ranks."""
    return 2 * (num_ranks - 1) / num_ranks * num_bytes


def _sum_bytes(world: World, num_bytes: int) -> float:
    """Seconds until the slowest rank has the sum."""
    values = torch.zeros(num_bytes // 4, device=world.device)
    world.gather(None)  # all begin together
    begin = time.perf_counter()
    world.sum(values).wait()
    if values.is_cuda:
        torch.cuda.synchronize(values.device)
    return float(max(world.gather(time.perf_counter() - begin)))


def measure_clock(world: World, clock_name: str) -> ClockOffset:
    """How far the clock of this rank is ahead of rank 0's. Ranks with clocks of one name have the same clock.

    One rank of each clock asks rank 0 for the time, and takes it that the answer was written half way between.
    """
    names = world.gather(clock_name)
    askers = {name: rank for rank, name in reversed(list(enumerate(names))) if name != names[0]}
    own = ClockOffset()
    for rank in sorted(askers.values()):
        if world.rank == rank:
            own = _ask(world)
        elif world.rank == 0:
            _answer(world, rank)
    found = world.gather([own.seconds, own.error_seconds])
    seconds, error_seconds = found[askers.get(clock_name, 0)]
    return ClockOffset(seconds=seconds, error_seconds=error_seconds)


def _ask(world: World) -> ClockOffset:
    best = ClockOffset(error_seconds=float("inf"))
    theirs = torch.zeros(1, dtype=torch.float64)
    for _ in range(_NUM_PINGS):
        begin = time.perf_counter()
        dist.send(theirs, 0, group=world.group)
        dist.recv(theirs, 0, group=world.group)
        end = time.perf_counter()
        if (end - begin) / 2 < best.error_seconds:
            best = ClockOffset(seconds=(begin + end) / 2 - float(theirs), error_seconds=(end - begin) / 2)
    return best


def _answer(world: World, rank: int) -> None:
    question = torch.zeros(1, dtype=torch.float64)
    for _ in range(_NUM_PINGS):
        dist.recv(question, rank, group=world.group)
        dist.send(torch.tensor([time.perf_counter()], dtype=torch.float64), rank, group=world.group)
