"""Who waits for a slot, who has one, and which pages of the cache are whose.

All of it lies on the device: a host that asked who is finished would have to wait for the answer, and the GPU for it.

B slots, X pages that a slot can have, N sentences and one more for nobody, F pages and one more for nothing.
"""

import numpy as np
import torch
from torch import Tensor


class SlotQueue:
    """Sentences come in order, each as soon as there is a slot and as many pages as it needs. Changed in place."""

    def __init__(
        self, *, num_slots: int, num_sentences: int, num_pages: int, most_pages: int, device: torch.device
    ) -> None:
        """At most so many sentences at a time, and so many pages for one of them."""
        assert most_pages <= num_pages
        self.nobody = num_sentences
        self.sentences_B = torch.full((num_slots,), self.nobody, device=device)
        self.pages_BX = torch.zeros(num_slots, most_pages, dtype=torch.int64, device=device)
        self.num_left = torch.zeros((), dtype=torch.int64, device=device)
        self._needs_N = torch.zeros(num_sentences + 1, dtype=torch.int64, device=device)
        self._num_sentences = torch.zeros_like(self.num_left)
        self._num_begun = torch.zeros_like(self.num_left)
        self._free_F = torch.arange(1, num_pages + 2, device=device)  # page 0 is of all who have no sentence
        self._num_free = torch.full_like(self.num_left, num_pages)

    def fill(self, needs: np.ndarray) -> None:
        """New sentences wait, each with the number of pages that it needs; the slots are empty."""
        self._needs_N[: len(needs)] = torch.from_numpy(needs).to(self._needs_N.device)
        self._num_sentences.fill_(len(needs))
        self._num_begun.zero_()
        self.num_left.zero_()

    def leave(self, is_done_B: Tensor) -> Tensor:
        """Those who are done go; the sentences (B) that went, nobody elsewhere."""
        goes_B = is_done_B & (self.sentences_B != self.nobody)
        gone_B = torch.where(goes_B, self.sentences_B, self.nobody)
        is_given_BX = goes_B[:, None] & (self.pages_BX > 0)
        places_BX = self._num_free - 1 + is_given_BX.flatten().cumsum(0).view_as(is_given_BX)
        places_BX = torch.where(is_given_BX, places_BX, len(self._free_F) - 1)
        self._free_F.scatter_(0, places_BX.flatten(), self.pages_BX.flatten())
        self._num_free.add_(is_given_BX.sum())
        self.num_left.add_(goes_B.sum())
        self.sentences_B.masked_fill_(goes_B, self.nobody)
        self.pages_BX.masked_fill_(goes_B[:, None], 0)
        return gone_B

    def enter(self) -> Tensor:
        """Those who wait take the empty slots; which slots (B) got a sentence."""
        is_empty_B = self.sentences_B == self.nobody
        next_B = self._num_begun - 1 + is_empty_B.cumsum(0)
        waits_B = is_empty_B & (next_B < self._num_sentences)
        next_B = torch.where(waits_B, next_B, self.nobody)
        needs_B = torch.where(waits_B, self._needs_N[next_B], 0)
        ends_B = needs_B.cumsum(0)
        comes_B = waits_B & (ends_B <= self._num_free)  # no one behind one who must wait
        numbers_X = torch.arange(self.pages_BX.shape[1], device=self.pages_BX.device)
        is_taken_BX = comes_B[:, None] & (numbers_X < needs_B[:, None])
        places_BX = (self._num_free - ends_B)[:, None] + numbers_X
        pages_BX = self._free_F[torch.where(is_taken_BX, places_BX, len(self._free_F) - 1)]
        self.pages_BX.copy_(torch.where(is_taken_BX, pages_BX, self.pages_BX))
        self.sentences_B.copy_(torch.where(comes_B, next_B, self.sentences_B))
        self._num_free.sub_(is_taken_BX.sum())
        self._num_begun.add_(comes_B.sum())
        return comes_B
