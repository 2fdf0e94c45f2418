"""Preparation: the same input gives the same bytes, and a changed input what a fresh preparation would give."""

import hashlib
import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from septuagint.data import corpus as corpora
from septuagint.data import files, plan
from septuagint.data.files import signature
from septuagint.data.manifest import HISTOGRAM_BIN, verify_file
from septuagint.data.normaliser import normalise
from septuagint.data.shards import open_shard
from septuagint.data.vocabulary import Vocabulary
from septuagint.errors import DataError, StorageError


@pytest.fixture
def many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks, so that a small corpus has many parts. Works for what runs in this process."""
    monkeypatch.setattr(corpora, "BLOCK_LINES", 40)
    monkeypatch.setattr(corpora, "_GROUP_LINES", 40)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known about files counts at once, as if a second had passed."""
    monkeypatch.setattr(files, "_SETTLED_NANOSECONDS", -1)


def fill(project) -> None:
    """Two training corpora, a validation and a test set."""
    project.add_text("one", 150)
    project.add_text("two", 60, seed=2)
    project.add_text("valid", 20, seed=3, split="valid")
    project.add_text("test", 20, seed=4, split="test")


def sentences(project, split: str, index: int, side: str) -> list[str]:
    """The text that a shard holds."""
    manifest = project.manifest()
    vocabulary = Vocabulary.load(project.folder / manifest.vocabulary.file.path)
    entry = getattr(manifest.splits[split][index], side)
    shard = open_shard(project.folder, entry, manifest.vocabulary.id_type)
    return [vocabulary.decode(ids) for ids in shard]


class TestSameInputSameBytes:
    def test_number_of_workers_and_working_directory_do_not_matter(
        self, new_project, content_of, tmp_path, monkeypatch
    ):
        contents = []
        for num_workers in (1, 2, 3):
            project = new_project(str(num_workers))
            project.add_text("one", 45_000)  # three parts
            project.add_text("test", 20, seed=4, split="test")
            monkeypatch.chdir(project.root if num_workers == 2 else tmp_path)
            assert project.prepare(num_workers).is_new
            contents.append(content_of(project.folder))
        assert contents[0] == contents[1] == contents[2]

    def test_the_command_line_gives_what_the_function_gives(self, new_project, content_of):
        ours, theirs = new_project("a"), new_project("b")
        for project in (ours, theirs):
            fill(project)
        ours.prepare()
        result = theirs.command("--quiet", cwd=theirs.root)
        assert (result.returncode, result.stderr) == (0, "")
        assert content_of(ours.folder) == content_of(theirs.folder)

    def test_a_relative_configuration_gives_the_same(self, new_project, content_of, monkeypatch):
        ours, theirs = new_project("a"), new_project("b")
        for project in (ours, theirs):
            fill(project)
        ours.prepare()
        monkeypatch.chdir(theirs.root)
        theirs.root = Path()
        theirs.prepare()
        assert content_of(ours.folder) == content_of(theirs.folder)

    def test_size_of_the_blocks_matters_only_to_the_work_folder(self, new_project, monkeypatch):
        """Pairs and shards are those of one large block."""
        shards = []
        for block_lines in (7, 20_000):
            project = new_project(str(block_lines))
            fill(project)
            monkeypatch.setattr(corpora, "BLOCK_LINES", block_lines)
            monkeypatch.setattr(corpora, "_GROUP_LINES", block_lines)
            manifest = project.prepare().manifest
            shards.append([(corpus.source, corpus.target, corpus.dropped) for corpus in manifest.train])
        assert shards[0] == shards[1]


class TestSecondRun:
    def test_it_does_nothing(self, project, content_of, settled):
        fill(project)
        first = project.prepare()
        before = content_of(project.folder)
        inodes = {path: path.stat().st_ino for path in project.folder.rglob("*.ids")}
        second = project.prepare()
        assert first.is_new and not second.is_new
        assert first.manifest == second.manifest
        assert content_of(project.folder) == before
        assert {path: path.stat().st_ino for path in project.folder.rglob("*.ids")} == inodes

    def test_a_new_weight_redoes_nothing(self, project):
        fill(project)
        project.prepare()
        project.corpora[0][1]["weight"] = 3.0
        assert not project.prepare().is_new

    def test_deleting_the_work_folder_does_no_harm(self, project, content_of):
        fill(project)
        project.prepare()
        before = content_of(project.folder)
        shutil.rmtree(project.folder / "work")
        assert not project.prepare().is_new
        shutil.rmtree(project.folder / "work")
        (project.folder / "manifest.json").unlink()
        assert project.prepare().is_new
        assert content_of(project.folder) == before

    def test_settings_of_training_redo_nothing(self, project):
        fill(project)
        project.prepare()
        project.settings["training.max_steps"] = 7
        assert not project.prepare().is_new


def touch_a_line(project) -> None:
    lines = (project.root / "two.en").read_text().split("\n")
    lines[3] = "quite another sentence"
    project.write("two.en", "\n".join(lines))


def change_test_set(project) -> None:
    """Now training text overlaps with it."""
    project.write("test.en", (project.root / "one.en").read_text())
    project.write("test.de", (project.root / "one.de").read_text().replace("a", "ä"))
    project.write("one.de", (project.root / "one.de").read_text())


def rename_an_input(project) -> None:
    for side in ("en", "de"):
        (project.root / f"two.{side}").rename(project.root / f"zwei.{side}")
    project.corpora[1] = ("train", {"source": "zwei.en", "target": "zwei.de", "name": "two"})


CHANGES = {
    "a line": touch_a_line,
    "the test set": change_test_set,
    "a filter": lambda project: project.settings.update({"filters.max_characters": 90}),
    "a filter that comes late": lambda project: project.settings.update({"filters.max_pieces": 20}),
    "overlap off": lambda project: project.settings.update({"filters.overlap": False}),
    "duplicates off": lambda project: project.settings.update({"filters.duplicates": False}),
    "size of the vocabulary": lambda project: project.settings.update({"vocabulary.size": 350}),
    "type of the vocabulary": lambda project: project.settings.update({"vocabulary.type": "bpe"}),
    "a language": lambda project: project.settings.update({"data.target_language": "ru"}),
    "a corpus more": lambda project: project.add_text("three", 30, seed=5),
    "a corpus less": lambda project: project.corpora.pop(1),
    "a test set less": lambda project: project.corpora.pop(3),
    "order of the corpora": lambda project: project.corpora.insert(0, project.corpora.pop(1)),
    "name of a corpus": lambda project: project.corpora[0][1].update(name="uno"),
    "name of an input": rename_an_input,
}


@pytest.mark.usefixtures("many_parts", "settled")
class TestChanges:
    @pytest.mark.parametrize("change", CHANGES)
    def test_a_change_gives_what_a_fresh_preparation_gives(self, new_project, content_of, change):
        ours, fresh = new_project("ours"), new_project("fresh")
        for project in (ours, fresh):
            fill(project)
            # one pair of the second corpus already stood in the first
            for side in ("en", "de"):
                first = (project.root / f"one.{side}").read_text().split("\n")[5]
                path = project.root / f"two.{side}"
                path.write_text(first + "\n" + path.read_text())
            if project is ours:
                project.settings["filters.min_script_share"] = 0.0
                project.prepare()
            project.settings["filters.min_script_share"] = 0.0
            CHANGES[change](project)
            project.prepare()
        assert content_of(ours.folder) == content_of(fresh.folder)
        assert not ours.prepare().is_new

    def test_what_changed_is_said(self, project, notes):
        fill(project)
        project.prepare()
        touch_a_line(project)
        project.settings["vocabulary.size"] = 380
        project.add_text("three", 30, seed=5)
        project.corpora.pop(0)
        project.prepare(report=notes)
        said = "\n".join(notes.messages)
        assert f"changed since the last preparation: {project.root / 'two.en'}" in said
        assert "setting changed: vocabulary.size was 400, is now 380" in said
        assert f"new since the last preparation: {project.root / 'three.en'}" in said
        assert f"no longer used: {project.root / 'one.en'}" in said
        assert "test.en" not in said

    def test_going_back_gives_the_first_bytes_again(self, project, content_of):
        fill(project)
        project.prepare()
        before = content_of(project.folder)
        project.settings["filters.max_characters"] = 90
        project.prepare()
        assert content_of(project.folder) != before
        del project.settings["filters.max_characters"]
        project.prepare()
        assert content_of(project.folder) == before

    def test_only_what_depends_on_a_changed_file_is_cleaned_again(self, project):
        fill(project)
        project.prepare()
        before = {path: path.stat().st_ino for path in (project.folder / "work" / "clean").rglob("*.json")}
        touch_a_line(project)
        project.prepare()
        after = {path: path.stat().st_ino for path in (project.folder / "work" / "clean").rglob("*.json")}
        assert {path.parent.name for path in after if after[path] != before[path]} == {"train-two"}


@pytest.mark.usefixtures("settled")
class TestDamage:
    """Bits flip on disks. What was damaged is noticed, said and made again."""

    def flip_a_bit(self, path: Path) -> None:
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 2] ^= 1
        path.write_bytes(raw)

    def test_damage_of_any_file_is_noticed_and_mended(self, project, content_of, notes):
        fill(project)
        manifest = project.prepare().manifest
        before = content_of(project.folder)
        kinds = {Path(file.path).name: file for file in manifest.files}
        assert len(kinds) == 7  # ids, offsets and text of two sides, and the vocabulary
        for file in kinds.values():
            path = project.folder / file.path
            self.flip_a_bit(path)
            with pytest.raises(DataError, match=str(path)):
                verify_file(project.folder, file)
            assert project.prepare(report=notes).is_new
            assert any(str(path) in message for message in notes.messages)
            assert content_of(project.folder) == before
        assert not project.prepare().is_new

    def test_a_missing_or_cut_file_is_made_again(self, project, content_of):
        fill(project)
        manifest = project.prepare().manifest
        before = content_of(project.folder)
        (project.folder / manifest.train[0].source.ids.path).unlink()
        assert project.prepare().is_new
        assert content_of(project.folder) == before
        os.truncate(project.folder / manifest.test[0].target.text.path, 5)
        assert project.prepare().is_new
        assert content_of(project.folder) == before

    def test_a_damaged_manifest_is_made_again(self, project, content_of):
        fill(project)
        project.prepare()
        before = content_of(project.folder)
        self.flip_a_bit(project.folder / "manifest.json")
        assert project.prepare().is_new
        assert content_of(project.folder) == before

    def test_verification_sees_what_neither_time_nor_size_shows(self, project, content_of):
        fill(project)
        manifest = project.prepare().manifest
        before = content_of(project.folder)
        project.prepare()
        path = project.folder / manifest.train[0].source.ids.path
        self.flip_a_bit(path)
        # A disk that rots does not tell: the file looks as it did when it was hashed.
        known = project.folder / "work" / "known.json"
        entries = json.loads(known.read_bytes())
        entries[str(path)]["signature"] = signature(path)
        known.write_text(json.dumps(entries))
        assert not project.prepare().is_new
        assert project.prepare(verify=True).is_new
        assert content_of(project.folder) == before

    @pytest.mark.parametrize("name", ["00000.tsv.zst", "00001.hashes", "00000.json", "complete.json"])
    def test_damage_in_the_work_folder_never_reaches_the_result(self, new_project, content_of, many_parts, name):
        """What is kept there is used again when a setting changes."""
        ours, fresh = new_project("ours"), new_project("fresh")
        for project in (ours, fresh):
            sources, targets = project.add_text("one", 60)
            project.write("one.en", ["same", *sources, sources[5]])
            project.write("one.de", ["same", *targets, targets[5]])
        ours.prepare()
        path = ours.folder / "work" / "clean" / "train-one" / name
        raw = path.read_bytes()
        if name == "00001.hashes":
            raw = raw[:-1] + bytes([raw[-1] ^ 1])  # the hash of the duplicate
        elif name == "00000.json":
            assert b'"copied_source": 1' in raw
            raw = raw.replace(b'"copied_source": 1', b'"copied_source": 3')
        elif name == "complete.json":
            raw = raw.replace(b"2", b"3")
        else:
            raw = raw[:-5] + bytes([raw[-5] ^ 1]) + raw[-4:]
        path.write_bytes(raw)
        for project in (ours, fresh):
            project.settings["vocabulary.size"] = 350
        try:
            ours.prepare()
        except DataError as error:
            assert "run the same command again" in str(error)
            ours.prepare()  # and then it must be right
        fresh.prepare()
        assert content_of(ours.folder) == content_of(fresh.folder)

    def test_a_wrong_fact_about_an_input_does_not_block_for_ever(self, project):
        """The cache of facts is a cache: whatever stands in it, running again helps."""
        fill(project)
        project.prepare()
        project.prepare()
        known = project.folder / "work" / "known.json"
        content = known.read_text()
        sha256 = hashlib.sha256((project.root / "one.en").read_bytes()).hexdigest()
        assert sha256 in content
        known.write_text(content.replace(sha256, sha256[:-1] + ("0" if sha256[-1] != "0" else "1")))
        try:
            project.prepare()
        except DataError as error:
            assert "run the same command again" in str(error)
        assert not project.prepare().is_new


class TestEvaluationSets:
    """Validation and test sets are never filtered: scores must be those of the set that everybody has."""

    LINES = (
        "An ordinary sentence",
        "",
        "x",
        "word " * 3000,
        "  spaces   kept \t here ",
        "An ordinary sentence",
        "http://a.b 12",
        "soft\u00adhyphen e\u0301",
        "inside\u2028and\x85and\rand\x0b",
    )

    @pytest.mark.parametrize("split", ["valid", "test"])
    def test_every_line_is_kept_as_it_came(self, project, split):
        project.add_text("one", 100)
        targets = [f"{line[::-1]}" for line in self.LINES]
        project.write("eval.en", list(self.LINES))
        project.write("eval.de", targets)
        project.add(split, source="eval.en", target="eval.de")
        project.prepare()
        corpus = project.corpus(split)
        assert corpus.pairs == corpus.lines == len(self.LINES)
        assert corpus.dropped == {}
        for side, lines in ((corpus.source, self.LINES), (corpus.target, targets)):
            assert (project.folder / side.text.path).read_bytes().decode().split("\n") == [*lines, ""]
        assert sentences(project, split, 0, "source") == [normalise(line) for line in self.LINES]

    def test_invalid_utf8_is_replaced_and_told(self, project, notes):
        project.add_text("one", 100)
        project.write("eval.en", b"good\nb\xffd\n\xe4\n")
        project.write("eval.de", b"gut\nschlecht\nzwei\n")
        project.add("test", source="eval.en", target="eval.de")
        project.prepare(report=notes)
        corpus = project.corpus("test")
        assert corpus.pairs == 3 and corpus.damaged_lines == {"invalid_utf8": (2, 3)}
        assert (project.folder / corpus.source.text.path).read_text().split("\n") == ["good", "b\ufffdd", "\ufffd", ""]
        assert any("eval" in message and "2, 3" in message for message in notes.messages)

    def test_a_line_beyond_all_measure_is_kept_whole_or_refused(self, project):
        project.add_text("one", 100)
        lines = ["first", "日本語 " * 300_000, "last"]
        project.write("eval.en", lines)
        project.write("eval.de", ["erste", "zweite", "letzte"])
        project.add("test", source="eval.en", target="eval.de")
        try:
            project.prepare()
        except DataError as error:
            assert "eval.en" in str(error) and "line 2" in str(error)
        else:
            assert (project.folder / project.corpus("test").source.text.path).read_text().split("\n") == [*lines, ""]

    def test_line_ends_and_byte_order_marks_of_windows_are_not_text(self, project):
        project.add_text("one", 100)
        project.write("eval.en", b"\xef\xbb\xbfone\r\ntwo\r\n")
        project.write("eval.de", b"\xef\xbb\xbfeins\r\nzwei\r\n")
        project.add("test", source="eval.en", target="eval.de")
        project.prepare()
        assert (project.folder / project.corpus("test").source.text.path).read_bytes() == b"one\ntwo\n"

    def test_a_line_break_inside_a_json_text_does_not_make_a_line(self, project):
        project.add_text("one", 100)
        rows = [{"en": "first\nsecond", "de": "erste\r\nzweite\n"}, {"en": "third\u2028", "de": "dritte"}]
        for name, split in (("train", "train"), ("test", "test")):
            project.write(f"{name}.jsonl", [json.dumps(row) for row in rows])
            project.add(split, jsonl=f"{name}.jsonl")
        project.settings["filters.overlap"] = False
        project.prepare()
        test = project.corpus("test")
        for side in (test.source, test.target):
            assert (project.folder / side.text.path).read_bytes().count(b"\n") == 2
        assert sentences(project, "train", 1, "source") == ["first second", "third"]
        assert sentences(project, "train", 1, "target") == ["erste zweite", "dritte"]

    @pytest.mark.parametrize("side", ["en", "de"])
    def test_training_pairs_with_text_of_the_test_set_on_either_side_are_gone(self, project, side):
        sources, targets = project.add_text("one", 100)
        lines = {"en": sources, "de": targets}[side]
        wanted = [3, 50, 99]
        project.write(f"eval.{side}", [lines[number].upper() + " !" for number in wanted])
        other = "de" if side == "en" else "en"
        project.write(f"eval.{other}", [f"something else {number}" for number in wanted])
        project.add("test", source="eval.en", target="eval.de")
        project.prepare()
        kept = sentences(project, "train", 0, "source")
        assert kept == [line for number, line in enumerate(sources) if number not in wanted]
        assert project.corpus().dropped == {"overlap": 3}


class TestTrainingText:
    def test_pairs_stay_pairs_and_in_order(self, project):
        sources, targets = project.add_text("one", 100)
        project.prepare()
        assert sentences(project, "train", 0, "source") == sources
        assert sentences(project, "train", 0, "target") == targets

    @pytest.mark.usefixtures("many_parts")
    def test_counts_of_the_manifest_add_up(self, project):
        fill(project)
        mixed = [
            ("", "leer"),
            ("same text", "same text"),
            ("x", "y"),
            ("Yes", "b" * 200),
            ("good pair", "gutes Paar"),
        ] * 20
        project.write("mixed.tsv", [f"{source}\t{target}" for source, target in mixed] + ["no tab"])
        project.add(tsv="mixed.tsv")
        project.settings["filters.max_pieces"] = 45
        manifest = project.prepare().manifest
        for corpus in (*manifest.train, *manifest.valid, *manifest.test):
            assert corpus.lines == corpus.pairs + sum(corpus.dropped.values())
            for name, side in (("source", corpus.source), ("target", corpus.target)):
                shard = open_shard(project.folder, side, manifest.vocabulary.id_type)
                assert len(shard) == corpus.pairs
                assert side.tokens == len(shard.ids) == shard.lengths.sum()
                assert side.longest == shard.lengths.max()
                assert sum(side.lengths) == corpus.pairs
                expected = np.bincount(shard.lengths // HISTOGRAM_BIN)
                assert np.array_equal(np.trim_zeros(side.lengths, "b"), np.trim_zeros(expected, "b"))
                split = next(split for split, entries in manifest.splits.items() if corpus in entries)
                lines = sentences(project, split, manifest.splits[split].index(corpus), name)
                assert side.characters == sum(map(len, lines))
                assert side.bytes == sum(len(line.encode()) for line in lines)
                assert side.words == sum(len(line.split()) for line in lines)
        dropped = manifest.train[2].dropped
        assert set(dropped) == {"malformed", "empty", "copied_source", "too_short", "length_ratio", "duplicate"}
        assert dropped["duplicate"] == 19
        assert manifest.train[0].dropped["too_many_pieces"] > 0
        assert manifest.train[0].source.longest <= 46

    def test_a_duplicate_stays_where_it_stood_first(self, project):
        sources, targets = project.add_text("one", 50)
        project.write("two.en", [*sources[:10], "a new sentence", sources[3]])
        project.write("two.de", [*targets[:10], "ein neuer Satz", targets[3] + " anders"])
        project.add(source="two.en", target="two.de")
        manifest = project.prepare().manifest
        assert manifest.train[0].pairs == 50
        assert manifest.train[1].dropped == {"duplicate": 10}
        assert sentences(project, "train", 1, "source") == ["a new sentence", sources[3]]

    def test_corpora_with_the_same_file_name_get_names_of_their_own(self, project):
        for number, folder in enumerate(("news", "web", "web/more/web")):
            project.add_text(f"{folder}/corpus", 60, seed=number)
        project.write("web/corpus.tsv", ["a sentence\tein Satz"])
        project.add(tsv="web/corpus.tsv")
        manifest = project.prepare().manifest
        names = [corpus.name for corpus in manifest.train]
        assert len(set(names)) == 4
        assert names[:2] == ["news-corpus", "web-corpus"]
        assert len({corpus.source.ids.path for corpus in manifest.train}) == 4
        assert [corpus.pairs for corpus in manifest.train] == [60, 60, 60, 1]

    def test_a_reused_vocabulary_is_the_same_file(self, new_project):
        first, second = new_project("first"), new_project("second")
        first.add_text("one", 100)
        entry = first.prepare().manifest.vocabulary
        shutil.copy(first.folder / entry.file.path, first.root / "mine.model")
        second.add_text("other", 80, seed=9)
        second.settings["vocabulary.model"] = str(first.root / "mine.model")
        reused = second.prepare().manifest.vocabulary
        assert reused.file.sha256 == entry.file.sha256
        assert (reused.type, reused.size) == ("given", 400)
        assert sentences(second, "train", 0, "source")

    def test_a_part_with_nothing_left_is_passed_over(self, project, many_parts):
        sources, targets = project.add_text("one", 120)
        project.write("one.en", ["same"] * 40 + sources[:80])
        project.write("one.de", ["same"] * 40 + targets[:80])
        project.prepare()
        assert project.corpus().dropped == {"copied_source": 40}
        assert sentences(project, "train", 0, "target") == targets[:80]


class TestFolder:
    def test_files_of_others_in_the_folder_are_left_alone(self, project):
        """A data folder may be the folder of the text itself."""
        project.settings["data.folder"] = "."
        mine = [project.write(name, "x") for name in ("shards-of-mine/precious.txt", "shards-notes.txt", ".notes.tmp")]
        fill(project)
        project.prepare()
        project.settings["vocabulary.size"] = 350
        project.prepare()
        assert all(path.read_text() == "x" for path in mine)
        assert len([path for path in project.folder.glob("shards-????????") if path.is_dir()]) == 1

    def test_a_work_folder_of_somebody_else_is_refused_and_left_alone(self, project):
        project.add_text()
        mine = project.write(str(project.folder / "work" / "clean" / "mine.txt"), "x")
        with pytest.raises(StorageError, match="not one of ours"):
            project.prepare()
        assert mine.read_text() == "x"

    def test_a_manifest_of_somebody_else_or_of_a_later_version_is_refused_and_left_alone(self, project):
        project.add_text()
        project.prepare()
        path = project.folder / "manifest.json"
        for content in ('{"my": "manifest"}', path.read_text().replace('"version": 1', '"version": 2', 1)):
            path.write_text(content)
            with pytest.raises(DataError, match=r"choose another data\.folder"):
                project.prepare()
            assert path.read_text() == content

    def test_files_among_the_cleaned_text_do_no_harm(self, project):
        project.add_text()
        project.prepare()
        (project.folder / "work/clean/.DS_Store").write_bytes(b"x")
        project.settings["filters.max_characters"] = 900
        assert project.prepare().is_new

    def test_a_refused_preparation_creates_no_folder(self, project):
        project.add(source="none.en", target="none.de")
        with pytest.raises(DataError, match="no such file"):
            project.prepare()
        assert not project.folder.exists()

    def test_text_of_the_data_folder_itself_can_be_input(self, project, settled):
        project.add_text()
        project.add_text("test", 20, seed=9, split="test")
        prepared = project.prepare()
        text = prepared.folder / prepared.manifest.test[0].source.text.path
        project.prepare()  # now its hash is remembered as an output's
        project.add("test", source=str(text), target=str(text.with_name("target.txt")))
        assert project.prepare().manifest.test[1].lines == 20

    def test_what_a_killed_run_left_behind_is_removed(self, project, content_of):
        """A kill in the middle of a write leaves the file that was written aside."""
        fill(project)
        project.prepare()
        before = content_of(project.folder)
        (project.folder / ".manifest.json.4242.tmp").write_bytes(b"{")
        (project.folder / "work/.vocabulary.model.scratch.4242.tmp/made").mkdir(parents=True)
        (project.folder / "manifest.json").unlink()
        project.prepare()
        assert content_of(project.folder) == before

    def test_a_folder_that_was_moved_with_its_text_is_still_valid(self, project, tmp_path):
        fill(project)
        project.prepare()
        project.root.rename(tmp_path / "elsewhere")
        project.root = tmp_path / "elsewhere"
        assert not project.prepare().is_new

    def test_a_folder_whose_name_is_not_utf8_can_be_used(self, new_project, settled):
        project = new_project(os.fsdecode(b"caf\xe9"))
        fill(project)
        project.prepare()
        assert project.manifest().train[0].pairs == 150


@pytest.mark.usefixtures("many_parts")
class TestChangeWhileReading:
    def test_it_is_noticed_and_running_again_gives_what_a_fresh_preparation_gives(
        self, new_project, content_of, monkeypatch
    ):
        """The file changes for a moment, between the first look and the reading, and then back."""
        ours, fresh = new_project("ours"), new_project("fresh")
        for project in (ours, fresh):
            fill(project)
        path = ours.root / "one.en"
        content = path.read_bytes()
        look = plan.look_at_inputs

        def look_and_change(*arguments):
            corpora = look(*arguments)
            path.write_bytes(content.replace(b"a", b"e"))
            return corpora

        with monkeypatch.context() as patch:
            patch.setattr("septuagint.data.prepare.look_at_inputs", look_and_change)
            with pytest.raises(DataError, match=r"one\.en: the file changed while it was being read"):
                ours.prepare()
        path.write_bytes(content)
        ours.prepare()
        fresh.prepare()
        assert content_of(ours.folder) == content_of(fresh.folder)

    def test_a_change_during_the_first_look_does_not_block_for_ever(self, project, monkeypatch):
        """The file is written to while it is hashed, and then left alone: the second run must see it as it is."""
        fill(project)
        path = project.root / "one.en"
        scan = plan.scan_file
        times = iter([True])

        def scan_and_change(which):
            found = scan(which)
            if which == path and next(times, False):
                path.write_bytes(path.read_bytes().replace(b"a", b"e"))
                old = time.time_ns() - 10**10
                os.utime(path, ns=(old, old))
            return found

        monkeypatch.setattr(plan, "scan_file", scan_and_change)
        monkeypatch.setattr(files, "_SETTLED_NANOSECONDS", -1)  # hashing a large file takes longer than a second
        with pytest.raises(DataError, match="run the same command again"):
            project.prepare()
        assert project.prepare().is_new
