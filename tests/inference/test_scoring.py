"""Scores are sacreBLEU's own, with the tokenizer that the target language needs."""

import pytest
import sacrebleu

from septuagint.errors import DataError
from septuagint.inference import scoring
from septuagint.inference.scoring import bleu_tokenizer, score

HYPOTHESES = ["The cat sat on the mat.", "There is a dog in the garden, isn't there?", ""]
REFERENCES = ["The cat sat on a mat.", "There's a dog in the garden, is there not?", "Nothing."]


def test_scores_equal_those_of_sacrebleu():
    result = score(HYPOTHESES, REFERENCES, "en")
    assert result.bleu == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert result.chrf == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert 0 < result.bleu < result.chrf < 100
    assert result.num_lines == 3


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
