"""Beam search: the likeliest translations that a few hypotheses at a time can find, for many sentences at once.

On GPUs with recorded steps of one shape (`slots`); elsewhere, and where compiling is not wanted, with torch's own
operations, in batches that grow with the translations and shrink as sentences are finished. Both find the same.

B sentences, W beams of a sentence, N likeliest pieces, V vocabulary, R = B * W.
"""

import copy
import importlib.util
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from septuagint.data.vocabulary import EOS
from septuagint.inference.length_batches import batches_of_similar_length
from septuagint.inference.search import (
    MAX_LENGTH_EXTRA,
    Candidates,
    Hypothesis,
    Rules,
    Search,
    best_continuations,
    go_on,
    length_limit,
    read_hypotheses,
)
from septuagint.inference.slots import translate_in_slots
from septuagint.model.transformer import Transformer

# Source tokens that are translated side by side, the few more counted in, for each of the beams: it decides the memory.
_BATCH_TOKENS = {"cpu": 4096, "cuda": 32_768}
# Room for so many tokens at first; doubled when it is used up.
_FIRST_ROOM = 32
# The vocabulary is looked through in chunks for the largest numbers: see `_largest`.
_CHUNK = 128


def positions_needed(source_length: int) -> int:
    """Of the model's table, to translate sources of up to so many pieces."""
    return max(source_length, length_limit(source_length))


@torch.inference_mode()
def translate_ids(
    model: Transformer,
    sources: Sequence[np.ndarray],
    *,
    beam_size: int = 1,
    num_hypotheses: int = 1,
    length_penalty: float = 1.0,
    dtype: torch.dtype = torch.float32,
    may_compile: bool = True,
    advance: Callable[[int], None] = lambda num_sentences: None,
) -> list[list[Hypothesis]]:
    """The best hypotheses for each source, in their order, the best first. The sources end with EOS, as in shards.

    `advance` is told how many sentences were finished, from time to time; what it raises ends the work.
    """
    assert 1 <= num_hypotheses <= beam_size
    model.eval()
    device = next(model.parameters()).device
    rules = Rules(beam_size=beam_size, num_hypotheses=num_hypotheses, length_penalty=length_penalty)
    model.grow_positions(positions_needed(max((len(source) for source in sources), default=0)))
    decoder = model if dtype == torch.float32 else _in_half_precision(model, dtype)
    with torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32):
        if may_compile and device.type == "cuda" and importlib.util.find_spec("triton") is not None:
            from septuagint.inference import gpu_kernels

            return translate_in_slots(decoder, sources, rules, dtype, gpu_kernels, advance)
        return _translate_in_batches(decoder, sources, rules, dtype, advance)


def _translate_in_batches(
    model: Transformer,
    sources: Sequence[np.ndarray],
    rules: Rules,
    dtype: torch.dtype,
    advance: Callable[[int], None],
) -> list[list[Hypothesis]]:
    results: list[list[Hypothesis]] = [[] for _ in sources]
    budget = _BATCH_TOKENS[model.embeddings.weight.device.type] // rules.beam_size
    for rows in batches_of_similar_length([len(source) + MAX_LENGTH_EXTRA for source in sources], budget):
        found = _translate_batch(model, [sources[row] for row in rows], rules, dtype)
        for row, hypotheses in zip(rows, found, strict=True):
            results[row] = hypotheses
        advance(len(rows))
    return results


def _translate_batch(
    model: Transformer, sources: list[np.ndarray], rules: Rules, dtype: torch.dtype
) -> list[list[Hypothesis]]:
    """All hypotheses of a batch, by steps that grow with the translations and leave out finished sentences."""
    device = model.embeddings.weight.device
    lengths = [len(source) for source in sources]
    memory_SD = model.encode_sentences(sources, dtype)
    lengths_B, limits_B = (torch.tensor(n, device=device) for n in (lengths, [*map(length_limit, lengths)]))
    state = model.start_decoding(memory_SD, lengths_B, num_beams=rules.beam_size, room=_FIRST_ROOM)
    search = Search.begin(limits_B, num_beams=rules.beam_size, room=state.room)
    results: list[list[Hypothesis]] = [[] for _ in sources]
    active = np.arange(len(sources))  # the sentence that each row of the search belongs to
    step = 0
    while True:
        if step == state.room:
            state.grow(2 * state.room)
            search.grow(state.room)
        step += 1
        steps_B = state.step.expand(len(active)).clone()
        hidden_BWD = model.decode_next(search.ids_BW, state, step)
        candidates = _find_candidates(model, hidden_BWD, search.scores_BW, is_first=step == 1)
        state.follow(go_on(search, rules, steps_B, candidates))
        is_done = search.is_done_B.cpu().numpy()
        if is_done.sum() * 2 < len(is_done):
            continue
        # Half of the work is for nothing: leave it.
        done, going_on = (torch.from_numpy(np.flatnonzero(rows)).to(device) for rows in (is_done, ~is_done))
        for row, hypotheses in zip(active[is_done], read_hypotheses(search.select(done), rules), strict=True):
            results[row] = hypotheses
        if is_done.all():
            return results
        active = active[~is_done]
        state.select(going_on)
        search = search.select(going_on)


def _find_candidates(model: Transformer, hidden_BWD: Tensor, scores_BW: Tensor, *, is_first: bool) -> Candidates:
    logits_RV = _logits(model, hidden_BWD.flatten(0, 1))
    if is_first:
        logits_RV[:, EOS] = -torch.inf
    values_RN, ids_RN = _largest(logits_RV, 2 * scores_BW.shape[1])
    return best_continuations(scores_BW, values_RN - logits_RV.logsumexp(-1, keepdim=True), ids_RN)


def _logits(model: Transformer, hidden_RD: Tensor) -> Tensor:
    """In single precision: rounded to half, the best pieces of a long vocabulary would often be equal."""
    with torch.autocast(hidden_RD.device.type, enabled=False):
        return model.logits(hidden_RD.float())


def _largest(scores_RV: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """(values, columns) of the largest numbers of each row, the largest first.

    `topk` sorts what it is given, and a vocabulary is long. The largest N numbers lie in the N chunks with the largest
    maxima, so these alone are looked at.
    """
    num_chunks = scores_RV.shape[1] // _CHUNK
    if num_chunks <= 2 * number:
        values, columns = scores_RV.topk(number)
        return values, columns
    chunks = scores_RV[:, : num_chunks * _CHUNK].view(len(scores_RV), num_chunks, _CHUNK)
    best = chunks.amax(-1).topk(number, sorted=False).indices
    inside = torch.arange(_CHUNK, device=scores_RV.device)
    rest = torch.arange(num_chunks * _CHUNK, scores_RV.shape[1], device=scores_RV.device)
    columns = torch.cat([(best[..., None] * _CHUNK + inside).flatten(1), rest.expand(len(best), -1)], dim=1)
    values, places = scores_RV.gather(1, columns).topk(number)
    return values, columns.gather(1, places)


def _in_half_precision(model: Transformer, dtype: torch.dtype) -> Transformer:
    """A copy whose layers are in half precision already: autocast alone would convert them at every step."""
    half = copy.deepcopy(model)
    for module in half.modules():
        if isinstance(module, nn.Linear):
            module.to(dtype)
    return half
