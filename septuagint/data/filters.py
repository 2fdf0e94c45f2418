"""Which pairs are fit to train on: each filter has a name, and the first that objects names the reason.

The filters look at normalised text, each pair for itself. `duplicate` and `too_many_pieces` need more than that (the
rest of the corpus, the vocabulary) and come later; FILTERS lists all reasons in the order in which they are tried.
"""

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from septuagint.config import FilterConfig
from septuagint.data.scripts import UNSPACED, foreign_letter, is_plain_latin, length_in_letters, script_share
from septuagint.errors import UserError

FILTERS = {
    "malformed": "not two columns, or not a JSON object with two texts",
    "invalid_utf8": "a side is not valid UTF-8",
    "empty": "a side is empty",
    "too_long": "a side has too many characters",
    "too_short": "a side has too few characters",
    "length_ratio": "one side is far longer than the other",
    "copied_source": "both sides are the same text",
    "long_word": "a word is longer than words are",
    "wrong_script": "a side is not in its language's script",
    "numbers_differ": "the sides have different numbers",
    "urls_differ": "the sides have different addresses",
    "wrong_language": "a side is in another language",
    "overlap": "a side stands in validation or test text",
    "duplicate": "the same pair stood before",
    "too_many_pieces": "a side has too many pieces",
}

# Short sentences differ more in length than long ones do: "Ja." and "Yes, it is." must pass.
_RATIO_ALLOWANCE = 12

# Names, numbers and short answers cannot be told apart by language; nor can close relatives, by a narrow margin.
_MIN_IDENTIFIABLE_CHARACTERS = 20
_MIN_IDENTIFICATION_MARGIN = 0.5

_NUMBER = re.compile(r"\d{1,3}(?:[.,'’ ]\d{3})+(?!\d)|\d+")
_NOT_DIGIT = re.compile(r"\D+")
_URL = re.compile(r"(?:https?://|www\.)[^\s<>\"“”„)\u3000-\u303f\uff00-\uffef]+|[\w.+-]+@[\w-]+\.[\w.-]+\w")

# Marks are part of the word: without its vowel signs, Hindi "boy" is "girl".
_MARKS = "".join(chr(code) for code in range(0x300, 0x2000) if unicodedata.category(chr(code)).startswith("M"))
_NOISE = re.compile(rf"(?:[^\w{_MARKS}]|_)+")
_NOT_PLAIN = bytes(byte for byte in range(256) if not (chr(byte).isascii() and chr(byte).isalnum()) and byte != 10)
_LOWER = bytes(range(256)).lower()

Reason = str | None
Flags = npt.NDArray[np.bool_]  # one answer a pair


class Column:
    """The sentences of one side of many pairs, with what several filters want to know of all of them."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.num_characters = np.fromiter(map(len, lines), np.int64, len(lines))
        self._joined = "\n".join([*lines, ""]).encode()
        # Lower-case ASCII letters and digits alone: equal for sentences that differ in case or punctuation only.
        self.plain_keys = self._joined.translate(_LOWER, _NOT_PLAIN).split(b"\n")[:-1]

    @functools.cached_property
    def is_wide(self) -> Flags:
        """Which lines have characters beyond Latin-1. Most lines of most corpora have none."""
        return np.array([not is_plain_latin(line) for line in self.lines], bool)

    def may_have_word_over(self, limit: int) -> Flags:
        """Which lines have more bytes than `limit` without a space between them."""
        content = np.frombuffer(self._joined, np.uint8)
        ends = np.flatnonzero(content <= ord(" "))  # only spaces and line feeds are so low in normalised text
        starts_of_long = ends[1:][np.diff(ends) > limit + 1]
        if len(ends) and ends[0] > limit:
            starts_of_long = np.append(starts_of_long, ends[0])
        line_ends = ends[content[ends] == ord("\n")]
        answers = np.zeros(len(self.lines), bool)
        answers[np.searchsorted(line_ends, starts_of_long)] = True
        return answers

    def ask(self, question: Callable[[str], bool], of: Flags) -> Flags:
        """Asks a costly question of some lines; the answer for the others is no."""
        answers = np.zeros(len(self.lines), bool)
        for position in np.flatnonzero(of):
            answers[position] = question(self.lines[position])
        return answers


class EvaluationText:
    """The sentences of all validation and test sets, to ask which training sentences are among them."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        self._keys = frozenset(keys) - {b""}
        # Nearly all sentences are told apart by their plain letters alone, which is ten times faster.
        self._plain_keys = frozenset(key.translate(_LOWER, _NOT_PLAIN) for key in self._keys)

    def holds(self, column: Column) -> Flags:
        """Which lines stand in validation or test text, but for case, spaces and punctuation."""
        if not self._keys:
            return np.zeros(len(column.lines), bool)
        is_similar = np.array([key in self._plain_keys for key in column.plain_keys], bool)
        return column.ask(lambda line: overlap_key(line) in self._keys, is_similar)


class PairFilter:
    """Names the reason why a pair is not fit to train on. Works on whole columns of sentences: a corpus is long."""

    def __init__(
        self, settings: FilterConfig, source_language: str, target_language: str, evaluation_text: EvaluationText
    ) -> None:
        languages = (source_language, target_language)
        self._settings = settings
        self._foreign = tuple(foreign_letter(language) for language in languages)
        self._are_in_languages = _language_identifier(languages) if settings.language else None
        self._evaluation_text = evaluation_text

    def reasons(self, sources: list[str], targets: list[str]) -> list[Reason]:
        """For each normalised pair, the name of the first filter that drops it, or None."""
        reasons: list[Reason] = [None] * len(sources)
        is_kept = np.ones(len(sources), bool)
        for name, is_dropped in self._objections(Column(sources), Column(targets)):
            for position in np.flatnonzero(is_dropped & is_kept):
                reasons[position] = name
            is_kept &= ~is_dropped
        return reasons

    def _objections(self, source: Column, target: Column) -> Iterator[tuple[str, Flags]]:
        settings = self._settings
        shorter = np.minimum(source.num_characters, target.num_characters)
        longer = np.maximum(source.num_characters, target.num_characters)
        yield "empty", shorter == 0
        yield "too_long", longer > settings.max_characters
        yield "too_short", shorter < settings.min_characters
        if settings.max_length_ratio:
            yield "length_ratio", length_ratio(source, target) > settings.max_length_ratio
        if settings.copied_source:
            yield "copied_source", _are_copies(source, target)
        if limit := settings.max_word_characters:
            yield "long_word", _has_long_word(source, limit) | _has_long_word(target, limit)
        if settings.min_script_share:
            yield "wrong_script", self._is_wrong_script(source, 0) | self._is_wrong_script(target, 1)
        if settings.numbers:
            yield "numbers_differ", _differ(_numbers, source, target)
        if settings.urls:
            yield "urls_differ", _differ(_urls, source, target)
        if self._are_in_languages is not None:
            pairs = zip(source.lines, target.lines, strict=True)
            yield "wrong_language", np.array([not self._are_in_languages(*pair) for pair in pairs], bool)
        yield "overlap", self._evaluation_text.holds(source) | self._evaluation_text.holds(target)

    def _is_wrong_script(self, column: Column, side: int) -> Flags:
        foreign, min_share = self._foreign[side], self._settings.min_script_share
        if foreign is None:
            return np.zeros(len(column.lines), bool)
        # A language with another script than Latin must look at every line: "plain" is foreign there.
        of = column.is_wide if foreign.search("a") is None else np.ones(len(column.lines), bool)
        return column.ask(lambda line: script_share(line, foreign) < min_share, of)


def length_ratio(source: Column, target: Column) -> npt.NDArray[np.float64]:
    """How many times longer the longer side is, in letters (see `length_in_letters`), with an allowance."""
    lengths = np.array([_num_letters(source), _num_letters(target)]) + _RATIO_ALLOWANCE
    return np.asarray(lengths.max(axis=0) / lengths.min(axis=0))


def overlap_key(text: str) -> bytes:
    """Equal for texts that differ only in case, white space and punctuation. Empty text has the empty key.

    A text of nothing but punctuation is its own key: it must not match every other such text.
    """
    # The Turkish capital İ alone has a plain letter in its small form that it had not itself; see `Column.plain_keys`.
    return _NOISE.sub("", text.replace("İ", "ı").lower()).encode() or text.encode()


def _num_letters(column: Column) -> npt.NDArray[np.int64]:
    lengths = column.num_characters.copy()
    for position in np.flatnonzero(column.is_wide):
        lengths[position] = length_in_letters(column.lines[position])
    return lengths


def _are_copies(source: Column, target: Column) -> Flags:
    keys = zip(source.plain_keys, target.plain_keys, strict=True)
    answers = np.array([source_key == target_key for source_key, target_key in keys], bool)
    for position in np.flatnonzero(answers):
        answers[position] = source.lines[position].casefold() == target.lines[position].casefold()
    return answers


def _has_long_word(column: Column, limit: int) -> Flags:
    """Scripts without spaces have no words to measure."""

    def has_long_word(line: str) -> bool:
        return any(len(word) > limit and not UNSPACED.search(word) for word in line.split(" "))

    return column.ask(has_long_word, column.may_have_word_over(limit))


def _differ(feature: Callable[[str], list[str]], source: Column, target: Column) -> Flags:
    pairs = zip(source.lines, target.lines, strict=True)
    return np.array([feature(a) != feature(b) for a, b in pairs], bool)


def _numbers(text: str) -> list[str]:
    """The numbers in digits, sorted, without thousands separators: 1,000 and 1.000 are the same number."""
    return sorted(_NOT_DIGIT.sub("", number) for number in _NUMBER.findall(text))


def _urls(text: str) -> list[str]:
    return sorted(url.rstrip(".,;:!?").casefold() for url in _URL.findall(text))


def _language_identifier(languages: tuple[str, str]) -> Callable[[str, str], bool]:
    """A function that says whether both sides are in their languages; it passes text that cannot be judged."""
    try:
        import heliport
    except ModuleNotFoundError:
        raise UserError(
            "filters.language needs the package heliport; install it with: pip install 'septuagint[corpora]'"
        ) from None
    expected = tuple(_three_letter_codes(language) for language in languages)
    identifier: Any = heliport.Identifier()

    def are_in_languages(source: str, target: str) -> bool:
        for text, codes in zip((source, target), expected, strict=True):
            if len(text) < _MIN_IDENTIFIABLE_CHARACTERS:
                continue
            found, margin = identifier.identify_with_score(text)
            if margin >= _MIN_IDENTIFICATION_MARGIN and found not in codes and found not in ("und", "zxx"):
                return False
        return True

    return are_in_languages


def _three_letter_codes(language: str) -> tuple[str, ...]:
    """The codes that the identifier gives to a language: some of ours are several of its."""
    code = re.split("[-_]", language)[0]
    if len(code) == 3:
        return (code,)
    for entry in _IDENTIFIER_CODES.split():
        short, _, codes = entry.partition(":")
        if short == code:
            return tuple(codes.split(","))
    raise UserError(f"filters.language cannot identify {language!r}; set filters.language = false")


_IDENTIFIER_CODES = (
    "af:afr am:amh ar:ara,arz as:asm az:aze,azj ba:bak be:bel bg:bul bn:ben bo:bod br:bre bs:hbs,bos ca:cat cs:ces "
    "cv:chv cy:cym da:dan de:deu el:ell en:eng eo:epo es:spa et:est,ekk eu:eus fa:fas,pes,prs fi:fin fo:fao fr:fra "
    "fy:fry ga:gle gd:gla gl:glg gn:grn,gug gu:guj ha:hau he:heb hi:hin hr:hbs,hrv ht:hat hu:hun hy:hye id:ind,zsm,msa "
    "ig:ibo is:isl it:ita ja:jpn jv:jav ka:kat kk:kaz km:khm kn:kan ko:kor ku:kmr,ckb,kur ky:kir la:lat lb:ltz lo:lao "
    "lt:lit lv:lav,lvs mg:mlg,plt mi:mri mk:mkd ml:mal mn:mon,khk mr:mar ms:zsm,msa,ind mt:mlt my:mya nb:nob,nno,nor "
    "ne:nep,npi nl:nld nn:nno,nob,nor no:nob,nno,nor ny:nya oc:oci om:orm,gaz or:ori,ory pa:pan,pnb pl:pol ps:pus,pbt "
    "pt:por qu:que,quy ro:ron ru:rus rw:kin sd:snd si:sin sk:slk sl:slv sm:smo sn:sna so:som sq:sqi,als sr:hbs,srp "
    "st:sot su:sun sv:swe sw:swa,swh ta:tam te:tel tg:tgk th:tha ti:tir tk:tuk tl:tgl,fil tn:tsn tr:tur ts:tso tt:tat "
    "ug:uig uk:ukr ur:urd uz:uzb,uzn vi:vie wo:wol xh:xho yi:yid,ydd yo:yor zh:zho,cmn,yue,wuu,lzh zu:zul"
)
