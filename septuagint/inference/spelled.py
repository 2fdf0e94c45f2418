"""Translations as text, also where they spell wrongly.

A character without a piece of its own is spelled in bytes. A network that never saw it in training (an emoji, say) may
write bytes that are no character, or U+FFFD, which stands for one. As such characters mostly stand for themselves in
any language, those of the source are put in their place.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from septuagint.data.vocabulary import Vocabulary

_BYTE = re.compile("<0x[0-9A-F]{2}>")
_NO_CHARACTER = "\ufffd"


def decode_ids(vocabulary: Vocabulary, ids: Iterable[int], source_ids: Iterable[int]) -> str:
    """The text of a translation, given what it is one of."""
    text = vocabulary.decode(ids)
    if _NO_CHARACTER not in text:
        return text
    return decode_pieces(vocabulary, vocabulary.pieces_of(ids), vocabulary.pieces_of(source_ids))


def decode_pieces(vocabulary: Vocabulary, pieces: list[str], source_pieces: list[str]) -> str:
    """The same, from pieces."""
    text = vocabulary.decode_pieces(pieces)
    if _NO_CHARACTER not in text:
        return text
    return vocabulary.decode_pieces(mend_spelling(pieces, source_pieces))


def mend_spelling(pieces: Sequence[str], source_pieces: Sequence[str]) -> list[str]:
    """The pieces of a translation, all of them text.

    Bytes side by side that are none become those of the source that the translation does not have yet, from left to
    right. Where no more are left, they are left out.
    """
    of_source = [run for is_spelled, run in _runs(source_pieces) if is_spelled]

    def is_right(run: list[str]) -> bool:
        return run in of_source or _NO_CHARACTER not in _text(run)

    spelled = [run for is_spelled, run in _runs(pieces) if is_spelled]
    missing = iter([run for run in of_source if run not in spelled])
    mended: list[str] = []
    for is_spelled, run in _runs(pieces):
        mended += run if not is_spelled or is_right(run) else next(missing, [])
    return mended


def _runs(pieces: Sequence[str]) -> Iterator[tuple[bool, list[str]]]:
    """Bytes that stand side by side, and what stands between them."""
    for is_spelled, run in groupby(pieces, key=lambda piece: _BYTE.fullmatch(piece) is not None):
        yield is_spelled, list(run)


def _text(run: Sequence[str]) -> str:
    return bytes(int(piece[3:5], 16) for piece in run).decode(errors="replace")
