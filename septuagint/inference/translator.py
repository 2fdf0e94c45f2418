"""The translator: an opened artifact, lines of text in, one translation for each line out.

A line is normalised and cut into pieces; a line that is too long is cut into sentences first, and their translations
are joined again. Sentences of similar length are translated side by side by CTranslate2, on all cores. Whatever a line
holds, its translation is one line, and a line without text has an empty one.
"""

import contextlib
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ctranslate2

from septuagint.data.normaliser import normalise
from septuagint.errors import ArtifactError, UserError
from septuagint.inference.artifact import MODEL, Artifact
from septuagint.inference.length_batches import batches_of_similar_length
from septuagint.inference.segmenter import Segment, join_translations, split_text
from septuagint.inference.spelled import decode_pieces
from septuagint.machine import available_cores, has_wide_byte_products

MAX_BEAM_SIZE = 32
# Pieces that CTranslate2 gets at a time, padding counted in. More are hardly faster, and less evenly spread over cores.
BATCH_PIECES = {"cpu": 1024, "cuda": 8192}
# With a vocabulary map: the pieces of fewer sentences are fewer.
_BATCH_PIECES_WITH_MAP = {"cpu": 512, "cuda": 8192}
_POLL_SECONDS = 0.001
# Text this much shorter than a limit of pieces cannot exceed it, as no character has more than four byte pieces.
_MAX_PIECES_PER_CHARACTER = 4
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Hypothesis:
    """A translation, and the mean log-probability of its pieces (for other length penalties than 1, their score)."""

    text: str
    score: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Translation:
    """What a line came to: its hypotheses, the best first."""

    hypotheses: tuple[Hypothesis, ...]
    num_pieces: int
    """Of the best one, EOS included."""

    @property
    def text(self) -> str:
        return self.hypotheses[0].text


_EMPTY = Hypothesis(text="", score=0.0)


class Translator:
    """Opens an artifact for use in a `with` block, which gives its memory back at the end."""

    def __init__(self, artifact: Artifact, *, device: str = "auto", num_threads: int | None = None) -> None:
        """Each core translates batches of its own. `auto` is a GPU, if there is one that CTranslate2 can use."""
        self.manifest = artifact.manifest
        if self.manifest.kind != "ctranslate2":
            raise ArtifactError(
                f"{artifact.folder}: exported as {self.manifest.kind}, for other programs; to translate here, export "
                "the run as ctranslate2"
            )
        self._vocabulary = artifact.vocabulary
        self.device = _choose_device(device)
        num_threads = num_threads or available_cores()
        if self.device == "cuda":
            try:
                self._engine = open_engine(artifact.folder / MODEL, "cuda", 1)
                self._engine.translate_batch([["</s>"]])  # what is missing, its libraries or memory, is missed here
                return
            except RuntimeError as error:
                if device == "cuda":
                    raise UserError(f"CTranslate2 cannot use the GPU ({error}); leave --device out") from None
                self.device = "cpu"
        try:
            self._engine = open_engine(artifact.folder / MODEL, "cpu", num_threads)
        except RuntimeError as error:
            raise ArtifactError(f"{artifact.folder / MODEL}: CTranslate2 cannot load it ({error})") from None

    def __enter__(self) -> "Translator":
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.unload_model()

    def translate(
        self,
        lines: Iterable[Sequence[str]],
        *,
        beam_size: int | None = None,
        num_hypotheses: int = 1,
        advance: Callable[[int], None] = lambda num_lines: None,
    ) -> Iterator[Translation]:
        """One translation for each line of each window of lines, in order.

        The next window is taken while one is being translated; an empty one means that nothing more is there for now,
        so that what is under way is finished first.
        """
        under_way: deque[Job] = deque()
        for window in lines:
            if window:
                under_way.append(self.submit(window, beam_size=beam_size, num_hypotheses=num_hypotheses))
            while len(under_way) > (1 if window else 0):
                yield from _finish(under_way.popleft(), advance)
        for job in under_way:
            yield from _finish(job, advance)

    def submit(self, lines: Sequence[str], *, beam_size: int | None = None, num_hypotheses: int = 1) -> "Job":
        """Begins with these lines and returns at once; the job has the result."""
        beam_size = self.manifest.decode.beam_size if beam_size is None else beam_size
        if not (1 <= beam_size <= MAX_BEAM_SIZE and 1 <= num_hypotheses <= MAX_BEAM_SIZE):
            raise UserError(
                f"a beam of {beam_size} with {num_hypotheses} hypotheses; both must be 1 to {MAX_BEAM_SIZE}"
            )
        beam_size = max(beam_size, num_hypotheses)
        segments = [self._split(line) for line in lines]
        pieces = self._vocabulary.encode_pieces([segment.text for parts in segments for segment in parts])
        return Job(self, segments, pieces, beam_size=beam_size, num_hypotheses=num_hypotheses)

    def search(self, pieces: list[list[str]], *, limit: int, beam_size: int, num_hypotheses: int) -> list[Any]:
        """Begins with a batch; each of its results has a method `result` that waits for it."""
        length_penalty = self.manifest.decode.length_penalty
        results: list[Any] = self._engine.translate_batch(
            pieces,
            asynchronous=True,
            beam_size=beam_size,
            # All that are found: the longest tells when the search has ended. Without a penalty that would prolong it.
            num_hypotheses=beam_size if length_penalty else num_hypotheses,
            length_penalty=length_penalty,
            max_input_length=0,
            max_decoding_length=limit,
            return_scores=True,
            use_vmap=self.manifest.decode.vocabulary_map,
        )
        return results

    def batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Rows to be given to `search` together."""
        sizes = _BATCH_PIECES_WITH_MAP if self.manifest.decode.vocabulary_map else BATCH_PIECES
        return batches_of_similar_length(lengths, sizes[self.device])

    def _split(self, line: str) -> list[Segment]:
        """The parts of a line that are translated; none where there is no text."""
        text = normalise(_SURROGATES.sub("\ufffd", line))
        return split_text(text, self._is_short_enough) if text else []

    def _is_short_enough(self, text: str) -> bool:
        limit = self.manifest.decode.max_source_pieces
        if len(text) * _MAX_PIECES_PER_CHARACTER + 1 < limit:  # a space before it is one more
            return True
        return len(self._vocabulary.encode_pieces([text])[0]) < limit  # EOS is one more

    def decode(self, pieces: list[str], source_pieces: list[str]) -> str:
        """The pieces of a translation as one line of text: a model may write a line break, as bytes."""
        languages = self.manifest.source_language, self.manifest.target_language
        return normalise(decode_pieces(self._vocabulary, pieces, source_pieces, languages))


class Job:
    """Lines that are being translated."""

    def __init__(
        self,
        translator: Translator,
        segments: list[list[Segment]],
        pieces: list[list[str]],
        *,
        beam_size: int,
        num_hypotheses: int,
    ) -> None:
        self._translator, self._segments, self._pieces = translator, segments, pieces
        self._beam_size, self._num_hypotheses = beam_size, num_hypotheses
        self._lengths = [len(part) + 1 for part in pieces]  # EOS is one more
        self._under_way: list[Any] = [None] * len(pieces)
        self._limits = [0] * len(pieces)
        self._begin(range(len(pieces)))

    def result(self) -> list[Translation]:
        """One translation for each line. Waits for it."""
        found = [_wait(result) for result in self._under_way]
        again = [row for row, result in enumerate(found) if self._went_too_far(row, result)]
        for length in {self._lengths[row] for row in again}:
            self._begin([row for row in again if self._lengths[row] == length])
        for row in again:
            found[row] = _wait(self._under_way[row])
        results = zip(found, self._pieces, strict=True)
        return [self._join(segments, [next(results) for _ in segments]) for segments in self._segments]

    def _begin(self, rows: Sequence[int]) -> None:
        for batch in self._translator.batches([self._lengths[row] for row in rows]):
            chosen = [rows[place] for place in batch]
            limit = self._length_limit(chosen[0])
            results = self._translator.search(
                [self._pieces[row] for row in chosen],
                limit=limit,
                beam_size=self._beam_size,
                num_hypotheses=self._num_hypotheses,
            )
            for row, result in zip(chosen, results, strict=True):
                self._under_way[row], self._limits[row] = result, limit

    def _went_too_far(self, row: int, result: Any) -> bool:
        """A batch has the limit of its longest sentence; what passes its own would depend on the company it was in."""
        own = self._length_limit(row)
        return own < self._limits[row] and max(map(len, result.hypotheses)) + 1 >= own

    def _length_limit(self, row: int) -> int:
        return self._translator.manifest.decode.length_limit(self._lengths[row])

    def _join(self, segments: list[Segment], results: list[tuple[Any, list[str]]]) -> Translation:
        """What was found for each segment of a line, with the pieces of the segment."""
        if not segments:
            return Translation(hypotheses=(_EMPTY,) * self._num_hypotheses, num_pieces=0)
        weights = [len(result.hypotheses[0]) + 1 for result, _ in results]
        language = self._translator.manifest.target_language
        hypotheses = []
        for number in range(self._num_hypotheses):
            texts = [self._translator.decode(result.hypotheses[number], pieces) for result, pieces in results]
            score = sum(result.scores[number] * weight for (result, _), weight in zip(results, weights, strict=True))
            hypotheses.append(Hypothesis(text=join_translations(segments, texts, language), score=score / sum(weights)))
        return Translation(hypotheses=tuple(hypotheses), num_pieces=sum(weights))


def _wait(result: Any) -> Any:
    """Python acts on no signal while it waits inside CTranslate2, which may take as long as a whole window."""
    while not result.done():
        time.sleep(_POLL_SECONDS)
    return result.result()


def _finish(job: Job, advance: Callable[[int], None]) -> Iterator[Translation]:
    translations = job.result()
    yield from translations
    advance(len(translations))


def open_engine(model: Path, device: str, num_threads: int) -> ctranslate2.Translator:
    """CTranslate2 on a folder of its own: on a CPU, each thread translates batches of its own.

    What is first opened decides for the whole process how wide registers may be, so all of it is opened here.
    """
    _allow_wide_registers()
    return ctranslate2.Translator(
        str(model), device=device, inter_threads=num_threads, intra_threads=1, max_queued_batches=-1
    )


def _allow_wide_registers() -> None:
    """CTranslate2 keeps to AVX2 unless it is told otherwise, for the sake of CPUs that slow down for anything wider.

    Those that can multiply bytes in wide registers do not. It reads this when its first model is opened.
    """
    with contextlib.suppress(OSError):
        if has_wide_byte_products():
            os.environ.setdefault("CT2_FORCE_CPU_ISA", "AVX512")


def _choose_device(device: str) -> str:
    if device not in ("auto", *BATCH_PIECES):
        raise UserError(f"--device {device}: must be auto, {' or '.join(BATCH_PIECES)}")
    num_gpus = ctranslate2.get_cuda_device_count()
    if device == "cuda" and num_gpus == 0:
        raise UserError("no GPU that CTranslate2 can use; leave --device out to use the CPU")
    return ("cuda" if num_gpus else "cpu") if device == "auto" else device
