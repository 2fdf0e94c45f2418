"""The world: all processes of a run, and the place of this one among them."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """Rank, size and device. A world of one runs the same code as a world of sixty-four."""

    rank: int = 0
    size: int = 1
    device: torch.device
