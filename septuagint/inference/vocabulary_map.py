"""A vocabulary map: which pieces may stand in a translation, given the pieces of its source.

Scores over a whole vocabulary are a large part of the work of a small decoder, and nearly all of them are for nothing.
What a source piece can become is learned from training text: pieces that often meet, by their Dice coefficient, and of
these the likeliest by IBM's model 1. Pieces that are frequent everywhere are always allowed, and a piece may always
stand for itself. CTranslate2 takes the pieces of all sentences of a batch together, so that a line's translation can
depend on its company.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from septuagint.data.sentences import Sentences

# Where CTranslate2 looks for it, beside the model.
VOCABULARY_MAP = "vmap.txt"
# Pairs of sentences that it is learned from, and how many of them at a time.
NUM_PAIRS = 100_000
_PAIRS_AT_A_TIME = 10_000
# The pieces that meet a source piece most clearly, of which model 1 chooses as many as are kept.
_NUM_MET = 64
_NUM_KEPT = 32
_NUM_ITERATIONS = 4
# Pieces that are allowed in every translation.
_NUM_FREQUENT = 3000


def learn_vocabulary_map(sources: Sentences, targets: Sentences, num_pieces: int) -> tuple[list[int], list[list[int]]]:
    """(pieces that are always allowed, pieces that each source piece allows), from sentences that end with EOS."""
    keys = _clearest_links(sources, targets, num_pieces)
    chances = _likeliest_links(keys, sources, targets, num_pieces)
    kept = np.sort(_best_of_each(keys // num_pieces, chances, _NUM_KEPT))
    bounds = np.searchsorted(keys[kept] // num_pieces, np.arange(num_pieces + 1))
    allowed = (keys[kept] % num_pieces).tolist()
    counts = np.bincount(targets.ids, minlength=num_pieces)
    frequent = np.argsort(-counts, kind="stable")[:_NUM_FREQUENT]
    return frequent[counts[frequent] > 0].tolist(), [
        sorted({piece, *allowed[begin:end]}) if end > begin else []
        for piece, (begin, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    ]


def write_vocabulary_map(path: Path, pieces: Sequence[str], frequent: list[int], allowed: list[list[int]]) -> None:
    """As CTranslate2 reads it: a line for each source piece, and one for no piece at all."""
    rows = [("", frequent), *((pieces[piece], row) for piece, row in enumerate(allowed) if row)]
    lines = [f"{name}\t{' '.join(pieces[target] for target in row)}\n" for name, row in rows]
    path.write_text("".join(lines), encoding="utf-8")


def _clearest_links(sources: Sentences, targets: Sentences, num_pieces: int) -> np.ndarray:
    """source * num_pieces + target of the links with the largest Dice coefficients, sorted."""
    keys, counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for new_keys, _ in _links(sources, targets, num_pieces):
        new, new_counts = np.unique(new_keys, return_counts=True)
        keys, places = np.unique(np.concatenate([keys, new]), return_inverse=True)
        counts = np.bincount(places, np.concatenate([counts, new_counts])).astype(np.int64)
    source, target = np.divmod(keys, num_pieces)
    in_all = np.bincount(source, counts, num_pieces)[source] + np.bincount(target, counts, num_pieces)[target]
    return np.sort(keys[_best_of_each(source, counts / in_all, _NUM_MET)])


def _likeliest_links(keys: np.ndarray, sources: Sentences, targets: Sentences, num_pieces: int) -> np.ndarray:
    """The chance of each link's target, given its source: IBM's model 1 over these links alone."""
    chances = np.full(len(keys), 1.0)
    for _ in range(_NUM_ITERATIONS):
        expected = np.zeros(len(keys))
        for all_keys, all_tokens in _links(sources, targets, num_pieces):
            places = np.minimum(np.searchsorted(keys, all_keys), len(keys) - 1)
            is_known = keys[places] == all_keys
            places, tokens = places[is_known], all_tokens[is_known]
            weights = chances[places] / np.bincount(tokens, chances[places])[tokens]
            expected += np.bincount(places, weights, len(keys))
        totals = np.bincount(keys // num_pieces, expected, num_pieces)
        chances = expected / np.maximum(totals[keys // num_pieces], 1e-30)
    return chances


def _best_of_each(groups: np.ndarray, scores: np.ndarray, number: int) -> np.ndarray:
    """Places of the largest scores of each group."""
    order = np.lexsort((-scores, groups))
    sorted_groups = groups[order]
    ranks = np.arange(len(order)) - np.searchsorted(sorted_groups, sorted_groups)
    return order[ranks < number]


def _links(sources: Sentences, targets: Sentences, num_pieces: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(source * num_pieces + target, number of the target token) of any two tokens of a pair, some pairs at a time."""
    for first in range(0, len(sources), _PAIRS_AT_A_TIME):
        rows = np.arange(first, min(first + _PAIRS_AT_A_TIME, len(sources)))
        source_begins, target_begins = sources.offsets[rows], targets.offsets[rows]
        source_lengths = sources.offsets[rows + 1] - source_begins - 1  # without EOS
        target_lengths = targets.offsets[rows + 1] - target_begins - 1
        num_links = source_lengths * target_lengths
        pairs = np.repeat(np.arange(len(rows)), num_links)
        inside = np.arange(num_links.sum()) - np.repeat(np.cumsum(num_links) - num_links, num_links)
        from_source = source_begins[pairs] + inside // target_lengths[pairs]
        from_target = target_begins[pairs] + inside % target_lengths[pairs]
        keys = sources.ids[from_source].astype(np.int64) * num_pieces + targets.ids[from_target]
        yield keys, from_target - target_begins[0]
