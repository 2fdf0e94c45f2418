"""Greedy decoding: the same answer in any company, in order, and never without end."""

import numpy as np
import torch

from septuagint.data.vocabulary import EOS
from septuagint.inference import greedy
from septuagint.inference.greedy import MAX_LENGTH_EXTRA, MAX_LENGTH_RATIO, translate_greedily
from septuagint.model.attention import make_layout
from tests.model.conftest import pack, random_pairs, small_model


def by_recomputation(model, source):
    """Translates one sentence without a cache: the whole target is read anew for each piece."""
    target = [EOS]
    limit = int(len(source) * MAX_LENGTH_RATIO) + MAX_LENGTH_EXTRA
    while len(target) <= limit:
        batch = pack([(source, np.array([*target[1:], EOS]))])
        hidden = model(batch, make_layout(batch, "padded", 512))
        piece = int(model.logits(hidden[-1]).argmax())
        if piece == EOS:
            break
        target.append(piece)
    return target[1:]


def restless_model():
    """Weights so large that what it says changes all the time, and ends here and there."""
    model = small_model("modern", seed=6)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2 and not name.startswith("embeddings"):
                parameter *= 3
    return model


def test_batched_decoding_with_a_cache_equals_recomputation_one_by_one(monkeypatch):
    monkeypatch.setitem(greedy._BATCH_TOKENS, "cpu", 60)
    model = restless_model()
    sources = [source for source, _ in random_pairs([(3, 1), (12, 1), (1, 1), (7, 1), (12, 1), (5, 1), (2, 1), (9, 1)])]
    translations = translate_greedily(model, sources)
    expected = [by_recomputation(model, source) for source in sources]
    assert translations == expected
    assert len({len(translation) for translation in translations}) > 2  # some end early, so batches shrink


def test_a_model_that_never_ends_is_stopped_by_the_length_of_its_source():
    model = small_model()
    with torch.no_grad():
        model.embeddings.weight[EOS] = -100 * model.embeddings.weight[EOS].abs()
        model.decoder_norm.bias.fill_(1.0)
    sources = [source for source, _ in random_pairs([(4, 1), (20, 1)])]
    lengths = [len(translation) for translation in translate_greedily(model, sources)]
    assert lengths == [18, 50]


def test_progress_is_told_and_can_break_it_off():
    model = small_model()
    sources = [source for source, _ in random_pairs([(4, 1)] * 10)]
    told = []
    translate_greedily(model, sources, advance=told.append)
    assert sum(told) == 10

    class Enough(Exception):
        pass

    def refuse(num_sentences):
        raise Enough

    try:
        translate_greedily(model, sources, advance=refuse)
    except Enough:
        return
    raise AssertionError("it went on")


def test_no_sentences_are_no_work():
    assert translate_greedily(small_model(), []) == []
