"""Whether lines are text as people write it: scores of anything else compare with nobody's."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from septuagint.data.scripts import UNSPACED

# BPE's "@@ " and SentencePiece's sign for a space.
_PIECE = re.compile(r"@@(?=\s|$)|\u2581")
# A full stop or a comma by itself, which no language writes: French has its space before ? ! : and ; only, and " ...",
# " .5" and " .NET" have something behind the stop. Then what tokenizers make of "well-known" and of "don't".
_TOKEN = re.compile(r"\s[.,。、，．](?=\s|$)|\s@\S@\s|\w n['’]t\b")
_ENTITY = re.compile(r"&(?:[A-Za-z][a-z]{1,7}|#\d+|#[xX][0-9A-Fa-f]+);")
_GAP = re.compile(rf"(?<={UNSPACED.pattern})\s(?={UNSPACED.pattern})")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Oddity:
    is_in: Callable[[str], bool]
    least_share: float
    """Of the lines that are not empty. Of real text, fewer than 0.7% are odd in any way; of tokenised text, most."""
    verdict: str
    advice: str


def find_oddities(lines: Sequence[str], what: str) -> list[str]:
    """Warnings, for a person, that lines look tokenised, cut into subword pieces, or escaped for HTML.

    `what` names the text ("references in test.de"). Empty where the text looks like text; a single odd line is not
    worth a warning.
    """
    num_lines = sum(bool(line.strip()) for line in lines)
    warnings = []
    for oddity in _ODDITIES:
        odd = [line for line in lines if oddity.is_in(line)]
        if len(odd) > 1 and len(odd) >= oddity.least_share * num_lines:
            counts = f"{len(odd):,} of {num_lines:,} lines"
            warnings.append(f'{what}: {counts} {oddity.verdict}, such as "{_shorten(odd[0])}"; {oddity.advice}')
    return warnings


def find_blanks(lines: Sequence[str], others: Sequence[str], what: str) -> list[str]:
    """A warning that lines are empty where those of the other side are not, if some are."""
    blank = [
        number
        for number, (line, other) in enumerate(zip(lines, others, strict=True), start=1)
        if other.strip() and not line.strip()
    ]
    if not blank:
        return []
    counts = f"{len(blank):,} of {len(lines):,} lines"
    return [
        f"{what}: {counts} are empty where the other side is not, line {blank[0]:,} first; whatever becomes of them "
        "counts as wrong. Remove them on both sides"
    ]


def _has_pieces(line: str) -> bool:
    return _PIECE.search(line) is not None


def _has_tokens(line: str) -> bool:
    # Joined, SentencePiece's pieces are text again: they are warned of once.
    return "\u2581" not in line and (_TOKEN.search(line) is not None or _has_many_gaps(line))


def _has_many_gaps(line: str) -> bool:
    """Whether a line of Chinese, Japanese or Thai is cut into words: these write spaces between clauses, if at all."""
    num_gaps = len(_GAP.findall(line))
    return num_gaps > 1 and 6 * num_gaps >= len(UNSPACED.findall(line))


def _has_entities(line: str) -> bool:
    return _ENTITY.search(line) is not None


def _shorten(line: str) -> str:
    line = line.strip()
    return line if len(line) <= 60 else f"{line[:60].rstrip()}…"


_ODDITIES = (
    _Oddity(
        is_in=_has_pieces,
        least_share=0.01,
        verdict="look like subword pieces",
        advice="scores of pieces are not comparable with scores of text. Join them first: `spm_decode` for "
        "SentencePiece, `sed -E 's/@@( |$)//g'` for BPE",
    ),
    _Oddity(
        is_in=_has_tokens,
        least_share=0.05,
        verdict="look tokenised",
        advice="BLEU finds the words itself, and BLEU of tokenised text is not comparable with other people's. "
        "Detokenise first, for example with `sacremoses -l LANGUAGE detokenize`; in Chinese and Japanese, remove the "
        "spaces",
    ),
    _Oddity(
        is_in=_has_entities,
        least_share=0.01,
        verdict="have HTML entities",
        advice="a translation that writes the characters themselves counts as wrong, and scores are not comparable "
        "with those of plain text. Unescape them first, for example with Python's `html.unescape`",
    ),
)
