"""Cuts a line that is too long for a model into parts that are not, and puts their translations together again.

A line is cut at the ends of sentences; a sentence that is still too long after a clause, else at a space, and at last
between two characters. Nothing is lost: separators and texts, end to end, are the line.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from septuagint.data.scripts import UNSPACED, has_spaces

# Stops that mean nothing else, in scripts that often leave out the space after them.
_PLAIN_STOPS = "。！？｡؟।॥።។៕။‼⁇⁈⁉"
# These also stand in numbers, abbreviations and names: they end a sentence only where the next one can be seen.
_STOPS = ".!?…۔։"
_PLAIN_CLAUSE_MARKS = "，、；：､၊"
_CLAUSE_MARKS = ",;:–—،؛፣፤፥།՝"
_CLOSERS = "\"'”’»›“‘)\\]}）」』》〉】〕｣"
_OPENERS = "\"'“‘„‚«‹»›([{¿¡（「『《〈【〔｢-–—•"

_SENTENCE_END = re.compile(f"[{_STOPS}{_PLAIN_STOPS}]+[{_CLOSERS}]*")
_CLAUSE_END = re.compile(f"[{_CLAUSE_MARKS}][{_CLOSERS}]*(?= )|[{_PLAIN_CLAUSE_MARKS}—][{_CLOSERS}]*")
_PLAIN_END = re.compile(f"[{_PLAIN_STOPS}{_PLAIN_CLAUSE_MARKS}][{_CLOSERS}]*$")

# Only those that a capital letter often follows: before a small letter no sentence ends anyway. A wrong cut costs
# little, for only lines that are too long are cut; hence the list is short, and "etc" and "Inc" are not on it.
_ABBREVIATIONS = frozenset(
    "Mr Mrs Ms Dr Dra Prof Profa St Ste Sr Sra Sras Srta Ud Uds Hr Hrn Fr Frl MM Mme Mlle Sig Sigra Dott Avv dhr mevr "
    "drs Rev Hon Gen Col Capt Lt Sgt Gov Sen Rep Dipl Ing Lic Exmo Jan Feb Aug Sep Sept Oct Nov Dec No Nos Nr nr Núm "
    "núm Art art Abs Bd Vol vol Fig fig Figs Abb Tab Kap cap pp pág págs blz Tel tel Str Av Avda vs cf ca approx ex "
    "bzw vgl ggf sog bspw bijv inkl evtl resp Mio Mrd".split()
)
_LONGEST_ABBREVIATION = 12
_DOTTED_LETTERS = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}")  # "e.g", "z.B", "p.ex", "U.S"

_FIRST_GUESS = 256  # characters; the search for what fits goes on from what fitted before
_LONGEST_CLUSTER = 32  # marks upon one letter that we step back over before we cut between them


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """A part of a line. The separator stood before it in the line: one space, or nothing."""

    text: str
    separator: str


def split_text(text: str, is_short_enough: Callable[[str], bool]) -> list[Segment]:
    """The text itself if it is short enough, else its sentences, and parts of those that are still too long.

    Every segment is short enough, but for a single character that is not. Texts of at most some twenty times the
    text's length are given to `is_short_enough`, in all.
    """
    if is_short_enough(text):
        return [Segment(separator="", text=text)]
    segments = []
    cut = 0
    for end in _part_ends(text, is_short_enough):
        start = _after_space(text, cut)
        segments.append(Segment(separator=text[cut:start], text=text[start:end]))
        cut = end
    return segments


def join_translations(segments: Sequence[Segment], translations: Sequence[str], target_language: str) -> str:
    """One line of the segments' translations, in their order. Languages that write no spaces get none."""
    target_has_spaces = has_spaces(target_language)
    line = ""
    before = None
    for segment, translation in zip(segments, translations, strict=True):
        if line and translation and target_has_spaces and before and _were_words_apart(before, segment):
            line += " "
        line += translation
        before = segment
    return line


def _were_words_apart(before: Segment, segment: Segment) -> bool:
    """Whether the source was cut between words. Scripts without spaces are, as far as a reader of others can tell."""
    if segment.separator:
        return True
    return bool(UNSPACED.match(before.text[-1:]) or UNSPACED.match(segment.text[:1]) or _PLAIN_END.search(before.text))


def _part_ends(text: str, is_short_enough: Callable[[str], bool]) -> Iterator[int]:
    start = 0
    for end in _sentence_ends(text):
        if not is_short_enough(text[start:end]):
            yield from _cuts_within(text, start, end, is_short_enough)
        yield end
        start = _after_space(text, end)


def _after_space(text: str, cut: int) -> int:
    """Where the next part begins: a space at the cut is its separator, unless nothing comes after."""
    return cut + 1 if 0 < cut < len(text) - 1 and text[cut] == " " else cut


def _sentence_ends(text: str) -> Iterator[int]:
    for match in _SENTENCE_END.finditer(text):
        if _ends_sentence(text, match):
            yield match.end()
    yield len(text)


def _ends_sentence(text: str, match: re.Match[str]) -> bool:
    marks, end = match[0], match.end()
    has_space = text[end : end + 1] == " "
    following = text[end + has_space : end + has_space + 1]
    if not _can_begin_sentence(following):
        return False
    if not has_space:
        return any(mark in _PLAIN_STOPS for mark in marks)
    return marks != "." or not _is_abbreviation(_word_before(text, match.start()), following)


def _can_begin_sentence(character: str) -> bool:
    # Letters of scripts without case, Georgian ones too, are their own title case.
    return character != "" and (character in _OPENERS or (character.isalnum() and character == character.title()))


def _word_before(text: str, end: int) -> str:
    start = max(0, end - _LONGEST_ABBREVIATION)
    return text[start:end].rpartition(" ")[2].lstrip(_OPENERS)


def _is_abbreviation(word: str, following: str) -> bool:
    """Whether the dot belongs to the word: abbreviations, initials, and ordinal numbers as Germans write them."""
    if word.isdecimal():
        return len(word) <= 2 and following.isalpha()
    is_initial = len(word) == 1 and word.isalpha()
    return is_initial or word in _ABBREVIATIONS or _DOTTED_LETTERS.fullmatch(word) is not None


def _cuts_within(text: str, start: int, end: int, is_short_enough: Callable[[str], bool]) -> Iterator[int]:
    """Where to cut a sentence that is too long, so that each part is as large as fits."""
    guess = _FIRST_GUESS
    while (size := _fitting_size(text, start, end, guess, is_short_enough)) < end - start:
        guess = size
        # A start of what fits can be too long itself, for it may need more pieces: so what we cut is tested, too.
        while (cut := _best_cut(text, start, start + size)) > start + 1 and not is_short_enough(text[start:cut]):
            size = (cut - start) // 2
        yield cut
        start = _after_space(text, cut)


def _fitting_size(text: str, start: int, end: int, guess: int, is_short_enough: Callable[[str], bool]) -> int:
    """How many characters fit, at least 1. Found to a sixteenth: what that leaves out is not worth more tests."""
    fitting, size = 0, min(guess, end - start)
    while is_short_enough(text[start : start + size]):
        if size == end - start:
            return size
        fitting, size = size, min(size + size // 4 + 1, end - start)
    too_long = size
    while too_long - fitting > max(1, fitting // 16):
        size = (fitting + too_long) // 2
        if is_short_enough(text[start : start + size]):
            fitting = size
        else:
            too_long = size
    return max(fitting, 1)


def _best_cut(text: str, start: int, limit: int) -> int:
    """The last good place for a cut in start + 1 to limit: after a clause, else at a space, else between characters."""
    clause_ends = [match.end() for match in _CLAUSE_END.finditer(text, start, limit + 1)]  # + 1: it looks ahead
    while clause_ends and clause_ends[-1] > limit:
        clause_ends.pop()
    if clause_ends:
        return clause_ends[-1]
    space = text.rfind(" ", start + 1, limit + 1)
    if space > 0:
        return space
    cut = limit
    while cut > max(start, limit - _LONGEST_CLUSTER) and _is_inside_cluster(text, start, cut):
        cut -= 1
    return limit if cut == start or _is_inside_cluster(text, start, cut) else cut


def _is_inside_cluster(text: str, start: int, position: int) -> bool:
    """Whether what a reader takes for one character is on both sides of a position: an accent, a flag, a conjunct."""
    before, after = text[position - 1], text[position]
    return (
        unicodedata.category(after)[0] == "M"
        or before == "\u200d"  # zero-width joiner
        or after in "\u200c\u200d\u0e33\u0eb3"  # joiners, and vowels of Thai and Lao that are part of their consonant
        or unicodedata.combining(before) == 9  # virama: it joins the consonants on its sides
        or "\u1160" <= after <= "\u11ff"  # second and third parts of a Hangul syllable
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= after <= "\U000e007f"  # tags of regional flags
        or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
        or (_is_regional(after) and _num_regional_before(text, start, position) % 2 == 1)
    )


def _is_regional(character: str) -> bool:
    """Two of these letters make a flag."""
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _num_regional_before(text: str, start: int, position: int) -> int:
    first = position
    while first > start and _is_regional(text[first - 1]):
        first -= 1
    return position - first
