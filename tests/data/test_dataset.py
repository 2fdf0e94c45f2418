"""A data folder opens as it was prepared, or not at all: then with a message that says what to do."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from septuagint.config import DataConfig
from septuagint.config_file import load_config
from septuagint.data import dataset as datasets
from septuagint.data.dataset import Dataset, open_dataset
from septuagint.data.files import hash_file
from septuagint.data.manifest import MANIFEST, Manifest, OutputFile, read_manifest, write_manifest
from septuagint.data.sentences import Sentences
from septuagint.data.vocabulary import EOS
from septuagint.errors import DataError
from septuagint.progress import ProgressReport
from tests.data.conftest import Notes, Project

SIZES = {"large": 120, "small": 30}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Two training corpora, a validation and a test set. Shared: tests that damage it work on a copy."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        project = Project(tmp_path_factory.mktemp("dataset") / "project", monkeypatch)
        for seed, (name, num_lines) in enumerate(SIZES.items(), start=1):
            project.add_text(name, num_lines, seed=seed)
        project.add_text("check", 20, seed=3, split="valid")
        project.write("odd.en", "one\u2028still one\n\ntwo\r\n\x85three\n")
        project.write("odd.de", "eins\u2028noch eins\n\nzwei\r\n\x85drei\n")
        project.add("test", source="odd.en", target="odd.de")
        project.prepare()
        yield project


@pytest.fixture
def data(prepared: Project) -> DataConfig:
    return load_config(prepared.config_path).data


@pytest.fixture
def copied(prepared: Project, tmp_path: Path) -> DataConfig:
    """The configuration of a copy that may be damaged."""
    shutil.copytree(prepared.folder, tmp_path / "out", symlinks=True)
    return load_config(prepared.config_path).data.model_copy(update={"folder": tmp_path / "out"})


def open_quietly(data: DataConfig) -> Dataset:
    return open_dataset(data, ProgressReport(is_quiet=True))


def rewrite(folder: Path, change: Callable[[dict], None]) -> None:
    """Writes a changed manifest that is sound in itself, as a mistaken program would."""
    body = json.loads((folder / MANIFEST).read_text())
    del body["sha256"]
    change(body)
    write_manifest(folder, Manifest.model_validate(body))


def with_weights(data: DataConfig, *weights: float) -> DataConfig:
    corpora = zip(data.train, weights, strict=True)
    return data.model_copy(
        update={"train": tuple(corpus.model_copy(update={"weight": weight}) for corpus, weight in corpora)}
    )


def test_a_folder_opens_with_all_that_was_prepared(data):
    dataset = open_quietly(data)
    assert dataset.train.sizes == (120, 30)
    assert dataset.weights == (1.0, 1.0)
    assert dataset.vocabulary.size == dataset.manifest.vocabulary.size == 400
    (valid,) = dataset.valid
    assert (valid.name, len(valid.source), len(valid.target)) == ("check", 20, 20)
    for line, (start, end) in zip(valid.target_lines, pairwise(valid.target.offsets), strict=True):
        assert dataset.vocabulary.decode(valid.target.ids[start:end]) == line


def test_a_line_of_text_ends_at_a_line_feed_and_nowhere_else(data):
    (test,) = open_quietly(data).test
    assert test.source_lines == ["one\u2028still one", "", "two", "\x85three"]
    assert test.target_lines == ["eins\u2028noch eins", "", "zwei", "\x85drei"]


def test_pairs_of_several_corpora_are_gathered_in_their_order(data):
    text = open_quietly(data).train
    corpora, pairs = np.array([1, 0, 0, 1, 0]), np.array([29, 0, 119, 0, 0])
    source, target = text.gather(corpora, pairs)
    source_lengths, target_lengths = text.lengths(corpora, pairs)
    for sentences, shards, lengths in (
        (source, text.sources, source_lengths),
        (target, text.targets, target_lengths),
    ):
        expected = [shards[corpus][pair] for corpus, pair in zip(corpora, pairs, strict=True)]
        assert np.array_equal(sentences.ids, np.concatenate(expected))
        assert np.diff(sentences.offsets).tolist() == lengths.tolist() == [len(ids) for ids in expected]
        assert (sentences.ids[sentences.offsets[1:] - 1] == EOS).all()


def test_totals_are_those_of_an_epoch(data):
    large, small = open_quietly(data).manifest.train
    totals = open_quietly(data).totals()
    assert totals.num_pairs == 150
    assert totals.num_source_tokens == large.source.tokens + small.source.tokens
    assert totals.longest_target == max(large.target.longest, small.target.longest)
    totals = open_quietly(with_weights(data, 0, 2.5)).totals()
    assert (totals.num_pairs, totals.longest_source) == (75, small.source.longest)
    assert totals.num_target_tokens == pytest.approx(2.5 * small.target.tokens, abs=1)
    assert open_quietly(with_weights(data, 0.5, 1)).order(seed=1).num_pairs == 90


def test_a_training_sample_is_fixed_and_made_of_training_pairs(data):
    dataset = open_quietly(data)
    source, target = dataset.training_sample(40, seed=1)
    known = {
        (source_ids.tobytes(), target_ids.tobytes())
        for shards in zip(dataset.train.sources, dataset.train.targets, strict=True)
        for source_ids, target_ids in zip(*shards, strict=True)
    }
    drawn = set(zip(contents(source), contents(target), strict=True))
    assert len(drawn) == 40 and drawn <= known
    again, other = (dataset.training_sample(40, seed)[0] for seed in (1, 2))
    assert contents(again) == contents(source) != contents(other)


def contents(sentences: Sentences) -> list[bytes]:
    return [ids.tobytes() for ids in np.split(sentences.ids, sentences.offsets[1:-1])]


class TestVerification:
    def test_untouched_files_are_not_hashed_twice(self, copied, monkeypatch):
        hashed: list[str] = []
        monkeypatch.setattr(datasets, "verify_file", lambda folder, file: hashed.append(file.path))
        monkeypatch.setattr("septuagint.data.files._SETTLED_NANOSECONDS", -1)
        open_quietly(copied)
        assert len(hashed) == len(read_manifest(copied.folder).files)
        open_quietly(copied)
        assert len(hashed) == len(read_manifest(copied.folder).files)
        path = copied.folder / hashed[3]
        os.utime(path)
        open_quietly(copied)
        assert hashed[-1] == hashed[3] and len(hashed) == len(read_manifest(copied.folder).files) + 1

    def test_progress_is_shown(self, copied):
        class Stages(Notes):
            def stage(self, title, total, unit):
                self.messages.append(f"{title} {total} {unit}")
                return super().stage(title, total, unit)

        report = Stages()
        open_dataset(copied, report)
        num_bytes = sum(file.bytes for file in read_manifest(copied.folder).files)
        assert report.messages[0] == f"verifying {num_bytes} B"

    def test_a_copy_without_work_stays_without(self, copied, prepared, monkeypatch):
        monkeypatch.setattr("septuagint.data.files._SETTLED_NANOSECONDS", -1)
        shutil.rmtree(copied.folder / "work")
        open_quietly(copied)
        assert not (copied.folder / "work").exists()

    def test_a_folder_that_may_only_be_read_opens(self, prepared, data, small_disk):
        disk = small_disk("size=8m")
        shutil.copytree(prepared.folder, disk / "out")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert open_quietly(data.model_copy(update={"folder": disk / "out"})).train.sizes == (120, 30)

    @pytest.mark.parametrize("kind", ["source.ids", "target.offsets", "source.txt", "vocabulary.model"])
    @pytest.mark.parametrize("damage", ["missing", "truncated", "flipped"])
    def test_a_damaged_file_is_named_with_the_cure(self, copied, kind, damage):
        path = max(copied.folder.glob(f"shards-*/**/{kind}"))
        content = bytearray(path.read_bytes())
        if damage == "missing":
            path.unlink()
        elif damage == "truncated":
            path.write_bytes(content[:-2])
        else:
            content[len(content) // 2] ^= 4
            path.write_bytes(content)
        words = {"missing": "missing", "truncated": "bytes instead of", "flipped": "damaged"}
        with pytest.raises(DataError, match=rf"{kind}: .*{words[damage]}.*run `septuagint prepare`"):
            open_quietly(copied)

    def test_a_file_that_cannot_be_read_is_named(self, copied, monkeypatch):
        def refuse(folder: Path, file: OutputFile) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(datasets, "verify_file", refuse)
        with pytest.raises(DataError, match=r"vocabulary.model: cannot be read: Permission denied"):
            open_quietly(copied)

    @pytest.mark.parametrize("split", ["train", "valid"])
    def test_ids_outside_the_vocabulary_are_refused(self, copied, split, monkeypatch):
        monkeypatch.setattr(datasets, "_IDS_AT_A_TIME", 100)
        entry = read_manifest(copied.folder).splits[split][0].target.ids
        path = copied.folder / entry.path
        ids = np.fromfile(path, "<u2")
        ids[-50] = 400
        ids.tofile(path)

        def change(body: dict) -> None:
            body[split][0]["target"]["ids"]["sha256"] = hash_file(path)

        rewrite(copied.folder, change)
        with pytest.raises(DataError, match=r"target.ids: holds id 400, but the vocabulary has 400 pieces.*prepare"):
            open_quietly(copied)


class TestFoldersThatDoNotFit:
    def test_a_folder_that_was_never_prepared(self, data, tmp_path):
        with pytest.raises(DataError, match=r"not a prepared data folder.*run `septuagint prepare`"):
            open_quietly(data.model_copy(update={"folder": tmp_path}))

    def test_a_format_that_is_newer(self, copied):
        rewrite(copied.folder, lambda body: body.update(version=99))
        with pytest.raises(DataError, match=r"version 99.*update Septuagint"):
            open_quietly(copied)

    @pytest.mark.parametrize(
        ("side", "words"), [("source", r"source.offsets: 120 sentences"), ("target", r"target.offsets: 120 sentences")]
    )
    def test_pairs_that_do_not_agree(self, copied, side, words):
        def change(body: dict) -> None:
            body["train"][0]["pairs"] = 119
            other = "target" if side == "source" else "source"
            short = body["train"][0][other]["offsets"]
            path = copied.folder / short["path"]
            ids = copied.folder / body["train"][0][other]["ids"]["path"]
            offsets = np.fromfile(path, "<i8")[:-1]
            offsets.tofile(path)
            np.fromfile(ids, "<u2")[: offsets[-1]].tofile(ids)
            for entry, changed in ((short, path), (body["train"][0][other]["ids"], ids)):
                entry.update(bytes=changed.stat().st_size, sha256=hash_file(changed))

        rewrite(copied.folder, change)
        with pytest.raises(DataError, match=rf"{words}, but the manifest says 119 pairs; run `septuagint prepare`"):
            open_quietly(copied)

    def test_a_text_with_too_few_lines(self, copied):
        def change(body: dict) -> None:
            entry = body["valid"][0]["source"]["text"]
            path = copied.folder / entry["path"]
            path.write_bytes(path.read_bytes().partition(b"\n")[2])
            entry.update(bytes=path.stat().st_size, sha256=hash_file(path))

        rewrite(copied.folder, change)
        with pytest.raises(DataError, match=r"source.txt: 19 lines, but the manifest says 20 pairs.*prepare"):
            open_quietly(copied)

    def test_another_vocabulary(self, copied):
        def change(body: dict) -> None:
            body["vocabulary"]["size"] = 500

        rewrite(copied.folder, change)
        with pytest.raises(DataError, match=r"vocabulary.model: 400 pieces, but the manifest says 500.*prepare"):
            open_quietly(copied)

    def test_other_languages(self, data):
        with pytest.raises(DataError, match=r"prepared for en to de.*says en to fr; run `septuagint prepare`"):
            open_quietly(data.model_copy(update={"target_language": "fr"}))

    def test_other_corpora(self, data):
        renamed = data.train[0].model_copy(update={"name": "huge"})
        words = r"data.train: prepared but not listed: large; listed but not prepared: huge; run `septuagint prepare`"
        with pytest.raises(DataError, match=words):
            open_quietly(data.model_copy(update={"train": (renamed, data.train[1])}))
        with pytest.raises(DataError, match=r"data.test: prepared but not listed: odd; run `septuagint prepare`"):
            open_quietly(data.model_copy(update={"test": ()}))


class TestAmounts:
    def test_training_needs_a_validation_set(self, copied):
        def change(body: dict) -> None:
            body["valid"] = []

        rewrite(copied.folder, change)
        with pytest.raises(DataError, match=r"training needs a validation set: add \[data.valid\].*prepare"):
            open_quietly(copied.model_copy(update={"valid": ()}))

    def test_training_needs_a_corpus_with_a_weight(self, data):
        with pytest.raises(DataError, match=r"no training pairs: every corpus .* weight = 0; give one a weight"):
            open_quietly(with_weights(data, 0, 0))

    def test_a_weight_beyond_measure_is_refused(self, data):
        with pytest.raises(DataError, match=r"corpus 'small' with weight = 1e\+30.*lower the weight"):
            open_quietly(with_weights(data, 1, 1e30))

    def test_a_weight_belongs_to_a_name_whatever_the_order(self, data):
        turned = with_weights(data, 2, 3)
        assert open_quietly(turned.model_copy(update={"train": turned.train[::-1]})).weights == (2, 3)
