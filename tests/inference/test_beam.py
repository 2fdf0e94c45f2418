"""Beam search: what plain recomputation finds, in any company, in order, and never without end."""

import math

import numpy as np
import pytest
import torch

from septuagint.data.vocabulary import EOS
from septuagint.inference import beam
from septuagint.inference.beam import translate_ids
from septuagint.inference.search import Hypothesis, length_limit
from septuagint.model.attention import make_layout
from tests.model.conftest import pack, random_pairs, small_model


def next_log_probs(model, source, target):
    """Of all pieces after a target, without a cache: the whole target is read anew."""
    batch = pack([(source, np.array([*target, EOS]))])
    logits = model.logits(model(batch, make_layout(batch, "padded", 512))[-1])
    if not target:
        logits[EOS] = -torch.inf  # a sentence has a translation
    return logits.log_softmax(-1).tolist()


@torch.no_grad()
def search_plainly(model, source, *, beam_size, num_hypotheses=1, length_penalty=1.0):
    """The rules in the words of the module, one sentence and one hypothesis at a time."""
    beams, finished, limit, has_top_ended = [([], 0.0)], [], length_limit(len(source)), False
    for step in range(limit):
        candidates = sorted(
            (
                (score + log_prob, ids, piece)
                for ids, score in beams
                for piece, log_prob in enumerate(next_log_probs(model, source, ids))
            ),
            key=lambda candidate: -candidate[0],
        )[: 2 * beam_size]
        for rank, (score, ids, piece) in enumerate(candidates[:beam_size]):
            if piece == EOS or step + 1 == limit:
                ended = ids if piece == EOS else [*ids, piece]
                finished.append(Hypothesis(ids=ended, score=score / (step + 1) ** length_penalty))
                has_top_ended |= rank == 0
        is_enough = len(finished) >= beam_size
        if length_penalty == 0:
            is_enough = has_top_ended and len(finished) >= num_hypotheses
        if is_enough:
            break
        beams = [([*ids, piece], score) for score, ids, piece in candidates if piece != EOS][:beam_size]
    return sorted(finished, key=lambda hypothesis: -hypothesis.score)[:num_hypotheses]


def restless_model(preset="modern"):
    """Weights so large that what it says changes all the time, and ends here and there."""
    model = small_model(preset, seed=6)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2 and not name.startswith("embeddings"):
                parameter *= 3
    return model


def sources_of(*lengths):
    return [source for source, _ in random_pairs([(length, 1) for length in lengths])]


def assert_same(found, expected):
    assert [[h.ids for h in hypotheses] for hypotheses in found] == [[h.ids for h in e] for e in expected]
    for hypotheses, others in zip(found, expected, strict=True):
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in others], abs=1e-4)


@pytest.mark.parametrize("preset", ["base", "modern"])
@pytest.mark.parametrize(
    ("beam_size", "num_hypotheses", "length_penalty"), [(1, 1, 1.0), (4, 4, 1.0), (3, 2, 0.6), (4, 2, 0.0), (1, 1, 0.0)]
)
def test_batched_search_with_a_cache_equals_recomputation_one_by_one(
    monkeypatch, preset, beam_size, num_hypotheses, length_penalty
):
    monkeypatch.setitem(beam._BATCH_TOKENS, "cpu", 60 * beam_size)
    model = restless_model(preset)
    rules = {"beam_size": beam_size, "num_hypotheses": num_hypotheses, "length_penalty": length_penalty}
    sources = sources_of(3, 12, 1, 7, 12, 5, 2, 9)
    found = translate_ids(model, sources, **rules)
    assert_same(found, [search_plainly(model, source, **rules) for source in sources])
    assert len({len(hypotheses[0].ids) for hypotheses in found}) > 2  # some end early, so batches shrink


def test_one_beam_is_greedy():
    model = restless_model()
    for source in sources_of(3, 8, 15):
        greedy: list[int] = []
        while len(greedy) < length_limit(len(source)):
            with torch.no_grad():
                piece = int(np.argmax(next_log_probs(model, source, greedy)))
            if piece == EOS:
                break
            greedy.append(piece)
        assert [h.ids for h in translate_ids(model, [source])[0]] == [greedy]


def test_more_beams_find_likelier_translations():
    model = restless_model()
    sources = sources_of(*range(3, 15))
    scores = [
        sum(hypotheses[0].score for hypotheses in translate_ids(model, sources, beam_size=beam_size))
        for beam_size in (1, 8)
    ]
    assert scores[1] > scores[0]


def test_a_model_that_never_ends_is_stopped_by_the_length_of_its_source():
    model = small_model()
    with torch.no_grad():
        model.embeddings.weight[EOS] = -100 * model.embeddings.weight[EOS].abs()
        model.decoder_norm.bias.fill_(1.0)
    found = translate_ids(model, sources_of(4, 20), beam_size=3, num_hypotheses=3)
    assert [[len(h.ids) for h in hypotheses] for hypotheses in found] == [[18] * 3, [50] * 3]


def test_a_model_that_ends_at_once_still_says_something():
    model = small_model()
    with torch.no_grad():
        model.embeddings.weight[EOS] = 100 * model.embeddings.weight[EOS].abs()
        model.decoder_norm.bias.fill_(1.0)
    (hypotheses,) = translate_ids(model, sources_of(4), beam_size=2, num_hypotheses=2)
    assert [len(h.ids) for h in hypotheses] == [1, 1]


@pytest.mark.parametrize("num_columns", [300, 40 * 128, 40 * 128 + 77])
def test_the_largest_numbers_are_found_in_a_long_vocabulary(num_columns):
    scores = torch.randn(50, num_columns)
    scores[3, :8] = 100.0 + torch.arange(8)  # all in one chunk
    scores[4, -3:] = 50.0 + torch.arange(3)
    values, columns = beam._largest(scores, 8)
    expected = scores.topk(8)
    assert torch.equal(values, expected.values)
    assert torch.equal(columns, expected.indices)


def test_progress_is_told_and_can_break_it_off():
    model, sources = small_model(), sources_of(*[4] * 10)
    told: list[int] = []
    translate_ids(model, sources, advance=told.append)
    assert sum(told) == 10

    class Enough(Exception):
        pass

    def refuse(num_sentences):
        raise Enough

    with pytest.raises(Enough):
        translate_ids(model, sources, advance=refuse)


def test_no_sentences_are_no_work():
    assert translate_ids(small_model(), []) == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.filterwarnings("ignore")  # torch's compiler has many
@pytest.mark.parametrize("preset", ["base", "modern"])
def test_a_gpu_finds_what_the_cpu_finds(preset):
    model, sources = restless_model(preset), sources_of(*range(1, 61))
    expected = translate_ids(model, sources, beam_size=4, num_hypotheses=2)
    model.cuda()
    assert_same(translate_ids(model, sources, beam_size=4, num_hypotheses=2), expected)
    in_half = translate_ids(model, sources, beam_size=4, num_hypotheses=2, dtype=torch.bfloat16)
    assert [len(hypotheses) for hypotheses in in_half] == [2] * len(sources)


def test_scores_are_mean_log_probabilities():
    model = restless_model()
    (source,) = sources_of(6)
    (hypothesis,) = translate_ids(model, [source], beam_size=4)[0]
    ids = [*hypothesis.ids, EOS]
    with torch.no_grad():
        total = sum(next_log_probs(model, source, ids[:place])[piece] for place, piece in enumerate(ids))
    assert hypothesis.score == pytest.approx(total / len(ids), abs=1e-4)
    assert not math.isclose(hypothesis.score, 0)
