"""An export says what its checkpoint says, describes itself, and is there whole or not at all."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
import yaml

from septuagint.data.files import hash_file
from septuagint.data.manifest import read_manifest as read_data_manifest
from septuagint.data.manifest import write_manifest as write_data_manifest
from septuagint.data.vocabulary import Vocabulary
from septuagint.errors import CheckpointError, ConfigError, DataError, ParityError, StorageError, UserError
from septuagint.inference import export as export_module
from septuagint.inference.artifact import MANIFEST, Artifact, NewerArtifactError, is_artifact, read_manifest
from septuagint.inference.export import _background, artifact_of_run, export
from septuagint.inference.export_summary import check_options
from septuagint.inference.model_card import Background, write_card
from septuagint.inference.parity import score_artifact
from septuagint.inference.scoring import Score, score
from septuagint.inference.trained import open_trained
from septuagint.machine import cpu_model, has_wide_byte_products
from septuagint.training.checkpoint import (
    checkpoint_path,
    load_weights,
    point_best,
    remove_leftovers,
    write_weights,
)
from septuagint.training.retention import mirror
from tests.inference.conftest import (
    QUIET,
    STEPS,
    change_manifest,
    copy_run,
    open_translator,
    prepare_with_learned_text,
    septuagint,
    write_other_text,
)
from tests.training.conftest import Program


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def forget_data(run: Path) -> None:
    """The data folder is not where the run says, as after a copy to another machine."""
    config = run / "config.toml"
    config.write_text(config.read_text().replace("/project/out", "/project/gone"))


def weights_of(run: Path, checkpoint: str) -> str:
    return hash_file(
        checkpoint_path(run, checkpoint if checkpoint == "averaged" else int(checkpoint)) / "model.safetensors"
    )


def front_matter(folder: Path) -> dict:
    _, head, _ = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(head)


class TestWhichCheckpoint:
    @pytest.mark.parametrize("name", ["averaged", "10", "20", "step-00000020"])
    def test_one_can_be_named(self, run_folder, tmp_path, name):
        manifest = export(run_folder, tmp_path / "a", checkpoint=name, quantization="float32", report=QUIET).manifest
        step = name.removeprefix("step-")
        assert manifest.origin.weights_sha256 == weights_of(run_folder, step)
        assert manifest.origin.step == (STEPS[-1] if name == "averaged" else int(step))
        assert manifest.origin.checkpoint in (name, f"step-{int(step):08d}" if step.isdecimal() else name)

    def test_the_newest_need_not_be_the_best(self, own_run, tmp_path):
        point_best(own_run, 20)
        best = export(own_run, tmp_path / "best", report=QUIET).manifest
        newest = export(own_run, tmp_path / "newest", checkpoint="newest", report=QUIET).manifest
        assert (best.origin.step, newest.origin.step) == (20, 40)

    def test_one_that_is_not_there_is_answered_with_those_that_are(self, run_folder, tmp_path):
        for name in ("15", "step-00000015", "latest"):
            with pytest.raises(CheckpointError, match=f"no checkpoint '{name}'.*there are 10, 20, 30, 40"):
                export(run_folder, tmp_path / "a", checkpoint=name, report=QUIET)
        assert names_in(tmp_path) == []

    def test_what_is_no_run_is_refused(self, tmp_path):
        with pytest.raises(CheckpointError, match="no such folder; give a run folder"):
            export(tmp_path / "nowhere", tmp_path / "a", report=QUIET)
        with pytest.raises(CheckpointError) as caught:
            export(tmp_path, tmp_path / "a", report=QUIET)
        assert str(tmp_path) in str(caught.value)

    def test_the_last_ones_can_be_averaged(self, run_folder, tmp_path):
        trained = open_trained(run_folder, num_averaged=2)
        last = [load_weights(checkpoint_path(run_folder, step)).weights for step in (30, 40)]
        for name, tensor in trained.checkpoint.weights.items():
            assert torch.allclose(tensor, (last[0][name] + last[1][name]) / 2, atol=1e-7), name
        exported = export(run_folder, tmp_path / "a", num_averaged=2, quantization="float32", report=QUIET)
        assert exported.manifest.origin.checkpoint == "the mean of the last 2 checkpoints"
        assert exported.manifest.origin.weights_sha256 not in {weights_of(run_folder, step) for step in STEPS}
        with pytest.raises(CheckpointError, match="has 4 checkpoints, so 5 cannot be averaged"):
            open_trained(run_folder, num_averaged=5)

    def test_scores_of_others_are_not_claimed_for_a_new_average(self, run_folder, tmp_path):
        export(run_folder, tmp_path / "best", quantization="float32", report=QUIET)
        export(run_folder, tmp_path / "mean", num_averaged=2, quantization="float32", report=QUIET)
        assert "model-index" in front_matter(tmp_path / "best")
        assert "model-index" not in front_matter(tmp_path / "mean")
        assert "not validated in training" in (tmp_path / "mean" / "README.md").read_text()

    @pytest.mark.parametrize("place", ["checkpoints/step-00000040", "best"])
    def test_the_folder_of_a_checkpoint_can_be_given_from_anywhere(self, own_run, tmp_path, monkeypatch, place):
        forget_data(own_run)  # so the vocabulary must be found in the run folder
        manifest = export(own_run / place, tmp_path / "a", report=QUIET).manifest
        assert (manifest.origin.run, manifest.origin.step) == ("run", 40)
        monkeypatch.chdir((own_run / place).parent)
        assert export(Path(Path(place).name), tmp_path / "b", report=QUIET).manifest.origin == manifest.origin


class TestChecks:
    @pytest.mark.parametrize("quantization", ["float32", "int8", "float16"])
    def test_what_was_measured_is_in_the_manifest(self, run_folder, prepared, tmp_path, quantization):
        checks = export(run_folder, tmp_path / "a", quantization=quantization, report=QUIET).manifest.checks
        assert 0 < checks["max_difference"] <= 1e-4
        vocabulary = Vocabulary.load(run_folder / "vocabulary.model")
        references = (prepared / "valid.de").read_text().splitlines()
        assert checks["num_pieces"] == len(vocabulary.encode(references)[0])
        if quantization == "float32":
            assert "bleu_change" not in checks
        else:
            assert checks["bleu_change"] == pytest.approx(checks["bleu"] - checks["bleu_float32"])
            assert checks["bleu_lines"] == len(references)
        with open_translator(tmp_path / "a") as translator:
            assert len(list(translator.translate([["red dog two", ""]]))) == 2

    def test_much_validation_text_is_looked_at_here_and_there(self, run_folder, prepared, tmp_path, monkeypatch):
        looked_at = []

        def note_lines(artifact, sources, references, advance):
            looked_at.append((list(sources), list(references)))
            return score_artifact(artifact, sources, references, advance)

        monkeypatch.setattr(export_module, "_MAX_BLEU_LINES", 3)
        monkeypatch.setattr(export_module, "score_artifact", note_lines)
        checks = export(run_folder, tmp_path / "a", report=QUIET).manifest.checks
        sides = [(prepared / f"valid.{language}").read_text().splitlines() for language in ("en", "de")]
        assert checks["bleu_lines"] == 3
        assert looked_at == [tuple([lines[0], lines[3], lines[7]] for lines in sides)] * 2

    def test_int8_is_much_smaller_than_float32(self, run_folder, tmp_path):
        sizes = [
            export(run_folder, tmp_path / kind, quantization=kind, report=QUIET).manifest.files["model/model.bin"].bytes
            for kind in ("float32", "int8")
        ]
        assert sizes[1] < sizes[0] / 2.5

    def test_without_validation_text_what_quantisation_changes_is_not_claimed(self, own_run, tmp_path, notes):
        forget_data(own_run)
        checks = export(own_run, tmp_path / "a", report=notes).manifest.checks
        assert checks["max_difference"] <= 1e-4
        assert checks["num_pieces"] > 500  # of random pieces
        assert "bleu_change" not in checks
        assert any("the validation text is not there" in message for message in notes.messages)
        assert "was not measured" in (tmp_path / "a" / "README.md").read_text()

    def test_weights_that_are_not_the_checkpoints_are_found_and_nothing_is_written(
        self, run_folder, tmp_path, monkeypatch
    ):
        write = export_module.write_ctranslate2

        def write_wrongly(folder, *, weights, **options):
            name = "decoder.0.feedforward.output.weight"
            write(folder, weights={**weights, name: weights[name] * 1.01}, **options)

        monkeypatch.setattr(export_module, "write_ctranslate2", write_wrongly)
        with pytest.raises(ParityError, match=r"log-probabilities differ by up to .*nothing was written"):
            export(run_folder, tmp_path / "a", report=QUIET)
        assert names_in(tmp_path) == []

    def test_the_command_exits_1_when_they_differ(self, run_folder, tmp_path):
        code = (
            "import sys; from septuagint.inference import parity; from septuagint import cli\n"
            "parity.MAX_DIFFERENCE = -1.0; sys.argv[0] = 'septuagint'; cli.main()"
        )
        command = [sys.executable, "-c", code, "export", str(run_folder), "--to", str(tmp_path / "a"), "--quiet"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == 1
        assert result.stderr.startswith("error: the exported model does not say what the checkpoint says")
        assert "Traceback" not in result.stderr
        assert names_in(tmp_path) == []

    def test_it_is_checked_and_timed_with_the_registers_that_translate(self, run_folder, artifact_folder, tmp_path):
        if not has_wide_byte_products():
            pytest.skip("this processor has no wide registers to choose")
        environment = os.environ | {"CT2_VERBOSE": "1"}
        exporting = septuagint("export", run_folder, "--to", tmp_path / "a", env=environment)
        translating = septuagint("translate", artifact_folder, text=b"a\n", env=environment)
        registers = [set(re.findall(rb"Selected ISA: (\w+)", result.stderr)) for result in (exporting, translating)]
        assert registers == [{b"AVX512"}, {b"AVX512"}]


class TestTestSets:
    @pytest.mark.parametrize(
        ("format", "quantization"), [("ctranslate2", "int8"), ("ctranslate2", "float32"), ("huggingface", "float32")]
    )
    def test_the_scores_are_those_of_what_is_exported(self, trained, prepared, tmp_path, format, quantization):
        run = trained.run_path("run")
        if format == "huggingface":
            trained.train("model.preset=base", "training.max_steps=10", run="base")
            run = trained.run_path("base")
        export(run, tmp_path / "plain", quantization=quantization, report=QUIET)
        options = {"format": format, "quantization": quantization, "test_sets": True}
        found = export(run, tmp_path / "a", **options, report=QUIET).manifest.checks["test_sets"]
        sources, references = ((prepared / f"test.{side}").read_text().splitlines() for side in ("en", "de"))
        with open_translator(tmp_path / "plain") as translator:
            lines = list(translator.translate([sources]))
        assert found["scores"] == {"test": asdict(score([line.text for line in lines], references, "de"))}
        assert found["target_tokens"] == sum(line.num_pieces for line in lines)
        assert found["target_tokens_per_second"] == pytest.approx(found["target_tokens"] / found["seconds"])
        Artifact(tmp_path / "a")  # every byte of it is what its manifest says

    @pytest.mark.parametrize("format", ["ctranslate2", "argos"])
    def test_the_card_tells_them_before_those_of_validation(self, run_folder, tmp_path, format):
        exported = export(run_folder, tmp_path / "a", format=format, test_sets=True, report=QUIET)
        found = exported.manifest.checks["test_sets"]
        if format == "argos":
            with zipfile.ZipFile(next((tmp_path / "a").glob("*.argosmodel"))) as package:
                (name,) = (name for name in package.namelist() if name.endswith("README.md"))
                (tmp_path / "a" / "README.md").write_bytes(package.read(name))
        results = front_matter(tmp_path / "a")["model-index"][0]["results"]
        assert [result["dataset"]["type"] for result in results] == ["test", "validation"]
        test = found["scores"]["test"]
        assert [metric["value"] for metric in results[0]["metrics"]] == [round(test["bleu"], 2), round(test["chrf"], 2)]
        card = (tmp_path / "a" / "README.md").read_text(encoding="utf-8")
        assert f"\n| test | 8 | {test['bleu']:.2f} | {test['chrf']:.2f} |\n" in card
        assert f"{found['target_tokens_per_second']:,.0f} target tokens per second on {found['hardware']}:" in card
        assert found["hardware"].endswith(cpu_model())
        assert card.count("BLEU is sacreBLEU's") == 1

    def test_without_test_sets_nothing_is_begun(self, own_run, tmp_path, monkeypatch):
        monkeypatch.setattr(export_module, "write_ctranslate2", None)
        folder = tmp_path / "without"
        shutil.copytree(open_trained(own_run).data_folder, folder)
        manifest = read_data_manifest(folder)
        write_data_manifest(folder, manifest.model_copy(update={"test": ()}))
        config = own_run / "config.toml"
        text = config.read_text()
        for place, problem in ((folder, "was prepared without test sets"), (folder / "gone", "not there")):
            config.write_text(text.replace(str(open_trained(own_run).data_folder), str(place)))
            with pytest.raises(DataError, match=rf"{place}: {problem}.* leave --test-sets out$"):
                export(own_run, tmp_path / "a", test_sets=True, report=QUIET)
            config.write_text(text)
        assert not (tmp_path / "a").exists()

    def test_the_command_shows_a_line_for_each(self, run_folder, tmp_path):
        program = Program(tmp_path, ["export", str(run_folder), "--to", str(tmp_path / "a"), "--test-sets"])
        assert program.wait() == 0, program.stderr
        test = read_manifest(tmp_path / "a").checks["test_sets"]["scores"]["test"]
        assert f"\ntest  BLEU {test['bleu']:5.2f}  chrF {test['chrf']:5.2f}       8 lines\n" in program.stdout
        assert "target tokens per second on " in program.stdout
        assert "translating test: 8 lines" in program.stderr


class TestVocabulary:
    def test_the_run_folders_own_is_enough(self, own_run, tmp_path):
        forget_data(own_run)
        export(own_run, tmp_path / "a", report=QUIET)
        assert hash_file(tmp_path / "a" / "sentencepiece.model") == hash_file(own_run / "vocabulary.model")

    def test_the_data_folders_is_enough(self, own_run, tmp_path):
        vocabulary = (own_run / "vocabulary.model").read_bytes()
        (own_run / "vocabulary.model").unlink()
        export(own_run, tmp_path / "a", report=QUIET)
        assert (tmp_path / "a" / "sentencepiece.model").read_bytes() == vocabulary

    def test_a_damaged_copy_is_passed_over_for_the_data_folders(self, own_run, tmp_path):
        whole = (own_run / "vocabulary.model").read_bytes()
        (own_run / "vocabulary.model").write_bytes(whole[:-1])
        export(own_run, tmp_path / "a", report=QUIET)
        assert (tmp_path / "a" / "sentencepiece.model").read_bytes() == whole

    @pytest.mark.parametrize("content", [None, b"", b"damaged", "another"])
    def test_without_the_right_one_both_places_are_named(self, own_run, tmp_path, content):
        forget_data(own_run)
        path = own_run / "vocabulary.model"
        if content is None:
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:-2] if content == "another" else content)
        with pytest.raises(CheckpointError) as caught:
            export(own_run, tmp_path / "a", report=QUIET)
        assert str(path) in str(caught.value)
        assert "/project/gone" in str(caught.value)
        assert "put back one of them" in str(caught.value)
        assert not (tmp_path / "a").exists()


class TestTrainingText:
    def card(self, folder: Path) -> str:
        return (folder / "README.md").read_text(encoding="utf-8")

    def test_a_data_folder_of_other_text_is_not_taken_for_the_runs(self, own_run, own_project, tmp_path):
        shutil.copy(own_run / "vocabulary.model", tmp_path)
        own_project.settings["vocabulary.model"] = str(tmp_path / "vocabulary.model")
        write_other_text(own_project)
        own_project.prepare()
        assert own_project.corpus().pairs not in (0, 120)
        trained = open_trained(own_run)
        assert (trained.data, list(trained.valid)) == (None, [])
        with pytest.raises(CheckpointError, match=f"{own_project.folder}: the training text cannot be read"):
            trained.training_sample(10)
        with pytest.raises(DataError, match=r"prepared anew from other text .* leave --test-sets out$"):
            export(own_run, tmp_path / "a", test_sets=True, report=QUIET)
        export(own_run, tmp_path / "a", report=QUIET)
        assert "- Training text: 120 pairs\n  - train: 120\n" in self.card(tmp_path / "a")

    def test_a_data_folder_with_another_test_set_still_is(self, own_run, own_project, tmp_path):
        write_other_text(own_project, "more")
        own_project.add("test", source="more.en", target="more.de")
        assert own_project.prepare().is_new
        checks = export(own_run, tmp_path / "a", test_sets=True, report=QUIET).manifest.checks
        assert list(checks["test_sets"]["scores"]) == ["test", "more"]
        assert checks["test_sets"]["seen_pairs"] == 0
        assert "too good" not in self.card(tmp_path / "a")
        assert len(open_trained(own_run).training_sample(10)[0]) == 10

    def test_the_card_says_that_training_saw_test_text(self, own_run, own_project, tmp_path, notes):
        shutil.copy(own_run / "vocabulary.model", tmp_path)
        own_project.settings["vocabulary.model"] = str(tmp_path / "vocabulary.model")
        num_seen = prepare_with_learned_text(own_project)
        assert num_seen >= 3
        checks = export(own_run, tmp_path / "a", test_sets=True, report=notes).manifest.checks
        assert checks["test_sets"]["seen_pairs"] == num_seen
        assert f"training, which saw up to {num_seen} pairs of which a side stands in it by now" in self.card(
            tmp_path / "a"
        )
        assert any("scores may be too good" in message for message in notes.messages)

    def test_the_card_needs_the_record_or_the_data_folder(self, own_run, tmp_path):
        record = own_run / "events"
        record.rename(own_run / "aside")
        export(own_run, tmp_path / "folder", report=QUIET)
        forget_data(own_run)
        export(own_run, tmp_path / "neither", report=QUIET)
        (own_run / "aside").rename(record)
        export(own_run, tmp_path / "record", report=QUIET)
        for name in ("folder", "record"):
            assert "- Training text: 120 pairs\n  - train: 120\n" in self.card(tmp_path / name)
        assert "- Training text: not recorded\n" in self.card(tmp_path / "neither")

    def test_a_damaged_record_is_none(self, own_run, tmp_path):
        forget_data(own_run)
        record = own_run / "events" / "rank-0.jsonl"
        record.write_text(record.read_text().replace('"pairs": 120', '"pairs": null'))
        export(own_run, tmp_path / "a", report=QUIET)
        assert "- Training text: not recorded\n" in self.card(tmp_path / "a")


class TestTarget:
    @pytest.mark.parametrize("name", ["notes.txt", MANIFEST])
    def test_somebody_elses_folder_is_refused_and_left_alone(self, run_folder, tmp_path, name):
        target = tmp_path / "mine"
        target.mkdir()
        (target / name).write_text('{"format": "mine"}')
        with pytest.raises(
            StorageError, match="not empty, and not an artifact; choose another folder with --to"
        ) as caught:
            export(run_folder, target, report=QUIET)
        assert str(target) in str(caught.value)
        assert (names_in(tmp_path), names_in(target)) == (["mine"], [name])

    def test_a_run_folder_is_not_overwritten(self, own_run):
        before = names_in(own_run)
        with pytest.raises(StorageError, match="not an artifact"):
            export(own_run, own_run, report=QUIET)
        assert names_in(own_run) == before

    def test_a_file_is_refused(self, run_folder, tmp_path):
        (tmp_path / "file").write_text("mine")
        with pytest.raises(StorageError, match="a file stands there"):
            export(run_folder, tmp_path / "file", report=QUIET)
        assert (tmp_path / "file").read_text() == "mine"

    def test_an_empty_folder_is_filled_and_an_artifact_is_replaced(self, run_folder, tmp_path):
        target = tmp_path / "deep" / "a"
        target.mkdir(parents=True)
        export(run_folder, target, checkpoint="10", report=QUIET)
        assert read_manifest(target).origin.step == 10
        export(run_folder, target, checkpoint="20", quantization="float32", report=QUIET)
        assert Artifact(target).manifest.origin.step == 20
        assert names_in(target.parent) == ["a"]

    def test_a_damaged_artifact_is_replaced_too(self, run_folder, own_artifact):
        manifest = own_artifact / MANIFEST
        manifest.write_bytes(manifest.read_bytes()[:-50])
        export(run_folder, own_artifact, report=QUIET)
        assert Artifact(own_artifact).manifest.quantization == "int8"

    @pytest.mark.parametrize("moment", ["write_card", "check_parity", "seal", "_compare_bleu"])
    @pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device"), ValueError])
    def test_broken_off_at_any_moment_it_leaves_nothing_new(self, run_folder, own_artifact, monkeypatch, moment, error):
        before = {path: path.read_bytes() for path in own_artifact.rglob("*") if path.is_file()}

        def fail(*_, **__):
            raise error

        monkeypatch.setattr(export_module, moment, fail)
        kind = StorageError if isinstance(error, OSError) else error
        for target in (own_artifact, own_artifact.with_name("new")):
            with pytest.raises(kind):
                export(run_folder, target, report=QUIET)
        assert names_in(own_artifact.parent) == [own_artifact.name]
        assert {path: path.read_bytes() for path in own_artifact.rglob("*") if path.is_file()} == before

    def test_a_full_disk_is_told_and_left_as_it_was(self, run_folder, small_disk, tmp_path):
        disk = small_disk("size=100k")
        program = Program(tmp_path, ["export", str(run_folder), "--to", str(disk / "a"), "--quiet"])
        assert program.wait() == 2
        assert f"error: cannot write to {disk / 'a'}: No space left on device" in program.stderr
        assert "free some space" in program.stderr
        assert "Traceback" not in program.stderr
        assert names_in(disk) == []

    def test_others_may_read_what_was_exported(self, run_folder, tmp_path):
        for kind in ("float32", "int8"):
            export(run_folder, tmp_path / kind, quantization=kind, report=QUIET)
            assert (tmp_path / kind).stat().st_mode == tmp_path.joinpath(kind, "model").stat().st_mode
            assert (tmp_path / kind).stat().st_mode & 0o055 == 0o055


def test_any_name_will_do(run_folder, tmp_path):
    """Also those that the export itself might give to what it needs on the way."""
    for name in ("package", "float32", "scratch", "model", "mein Übersetzer"):
        for format, kind in (("argos", "int8"), ("ctranslate2", "int8"), ("ctranslate2", "float32")):
            export(run_folder, tmp_path / name, format=format, quantization=kind, report=QUIET)
            Artifact(tmp_path / name)
    assert len(names_in(tmp_path)) == 5


def test_many_who_want_the_artifact_of_a_run_at_once_get_one(own_run, tmp_path):
    programs = [Program(tmp_path, ["translate", str(own_run), __file__, "--quiet"]) for _ in range(4)]
    assert [program.wait() for program in programs] == [0] * 4, [program.stderr for program in programs]
    assert len({program.stdout for program in programs}) == 1
    assert [name for name in names_in(own_run) if name.startswith(".")] == []


def test_training_leaves_an_export_that_is_under_way_alone(own_run):
    under_way, dead = own_run / f".artifact.{os.getpid()}.tmp", own_run / ".best.1.tmp"
    for folder in (under_way, dead):
        folder.mkdir()
    remove_leftovers(own_run)
    assert (under_way.exists(), dead.exists()) == (True, False)
    artifact_of_run(own_run, QUIET)  # it was dead after all
    assert not under_way.exists()


def test_an_export_with_files_of_others_in_it_is_left_alone(run_folder, tmp_path):
    target = export(run_folder, tmp_path / "a", quantization="float32", report=QUIET).folder
    (target / ".git").mkdir()
    with pytest.raises(StorageError, match=r"files of others in it \(\.git\)"):
        export(run_folder, target, report=QUIET)
    assert Artifact(target).manifest.quantization == "float32"


def test_what_a_killed_export_had_set_aside_gets_its_name_again(run_folder, tmp_path, monkeypatch):
    target = export(run_folder, tmp_path / "a", quantization="float32", report=QUIET).folder
    target.rename(tmp_path / ".a.old")

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(export_module, "write_ctranslate2", fail)
    with pytest.raises(KeyboardInterrupt):
        export(run_folder, target, report=QUIET)
    assert Artifact(target).manifest.quantization == "float32"


def test_the_current_folder_is_not_replaced(run_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="give the name of a new one"):
        export(run_folder, Path(), report=QUIET)


def test_a_link_to_an_artifact_stays_a_link(run_folder, tmp_path):
    export(run_folder, tmp_path / "a", quantization="float32", report=QUIET)
    (tmp_path / "b").symlink_to("a")
    for _ in range(2):
        export(run_folder, tmp_path / "b", report=QUIET)
    assert (tmp_path / "b").is_symlink()
    assert Artifact(tmp_path / "a").manifest.quantization == "int8"


def test_one_choice_of_weights_is_enough(run_folder, tmp_path):
    with pytest.raises(UserError, match="give one of them"):
        export(run_folder, tmp_path / "a", checkpoint="20", num_averaged=2, report=QUIET)


def test_weights_that_are_not_numbers_are_not_exported(own_run, tmp_path):
    trained = open_trained(own_run)
    weights = {name: torch.full_like(tensor, torch.nan) for name, tensor in trained.checkpoint.weights.items()}
    write_weights(checkpoint_path(own_run, "averaged"), 40, weights, trained.checkpoint.state)
    with pytest.raises(ParityError, match="differ by up to nan"):
        export(own_run, tmp_path / "a", checkpoint="averaged", report=QUIET)
    assert not (tmp_path / "a").exists()


def test_the_mirror_of_a_run_can_be_exported(own_run, tmp_path):
    assert mirror(own_run, tmp_path / "mirror") is None
    shutil.rmtree(own_run)
    manifest = export(tmp_path / "mirror", tmp_path / "a", report=QUIET).manifest
    assert (manifest.origin.run, manifest.origin.step) == ("mirror", 40)
    assert artifact_of_run(tmp_path / "mirror", QUIET).manifest.origin == manifest.origin


class TestArtifactOfARun:
    def test_it_is_made_once(self, own_run, notes):
        first = artifact_of_run(own_run, notes)
        assert first.folder == own_run / "artifact"
        assert first.manifest.origin.step == 40
        assert any("exporting the best checkpoint" in message for message in notes.messages)
        notes.messages.clear()
        before = (first.folder / MANIFEST).stat()
        assert artifact_of_run(own_run, notes).manifest == first.manifest
        assert (first.folder / MANIFEST).stat() == before
        assert notes.messages == []

    def test_it_is_made_once_for_the_newest_checkpoint_where_none_is_called_best(self, own_run, notes):
        (own_run / "best").unlink()
        first = artifact_of_run(own_run, QUIET)
        assert first.manifest.origin.step == 40
        assert artifact_of_run(own_run, notes).manifest == first.manifest
        assert notes.messages == []
        shutil.rmtree(checkpoint_path(own_run, 40))
        assert artifact_of_run(own_run, notes).manifest.origin.step == 30

    def test_it_is_made_again_when_another_checkpoint_is_the_best(self, own_run, notes):
        artifact_of_run(own_run, QUIET)
        point_best(own_run, 20)
        assert artifact_of_run(own_run, notes).manifest.origin.step == 20
        assert any("exporting the best checkpoint" in message for message in notes.messages)
        point_best(own_run, "averaged")
        assert artifact_of_run(own_run, QUIET).manifest.origin.weights_sha256 == weights_of(own_run, "averaged")

    @pytest.mark.parametrize("name", ["model/model.bin", "README.md", MANIFEST])
    def test_a_damaged_one_is_made_anew_with_a_warning(self, own_run, notes, name):
        path = artifact_of_run(own_run, QUIET).folder / name
        path.write_bytes(path.read_bytes()[:-5])
        artifact = artifact_of_run(own_run, notes)
        assert Artifact(artifact.folder).manifest.origin.step == 40
        assert notes.messages[0].startswith(str(path))
        assert notes.messages[0].endswith("; it is made anew")

    def test_one_that_a_newer_program_made_is_left_to_it(self, own_run):
        folder = artifact_of_run(own_run, QUIET).folder
        change_manifest(folder, version=2)
        before = (folder / MANIFEST).read_bytes()
        with pytest.raises(NewerArtifactError, match="update Septuagint"):
            artifact_of_run(own_run, QUIET)
        assert (folder / MANIFEST).read_bytes() == before

    def test_something_else_in_its_place_is_left_alone(self, own_run):
        (own_run / "artifact").mkdir()
        (own_run / "artifact" / "mine").touch()
        with pytest.raises(StorageError, match="move that one away"):
            artifact_of_run(own_run, QUIET)
        assert names_in(own_run / "artifact") == ["mine"]


class TestModelCard:
    def test_its_front_matter_is_what_hugging_face_reads(self, run_folder, tmp_path):
        export(run_folder, tmp_path / "a", license="cc-by-4.0", report=QUIET)
        head = front_matter(tmp_path / "a")
        assert head["language"] == ["en", "de"]
        assert (head["license"], head["library_name"]) == ("cc-by-4.0", "ctranslate2")
        assert head["metrics"] == ["bleu", "chrf"]
        ((result,),) = (entry["results"] for entry in head["model-index"])
        scores = load_weights(run_folder).state["validations"][-1]["scores"]
        assert [(metric["type"], metric["value"]) for metric in result["metrics"]] == [
            ("bleu", round(scores["bleu"], 2)),
            ("chrf", round(scores["chrf"], 2)),
        ]
        assert result["metrics"][0]["args"] == scores["bleu_signature"]

    def test_it_is_called_as_one_says_or_like_the_run(self, run_folder, tmp_path):
        named = export(run_folder, tmp_path / "a", name="News | 2", report=QUIET)
        assert named.manifest.name == "News | 2"
        assert (tmp_path / "a" / "README.md").read_text(encoding="utf-8").count("\n# News | 2: en to de\n") == 1
        assert named.manifest.origin.run == run_folder.name
        plain = export(run_folder, tmp_path / "b", report=QUIET)
        assert plain.manifest.name == run_folder.name

    @pytest.mark.parametrize("name", ["", "  ", "two\nlines", "bell\a"])
    def test_a_name_has_one_line(self, name):
        with pytest.raises(UserError, match=r"--name .*must be a name in one line"):
            check_options("ctranslate2", None, vocabulary_map=False, name=name)

    def test_languages_and_names_stay_text_whatever_yaml_would_take_them_for(self, artifact_folder):
        manifest = read_manifest(artifact_folder).model_copy(
            update={"source_language": "no", "target_language": "123", "name": 'a: "b" # {c}\n- ü'}
        )
        score = Score(bleu=1.0, chrf=2.0, bleu_signature="a|b:c", chrf_signature="null", num_lines=1)
        background = Background(
            license="yes: no",
            corpora=[],
            scores={"on, 2020-01-01": score, "on": score},
            begun_with=None,
            steps=1,
            hours=0.0,
            num_target_tokens=1,
            device_names=[],
            settings={},
        )
        head = yaml.safe_load(write_card(manifest, background).split("---\n")[1])
        assert head["language"] == ["no", "123"]
        assert head["license"] == "yes: no"
        assert head["model-index"][0]["name"] == 'a: "b" # {c}\n- ü'
        assert head["model-index"][0]["results"][0]["dataset"]["name"] == "on, 2020-01-01"
        assert head["model-index"][0]["results"][1]["dataset"]["name"] == "on"

    def test_several_sets_have_a_row_each_below_that_of_all(self, run_folder, artifact_folder):
        trained = open_trained(run_folder)
        (entry,) = (
            found for found in trained.checkpoint.state["validations"] if found["step"] == trained.checkpoint.step
        )
        sets = {"news": entry["scores"] | {"bleu": 1.0}, "a|b": entry["scores"] | {"bleu": 2.0, "num_lines": 1234}}
        state = trained.checkpoint.state | {"validations": [entry | {"scores_of_sets": sets}]}
        config = trained.config | {"data": trained.config["data"] | {"valid": [{"name": name} for name in sets]}}
        checkpoint = replace(trained.checkpoint, state=state)
        background = _background(replace(trained, checkpoint=checkpoint, config=config), "unknown")
        assert [(text, score.bleu) for text, score in background.scores.items()] == [
            ("news, a|b", entry["scores"]["bleu"]),
            ("news", 1.0),
            ("a|b", 2.0),
        ]
        card = write_card(read_manifest(artifact_folder), background)
        assert "\n| a\\|b | 1,234 | 2.00 | " in card

    def test_it_says_what_was_measured_and_of_what_it_was_made(self, run_folder, tmp_path):
        manifest = export(run_folder, tmp_path / "a", report=QUIET).manifest
        card = (tmp_path / "a" / "README.md").read_text(encoding="utf-8")
        assert f"int8 changes BLEU by {manifest.checks['bleu_change']:+.2f}" in card
        assert "Training text: 120 pairs\n  - train: 120\n" in card
        assert manifest.origin.weights_sha256 in card
        assert f"{manifest.num_parameters:,} parameters" in card

    @pytest.mark.parametrize(
        ("start", "told"),
        [
            ("/far/runs/both", "both"),
            ("/far/runs/both/best", "both"),
            ("/far/runs/both/checkpoints/step-00000040", "both, step-00000040"),
        ],
    )
    def test_it_says_whose_weights_the_training_began_with(self, run_folder, artifact_folder, start, told):
        trained = open_trained(run_folder)
        manifest = read_manifest(artifact_folder)
        assert "Begun with" not in write_card(manifest, _background(trained, "unknown"))
        config = trained.config | {"training": trained.config["training"] | {"init_from": start}}
        card = write_card(manifest, _background(replace(trained, config=config), "unknown"))
        assert f"\n- Begun with: the weights of {told}, trained before\n- Training: 40 steps, " in card

    def test_the_card_of_the_average_tells_the_effort_of_its_run(self, own_run, tmp_path):
        state = load_weights(checkpoint_path(own_run, STEPS[-1])).state
        effort = f"40 steps, {state['num_target_tokens']:,} target tokens, {state['seconds'] / 3600:.2f} hours on 1 x "
        averaged = load_weights(checkpoint_path(own_run, "averaged"))
        assert averaged.state["num_target_tokens"] == state["num_target_tokens"]
        assert averaged.state["seconds"] == pytest.approx(state["seconds"], abs=1)

        def card() -> str:
            export(own_run, tmp_path / "a", checkpoint="averaged", report=QUIET)
            return (tmp_path / "a" / "README.md").read_text(encoding="utf-8")

        assert effort in card()
        early = averaged.state.keys() - {"seconds", "num_target_tokens"}  # what earlier versions wrote
        write_weights(averaged.path, averaged.step, averaged.weights, {name: averaged.state[name] for name in early})
        assert effort in card()
        shutil.rmtree(checkpoint_path(own_run, STEPS[-1]))
        assert "40 steps, target tokens not recorded, hours not recorded, on 1 x " in card()


def test_an_argos_package_is_a_zip_with_one_folder(run_folder, tmp_path):
    exported = export(run_folder, tmp_path / "a", format="argos", report=QUIET)
    assert names_in(tmp_path / "a") == [MANIFEST, "translate-en_de-1_0.argosmodel"]
    assert Artifact(tmp_path / "a").manifest.kind == exported.manifest.kind == "argos"
    with zipfile.ZipFile(tmp_path / "a" / "translate-en_de-1_0.argosmodel") as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert {name.partition("/")[0] for name in names} == {"translate-en_de-1_0"}
        folder = "translate-en_de-1_0"
        for name in ("model/model.bin", "sentencepiece.model", "metadata.json", "minisbd/sentences.onnx", "README.md"):
            assert f"{folder}/{name}" in names
        metadata = json.loads(archive.read(f"{folder}/metadata.json").decode("ascii"))
    assert (metadata["from_code"], metadata["to_code"]) == ("en", "de")


def test_a_run_folder_may_have_spaces_and_umlauts_in_its_path(run_folder, tmp_path):
    run = copy_run(run_folder, tmp_path / "meine Läufe" / "Lauf für Zoë")
    manifest = export(run, tmp_path / "ein Übersetzer", report=QUIET).manifest
    assert manifest.origin.run == manifest.name == "Lauf für Zoë"
    with open_translator(tmp_path / "ein Übersetzer") as translator:
        assert len(list(translator.translate([["red dog"]]))) == 1
    assert front_matter(tmp_path / "ein Übersetzer")["model-index"][0]["name"] == "Lauf für Zoë"


def test_hugging_face_does_not_have_every_network(run_folder, tmp_path):
    with pytest.raises(ConfigError):
        export(run_folder, tmp_path / "a", format="huggingface", report=QUIET)
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(
    ("format", "quantization", "vocabulary_map", "known"),
    [
        ("onnx", None, False, "argos"),
        ("ctranslate2", "int4", False, "int8_float16"),
        ("huggingface", "int8", False, "float32"),
        ("huggingface", None, True, "--vocabulary-map: what reads huggingface does not use one"),
        ("argos", None, True, "--vocabulary-map: what reads argos does not use one"),
    ],
)
def test_options_out_of_range_are_answered_with_the_range(format, quantization, vocabulary_map, known):
    with pytest.raises(UserError, match=known):
        check_options(format, quantization, vocabulary_map=vocabulary_map)


def test_what_was_exported_is_summed_up(run_folder, tmp_path):
    result = Program(tmp_path, ["export", str(run_folder), "--to", str(tmp_path / "a"), "--json", "--quiet"])
    assert result.wait() == 0, result.stderr
    summary = json.loads(result.stdout)
    assert summary["folder"] == str(tmp_path / "a")
    assert summary["bytes"] == sum(entry.bytes for entry in read_manifest(tmp_path / "a").files.values())
    assert summary["checks"]["bleu_lines"] == 8
    assert is_artifact(tmp_path / "a")
