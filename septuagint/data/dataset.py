"""A prepared data folder, opened for training: verified byte by byte, mapped from disk, matched with a configuration.

Whatever is wrong with the folder is said here, before anything is trained.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from septuagint.config import CorpusConfig, DataConfig
from septuagint.data.files import Known, signature
from septuagint.data.manifest import Corpus, Manifest, OutputFile, VocabularyEntry, read_manifest, verify_file
from septuagint.data.order import EpochOrder, copies_per_epoch, sample_pairs
from septuagint.data.packing import Totals
from septuagint.data.sentences import Sentences, gather_tokens, offsets_of
from septuagint.data.shards import open_shard
from septuagint.data.vocabulary import Vocabulary
from septuagint.errors import DataError
from septuagint.progress import ProgressReport

_IDS_AT_A_TIME = 1 << 24
# An epoch beyond this is a slip of the pen in a weight; positions in the stream of pairs must fit 64 bits.
_MAX_EPOCH_PAIRS = 1 << 40


@dataclass(frozen=True, kw_only=True, slots=True)
class ParallelShards:
    """The corpora to train on. A pair is known by its corpus and its place in it, both counted from 0."""

    sources: tuple[Sentences, ...]
    targets: tuple[Sentences, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Pairs of each corpus."""
        return tuple(len(shard) for shard in self.sources)

    def lengths(self, corpora: np.ndarray, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(source, target) tokens of each of the pairs."""
        (_, source), (_, target) = (_starts_and_lengths(side, corpora, pairs) for side in (self.sources, self.targets))
        return source, target

    def gather(self, corpora: np.ndarray, pairs: np.ndarray) -> tuple[Sentences, Sentences]:
        """(source, target) sentences of the pairs, in their order."""
        return _gather(self.sources, corpora, pairs), _gather(self.targets, corpora, pairs)


def _starts_and_lengths(
    shards: Sequence[Sentences], corpora: np.ndarray, pairs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    starts, lengths = np.empty((2, len(pairs)), np.int64)
    for corpus, shard in enumerate(shards):
        chosen = np.flatnonzero(corpora == corpus)
        starts[chosen] = shard.offsets[pairs[chosen]]
        lengths[chosen] = shard.offsets[pairs[chosen] + 1] - starts[chosen]
    return starts, lengths


def _gather(shards: Sequence[Sentences], corpora: np.ndarray, pairs: np.ndarray) -> Sentences:
    starts, lengths = _starts_and_lengths(shards, corpora, pairs)
    offsets = offsets_of(lengths)
    ids = np.empty(offsets[-1], shards[0].ids.dtype)
    for corpus, shard in enumerate(shards):
        is_here = corpora == corpus
        ids[np.repeat(is_here, lengths)] = gather_tokens(shard.ids, starts[is_here], offsets_of(lengths[is_here]))
    return Sentences(ids=ids, offsets=offsets)


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationSet:
    """A validation or test set: its sentences as ids, and as they came."""

    name: str
    source: Sentences
    target: Sentences
    source_lines: list[str]
    target_lines: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataset:
    """An open data folder, and how much each of its corpora weighs."""

    folder: Path
    manifest: Manifest
    vocabulary: Vocabulary
    train: ParallelShards
    weights: tuple[float, ...]
    valid: tuple[EvaluationSet, ...]
    test: tuple[EvaluationSet, ...]

    def order(self, seed: int) -> EpochOrder:
        """The endless order of the training pairs."""
        return EpochOrder(self.train.sizes, self.weights, seed)

    def totals(self) -> Totals:
        """What an epoch holds, weights applied."""
        used = [
            (corpus, copies)
            for corpus, weight in zip(self.manifest.train, self.weights, strict=True)
            if (copies := copies_per_epoch(corpus.pairs, weight))
        ]
        return Totals(
            num_pairs=sum(copies for _, copies in used),
            num_source_tokens=sum(-(-corpus.source.tokens * copies // corpus.pairs) for corpus, copies in used),
            num_target_tokens=sum(-(-corpus.target.tokens * copies // corpus.pairs) for corpus, copies in used),
            longest_source=max(corpus.source.longest for corpus, _ in used),
            longest_target=max(corpus.target.longest for corpus, _ in used),
        )

    def training_sample(self, num_pairs: int, seed: int) -> tuple[Sentences, Sentences]:
        """(source, target) sentences of distinct training pairs, the same for the same seed: see `sample_pairs`."""
        return self.train.gather(*sample_pairs(self.train.sizes, self.weights, num_pairs, seed))


def open_dataset(data: DataConfig, report: ProgressReport) -> Dataset:
    """Opens the data folder of a configuration, or says in a DataError why it cannot be trained on."""
    folder = data.folder
    manifest = read_manifest(folder)
    _check_agreement(data, manifest)
    weight_of = {corpus.name: corpus.weight for corpus in data.train}
    weights = tuple(weight_of.get(corpus.name, 1.0) for corpus in manifest.train)  # the recipe's are not listed
    _check_amounts(folder, manifest, weights)
    _verify(folder, manifest, report)
    vocabulary = Vocabulary.load(folder / manifest.vocabulary.file.path)
    if vocabulary.size != manifest.vocabulary.size:
        raise DataError(
            f"{folder / manifest.vocabulary.file.path}: {vocabulary.size:,} pieces, but the manifest says "
            f"{manifest.vocabulary.size:,}; run `septuagint prepare` again"
        )
    return Dataset(
        folder=folder,
        manifest=manifest,
        vocabulary=vocabulary,
        train=open_training_shards(folder, manifest),
        weights=weights,
        valid=open_evaluation_sets(folder, manifest, manifest.valid),
        test=open_evaluation_sets(folder, manifest, manifest.test),
    )


def open_training_shards(folder: Path, manifest: Manifest) -> ParallelShards:
    """The training text of a data folder, which is trusted to be whole."""
    shards = [_open_corpus(folder, corpus, manifest.vocabulary.id_type) for corpus in manifest.train]
    return ParallelShards(sources=tuple(s for s, _ in shards), targets=tuple(t for _, t in shards))


def open_evaluation_sets(folder: Path, manifest: Manifest, corpora: Sequence[Corpus]) -> tuple[EvaluationSet, ...]:
    """Validation or test sets of a data folder, which is trusted to be whole."""
    return tuple(_open_evaluation(folder, corpus, manifest.vocabulary.id_type) for corpus in corpora)


def _check_agreement(data: DataConfig, manifest: Manifest) -> None:
    """The folder must have been prepared from what the configuration lists, and from its recipe."""
    languages = (data.source_language, data.target_language)
    prepared = manifest.languages
    if languages != prepared:
        raise DataError(
            f"{data.folder}: prepared for {prepared[0]} to {prepared[1]}, but the configuration says "
            f"{languages[0]} to {languages[1]}; run `septuagint prepare`"
        )
    if data.recipe != (recipe := manifest.settings.get("recipe")):
        raise DataError(
            f"{data.folder}: prepared with {_named_recipe(recipe)}, but the configuration has "
            f"{_named_recipe(data.recipe)}; run `septuagint prepare`"
        )
    added = manifest.settings.get("recipe_corpora", {})
    listed: dict[str, tuple[CorpusConfig, ...]] = {"train": data.train, "valid": data.valid, "test": data.test}
    for split, corpora in manifest.splits.items():
        in_folder, in_config = {corpus.name for corpus in corpora}, {corpus.name for corpus in listed[split]}
        unlisted, unprepared = in_folder - in_config - set(added.get(split, ())), in_config - in_folder
        if unlisted or unprepared:
            raise DataError(
                f"{data.folder}: the folder and the configuration do not list the same corpora in data.{split}: "
                f"{_difference('prepared but not listed', unlisted)}"
                f"{_difference('listed but not prepared', unprepared)}run `septuagint prepare`"
            )


def _named_recipe(name: str | None) -> str:
    return "no data.recipe" if name is None else f"data.recipe = {name!r}"


def _difference(kind: str, names: set[str]) -> str:
    return f"{kind}: {', '.join(sorted(names))}; " if names else ""


def _check_amounts(folder: Path, manifest: Manifest, weights: tuple[float, ...]) -> None:
    if not any(corpus.pairs for corpus in manifest.valid):
        raise DataError(
            f"{folder}: training needs a validation set: add [data.valid] with `source` and `target` to the "
            "configuration and run `septuagint prepare`"
        )
    sizes = [corpus.pairs for corpus in manifest.train]
    if not any(size and weight for size, weight in zip(sizes, weights, strict=True)):
        raise DataError(
            f"{folder}: no training pairs: every corpus in data.train is empty or has weight = 0; give one a weight"
        )
    for corpus, weight in zip(manifest.train, weights, strict=True):
        if weight * corpus.pairs > _MAX_EPOCH_PAIRS:
            raise DataError(
                f"data.train: corpus {corpus.name!r} with weight = {weight:g} would have more than "
                f"{_MAX_EPOCH_PAIRS:,} pairs in an epoch; lower the weight"
            )


def _verify(folder: Path, manifest: Manifest, report: ProgressReport) -> None:
    """Refuses a folder with a file that is not as it was written. What is known of untouched files is believed."""
    known = Known(folder / "work" / "known.json")
    unknown = [file for file in manifest.files if known.get(folder / file.path) != {"sha256": file.sha256}]
    if not unknown:
        return
    sides = [
        side for corpora in manifest.splits.values() for corpus in corpora for side in (corpus.source, corpus.target)
    ]
    id_files = {side.ids for side in sides}
    with report.stage("verifying", sum(file.bytes for file in unknown), "B") as stage:
        for file in unknown:
            path = folder / file.path
            try:
                seen = signature(path) if path.is_file() else []
                verify_file(folder, file)
                if file in id_files:
                    _check_ids(path, manifest.vocabulary)
            except OSError as error:
                raise DataError(f"{path}: cannot be read: {error.strerror}") from None
            known.put(path, {"sha256": file.sha256}, seen)
            stage.advance(file.bytes)
    # A copy without `work/` is left without: `prepare` would take a folder of that name for somebody else's.
    if (folder / "work" / "lock").exists():
        with contextlib.suppress(OSError):  # a folder that may only be read is verified every time
            known.save()


def _check_ids(path: Path, vocabulary: VocabularyEntry) -> None:
    """Refuses ids that have no piece: on a GPU they would end the run without a reason given."""
    ids = np.memmap(path, dtype=vocabulary.id_type, mode="r") if path.stat().st_size else np.zeros(0, int)
    for start in range(0, len(ids), _IDS_AT_A_TIME):
        largest = int(ids[start : start + _IDS_AT_A_TIME].max())
        if largest >= vocabulary.size:
            raise DataError(
                f"{path}: holds id {largest:,}, but the vocabulary has {vocabulary.size:,} pieces; "
                "run `septuagint prepare` again"
            )


def _open_corpus(folder: Path, corpus: Corpus, id_type: str) -> tuple[Sentences, Sentences]:
    source, target = open_shard(folder, corpus.source, id_type), open_shard(folder, corpus.target, id_type)
    for side, shard in ((corpus.source, source), (corpus.target, target)):
        if len(shard) != corpus.pairs:
            raise DataError(
                f"{folder / side.offsets.path}: {len(shard):,} sentences, but the manifest says {corpus.pairs:,} "
                "pairs; run `septuagint prepare` again"
            )
    return source, target


def _open_evaluation(folder: Path, corpus: Corpus, id_type: str) -> EvaluationSet:
    source, target = _open_corpus(folder, corpus, id_type)
    return EvaluationSet(
        name=corpus.name,
        source=source,
        target=target,
        source_lines=_read_lines(folder, corpus.source.text, corpus.pairs),
        target_lines=_read_lines(folder, corpus.target.text, corpus.pairs),
    )


def _read_lines(folder: Path, file: OutputFile | None, num_lines: int) -> list[str]:
    """The lines of a text. A line ends at a line feed and nowhere else."""
    assert file is not None, "prepare writes the text of validation and test sets"
    path = folder / file.path
    lines = path.read_bytes().decode().split("\n")[:-1]
    if len(lines) != num_lines:
        raise DataError(
            f"{path}: {len(lines):,} lines, but the manifest says {num_lines:,} pairs; run `septuagint prepare` again"
        )
    return lines
