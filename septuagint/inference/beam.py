"""Beam search: the likeliest translations that a few hypotheses at a time can find, for many sentences at once.

It follows CTranslate2's rules, so that a checkpoint and its artifact say the same. The score of a hypothesis is the sum
of its pieces' log-probabilities divided by their number ** length_penalty, EOS counted like any other piece. Of the
2 W likeliest continuations of all beams, those among the first W that end become hypotheses, and the first W that do
not end go on. A sentence is finished when it has W hypotheses, or with a length penalty of 0 when the likeliest
continuation ended. It never translates to nothing: EOS cannot come first.

B sentences, W beams of a sentence, C candidates (2 W), F finished hypotheses, T steps, V vocabulary, R = B * W.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from septuagint.data.vocabulary import EOS
from septuagint.inference.length_batches import batches_of_similar_length
from septuagint.model.attention import choose_backend, make_relation
from septuagint.model.transformer import DecodingState, Transformer

# A translation is never longer than this: so many times the source and a few pieces more, and never without end.
MAX_LENGTH_RATIO = 2.0
MAX_LENGTH_EXTRA = 10
MAX_LENGTH = 1024
# Source tokens that are translated side by side, the few more counted in, for each of the beams: it decides the memory.
_BATCH_TOKENS = {"cpu": 4096, "cuda": 32_768}
# Room for so many tokens at first; doubled when it is used up.
_FIRST_ROOM = 32
# The vocabulary is looked through in chunks for the largest numbers: see `_largest`.
_CHUNK = 128
# More than any vocabulary has pieces.
_MAX_IDS = 1 << 24


@dataclass(frozen=True, kw_only=True, slots=True)
class Hypothesis:
    """A translation without EOS, and its score: a mean of log-probabilities where the length penalty is 1."""

    ids: list[int]
    score: float


def length_limit(source_length: int) -> int:
    """The most pieces that a translation of so many pieces may have; a longer one is cut off there."""
    return min(int(source_length * MAX_LENGTH_RATIO) + MAX_LENGTH_EXTRA, MAX_LENGTH)


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
    advance: Callable[[int], None] = lambda num_sentences: None,
) -> list[list[Hypothesis]]:
    """The best hypotheses for each source, in their order, the best first. The sources end with EOS, as in shards.

    `advance` is told how many sentences were finished, after each batch; what it raises ends the work.
    """
    assert 1 <= num_hypotheses <= beam_size
    model.eval()
    device = next(model.parameters()).device
    rules = Rules(beam_size=beam_size, num_hypotheses=num_hypotheses, length_penalty=length_penalty)
    results: list[list[Hypothesis]] = [[] for _ in sources]
    longest = max((len(source) for source in sources), default=0)
    model.grow_positions(positions_needed(longest))
    decoder = model if dtype == torch.float32 else _in_half_precision(model, dtype)
    with torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32):
        for rows in batches_of_similar_length(
            [len(source) + MAX_LENGTH_EXTRA for source in sources], _BATCH_TOKENS[device.type] // beam_size
        ):
            search = _start(decoder, [sources[row] for row in rows], rules, dtype)
            for row, hypotheses in zip(rows, _run(decoder, search, rules), strict=True):
                results[row] = hypotheses
            advance(len(rows))
    return results


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What is searched for."""

    beam_size: int
    num_hypotheses: int
    length_penalty: float


@dataclass(kw_only=True, slots=True)
class Search:
    """A batch of sentences half translated, with what each beam is and every hypothesis so far. Changed in place."""

    state: DecodingState
    limits_B: Tensor
    ids_BW: Tensor
    scores_BW: Tensor
    tokens_TBW: Tensor  # what each beam got at each step,
    parents_TBW: Tensor  # and which beam of the step before it goes on from
    is_done_B: Tensor
    is_top_finished_B: Tensor
    num_finished_B: Tensor
    finished_scores_BW: Tensor  # the best hypotheses so far,
    finished_ends_BW: Tensor  # and the step, beam and token with which each ended: see `_pack_ends`

    def select(self, rows: Tensor) -> None:
        """Goes on with these sentences only."""
        self.state.select(rows)
        for field in fields(self):
            if field.name in ("tokens_TBW", "parents_TBW"):
                setattr(self, field.name, getattr(self, field.name)[:, rows])
            elif field.name != "state":
                setattr(self, field.name, getattr(self, field.name)[rows])

    def grow(self, room: int) -> None:
        """Makes room for more steps."""
        more = room - self.state.room
        self.state.grow(room)
        self.tokens_TBW = F.pad(self.tokens_TBW, (0, 0, 0, 0, 0, more))
        self.parents_TBW = F.pad(self.parents_TBW, (0, 0, 0, 0, 0, more))


def _run(model: Transformer, search: Search, rules: Rules) -> list[list[Hypothesis]]:
    """All hypotheses of a batch, by steps that grow with the translations and leave out finished sentences."""
    results: list[list[Hypothesis]] = [[] for _ in range(len(search.limits_B))]
    active = np.arange(len(results))  # the sentence that each row of the search belongs to
    step = 0
    while True:
        if step == search.state.room:
            search.grow(2 * search.state.room)
        step += 1
        _make_step(model, search, rules, step)
        is_done = search.is_done_B.cpu().numpy()
        if is_done.sum() * 2 < len(is_done):
            continue
        # Half of the work is for nothing: leave it.
        for row, hypotheses in enumerate(_read_hypotheses(search, rules)):
            if is_done[row]:
                results[active[row]] = hypotheses
        if is_done.all():
            return results
        active = active[~is_done]
        search.select(torch.from_numpy(np.flatnonzero(~is_done)).to(search.is_done_B.device))


def _start(model: Transformer, sources: list[np.ndarray], rules: Rules, dtype: torch.dtype) -> Search:
    """The sources are read; nothing is written yet."""
    device = next(model.parameters()).device
    lengths_B = torch.tensor([len(source) for source in sources])
    offsets = F.pad(lengths_B.cumsum(0), (1, 0)).int().to(device)
    longest = int(lengths_B.max())
    head_width = model.config.width // model.config.num_heads
    relation = make_relation(offsets, offsets, choose_backend(device, dtype, head_width), longest)
    ids_S = torch.from_numpy(np.concatenate(sources).astype(np.int64)).to(device)
    state = model.start_decoding(
        model.encode(ids_S, offsets, relation), lengths_B.to(device), num_beams=rules.beam_size, room=_FIRST_ROOM
    )
    return _new_search(state, [length_limit(length) for length in lengths_B.tolist()], rules)


def _new_search(state: DecodingState, limits: list[int], rules: Rules) -> Search:
    device, num_sentences, num_beams = state.step.device, len(limits), rules.beam_size
    scores_BW = torch.full((num_sentences, num_beams), -torch.inf, device=device)
    scores_BW[:, 0] = 0.0  # all beams are still the same one
    return Search(
        state=state,
        limits_B=torch.tensor(limits, device=device),
        ids_BW=torch.full((num_sentences, num_beams), EOS, device=device),
        scores_BW=scores_BW,
        tokens_TBW=torch.zeros(state.room, num_sentences, num_beams, dtype=torch.int64, device=device),
        parents_TBW=torch.zeros(state.room, num_sentences, num_beams, dtype=torch.int64, device=device),
        is_done_B=torch.zeros(num_sentences, dtype=torch.bool, device=device),
        is_top_finished_B=torch.zeros(num_sentences, dtype=torch.bool, device=device),
        num_finished_B=torch.zeros(num_sentences, dtype=torch.int64, device=device),
        finished_scores_BW=torch.full((num_sentences, num_beams), -torch.inf, device=device),
        finished_ends_BW=torch.zeros(num_sentences, num_beams, dtype=torch.int64, device=device),
    )


def _make_step(model: Transformer, search: Search, rules: Rules, length: int) -> None:
    """One more piece for every beam. Nothing here waits for a number from the device."""
    state, step = search.state, search.state.step.clone()
    hidden_BWD = model.decode_next(search.ids_BW, state, length)
    scores_BC, ids_BC, beams_BC = _candidates(model, hidden_BWD, search.scores_BW, step)
    ends_BC = ids_BC == EOS
    _keep_finished(search, rules, step, scores_BC, ids_BC, beams_BC, ends_BC)
    # A beam has one EOS, so W of the candidates do not end; they stand in the order of their scores.
    going_on_BW = ends_BC.to(torch.int8).argsort(dim=1, stable=True)[:, : rules.beam_size]
    search.scores_BW.copy_(scores_BC.gather(1, going_on_BW))
    search.ids_BW.copy_(ids_BC.gather(1, going_on_BW))
    parents_BW = beams_BC.gather(1, going_on_BW)
    search.tokens_TBW.index_copy_(0, step.view(1), search.ids_BW[None])
    search.parents_TBW.index_copy_(0, step.view(1), parents_BW[None])
    state.follow(parents_BW)


def _candidates(
    model: Transformer, hidden_BWD: Tensor, scores_BW: Tensor, step: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(scores, ids, beams) of the 2 W likeliest continuations of each sentence, the likeliest first."""
    num_beams = scores_BW.shape[1]
    logits_RV = _logits(model, hidden_BWD.flatten(0, 1))
    logits_RV[:, EOS].masked_fill_(step == 0, -torch.inf)
    values_RC, ids_RC = _largest(logits_RV, 2 * num_beams)
    log_probs_RC = values_RC - logits_RV.logsumexp(-1, keepdim=True)
    all_scores = (log_probs_RC + scores_BW.view(-1, 1)).view(len(scores_BW), -1)
    scores_BC, places_BC = all_scores.topk(2 * num_beams)
    ids_BC = ids_RC.view(len(scores_BW), -1).gather(1, places_BC)
    return scores_BC, ids_BC, places_BC // (2 * num_beams)


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


def _keep_finished(
    search: Search, rules: Rules, step: Tensor, scores_BC: Tensor, ids_BC: Tensor, beams_BC: Tensor, ends_BC: Tensor
) -> None:
    """Notes the hypotheses that end here, and which sentences are done with that."""
    num_beams = rules.beam_size
    is_last_B = step + 1 >= search.limits_B
    ends_BW = ends_BC[:, :num_beams]
    finishes_BW = (ends_BW | is_last_B[:, None]) & ~search.is_done_B[:, None]
    scores_BW = scores_BC[:, :num_beams] / (step + 1).float() ** rules.length_penalty
    new_BW = torch.where(finishes_BW, scores_BW, -torch.inf)
    new_ends_BW = _pack_ends(step, beams_BC[:, :num_beams], ids_BC[:, :num_beams], num_beams)
    best_BW, places_BW = torch.cat([search.finished_scores_BW, new_BW], dim=1).topk(num_beams)
    all_ends = torch.cat([search.finished_ends_BW, new_ends_BW], dim=1)
    search.finished_scores_BW.copy_(best_BW)
    search.finished_ends_BW.copy_(all_ends.gather(1, places_BW))
    search.num_finished_B += finishes_BW.sum(1)
    search.is_top_finished_B |= finishes_BW[:, 0]
    if rules.length_penalty == 0:
        has_enough_B = search.is_top_finished_B & (search.num_finished_B >= rules.num_hypotheses)
    else:
        has_enough_B = search.num_finished_B >= num_beams
    search.is_done_B |= is_last_B | has_enough_B


def _pack_ends(step: Tensor, beams: Tensor, ids: Tensor, num_beams: int) -> Tensor:
    """Step, beam and token in one number."""
    return (step * num_beams + beams) * _MAX_IDS + ids


def _read_hypotheses(search: Search, rules: Rules) -> list[list[Hypothesis]]:
    """The best hypotheses of each sentence, put together from the last piece to the first."""
    tokens_TBW, parents_TBW = search.tokens_TBW.cpu().numpy(), search.parents_TBW.cpu().numpy()
    scores_BN = search.finished_scores_BW[:, : rules.num_hypotheses].cpu().numpy()
    packed_BN, last_BN = np.divmod(search.finished_ends_BW[:, : rules.num_hypotheses].cpu().numpy(), _MAX_IDS)
    steps_BN, beams_BN = np.divmod(packed_BN, rules.beam_size)
    ids_BNT = np.zeros((*steps_BN.shape, len(tokens_TBW) + 1), np.int64)
    np.put_along_axis(ids_BNT, steps_BN[..., None], last_BN[..., None], axis=2)
    for step in range(int(steps_BN.max()) - 1, -1, -1):
        is_within = step < steps_BN
        ids_BNT[..., step] = np.where(is_within, np.take_along_axis(tokens_TBW[step], beams_BN, 1), ids_BNT[..., step])
        beams_BN = np.where(is_within, np.take_along_axis(parents_TBW[step], beams_BN, 1), beams_BN)
    lengths_BN = steps_BN + (last_BN != EOS)
    return [
        [
            Hypothesis(ids=ids[:length].tolist(), score=float(score))
            for ids, length, score in zip(ids_NT, lengths, scores, strict=True)
            if np.isfinite(score)
        ]
        or [Hypothesis(ids=[], score=-np.inf)]  # weights that are not finite say nothing
        for ids_NT, lengths, scores in zip(ids_BNT, lengths_BN, scores_BN, strict=True)
    ]


def _in_half_precision(model: Transformer, dtype: torch.dtype) -> Transformer:
    """A copy whose layers are in half precision already: autocast alone would convert them at every step."""
    half = copy.deepcopy(model)
    for module in half.modules():
        if isinstance(module, nn.Linear):
            module.to(dtype)
    return half
