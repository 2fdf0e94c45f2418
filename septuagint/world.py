"""The world: all processes of a run, the place of this one among them, and how they talk to each other.

Every exchange is a collective: all ranks call it, in the same order. What travels is JSON or raw bytes, never a pickle.
In a world of one nothing travels, and the same code runs.
"""

import json
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

CHUNK_BYTES = 16 * 1024 * 1024
"""The most that is sent at once: what is on its way shows that all are alive."""


_CPU = torch.device("cpu")


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """Rank, size and device. A world of one runs the same code as a world of sixty-four."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # among the ranks of this host
    local_size: int = 1
    hosts: tuple[str, ...] = ("localhost",)  # the host of each rank
    launcher: str = "none"
    interface: str | None = None  # the network interface that talks to the others
    device: torch.device = _CPU
    group: dist.ProcessGroup | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this is the rank of its host that speaks and writes for the others there."""
        return self.local_rank == 0

    def name(self, rank: int) -> str:
        """A rank in a message."""
        return f"rank {rank} on {self.hosts[rank]}"

    def sum(self, values: Tensor) -> "Sum":
        """Begins to add up a tensor over all ranks, in place; `wait` when it is needed."""
        return Sum(dist.all_reduce(values, group=self.group, async_op=True) if self.size > 1 else None)

    def gather(self, value: Any) -> list[Any]:
        """What every rank has to say, by rank: values made of dicts, lists, text and numbers."""
        return [json.loads(text) for text in self.gather_bytes(json.dumps(value).encode())]

    def gather_bytes(self, content: bytes) -> list[bytes]:
        """The same for bytes, of any number on each rank."""
        if self.size == 1:
            return [content]
        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        dist.all_gather(lengths, torch.tensor([len(content)]), group=self.group)
        longest = max(1, *(int(length) for length in lengths))
        rows = [torch.empty(longest, dtype=torch.uint8) for _ in range(self.size)]
        dist.all_gather(rows, _as_tensor(content.ljust(longest, b"\0")), group=self.group)
        return [row[: int(length)].numpy().tobytes() for row, length in zip(rows, lengths, strict=True)]

    def broadcast(self, value: Any, source: int = 0) -> Any:
        """What one rank has to say; the others' values do not matter."""
        return json.loads(self.broadcast_bytes(json.dumps(value).encode() if self.rank == source else b"", source))

    def broadcast_bytes(self, content: bytes, source: int) -> bytes:
        """The bytes of one rank."""
        if self.size == 1:
            return content
        length = torch.tensor([len(content)])
        dist.broadcast(length, source, group=self.group)
        data = _as_tensor(content) if self.rank == source else torch.empty(int(length), dtype=torch.uint8)
        for begin in range(0, int(length), CHUNK_BYTES):
            dist.broadcast(data[begin : begin + CHUNK_BYTES], source, group=self.group)
        return data.numpy().tobytes()

    def any(self, is_so: bool) -> bool:
        """Whether it is so on any rank."""
        return any(self.gather(is_so))


class Sum:
    """An addition over all ranks that is under way."""

    def __init__(self, work: dist.Work | None) -> None:
        self._work = work

    def wait(self) -> None:
        """Until the sum is there (on a GPU: until later kernels may use it)."""
        if self._work is not None:
            self._work.wait()


def _as_tensor(content: bytes) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.empty(0, dtype=torch.uint8)
