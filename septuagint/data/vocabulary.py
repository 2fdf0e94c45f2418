"""The vocabulary: one SentencePiece model that cuts both languages into pieces, and puts pieces together again.

Ids are in Hugging Face's order, bos=0 pad=1 eos=2 unk=3, then the 256 bytes, then the pieces. A character without a
piece is written as its bytes, so nothing is ever unknown. SentencePiece's own normalisation is off: see `normaliser`.
"""

import contextlib
import io
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

from septuagint.config import VocabularyConfig
from septuagint.data.seeds import find_seeds
from septuagint.errors import DataError

BOS, PAD, EOS, UNK = 0, 1, 2, 3
# SentencePiece's result depends in its last digits on the number of threads, so it is the same on every machine.
_NUM_THREADS = 4
_SPACE = "\u2581"  # how SentencePiece writes a space; without it no space would come back


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainedVocabulary:
    """A new SentencePiece model, and a message where it is not as large as was asked for."""

    model: bytes
    message: str = ""


class Vocabulary:
    """An opened SentencePiece model. Text goes in and comes out as plain strings."""

    def __init__(self, model: bytes, *, name: str = "the vocabulary") -> None:
        self.model = model
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
            self.size = self._processor.get_piece_size()
        except RuntimeError:
            raise DataError(f"{name}: not a SentencePiece model, or a damaged one") from None
        if self.size == 0:
            raise DataError(f"{name}: not a SentencePiece model, or a damaged one")
        processor = self._processor
        ids = (processor.bos_id(), processor.pad_id(), processor.eos_id(), processor.unk_id())
        if ids != (BOS, PAD, EOS, UNK):
            raise DataError(
                f"{name}: its special ids are bos={ids[0]} pad={ids[1]} eos={ids[2]} unk={ids[3]}, but must be "
                f"bos={BOS} pad={PAD} eos={EOS} unk={UNK}; train it with these, or let `prepare` train one"
            )

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        """Reads a model from a file."""
        if path.exists() and not path.is_file():
            raise DataError(f"{path}: the vocabulary must be a file")
        try:
            return cls(path.read_bytes(), name=str(path))
        except OSError as error:
            raise DataError(f"{path}: the vocabulary cannot be read: {error.strerror}") from None

    def encode(self, lines: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """(ids of all lines end to end, each line closed by EOS; number of ids of each line)."""
        pieces: list[list[int]] = self._processor.encode(lines, out_type=int, add_eos=True, num_threads=1)
        lengths = np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces))
        ids = np.fromiter(chain.from_iterable(pieces), dtype=self.id_type, count=int(lengths.sum()))
        return ids, lengths

    def decode(self, ids: Iterable[int]) -> str:
        """The text of one line of ids. Special ids are left out."""
        text: str = self._processor.decode([int(i) for i in ids])
        return text

    def has_bytes(self, ids: Iterable[int]) -> bool:
        """Whether some of these ids are bytes of characters without a piece."""
        return any(self._processor.is_byte(int(i)) for i in ids)

    def encode_pieces(self, lines: list[str]) -> list[list[str]]:
        """The pieces of each line as text, without EOS."""
        # One by one: for a list SentencePiece starts a thread, which takes five times as long as a short line.
        return [self._processor.encode(line, out_type=str) for line in lines]

    def decode_pieces(self, pieces: list[str]) -> str:
        """The text of one line of pieces."""
        text: str = self._processor.decode_pieces(pieces)
        return text

    def pieces_of(self, ids: Iterable[int]) -> list[str]:
        """The pieces of one line of ids as text."""
        return [self._processor.id_to_piece(int(i)) for i in ids]

    @property
    def pieces(self) -> list[str]:
        """Every piece, in the order of the ids."""
        return [self._processor.id_to_piece(i) for i in range(self.size)]

    @property
    def is_lossless(self) -> bool:
        """Whether text comes back as it went in: no normalisation of its own, and bytes for what has no piece."""
        probe = "m² ﬁ \u2009½ 日本 ☃"
        return self.decode(self.encode([probe])[0]) == probe

    @property
    def id_type(self) -> np.dtype:
        """The smallest unsigned type that holds every id, little-endian on every machine."""
        return np.dtype("<u2") if self.size <= 1 << 16 else np.dtype("<u4")


def train_vocabulary(
    word_counts: Mapping[str, int], settings: VocabularyConfig, scratch: Path | None = None
) -> TrainedVocabulary:
    """Learns pieces from words and how often each occurs (pieces never reach across a space).

    Counted words instead of sentences: a quarter of the time and a tenth of the memory. `scratch` is a folder for a
    file that is gone at the end; the system's own when not given.
    """
    # A model says where its seeds stood: from within the folder that is the same for everyone.
    with tempfile.TemporaryDirectory(dir=scratch) as folder, contextlib.chdir(folder):
        options = {"input_format": "tsv"}
        if settings.type == "unigram":
            options["seed_sentencepieces_file"] = "seeds.tsv"
            with Path("seeds.tsv").open("w", encoding="utf-8") as file:
                file.writelines(f"{row}\n" for row in _rows(find_seeds(word_counts, _SPACE)))
        try:
            return TrainedVocabulary(model=_train(_rows(word_counts.items()), settings, settings.size, **options))
        except _TooLarge as error:
            size = error.largest
        message = f"vocabulary lowered to {size:,} pieces: the text cannot give {settings.size:,}"
        return TrainedVocabulary(model=_train(_rows(word_counts.items()), settings, size, **options), message=message)


def _rows(counted: Iterable[tuple[str, int]]) -> Iterator[str]:
    return (f"{text}\t{count}" for text, count in counted)


class _TooLarge(Exception):
    """The text gives no more than `largest` pieces."""

    def __init__(self, largest: int) -> None:
        super().__init__(largest)
        self.largest = largest


def _train(sentences: Iterator[str], settings: VocabularyConfig, size: int, **options: Any) -> bytes:
    written = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=sentences,
            model_writer=written,
            vocab_size=size,
            model_type=settings.type,
            character_coverage=settings.character_coverage,
            required_chars=_SPACE,
            byte_fallback=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            bos_id=BOS,
            pad_id=PAD,
            eos_id=EOS,
            unk_id=UNK,
            max_sentence_length=1 << 20,  # the default skips longer lines without a word
            num_threads=_NUM_THREADS,
            minloglevel=2,
            **options,
        )
    except RuntimeError as error:
        if match := re.search(r"Vocabulary size too high .*<= (\d+)", str(error)):
            raise _TooLarge(int(match[1])) from None
        if match := re.search(r"smaller than required_chars\D*\d+ vs (\d+)", str(error)):
            raise DataError(
                f"vocabulary.size = {size} is too small: the text's characters and the 256 bytes alone take "
                f"{int(match[1]):,}; raise it, or lower vocabulary.character_coverage"
            ) from None
        raise DataError(f"SentencePiece cannot make a vocabulary of this text: {error}") from None
    return written.getvalue()
