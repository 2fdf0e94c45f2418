"""Training goes on while a checkpoint is written, and when it cannot be."""

import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from septuagint.errors import StorageError
from septuagint.training import checkpoint_writer
from septuagint.training.checkpoint import (
    SavedCheckpoint,
    best_path,
    checkpoint_path,
    find_checkpoints,
    load_weights,
    newest_valid,
    write_checkpoint,
)
from septuagint.training.checkpoint_writer import CheckpointWriter
from tests.data import conftest

small_disk = conftest.small_disk


class Notes:
    """What a writer told."""

    def __init__(self) -> None:
        self.saved: list[int] = []
        self.failures: list[str] = []
        self.threads: set[str] = set()

    def on_saved(self, saved: SavedCheckpoint) -> None:
        self.saved.append(saved.step)
        self.threads.add(threading.current_thread().name)

    def on_failure(self, message: str) -> None:
        self.failures.append(message)


@pytest.fixture
def notes() -> Notes:
    return Notes()


def new_writer(run: Path, notes: Notes, **options: Any) -> CheckpointWriter:
    return CheckpointWriter(
        run,
        **{
            "every": 1,
            "resumed_step": None,
            "best_step": None,
            "on_saved": notes.on_saved,
            "on_failure": notes.on_failure,
        }
        | options,
    )


def save(writer: CheckpointWriter, step: int, *, is_best: bool = False, num_numbers: int = 10) -> None:
    weights = {"weight": torch.full((num_numbers,), float(step))}
    writer.save(step, weights, {"moment": weights["weight"].clone()}, {"note": step}, is_best=is_best)


def test_checkpoints_are_written_pruned_and_the_best_is_pointed_to(tmp_path, notes):
    with new_writer(tmp_path, notes, mirror_folder=tmp_path / "mirror") as writer:
        for step in range(1, 10):
            save(writer, step, is_best=step in (1, 3))
        writer.wait()
        assert notes.saved == list(range(1, 10))
    assert [step for step, _ in find_checkpoints(tmp_path)] == [9, 8, 7, 6, 5, 3]
    assert best_path(tmp_path) == checkpoint_path(tmp_path, 3)
    assert load_weights(tmp_path / "mirror").step == 3
    assert notes.threads == {"checkpoint_0"}
    assert (notes.failures, writer.last_error) == ([], None)


def test_a_resumed_run_keeps_the_best_of_before_and_the_one_it_went_on_from(tmp_path, notes):
    with new_writer(tmp_path, notes) as writer:
        for step in range(1, 4):
            save(writer, step, is_best=step == 1)
    (checkpoint_path(tmp_path, 3) / "state.json").write_bytes(b"")
    found, _ = newest_valid(tmp_path)
    assert found is not None
    with new_writer(tmp_path, notes, resumed_step=found.step, best_step=1) as writer:
        for step in range(4, 10):
            save(writer, step)
            writer.wait()
            found, problems = newest_valid(tmp_path)
            assert found is not None
            assert (found.step, problems) == (step, [])
    assert [step for step, _ in find_checkpoints(tmp_path)] == [9, 8, 7, 6, 5, 1]
    assert load_weights(tmp_path).step == 1


def test_the_second_save_waits_for_the_first_and_training_does_not(tmp_path, notes, monkeypatch):
    go, order = threading.Event(), []

    def slow_write(run: Path, step: int, *content: Any) -> SavedCheckpoint:
        order.append(f"begin {step}")
        assert go.wait(10)
        order.append(f"end {step}")
        return write_checkpoint(run, step, *content)

    monkeypatch.setattr(checkpoint_writer, "write_checkpoint", slow_write)
    with new_writer(tmp_path, notes) as writer:
        save(writer, 1)
        order.append("trained")
        threading.Timer(0.05, go.set).start()
        save(writer, 2)
        order.append("trained on")
    assert order.index("end 1") < order.index("trained on")
    assert [entry for entry in order if "trained" not in entry] == ["begin 1", "end 1", "begin 2", "end 2"]
    assert order.index("trained") < order.index("end 1")
    assert notes.saved == [1, 2]


def test_an_error_of_our_own_is_not_hidden(tmp_path, notes):
    with pytest.raises(TypeError), new_writer(tmp_path, notes) as writer:
        writer.save(1, {}, {}, {"not JSON": object()})
    with pytest.raises(ZeroDivisionError), new_writer(tmp_path, notes):
        _ = 1 / 0


def test_a_failing_disk_does_not_stop_training(tmp_path, notes, monkeypatch):
    with new_writer(tmp_path, notes) as writer:
        save(writer, 1, is_best=True)
        writer.wait()
        with monkeypatch.context() as patch:

            def fail(*_: Any) -> SavedCheckpoint:
                raise PermissionError(13, "Permission denied", "somewhere")

            patch.setattr(checkpoint_writer, "write_checkpoint", fail)
            save(writer, 2, is_best=True)
            writer.wait()
        assert isinstance(writer.last_error, StorageError)
        assert "run the same command again" in str(writer.last_error)
        [message] = notes.failures
        assert "step 2 was not written: Permission denied (somewhere)" in message
        assert "trying again at the next checkpoint" in message
        assert load_weights(tmp_path).step == 1
        save(writer, 3)
    assert (writer.last_error, notes.saved) == (None, [1, 3])
    assert load_weights(tmp_path).step == 1


def test_a_best_that_cannot_be_linked_is_kept_all_the_same(tmp_path, notes):
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "something").touch()
    with new_writer(tmp_path, notes) as writer:
        for step in range(1, 10):
            save(writer, step, is_best=step == 2)
    assert (notes.saved, writer.last_error) == (list(range(1, 10)), None)
    assert len(notes.failures) == 1
    assert notes.failures[0].startswith(f"checkpoint 2 is the best, but {tmp_path / 'best'} could not be linked to it")
    assert [step for step, _ in find_checkpoints(tmp_path)] == [9, 8, 7, 6, 5, 2]


def test_what_cannot_be_cleared_up_is_a_warning(tmp_path, notes, monkeypatch):
    def no_pruning(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(checkpoint_writer, "prune", no_pruning)
    with new_writer(tmp_path, notes, mirror_folder=tmp_path) as writer:
        save(writer, 1, is_best=True)
    assert (notes.saved, writer.last_error) == ([1], None)
    assert "could not be cleared up" in notes.failures[0]
    assert "mirror" in notes.failures[1]


def test_a_full_disk_leaves_the_last_good_checkpoint(small_disk, notes):
    run = small_disk("size=3m")
    with new_writer(run, notes) as writer:
        save(writer, 1, is_best=True, num_numbers=100_000)
        save(writer, 2, num_numbers=100_000)
        writer.wait()
        filler = run / "filler"
        filler.write_bytes(bytes(1_000_000))
        save(writer, 3, is_best=True, num_numbers=100_000)
        save(writer, 2, num_numbers=100_000)
        writer.wait()
        assert isinstance(writer.last_error, StorageError)
        assert len(notes.failures) == 2
        assert f"{run}/checkpoints: the checkpoint of step 3 was not written: No space left" in notes.failures[0]
        assert "it needs 0.8 MB, 0." in notes.failures[0]
        assert "free some space; trying again at the next checkpoint" in notes.failures[0]
        assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["step-00000001", "step-00000002"]
        found, problems = newest_valid(run)
        assert found is not None
        assert (found.step, problems) == (2, [])
        assert load_weights(run).step == 1
        filler.unlink()
        save(writer, 4, num_numbers=100_000)
    assert (notes.saved, writer.last_error) == ([1, 2, 4], None)
    assert newest_valid(run)[1] == []
