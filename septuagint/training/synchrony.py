"""Synchrony: the same gradients, and so the same weights, on every rank.

The averaging is torch's DistributedDataParallel: buckets of gradients travel while the backward pass goes on.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from septuagint.errors import DriftError
from septuagint.training.optimizer import Optimizer
from septuagint.world import World


def synchronise(objective: nn.Module, world: World) -> nn.Module:
    """The objective with gradients averaged over all ranks; itself in a world of one."""
    if world.size == 1:
        return objective
    parameters = list(objective.parameters())
    own = fingerprint(parameters)
    known = inspect.signature(DistributedDataParallel).parameters
    # The tables of positions are the same everywhere; torch 2.13 has another name for it.
    no_buffers: dict[str, Any] = {
        "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers": False
    }
    return DistributedDataParallel(
        objective,
        process_group=world.group,
        gradient_as_bucket_view=True,
        bucket_cap_mb=_bucket_megabytes(sum(parameter.nbytes for parameter in parameters)),
        # Weights at the start depend on the seed alone; only other processors may come to other last digits.
        init_sync=len(set(world.gather(own))) > 1,
        **no_buffers,
    )


def _bucket_megabytes(num_bytes: int) -> float:
    """A bucket travels when it is full, so few large ones leave most of the way for after the backward pass.

    With torch's 25 MB a network of 9 MB hid nothing: 91% efficiency with two ranks where the wire takes a tenth of the
    time, against 96% (benchmarks/scaling.py).
    """
    return min(25.0, max(1.0, num_bytes / 32 / 2**20))  # the first one has 1 MB, and compiled code wants no smaller


def announce_arrival(objective: nn.Module, arrived: Callable[[], None]) -> None:
    """Has `arrived` called in every step when this rank's last gradients are complete, before they travel."""
    if not isinstance(objective, DistributedDataParallel):
        return
    group = objective.process_group

    def average(state: None, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        if bucket.is_last():
            arrived()
        return allreduce_hook(group, bucket)

    objective.register_comm_hook(None, average)


def gradient_sync(objective: nn.Module, *, enabled: bool) -> AbstractContextManager[None]:
    """Forward and backward in this block average their gradients over the ranks, or only add them up here."""
    if enabled or not isinstance(objective, DistributedDataParallel):
        return nullcontext()
    return objective.no_sync()


def clear_gradients(objective: nn.Module, optimizer: Optimizer) -> None:
    """After an update. Gradients that are views of buckets stay where they are: nothing is copied into buckets."""
    optimizer.zero_grad(set_to_none=not isinstance(objective, DistributedDataParallel))


def fingerprint(tensors: Sequence[Tensor]) -> str:
    """A cheap checksum: a single flipped bit changes it. The sum of all bits as whole numbers, per tensor."""
    sums = torch.stack([tensor.detach().reshape(-1).view(torch.int32).sum(dtype=torch.int64) for tensor in tensors])
    factors = torch.arange(1, 2 * len(tensors), 2, device=sums.device)  # so that tensors cannot be exchanged
    return f"{int((sums * factors).sum()) & (2**64 - 1):016x}"


def check_no_drift(parameters: Sequence[Tensor], step: int, world: World) -> None:
    """Refuses to go on where a rank has other weights than the rest; names it."""
    if world.size == 1:
        return
    found = world.gather(fingerprint(parameters))
    if len(set(found)) > 1:
        raise DriftError(
            f"the weights are no longer the same on all ranks at step {step:,}: {_odd_ones(found, world)}; they are "
            "not saved. Memory, processor or network of such a machine changes bits: take it out, and start again"
        )


def check_same_files(written: Sequence[tuple[int, str] | None], world: World) -> None:
    """The checkpoint that each disk last got, (step, hash), must be the same; None for ranks that write none."""
    found = [(rank, step, content) for rank, (step, content) in _present(written)]
    for step in {step for _, step, _ in found}:
        hashes = {rank: content for rank, at, content in found if at == step}
        if len(set(hashes.values())) > 1:
            where = ", ".join(f"{world.name(rank)} {content[:8]}" for rank, content in hashes.items())
            raise DriftError(
                f"the checkpoint of step {step:,} is not the same on all disks ({where}): memory or disk of a machine "
                "changes bits. Compare its manifest.json on the machines, take the bad one out, and start again"
            )


def _present(written: Sequence[tuple[int, str] | None]) -> list[tuple[int, tuple[int, str]]]:
    return [(rank, entry) for rank, entry in enumerate(written) if entry is not None]


def _odd_ones(found: Sequence[str], world: World) -> str:
    common, number = Counter(found).most_common(1)[0]
    names = [world.name(rank) for rank, value in enumerate(found) if value != common]
    if 2 * number > len(found):
        return f"{' and '.join(names)} drifted from the others"
    return ", ".join(f"{world.name(rank)} has {value}" for rank, value in enumerate(found)) + " (no majority)"
