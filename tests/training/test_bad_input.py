"""Whatever is wrong with what training reads: one message that names it and the cure, and nothing lost."""

import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from septuagint.data.files import hash_json
from septuagint.errors import CheckpointError, ConfigError, DataError, UserError
from septuagint.training import checkpoint_writer
from septuagint.training.checkpoint import (
    SavedCheckpoint,
    checkpoint_path,
    find_checkpoints,
    load_checkpoint,
    load_weights,
    write_checkpoint,
)
from septuagint.training.loop import MAX_SKIPPED_IN_A_ROW
from tests.data.conftest import Project
from tests.training.conftest import SETTINGS, Tiny, toy_text


def remove(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGES = [remove, truncate, flip_a_bit]


def refused(tiny: Tiny, kind: type[UserError], *overrides: str, run: str = "run") -> str:
    """The message of a training that is refused."""
    with pytest.raises(kind) as caught:
        tiny.train(*overrides, run=run)
    return str(caught.value)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    "pattern", ["train/*/source.ids", "train/*/target.offsets", "vocabulary.model", "valid/*/target.txt"]
)
def test_a_damaged_file_of_the_data_folder_is_named_before_anything_is_begun(own_tiny, damage, pattern):
    (path,) = own_tiny.data.glob(f"shards-*/{pattern}")
    damage(path)
    message = refused(own_tiny, DataError)
    assert str(path) in message
    assert "septuagint prepare" in message
    assert not own_tiny.run_path("run").exists()


def test_a_damaged_manifest_is_named(own_tiny):
    path = own_tiny.data / "manifest.json"
    truncate(path)
    assert str(path) in refused(own_tiny, DataError)
    path.unlink()
    assert "septuagint prepare" in refused(own_tiny, DataError)


def test_a_data_folder_of_a_newer_format_is_refused(own_tiny):
    path = own_tiny.data / "manifest.json"
    manifest = json.loads(path.read_bytes())
    path.write_text(json.dumps({**manifest, "version": manifest["version"] + 1}))
    assert "update Septuagint" in refused(own_tiny, DataError)


def test_text_must_be_prepared_with_a_validation_set(tmp_path, monkeypatch):
    project = Project(tmp_path / "project", monkeypatch)
    project.settings |= SETTINGS
    project.add_text("train", 100)
    project.prepare()
    assert "[data.valid]" in refused(Tiny(tmp_path, project.config_path), DataError)


def test_empty_lines_and_bytes_that_are_no_text_can_be_validated_on(tmp_path, monkeypatch):
    project = Project(tmp_path / "project", monkeypatch)
    project.settings |= SETTINGS | {"training.microbatch_tokens": 128}
    project.add_text("train", 100)
    project.write("valid.en", b"\n\xff\xfe\n")
    project.write("valid.de", b"\n\n")
    project.add("valid", source="valid.en", target="valid.de")
    project.prepare()
    outcome = Tiny(tmp_path, project.config_path).train("training.max_steps=2", "training.sample_every=1")
    assert outcome.best is not None
    assert outcome.best.scores.num_lines == 2


def test_a_budget_smaller_than_the_longest_pair_is_refused_with_the_smallest_that_will_do(tiny):
    message = refused(tiny, DataError, "training.tokens_per_step=4", "training.microbatch_tokens=4")
    assert "training.microbatch_tokens = 4" in message
    enough = int(message.partition("set it to ")[2].partition(" ")[0])
    budget = [f"training.{name}={enough}" for name in ("tokens_per_step", "microbatch_tokens")]
    assert tiny.train(*budget, "training.max_steps=1").reason == "max_steps"


def test_a_precision_that_the_machine_does_not_have_is_refused(tiny):
    assert 'use "fp32"' in refused(tiny, UserError, "training.precision=fp16")


class TestCheckpoints:
    @pytest.fixture
    def finished(self, prepared: Path, undisturbed: Tiny, tmp_path: Path) -> Tiny:
        """A copy of a finished run, to be damaged."""
        shutil.copytree(undisturbed.root, tmp_path, symlinks=True, dirs_exist_ok=True)
        return Tiny(tmp_path, prepared / "config.toml")

    @pytest.mark.parametrize("damage", DAMAGES)
    @pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"])
    def test_a_damaged_one_is_named_and_the_one_before_is_used(self, finished, undisturbed, damage, name):
        path = checkpoint_path(finished.run_path("run"), 12)
        damage(path / name)
        finished.train()
        (warning,) = (event["message"] for event in finished.events(kind="warning"))
        assert str(path) in warning
        assert warning.endswith("passed over, going on from step 9")
        assert finished.result() == undisturbed.result()

    def test_when_all_are_damaged_the_run_is_not_begun_anew(self, finished):
        run = finished.run_path("run")
        for _, path in find_checkpoints(run):
            if (path / "optimizer.safetensors").exists():
                flip_a_bit(path / "optimizer.safetensors")
        before = finished.content()
        message = refused(finished, CheckpointError)
        assert f"{run}: this run has checkpoints, but none that it can go on from" in message
        assert all(str(checkpoint_path(run, step)) in message for step in (12, 9))
        assert "--run" in message
        assert finished.content() == before

    def test_a_mirror_is_not_begun_anew_but_a_new_run_begins_with_its_weights(self, tiny, tmp_path):
        tiny.train(f"training.mirror={tmp_path / 'runs' / 'mirror'}", "training.average_checkpoints=0")
        before, path = tiny.content("mirror"), tiny.run_path("mirror")
        program = tiny.command(run="mirror")
        assert program.exit_code == 2
        assert f"error: {path}: this run has written checkpoints, but none is here: it is a mirror" in program.stderr
        assert tiny.content("mirror") == before
        start = re.search(r"training\.init_from = .*", program.stderr)[0]
        outcome = tiny.train(start, "training.learning_rate=1e-12", "training.max_steps=1", run="new")
        best = load_weights(path).state["validations"][-1]
        assert outcome.best.valid_loss == pytest.approx(best["valid_loss"], rel=1e-6)

    @pytest.mark.parametrize("has_best", [True, False])
    def test_when_all_were_removed_the_run_is_not_begun_anew(self, finished, has_best):
        run = finished.run_path("run")
        if has_best:  # as a mirror has it, whose record was lost
            (run / "best").unlink()
            checkpoint_path(run, 12).rename(run / "best")
            shutil.rmtree(run / "events")
        shutil.rmtree(run / "checkpoints")
        before = finished.content()
        message = refused(finished, CheckpointError)
        assert "put them back from a copy, or choose another folder with --run" in message
        assert ("training.init_from" in message) == has_best
        assert finished.content() == before

    def test_one_of_a_newer_format_is_refused(self, finished):
        path = checkpoint_path(finished.run_path("run"), 12) / "manifest.json"
        body = json.loads(path.read_bytes()) | {"version": 2}
        del body["sha256"]
        path.write_text(json.dumps({**body, "sha256": hash_json(body)}))
        assert "update Septuagint" in refused(finished, CheckpointError)

    def test_a_run_with_another_vocabulary_or_network_is_no_start(self, finished, tmp_path, monkeypatch):
        start = f"training.init_from={finished.run_path('run')}"
        assert "model.width" not in (message := refused(finished, CheckpointError, start, "model.width=64", run="new"))
        assert "set [model] as it was trained" in message
        project = Project(tmp_path / "other", monkeypatch)
        project.settings |= SETTINGS | {"vocabulary.size": 320}
        for split, num_lines in (("train", 120), ("valid", 8)):
            source, target = toy_text(num_lines, num_lines)
            project.write(f"{split}.en", source)
            project.write(f"{split}.de", target)
            project.add(split, source=f"{split}.en", target=f"{split}.de")
        project.prepare()
        other = Tiny(tmp_path / "other", project.config_path)
        message = refused(other, CheckpointError, start)
        assert "its vocabulary is not that of the data folder" in message
        assert "vocabulary.model" in message
        other.root = finished.root
        message = refused(other, ConfigError)
        assert "the model's vocabulary and the data folder's differ" in message

    def test_what_is_no_run_is_no_start(self, tiny, tmp_path):
        message = refused(tiny, CheckpointError, f"training.init_from={tmp_path / 'nowhere'}")
        assert str(tmp_path / "nowhere") in message


class TestNumbers:
    def test_many_steps_in_a_row_that_are_not_finite_stop_the_run(self, tiny, monkeypatch):
        def write_slowly(run: Path, step: int, *content: Any) -> SavedCheckpoint:
            time.sleep(0.5 if step == 48 else 0)  # still on its way when the run stops
            return write_checkpoint(run, step, *content)

        monkeypatch.setattr(checkpoint_writer, "write_checkpoint", write_slowly)
        settings = ["learning_rate=1e30", "warmup_steps=1", "max_steps=100", "validate_every=100", "sample_every=100"]
        message = refused(tiny, UserError, *(f"training.{setting}" for setting in settings))
        assert f"not finite in {MAX_SKIPPED_IN_A_ROW} steps in a row, up to step 51" in message
        last = checkpoint_path(tiny.run_path("run"), 48)
        assert f"the last checkpoint, {last}, is intact" in message
        assert "fp32" not in message  # it was
        assert load_checkpoint(last).state["skipped_in_a_row"] == 47
        assert [event["reason"] for event in tiny.events(kind="stop")] == ["not_finite"]
        skipped = tiny.events(kind="skipped")
        assert [event["in_a_row"] for event in skipped] == list(range(1, MAX_SKIPPED_IN_A_ROW + 1))
        (attempt,) = json.loads((tiny.run_path("run") / "environment.json").read_bytes())["attempts"]
        assert attempt["outcome"].startswith("NotFiniteError: the loss or the gradient was not finite")

    def test_it_is_told_once_whatever_the_number_of_ranks_and_with_a_cure(self, tiny):
        settings = ["learning_rate=1e30", "warmup_steps=1", "max_steps=100", "precision=bf16"]
        options = ("--quiet", "--workers", "2")
        program = tiny.command(*(f"training.{setting}" for setting in settings), options=options)
        assert program.exit_code == 2
        (line,) = program.stderr.splitlines()
        assert line.startswith("error: the loss or the gradient was not finite")
        assert line.endswith('training.precision = "fp32" instead of "bf16"')
