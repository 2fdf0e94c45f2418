"""Translations as text, also where they spell wrongly.

A character without a piece of its own is spelled in bytes. A network that never saw it in training (an emoji, say) may
write bytes that are no character, U+FFFD, which stands for one, or another character whose bytes begin alike (a Chinese
one, say). As such characters mostly stand for themselves in any language, those of the source are put in their place.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np

from septuagint.data.scripts import foreign_letter
from septuagint.data.vocabulary import Vocabulary

_BYTE = re.compile("<0x[0-9A-F]{2}>")
_NO_CHARACTER = "\ufffd"


def decode_ids(
    vocabulary: Vocabulary,
    ids: Iterable[int],
    source_ids: Sequence[int] | np.ndarray,
    languages: tuple[str, str],
) -> str:
    """The text of a translation, given what it is one of; `languages` are the source's and its own."""
    text = vocabulary.decode(ids)
    if _NO_CHARACTER not in text and not vocabulary.has_bytes(source_ids):
        return text
    return decode_pieces(vocabulary, vocabulary.pieces_of(ids), vocabulary.pieces_of(source_ids), languages)


def decode_pieces(
    vocabulary: Vocabulary, pieces: list[str], source_pieces: list[str], languages: tuple[str, str]
) -> str:
    """The same, from pieces."""
    text = vocabulary.decode_pieces(pieces)
    if _NO_CHARACTER not in text and not any(map(_BYTE.fullmatch, source_pieces)):
        return text
    return vocabulary.decode_pieces(mend_spelling(pieces, source_pieces, languages))


def mend_spelling(pieces: Sequence[str], source_pieces: Sequence[str], languages: tuple[str, str]) -> list[str]:
    """The pieces of a translation, all of them text.

    Bytes side by side that are none become those of the source that the translation does not have yet, from left to
    right. Where no more are left, they are left out. Whole characters that the source does not have give way, too, but
    not letters of their language, which may be the translation, and not to letters that are written in the source's
    language alone, which had to be translated.
    """
    source_language, language = languages

    def stands_for_itself(run: list[str]) -> bool:
        return _has_letter(run, language) or not _has_letter(run, source_language)

    of_source = [run for is_spelled, run in _runs(source_pieces) if is_spelled]
    spelled = [run for is_spelled, run in _runs(pieces) if is_spelled]
    missing = [run for run in of_source if run not in spelled]
    mended: list[str] = []
    for is_spelled, run in _runs(pieces):
        if not is_spelled or run in of_source:
            mended += run
            continue
        is_broken = _NO_CHARACTER in _text(run)
        if is_broken:
            choices = missing
        elif _has_letter(run, language):
            choices = []
        else:
            choices = [other for other in missing if stands_for_itself(other)]
        if choices:
            chosen = choices[0]
            missing.remove(chosen)
            mended += chosen
        elif not is_broken:
            mended += run
    return mended


def _runs(pieces: Sequence[str]) -> Iterator[tuple[bool, list[str]]]:
    """Bytes that stand side by side, and what stands between them."""
    for is_spelled, run in groupby(pieces, key=lambda piece: _BYTE.fullmatch(piece) is not None):
        yield is_spelled, list(run)


def _text(run: Sequence[str]) -> str:
    return bytes(int(piece[3:5], 16) for piece in run).decode(errors="replace")


def _has_letter(run: Sequence[str], language: str) -> bool:
    """Whether one of these is a letter that the language is written with; any letter, where that is not known."""
    foreign = foreign_letter(language)
    return any(letter.isalpha() and (foreign is None or not foreign.match(letter)) for letter in _text(run))
