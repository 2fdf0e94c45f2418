"""Greedy decoding: the likeliest next piece, again and again, for many sentences at once.

B sentences of a batch, V vocabulary.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from septuagint.data.vocabulary import EOS
from septuagint.model.attention import choose_backend, make_relation
from septuagint.model.transformer import DecodingState, Transformer

# A translation is never longer than this: so many times the source and a few pieces more, and never without end.
MAX_LENGTH_RATIO = 2.0
MAX_LENGTH_EXTRA = 10
MAX_LENGTH = 1024
# Source tokens that are translated side by side, the few more counted in.
_BATCH_TOKENS = {"cpu": 4096, "cuda": 32_768}


def length_limit(source_length: int) -> int:
    """The most pieces that a translation of so many pieces may have; a longer one is cut off there."""
    return min(int(source_length * MAX_LENGTH_RATIO) + MAX_LENGTH_EXTRA, MAX_LENGTH)


@torch.inference_mode()
def translate_greedily(
    model: Transformer,
    sources: Sequence[np.ndarray],
    *,
    dtype: torch.dtype = torch.float32,
    advance: Callable[[int], None] = lambda num_sentences: None,
) -> list[list[int]]:
    """The translations' ids in the order of the sources, without EOS. The sources end with theirs, as in shards.

    `advance` is told how many sentences were finished, after each batch; what it raises ends the work.
    """
    model.eval()
    device = next(model.parameters()).device
    translations: list[list[int]] = [[] for _ in sources]
    with torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32):
        for rows in _batches([len(source) for source in sources], _BATCH_TOKENS[device.type]):
            for row, ids in zip(rows, _translate_batch(model, [sources[row] for row in rows], dtype), strict=True):
                translations[row] = ids
            advance(len(rows))
    return translations


def _batches(lengths: Sequence[int], num_tokens: int) -> Iterator[list[int]]:
    """Sentences of similar length, the longest first: if memory is short, it is short at once."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if batch and (lengths[batch[0]] + MAX_LENGTH_EXTRA) * (len(batch) + 1) > num_tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _translate_batch(model: Transformer, sources: list[np.ndarray], dtype: torch.dtype) -> list[list[int]]:
    device = next(model.parameters()).device
    lengths_B = torch.tensor([len(source) for source in sources])
    offsets = torch.nn.functional.pad(lengths_B.cumsum(0), (1, 0)).int().to(device)
    longest = int(lengths_B.max())
    model.grow_positions(longest)
    head_width = model.config.width // model.config.num_heads
    relation = make_relation(offsets, offsets, choose_backend(device, dtype, head_width), longest)
    ids_S = torch.from_numpy(np.concatenate(sources).astype(np.int64)).to(device)
    memory_SD = model.encode(ids_S, offsets, relation)
    state = model.start_decoding(memory_SD, lengths_B.to(device), length_limit(longest))
    return _continue(model, state, [length_limit(length) for length in lengths_B.tolist()])


def _continue(model: Transformer, state: DecodingState, limits: list[int]) -> list[list[int]]:
    """Adds pieces until every sentence has its EOS, or is as long as it may be."""
    device = state.is_source_B11S.device
    translations: list[list[int]] = [[] for _ in range(len(limits))]
    active = list(range(len(limits)))  # the sentence that each row of the batch belongs to
    finished: set[int] = set()
    ids_B = torch.full((len(active),), EOS, device=device)
    while len(finished) < len(translations):
        ids_B = model.logits(model.decode_next(ids_B, state)).argmax(-1)
        for sentence, piece in zip(active, ids_B.tolist(), strict=True):
            if sentence in finished:
                continue
            if piece == EOS:
                finished.add(sentence)
                continue
            translations[sentence].append(piece)
            if len(translations[sentence]) >= limits[sentence]:
                finished.add(sentence)
        open_rows = [row for row, sentence in enumerate(active) if sentence not in finished]
        if 0 < len(open_rows) <= len(active) // 2:  # half of the work is for nothing: leave it
            rows = torch.tensor(open_rows, device=device)
            state.select(rows)
            ids_B = ids_B[rows]
            active = [active[row] for row in open_rows]
    return translations
