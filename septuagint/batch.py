"""The border between data and model: sentence pairs laid end to end, and the batches of one step."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

IGNORE = -100
"""The label of a position where nothing is predicted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PackedBatch:
    """Sentence pairs laid end to end without padding. T and S: target and source tokens, N: pairs.

    Every tensor has one shape for the whole run. Tokens that no pair needed stand at the end as sentences of PAD, none
    longer than the longest real one; offsets that are not needed repeat the last, so that sentence is empty.
    """

    source_ids_S: Tensor
    source_offsets: Tensor  # N + 1 starts into source_ids_S, int32; the last closes the final sentence
    target_ids_T: Tensor  # what the decoder reads: EOS, then the sentence without its own EOS
    target_offsets: Tensor
    labels_T: Tensor  # what it shall say next: target_ids_T shifted left, EOS last; IGNORE where nothing is predicted

    def to(self, device: torch.device) -> "PackedBatch":
        """The same batch on a device; from pinned memory the copy runs beside other work."""
        return PackedBatch(
            **{field.name: getattr(self, field.name).to(device, non_blocking=True) for field in fields(self)}
        )

    def twice(self) -> "PackedBatch":
        """The same sentences, and behind them the same once more."""
        source, target = self.source_offsets, self.target_offsets
        return PackedBatch(
            source_ids_S=self.source_ids_S.repeat(2),
            source_offsets=torch.cat([source, source[1:] + len(self.source_ids_S)]),
            target_ids_T=self.target_ids_T.repeat(2),
            target_offsets=torch.cat([target, target[1:] + len(self.target_ids_T)]),
            labels_T=self.labels_T.repeat(2),
        )

    def pin_memory(self) -> "PackedBatch":
        """The same batch in memory that a GPU can copy from on its own."""
        return PackedBatch(**{field.name: getattr(self, field.name).pin_memory() for field in fields(self)})


@dataclass(frozen=True, kw_only=True, slots=True)
class Microbatch:
    """A pack with what the host knows about it."""

    batch: PackedBatch
    index: int  # of the step's global microbatches, counted from 0
    num_pairs: int
    num_source_tokens: int
    num_target_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Cursor:
    """A place in the endless order of packs: pack `pack` of block `block`, both counted from 0."""

    block: int = 0
    pack: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class StepData:
    """What one rank reads for one step, and where the world's next step begins."""

    microbatches: tuple[Microbatch, ...]
    next: Cursor
    epochs: float  # how often the corpus has been seen when this step is done
