"""Whatever a user feeds in: one clear message that names the thing and the cure, exit 2, no traceback, nothing lost."""

import bz2
import fcntl
import gzip
import json
import lzma
import os
import subprocess
from collections.abc import Callable

import pytest
import zstandard

ARCHIVES: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.compress,
}


def refused(result: subprocess.CompletedProcess[str], *parts: str) -> str:
    """The one message of a refusal, which must have these parts."""
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    messages = [line for line in result.stderr.split("\n") if line.startswith("error: ")]
    assert len(messages) == 1, result.stderr
    for part in parts:
        assert part in messages[0]
    return messages[0]


def accepted(result: subprocess.CompletedProcess[str]) -> str:
    """What was said on standard error."""
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr


class TestFiles:
    def test_different_line_counts_are_both_shown_and_nothing_is_written(self, project):
        project.add_text("one", 30)
        project.write("one.de", ["ein Satz"] * 31)
        refused(project.command("-q"), "one.en has 30 lines", "one.de has 31", "must be parallel")
        assert [path.name for path in project.folder.iterdir()] == ["work"]

    def test_a_bad_second_corpus_leaves_the_prepared_folder_as_it_was(self, project, content_of):
        project.add_text("one", 60)
        project.prepare()
        before = content_of(project.folder)
        project.add_text("two", 30)
        project.write("two.de", ["ein Satz"] * 31)
        refused(project.command("-q"), "two.de has 31")
        assert content_of(project.folder) == before

    def test_a_missing_file_is_answered_with_the_nearest_name(self, project):
        project.add_text("europarl", 30)
        project.corpora[0][1]["source"] = "eurparl.en"
        refused(project.command("-q"), "eurparl.en: no such file", "did you mean europarl.en?")

    def test_a_missing_folder_is_named(self, project):
        project.add_text("one", 30)
        project.corpora[0][1]["source"] = "nowhere/one.en"
        refused(project.command("-q"), "no such file", f"nor is there a folder {project.root / 'nowhere'}")

    def test_a_folder_is_not_a_file(self, project):
        project.add_text("one", 30)
        project.corpora[0][1]["source"] = "."
        refused(project.command("-q"), f"{project.root}: is a folder")

    def test_an_empty_file_is_named(self, project):
        project.add_text("one", 30)
        project.write("one.de", "")
        refused(project.command("-q"), "one.de: the file is empty")

    def test_the_same_file_on_both_sides_is_refused(self, project):
        project.add_text("one", 30)
        project.corpora[0][1]["target"] = "one.en"
        refused(project.command("-q"), "source and target are the same file", "one.en")

    def test_the_same_content_on_both_sides_is_refused(self, project):
        sources, _ = project.add_text("one", 30)
        project.write("one.de", sources)
        refused(project.command("-q"), "have the same content", "one.en", "one.de")

    def test_a_pipe_is_refused_and_not_waited_for(self, project):
        project.add_text("one", 30)
        (project.root / "one.en").unlink()
        os.mkfifo(project.root / "one.en")
        refused(project.command("-q"), "one.en: not a regular file", "a pipe will not do")

    def test_a_pipe_in_place_of_the_vocabulary_is_refused_and_not_waited_for(self, project):
        project.add_text("one", 30)
        os.mkfifo(project.root / "v.model")
        project.settings["vocabulary.model"] = "v.model"
        refused(project.command("-q"), "v.model")

    def test_a_vocabulary_that_is_not_one_is_refused(self, project):
        project.add_text("one", 30)
        project.write("v.model", "not a model")
        project.settings["vocabulary.model"] = "v.model"
        refused(project.command("-q"), "v.model: not a SentencePiece model")

    def test_utf16_is_told_with_the_command_that_converts_it(self, project):
        sources, _ = project.add_text("one", 30)
        project.write("one.en", "\n".join(sources).encode("utf-16"))
        refused(project.command("-q"), "one.en: this is UTF-16", "iconv -f UTF-16 -t UTF-8")

    @pytest.mark.parametrize("kind", ARCHIVES)
    @pytest.mark.parametrize("damage", ["cut", "flipped"])
    def test_a_damaged_archive_is_named_with_the_place(self, project, kind, damage):
        sources, _ = project.add_text("one", 2000)
        raw = bytearray(ARCHIVES[kind]("\n".join(sources).encode()))
        if damage == "cut":
            del raw[len(raw) // 2 :]
        else:
            place = len(raw) // 2
            raw[place : place + 8] = bytes(byte ^ 0xFF for byte in raw[place : place + 8])
        project.write(f"one.en.{kind}", bytes(raw))
        project.corpora[0][1]["source"] = f"one.en.{kind}"
        refused(project.command("-q"), f"one.en.{kind}: damaged {kind} archive, at byte ", f"of {len(raw):,}", "again")

    def test_an_unreadable_name_is_refused(self, project):
        project.add_text("one", 30)
        project.corpora[0][1]["source"] = "one\x00.en"
        refused(project.command("-q"), "one")


class TestLines:
    """Lines of a training corpus that cannot be used are dropped and counted; the pairs around them stay."""

    def test_invalid_utf8_is_counted_with_its_lines(self, project):
        sources, _ = project.add_text("one", 60)
        raw = [line.encode() for line in sources]
        raw[4], raw[50] = b"bad \xff line", b"bad \xe4 line"
        project.write("one.en", b"\n".join(raw))
        said = accepted(project.command())
        assert "warning: one: 2 damaged lines (not valid UTF-8), dropped; first lines: 5, 51" in said
        assert project.corpus().dropped == {"invalid_utf8": 2}
        assert project.corpus().pairs == 58

    def test_strict_refuses_invalid_utf8_even_after_a_lenient_run(self, project):
        sources, _ = project.add_text("one", 60)
        project.write("one.en", "\n".join(sources).encode().replace(b"a", b"\xff", 1))
        accepted(project.command("-q"))
        refused(project.command("-q", "--strict"), "one.en", "line 1 is not valid UTF-8", "data.strict = false")
        assert project.corpus().pairs == 59

    def test_odd_characters_do_not_move_the_lines_below(self, project):
        sources, _ = project.add_text("one", 60)
        for number, odd in enumerate(["\x00", "\r", "\u2028", "\x0b", "\x85", "\ufeff", "\x1c", "\u200b"]):
            sources[number] = sources[number].replace(" ", f" {odd} ", 1)
        project.write("one.en", sources)
        accepted(project.command("-q"))
        corpus = project.corpus()
        assert (corpus.lines, corpus.pairs, corpus.dropped) == (60, 60, {})

    def test_lines_of_a_megabyte_are_dropped_as_too_long(self, project):
        sources, targets = project.add_text("one", 60)
        sources[3] = "word " * 220_000
        targets[3] = "日本語" * 400_000
        sources[59] = "x" * 30_000_000
        project.write("one.en", "\n".join(sources))
        project.write("one.de", targets)
        assert accepted(project.command("-q", "--strict")) == ""
        assert project.corpus().dropped == {"too_long": 2}
        assert project.corpus().pairs == 58

    def test_malformed_rows_are_counted(self, project):
        sources, targets = project.add_text("one", 60)
        rows = [f"{source}\t{target}" for source, target in zip(sources, targets, strict=True)]
        rows[7], rows[9] = "no tab at all", ""
        project.write("rows.tsv", rows)
        project.corpora = [("train", {"tsv": "rows.tsv"})]
        said = accepted(project.command())
        assert "warning: rows: 2 damaged lines (not two fields), dropped; first lines: 8, 10" in said
        assert project.corpus().dropped == {"malformed": 2}
        refused(project.command("-q", "--strict"), "rows.tsv", "line 8 does not have both fields, 1 and 2")

    def test_malformed_json_is_counted(self, project):
        sources, targets = project.add_text("one", 60)
        rows = [json.dumps({"en": s, "de": t}) for s, t in zip(sources, targets, strict=True)]
        rows[1:8] = [
            "{",
            "[" * 100_000,
            '{"en": "a"}',
            '{"en": 1, "de": 2}',
            '{"en": "\\ud800 x", "de": "b"}',
            "",
            "null",
        ]
        project.write("rows.jsonl", rows)
        project.corpora = [("train", {"jsonl": "rows.jsonl"})]
        accepted(project.command("-q"))
        assert project.corpus().dropped == {"malformed": 6, "invalid_utf8": 1}
        assert project.corpus().damaged_lines["invalid_utf8"] == (6,)

    def test_malformed_rows_of_a_test_set_are_refused(self, project):
        project.add_text("one", 60)
        project.write("test.tsv", ["a\tb", "no tab"])
        project.add("test", tsv="test.tsv")
        refused(project.command("-q"), "test.tsv: line 2 does not have both fields, 1 and 2")

    def test_keys_that_cannot_be_told_apart_are_listed(self, project):
        project.write("rows.jsonl", ['{"english": "a", "german": "b"}'])
        project.add(jsonl="rows.jsonl")
        refused(
            project.command("-q"), "rows.jsonl", "whose keys are: english, german", "set source_field and target_field"
        )

    def test_given_keys_that_are_not_there_are_told(self, project):
        """Every line is malformed: the message must name the keys that were looked for."""
        project.write("rows.jsonl", ['{"english": "a sentence", "german": "ein Satz"}'] * 3)
        project.add(jsonl="rows.jsonl", source_field="en", target_field="de")
        refused(project.command("-q"), "rows.jsonl", "english, german", "'en'")


class TestNothingLeft:
    def test_the_filters_are_named_when_nothing_is_left(self, project):
        project.write("one.en", ["Word"] * 3 + [""])
        project.write("one.de", ["word"] * 3 + ["x"])
        project.add(source="one.en", target="one.de")
        refused(project.command("-q"), "no training pairs are left", "3: copied_source", "1: empty", "[filters]")

    def test_pieces_are_named_when_all_sentences_are_too_long(self, project):
        project.add_text("one", 30)
        project.settings["filters.max_pieces"] = 1
        refused(project.command("-q"), "filters.max_pieces = 1", "raise it")

    def test_a_vocabulary_larger_than_possible_is_lowered_with_a_message(self, project):
        project.add_text("one", 30)
        project.settings["vocabulary.size"] = 32_768
        said = accepted(project.command("-q"))
        entry = project.manifest().vocabulary
        assert entry.size < 32_768 == entry.requested_size
        assert f"vocabulary lowered to {entry.size:,} pieces: the text cannot give 32,768" in said

    def test_a_vocabulary_smaller_than_possible_is_refused_with_the_cure(self, project):
        signs = [chr(0x4E00 + number) for number in range(600)]
        project.write("one.en", ["one two three four"] * 60)
        project.write("one.zh", ["".join(signs[start : start + 10]) for start in range(0, 600, 10)])
        project.add(source="one.en", target="one.zh")
        project.settings.update({"data.target_language": "zh", "vocabulary.character_coverage": 1.0})
        refused(project.command("-q"), "vocabulary.size = 400 is too small", "raise it")


class TestPlaces:
    def test_a_full_disk_is_told_and_the_next_run_goes_on(self, project, new_project, small_disk, content_of):
        project.add_text("one", 5000)
        disk = small_disk("size=600k")
        project.settings["data.folder"] = str(disk / "out")
        refused(project.command("-q"), f"cannot write to {disk / 'out'}", "No space left on device", "free some space")
        assert not (disk / "out" / "manifest.json").exists()
        subprocess.run(["mount", "-o", "remount,size=50m", str(disk)], check=True)
        accepted(project.command("-q"))
        fresh = new_project("fresh")
        fresh.add_text("one", 5000)
        fresh.prepare()
        ours, theirs = content_of(disk / "out"), content_of(fresh.folder)
        assert {name: raw for name, raw in ours.items() if name != "manifest.json"} == {
            name: raw for name, raw in theirs.items() if name != "manifest.json"
        }

    def test_a_disk_that_only_reads_is_told_with_the_cure(self, project, small_disk):
        project.add_text("one", 30)
        project.settings["data.folder"] = str(small_disk("size=1m,ro") / "out")
        refused(project.command("-q"), "cannot write to", "Read-only file system", "choose a folder")

    def test_a_file_in_place_of_a_folder_is_told_with_the_cure(self, project):
        project.add_text("one", 30)
        for folder in ("one.en", "one.en/out"):
            project.settings["data.folder"] = folder
            refused(project.command("-q"), f"cannot write to {project.root / folder}", "choose another folder")

    @pytest.mark.parametrize("name", ["Daten für später", "data [new]", "x[/y]", "日本 語"])
    def test_any_name_of_a_folder_will_do_and_is_shown_in_full(self, project, name):
        project.add_text("one", 60)
        project.settings["data.folder"] = name
        result = project.command("-q")
        accepted(result)
        assert f"data folder: {project.root / name} " in result.stdout
        assert project.manifest().train[0].pairs == 60

    def test_a_second_preparation_in_the_same_folder_is_refused_with_the_first_ones_process(self, project):
        project.add_text("one", 30)
        (project.folder / "work").mkdir(parents=True)
        with (project.folder / "work" / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.write("process 4242 on somewhere\n")
            lock.flush()
            refused(project.command("-q"), str(project.folder), "another preparation is at work", "process 4242")
        accepted(project.command("-q"))


class TestJsonResult:
    def test_standard_output_is_json_and_nothing_else(self, project):
        project.add_text("one", 60)
        result = project.command("--json")
        figures = json.loads(result.stdout)
        assert figures["is_new"] and figures["train"]["pairs"] == 60
        assert json.loads(project.command("--json", "-q").stdout)["is_new"] is False
