"""Translations as text, also where they spell wrongly.

A character without a piece of its own is spelled in bytes. A network that never saw it in training (an emoji, say) may
write bytes that are no character, U+FFFD, which stands for one, or another character whose bytes begin alike (a Chinese
one, say). As such characters mostly stand for themselves in any language, those of the source are put in their place.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np

from septuagint.data.scripts import foreign_letter
from septuagint.data.vocabulary import Vocabulary

_BYTE = re.compile("<0x[0-9A-F]{2}>")
_NO_CHARACTER = "\ufffd"


def decode_ids(
    vocabulary: Vocabulary, ids: Iterable[int], source_ids: Sequence[int] | np.ndarray, language: str
) -> str:
    """The text of a translation into a language, given what it is one of."""
    text = vocabulary.decode(ids)
    if _NO_CHARACTER not in text and not vocabulary.has_bytes(source_ids):
        return text
    return decode_pieces(vocabulary, vocabulary.pieces_of(ids), vocabulary.pieces_of(source_ids), language)


def decode_pieces(vocabulary: Vocabulary, pieces: list[str], source_pieces: list[str], language: str) -> str:
    """The same, from pieces."""
    text = vocabulary.decode_pieces(pieces)
    if _NO_CHARACTER not in text and not any(map(_BYTE.fullmatch, source_pieces)):
        return text
    return vocabulary.decode_pieces(mend_spelling(pieces, source_pieces, language))


def mend_spelling(pieces: Sequence[str], source_pieces: Sequence[str], language: str) -> list[str]:
    """The pieces of a translation, all of them text.

    Bytes side by side that are none become those of the source that the translation does not have yet, from left to
    right. Where no more are left, they are left out. As long as some are left, characters that the source does not have
    give way to them, too, but for letters that the language is written with: these may be the translation.
    """
    of_source = [run for is_spelled, run in _runs(source_pieces) if is_spelled]
    spelled = [run for is_spelled, run in _runs(pieces) if is_spelled]
    missing = deque(run for run in of_source if run not in spelled)
    foreign = foreign_letter(language)
    mended: list[str] = []
    for is_spelled, run in _runs(pieces):
        if not is_spelled or run in of_source:
            mended += run
            continue
        text = _text(run)
        is_own = any(letter.isalpha() and (foreign is None or not foreign.match(letter)) for letter in text)
        if _NO_CHARACTER not in text and (is_own or not missing):
            mended += run
        elif missing:
            mended += missing.popleft()
    return mended


def _runs(pieces: Sequence[str]) -> Iterator[tuple[bool, list[str]]]:
    """Bytes that stand side by side, and what stands between them."""
    for is_spelled, run in groupby(pieces, key=lambda piece: _BYTE.fullmatch(piece) is not None):
        yield is_spelled, list(run)


def _text(run: Sequence[str]) -> str:
    return bytes(int(piece[3:5], 16) for piece in run).decode(errors="replace")
