"""Scores are sacreBLEU's own, with the tokenizer that the target language needs."""

import logging
from unittest import mock

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from septuagint.errors import DataError
from septuagint.inference import scoring
from septuagint.inference.scoring import bleu_tokenizer, compare, count_matches, measure, score, score_counts

HYPOTHESES = ["The cat sat on the mat.", "There is a dog in the garden, isn't there?", ""]
REFERENCES = ["The cat sat on a mat.", "There's a dog in the garden, is there not?", "Nothing."]
# A text long enough for chance to have its say, and two translations of it, one with more mistakes than the other.
LONG_TEXT = [
    f"In the year {1900 + i} the {i % 7} houses, {i % 5} cats and {i % 3} dogs of the town were counted."
    for i in range(60)
]
SMALL_MISTAKES = [
    line.replace("cats", "cows") if i % 3 else line.replace(" of the town", "") for i, line in enumerate(LONG_TEXT)
]
BIG_MISTAKES = [line.replace("the", "a") if i % 2 else line[5:40] for i, line in enumerate(LONG_TEXT)]


def test_scores_equal_those_of_sacrebleu():
    result = score(HYPOTHESES, REFERENCES, "en")
    assert result.bleu == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert result.chrf == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert 0 < result.bleu < result.chrf < 100
    assert result.num_lines == 3


# Few letters, so that lines share n-grams and repeat them; spaces of several kinds, and what is not in the first plane.
LINES = st.text(st.sampled_from("aab. \t\u00a0\u3000ä漢字🎈\udc80"), max_size=30)


@pytest.mark.parametrize("language", ["de", "zh", "th"])
@given(pairs=st.lists(st.tuples(LINES, LINES), min_size=1, max_size=8))
def test_counts_are_those_of_sacrebleu(language, pairs):
    hypotheses, references = map(list, zip(*pairs, strict=True))
    with mock.patch.object(scoring, "_LINES_AT_A_TIME", 3):
        found = count_matches(hypotheses, references, language)
    for metric, counts in ((BLEU(tokenize=bleu_tokenizer(language)), found.bleu), (CHRF(), found.chrf)):
        of_lines = metric._extract_corpus_statistics(hypotheses, [references])
        assert counts == [sum(column) for column in zip(*of_lines, strict=True)]


def test_counts_of_parts_have_the_scores_of_all_their_lines():
    texts = [(SMALL_MISTAKES, LONG_TEXT), ([], []), (BIG_MISTAKES, LONG_TEXT)]
    parts = [count_matches(*text, "de") for text in texts]
    assert score_counts(parts, "de") == score(SMALL_MISTAKES + BIG_MISTAKES, LONG_TEXT * 2, "de")
    assert score_counts(parts[:2], "de") == score(*texts[0], "de")
    assert score_counts(parts, "de").bleu < score_counts(parts[:1], "de").bleu


def test_signatures_tell_how_the_scores_were_made():
    result = score(HYPOTHESES, REFERENCES, "de")
    assert result.bleu_signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    assert result.chrf_signature == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{sacrebleu.__version__}"


def test_text_equal_to_its_reference_scores_100():
    result = score(REFERENCES, REFERENCES, "en")
    assert (round(result.bleu, 6), round(result.chrf, 6)) == (100, 100)


@pytest.mark.parametrize(
    ("language", "reference"), [("zh", "我今天早上在公园里看见一只猫。"), ("th", "ฉันเห็นแมวในสวนเมื่อเช้านี้")]
)
def test_a_good_translation_into_a_language_without_spaces_is_not_worthless(language, reference):
    hypothesis = reference[:-1]
    assert score([hypothesis], [reference], "en").bleu < 1 < 50 < score([hypothesis], [reference], language).bleu


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [
        ("de", "13a"),
        ("pt-BR", "13a"),
        ("zh", "zh"),
        ("zh-TW", "zh"),
        ("zh_Hant", "zh"),
        ("zho_Hans", "zh"),
        ("th", "char"),
        ("lo", "char"),
        ("km", "char"),
        ("my", "char"),
        ("mya_Mymr", "char"),
        ("vi", "13a"),
    ],
)
def test_tokenizer_follows_the_target_language(language, tokenizer):
    assert bleu_tokenizer(language) == tokenizer


@pytest.mark.parametrize(("language", "tokenizer"), [("ja", "ja-mecab"), ("ko", "ko-mecab"), ("jpn_Jpan", "ja-mecab")])
def test_japanese_and_korean_are_cut_into_words_where_that_is_installed(language, tokenizer, monkeypatch):
    monkeypatch.setattr(scoring, "_are_installed", lambda *modules: True)
    assert bleu_tokenizer(language) == tokenizer
    monkeypatch.setattr(scoring, "_are_installed", lambda *modules: False)
    assert bleu_tokenizer(language) == "char"


def test_lines_must_be_there_and_be_as_many_as_references():
    with pytest.raises(DataError, match=r"2 translations but 3 references"):
        score(HYPOTHESES[:2], REFERENCES, "en")
    with pytest.raises(DataError, match="no lines"):
        score([], [], "en")


def test_measures_equal_those_of_sacrebleu_and_say_so_in_their_signatures():
    metrics = (BLEU(), CHRF(), TER())
    for metric, ours in zip(metrics, measure(SMALL_MISTAKES, LONG_TEXT, "en"), strict=True):
        theirs = metric.corpus_score(SMALL_MISTAKES, [LONG_TEXT], n_bootstrap=1000)
        assert (ours.name, ours.value) == (theirs.name, theirs.score)
        assert ours.signature == str(metric.get_signature())
        assert "|bs:1000|seed:12345|" in ours.signature
        # sacreBLEU sums in single precision, and says half the width of the interval.
        assert (ours.high - ours.low) / 2 == pytest.approx(theirs._ci, abs=1e-3)
        assert ours.low < ours.value < ours.high


def test_measures_do_not_change_from_call_to_call_whatever_the_environment(monkeypatch):
    first = measure(BIG_MISTAKES, LONG_TEXT, "en")
    monkeypatch.setenv("SACREBLEU_SEED", "none")
    assert measure(BIG_MISTAKES, LONG_TEXT, "en") == first


def test_an_interval_narrows_as_a_text_grows():
    short, long = (measure(SMALL_MISTAKES * n, LONG_TEXT * n, "en") for n in (1, 4))
    for metric, narrower in zip(short, long, strict=True):
        assert (narrower.high - narrower.low) / (metric.high - metric.low) == pytest.approx(1 / 2, rel=0.2)


def test_comparisons_equal_those_of_sacrebleu():
    good, bad = SMALL_MISTAKES[:20], [*BIG_MISTAKES[:2], *SMALL_MISTAKES[2:18], *BIG_MISTAKES[18:20]]
    references = LONG_TEXT[:20]
    metrics = {"BLEU": BLEU(), "chrF": CHRF(), "TER": TER()}
    signatures, results = PairedTest([("bad", bad), ("good", good)], metrics, [references], test_type="bs")()
    for comparison in compare(good, bad, references, "en"):
        baseline, system = results[comparison.name]
        assert (comparison.value, comparison.baseline) == (system.score, baseline.score)
        assert comparison.p_value == pytest.approx(system.p_value, abs=0.002)
        assert 0.002 < comparison.p_value < 0.5
        assert comparison.signature == str(signatures[comparison.name])


def test_fewer_mistakes_are_better_by_every_metric():
    for comparison in compare(SMALL_MISTAKES, BIG_MISTAKES, LONG_TEXT, "en"):
        assert comparison.is_better and comparison.p_value < 0.01
        assert (comparison.value < comparison.baseline) == (comparison.name == "TER")
    for comparison in compare(BIG_MISTAKES, SMALL_MISTAKES, LONG_TEXT, "en"):
        assert not comparison.is_better and comparison.p_value < 0.01


@pytest.mark.parametrize("hypotheses", [SMALL_MISTAKES, LONG_TEXT, [""] * len(LONG_TEXT)])
def test_a_translation_does_not_differ_from_itself(hypotheses):
    assert [(c.p_value, c.is_better) for c in compare(hypotheses, hypotheses, LONG_TEXT, "en")] == [(1, False)] * 3


def test_few_lines_prove_nothing():
    assert min(c.p_value for c in compare(SMALL_MISTAKES[:1], BIG_MISTAKES[:1], LONG_TEXT[:1], "en")) >= 0.5
    assert min(c.p_value for c in compare(SMALL_MISTAKES[:4], BIG_MISTAKES[:4], LONG_TEXT[:4], "en")) > 0.05


@pytest.mark.parametrize(
    ("hypotheses", "references", "values"),
    [(["", ""], ["A cat.", ""], (0, 0, 100)), (["A cat.", ""], ["", ""], (0, 0, 100)), ([""], [""], (0, 0, 0))],
)
def test_lines_may_be_empty(hypotheses, references, values):
    assert tuple(metric.value for metric in measure(hypotheses, references, "en")) == values
    assert all(comparison.p_value == 1 for comparison in compare(hypotheses, hypotheses, references, "en"))


def test_the_interval_of_one_line_is_its_value():
    for metric in measure(HYPOTHESES[:1], REFERENCES[:1], "en"):
        assert metric.low == metric.value == metric.high


def test_measuring_is_silent_even_of_tokenised_text(caplog, capfd):
    tokens = ["The cat sat ."] * 120
    with caplog.at_level(logging.INFO):
        measure(tokens, tokens, "en")
    assert (caplog.records, capfd.readouterr()) == ([], ("", ""))


@pytest.mark.parametrize("language", ["zh", "ja", "zho_Hans"])
def test_edits_of_chinese_and_japanese_are_of_characters(language):
    reference = "我今天早上在公园里看见一只猫。"
    ter = measure([reference[:-1]], [reference], language)[-1]
    assert ter.value == pytest.approx(100 / len(reference))
    assert "norm:yes" in ter.signature and "asian:yes" in ter.signature


def test_edits_of_words_are_not_counted_where_words_cannot_be_found():
    reference = "ฉันเห็นแมวในสวนเมื่อเช้านี้"
    assert [metric.name for metric in measure([reference], [reference], "th")] == ["BLEU", "chrF2"]


def shuffled_words(max_size: int, *, min_size: int = 0) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from("abcdefgh"), min_size=min_size, max_size=max_size)


def test_measuring_and_comparing_need_as_many_lines_as_references():
    with pytest.raises(DataError, match=r"2 translations but 3 references"):
        measure(HYPOTHESES[:2], REFERENCES, "en")
    with pytest.raises(DataError, match=r"2 translations of the baseline but 3 references"):
        compare(HYPOTHESES, HYPOTHESES[:2], REFERENCES, "en")
    with pytest.raises(DataError, match="no lines"):
        measure([], [], "en")
    with pytest.raises(DataError, match="no lines"):
        compare([], [], [], "en")
