"""What a beam search has found so far, and the rules by which it goes on.

They are CTranslate2's, so that a checkpoint and its artifact say the same. The score of a hypothesis is the sum
of its pieces' log-probabilities divided by their number ** length_penalty, EOS counted like any other piece. Of the
2 W likeliest continuations of all beams, those among the first W that end become hypotheses, and the first W that do
not end go on. A sentence is finished when it has W hypotheses, or with a length penalty of 0 when the likeliest
continuation ended. It never translates to nothing: EOS cannot come first.

B sentences, W beams of a sentence, C candidates (2 W), T steps, V vocabulary, R = B * W.
"""

import math
from dataclasses import dataclass, fields

import torch
from torch import Tensor
from torch.nn import functional as F

from septuagint.data.vocabulary import EOS

# A translation is never longer than this: so many times the source and a few pieces more, and never without end.
MAX_LENGTH_RATIO = 2.0
MAX_LENGTH_EXTRA = 10
MAX_LENGTH = 1024
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What is searched for."""

    beam_size: int
    num_hypotheses: int
    length_penalty: float


@dataclass(kw_only=True, slots=True)
class Search:
    """A batch of sentences half translated: what each beam is, and every hypothesis so far. Changed in place."""

    limits_B: Tensor
    ids_BW: Tensor
    scores_BW: Tensor
    tokens_BTW: Tensor  # what each beam got at each step,
    parents_BTW: Tensor  # and which beam of the step before it goes on from
    is_done_B: Tensor
    is_top_finished_B: Tensor
    num_finished_B: Tensor
    finished_scores_BW: Tensor  # the best hypotheses so far,
    finished_ends_BW: Tensor  # and the step, beam and token with which each ended: see `_pack_ends`

    @classmethod
    def begin(cls, limits_B: Tensor, *, num_beams: int, room: int) -> "Search":
        """Nothing is written yet; there is room for so many steps."""
        num_sentences, device = len(limits_B), limits_B.device
        scores_BW = torch.full((num_sentences, num_beams), -torch.inf, device=device)
        scores_BW[:, 0] = 0.0  # all beams are still the same one
        steps_BTW = torch.zeros(num_sentences, room, num_beams, dtype=torch.int32, device=device)
        return cls(
            limits_B=limits_B,
            ids_BW=torch.full((num_sentences, num_beams), EOS, device=device),
            scores_BW=scores_BW,
            tokens_BTW=steps_BTW,
            parents_BTW=steps_BTW.clone(),
            is_done_B=torch.zeros(num_sentences, dtype=torch.bool, device=device),
            is_top_finished_B=torch.zeros(num_sentences, dtype=torch.bool, device=device),
            num_finished_B=torch.zeros(num_sentences, dtype=torch.int64, device=device),
            finished_scores_BW=torch.full((num_sentences, num_beams), -torch.inf, device=device),
            finished_ends_BW=torch.zeros(num_sentences, num_beams, dtype=torch.int64, device=device),
        )

    def select(self, rows: Tensor | slice) -> "Search":
        """These sentences only, in this order."""
        return Search(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def put(self, rows: Tensor, search: "Search") -> None:
        """Makes these rows the sentences of another search. In place."""
        for field in fields(self):
            getattr(self, field.name).index_copy_(0, rows, getattr(search, field.name))

    def restart(self, is_new_B: Tensor, limits_B: Tensor) -> None:
        """Begins anew, with other sentences, in some of the rows. In place."""
        fresh = Search.begin(limits_B, num_beams=self.ids_BW.shape[1], room=0)
        for field in fields(self):
            old, new = getattr(self, field.name), getattr(fresh, field.name)
            if old.ndim < 3:  # what was written step by step will be overwritten
                old.copy_(torch.where(is_new_B if old.ndim == 1 else is_new_B[:, None], new, old))

    def grow(self, room: int) -> None:
        """Makes room for more steps."""
        more = room - self.tokens_BTW.shape[1]
        self.tokens_BTW = F.pad(self.tokens_BTW, (0, 0, 0, more))
        self.parents_BTW = F.pad(self.parents_BTW, (0, 0, 0, more))


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidates:
    """The 2 W likeliest continuations of each sentence, the likeliest first: a score, a piece, and the beam before."""

    scores_BC: Tensor
    ids_BC: Tensor
    beams_BC: Tensor


def best_continuations(scores_BW: Tensor, log_probs_RN: Tensor, ids_RN: Tensor) -> Candidates:
    """Of all beams of a sentence, each with the N pieces that may come next."""
    num_sentences, num_beams = scores_BW.shape
    all_scores = (log_probs_RN + scores_BW.view(-1, 1)).view(num_sentences, -1)
    scores, places = all_scores.sort(descending=True, stable=True)  # of so few, not slower than a choice of the best
    places_BC = places[:, : 2 * num_beams]
    return Candidates(
        scores_BC=scores[:, : 2 * num_beams],
        ids_BC=ids_RN.view(num_sentences, -1).gather(1, places_BC),
        beams_BC=places_BC // ids_RN.shape[1],
    )


def go_on(search: Search, rules: Rules, steps_B: Tensor, candidates: Candidates) -> Tensor:
    """Every beam gets its next piece; the beams (B, W) that they go on from. Waits for nothing from the device."""
    ends_BC = candidates.ids_BC == EOS
    _keep_finished(search, rules, steps_B, candidates, ends_BC)
    # A beam has one EOS, so W of the candidates do not end; they stand in the order of their scores.
    going_on_BW = ends_BC.to(torch.int8).argsort(dim=1, stable=True)[:, : rules.beam_size]
    parents_BW = candidates.beams_BC.gather(1, going_on_BW)
    search.scores_BW.copy_(candidates.scores_BC.gather(1, going_on_BW))
    search.ids_BW.copy_(candidates.ids_BC.gather(1, going_on_BW))
    places_B1W = steps_B.view(-1, 1, 1).expand(-1, 1, rules.beam_size)
    search.tokens_BTW.scatter_(1, places_B1W, search.ids_BW[:, None].int())
    search.parents_BTW.scatter_(1, places_B1W, parents_BW[:, None].int())
    return parents_BW


def _keep_finished(search: Search, rules: Rules, steps_B: Tensor, candidates: Candidates, ends_BC: Tensor) -> None:
    """Notes the hypotheses that end here, and which sentences are done with that."""
    num_beams = rules.beam_size
    is_last_B = steps_B + 1 >= search.limits_B
    finishes_BW = (ends_BC[:, :num_beams] | is_last_B[:, None]) & ~search.is_done_B[:, None]
    scores_BW = candidates.scores_BC[:, :num_beams] / (steps_B[:, None] + 1).float() ** rules.length_penalty
    new_BW = torch.where(finishes_BW, scores_BW, -torch.inf)
    new_ends_BW = _pack_ends(steps_B, candidates.beams_BC[:, :num_beams], candidates.ids_BC[:, :num_beams])
    best, places = torch.cat([search.finished_scores_BW, new_BW], dim=1).sort(descending=True, stable=True)
    all_ends = torch.cat([search.finished_ends_BW, new_ends_BW], dim=1)
    search.finished_scores_BW.copy_(best[:, :num_beams])
    search.finished_ends_BW.copy_(all_ends.gather(1, places[:, :num_beams]))
    search.num_finished_B.add_(finishes_BW.sum(1))
    search.is_top_finished_B.logical_or_(finishes_BW[:, 0])
    if rules.length_penalty == 0:
        has_enough_B = search.is_top_finished_B & (search.num_finished_B >= rules.num_hypotheses)
    else:
        has_enough_B = search.num_finished_B >= num_beams
    search.is_done_B.logical_or_(is_last_B | has_enough_B)


def _pack_ends(steps_B: Tensor, beams_BW: Tensor, ids_BW: Tensor) -> Tensor:
    """Step, beam and token in one number."""
    return (steps_B[:, None] * beams_BW.shape[1] + beams_BW) * _MAX_IDS + ids_BW


def read_hypotheses(search: Search, rules: Rules) -> list[list[Hypothesis]]:
    """The best hypotheses of each sentence, put together from the last piece to the first."""
    ends_BN = search.finished_ends_BW[:, : rules.num_hypotheses]
    last_BN, packed_BN = (ends_BN % _MAX_IDS).int(), ends_BN // _MAX_IDS
    beams_BN, steps_BN = packed_BN % rules.beam_size, packed_BN // rules.beam_size
    room = int(steps_BN.max()) + 1
    ids_BNT = last_BN.new_zeros(*last_BN.shape, room).scatter_(2, steps_BN[..., None], last_BN[..., None])
    for step in range(room - 2, -1, -1):
        is_within_BN = step < steps_BN
        tokens_BN = search.tokens_BTW[:, step].gather(1, beams_BN)
        ids_BNT[..., step] = torch.where(is_within_BN, tokens_BN, ids_BNT[..., step])
        parents_BN = search.parents_BTW[:, step].gather(1, beams_BN).long()
        beams_BN = torch.where(is_within_BN, parents_BN, beams_BN)
    lengths_BN = steps_BN + (last_BN != EOS)
    scores_BN = search.finished_scores_BW[:, : rules.num_hypotheses]
    return [
        [
            Hypothesis(ids=ids[:length].tolist(), score=score)
            for ids, length, score in zip(ids_NT, lengths, scores, strict=True)
            if math.isfinite(score)
        ]
        or [Hypothesis(ids=[], score=-math.inf)]  # weights that are not finite say nothing
        for ids_NT, lengths, scores in zip(ids_BNT.cpu().numpy(), lengths_BN.tolist(), scores_BN.tolist(), strict=True)
    ]
