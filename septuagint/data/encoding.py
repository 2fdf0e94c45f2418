"""The second half of a preparation: cleaned parts into encoded ones, by a vocabulary given or trained on them."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

from septuagint.data.cleaning import CleanCorpus
from septuagint.data.files import copy_file, hash_file, hash_json, read_object, write_json, written_aside
from septuagint.data.folders import scratch
from septuagint.data.parts import EncodeJob, PartRecord, encode_part, encoded_key, read_record, read_records
from septuagint.data.plan import Bench, content_versions
from septuagint.data.sample import SampledPart, train_vocabulary_on_sample
from septuagint.data.vocabulary import Vocabulary
from septuagint.errors import DataError


def make_vocabulary(bench: Bench, train: list[CleanCorpus]) -> tuple[Vocabulary, str]:
    """The given vocabulary, or one trained on the cleaned text; a message where it is smaller than asked for."""
    settings = bench.config.vocabulary
    if settings.model is not None:
        given = Vocabulary.load(settings.model)
        copy_file(settings.model, bench.vocabulary_path)
        if not given.is_lossless:
            bench.report.warn(f"{settings.model}: this vocabulary does not give every character back (m² or 日, say)")
        return given, ""
    parts = [
        SampledPart(folder=bench.clean_folder(corpus.plan), index=index, is_duplicate=is_duplicate)
        for corpus in train
        for index, is_duplicate in enumerate(corpus.is_duplicate)
    ]
    key = hash_json(
        [
            settings.model_dump(mode="json"),
            content_versions(bench.config.filters),
            [record.files for corpus in train for record in corpus.records],
            [hashlib.sha256(part.is_duplicate).hexdigest() for part in parts],
        ]
    )
    record_path = bench.work / "vocabulary.json"
    record = read_object(record_path)
    is_there = bench.vocabulary_path.is_file() and record.get("sha256") == hash_file(bench.vocabulary_path)
    if record.get("key") != key or not is_there:
        num_characters = sum(part.num_characters for corpus in train for part in corpus.records)
        with bench.report.stage("vocabulary", None, ""), scratch(bench.vocabulary_path) as folder:
            call = train_vocabulary_on_sample, (parts, num_characters, settings, folder)
            (trained,) = bench.workers.run([call])
        with written_aside(bench.vocabulary_path) as file:
            file.write(trained.model)
        record = {"key": key, "sha256": hashlib.sha256(trained.model).hexdigest(), "message": trained.message}
        write_json(record_path, record)
    if record["message"]:
        bench.report.warn(record["message"])
    return Vocabulary.load(bench.vocabulary_path), record["message"]


def encode_corpora(bench: Bench, cleaned: list[CleanCorpus]) -> dict[str, list[PartRecord]]:
    """The records of every corpus's encoded parts, by its folder's name."""
    vocabulary_sha256 = hash_file(bench.vocabulary_path)

    def calls(corpus: CleanCorpus) -> Iterator[tuple[Callable[..., int], tuple[Any, ...]]]:
        max_pieces = 0 if corpus.plan.is_evaluation else bench.config.filters.max_pieces
        job = EncodeJob(
            clean_folder=bench.clean_folder(corpus.plan),
            folder=bench.encoded_folder(corpus.plan),
            vocabulary=bench.vocabulary_path,
            max_pieces=max_pieces,
        )
        for index, (record, mask) in enumerate(zip(corpus.records, corpus.is_duplicate, strict=True)):
            key = encoded_key(record, mask, vocabulary_sha256, max_pieces)
            if read_record(job.folder, index, key) is None:
                yield encode_part, (job, index, key, mask)
            else:
                stage.advance(record.num_pairs)

    total = sum(record.num_pairs for corpus in cleaned for record in corpus.records)
    with bench.report.stage("encoding", total, "pairs") as stage:
        for num_pairs in bench.workers.run(call for corpus in cleaned for call in calls(corpus)):
            stage.advance(num_pairs)
    return {
        corpus.plan.folder_name: read_records(bench.encoded_folder(corpus.plan), len(corpus.records))
        for corpus in cleaned
    }


def check_some_fit(encoded: dict[str, list[PartRecord]], cleaned: list[CleanCorpus], max_pieces: int) -> None:
    for corpus in cleaned:
        if not corpus.plan.is_evaluation and any(record.num_pairs for record in encoded[corpus.plan.folder_name]):
            return
    raise DataError(
        f"no training pairs are left: all have more than filters.max_pieces = {max_pieces} pieces a side; raise it"
    )
