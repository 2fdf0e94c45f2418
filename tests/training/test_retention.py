"""What must be kept is kept, whatever happens, and what need not be goes."""

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch

from septuagint.data import folders
from septuagint.errors import StorageError
from septuagint.training import checkpoint_files, retention
from septuagint.training.checkpoint import (
    checkpoint_path,
    find_checkpoints,
    load_checkpoint,
    load_weights,
    newest_valid,
    point_best,
    remove_leftovers,
    write_checkpoint,
)
from septuagint.training.retention import check_space, mirror, prune


def write(run: Path, *steps: int, num_numbers: int = 10) -> None:
    for step in steps:
        content = {"weight": torch.full((num_numbers,), float(step))}
        write_checkpoint(run, step, content, content, {})


def kept(run: Path) -> tuple[list[int], list[int]]:
    """Steps whose checkpoints are whole, and those of which the weights alone are there, all of them valid."""
    whole, weights = [], []
    for step, path in find_checkpoints(run):
        assert load_weights(path).step == step
        has_optimizer = (path / "optimizer.safetensors").exists()
        assert has_optimizer == ("optimizer.safetensors" in checkpoint_files.read_manifest(path).files)
        (whole if has_optimizer else weights).append(step)
        if has_optimizer:
            load_checkpoint(path)
    return whole, weights


@pytest.mark.parametrize(
    ("num_written", "best", "whole", "weights"),
    [
        (1, None, [1], []),
        (2, None, [2, 1], []),
        (3, None, [3, 2], [1]),
        (5, None, [5, 4], [3, 2, 1]),
        (6, None, [6, 5], [4, 3, 2]),
        (9, 9, [9, 8], [7, 6, 5]),
        (9, 8, [9, 8], [7, 6, 5]),
        (9, 6, [9, 8, 6], [7, 5]),
        (9, 2, [9, 8, 2], [7, 6, 5]),
    ],
)
@pytest.mark.parametrize("is_each_time", [True, False])
def test_two_latest_and_best_stay_whole_and_weights_of_five_stay(
    tmp_path, num_written, best, whole, weights, is_each_time
):
    for step in range(1, num_written + 1):
        write(tmp_path, step)
        if is_each_time:
            prune(tmp_path, None if best is None or best > step else best, set(range(1, step + 1)), every=1)
    prune(tmp_path, best, set(range(1, num_written + 1)), every=1)
    assert kept(tmp_path) == (whole, weights)


def test_a_best_that_is_beaten_goes_the_way_of_the_others(tmp_path):
    for step in range(1, 9):
        write(tmp_path, step)
        prune(tmp_path, 7 if step >= 7 else 1, set(range(1, step + 1)), every=1)
    assert kept(tmp_path) == ([8, 7], [6, 5, 4])


def test_checkpoints_that_were_passed_over_never_count_as_the_latest(tmp_path):
    write(tmp_path, 100, 200, 300, 400, 500)
    for step in (400, 500):
        (checkpoint_path(tmp_path, step) / "optimizer.safetensors").write_bytes(b"damaged")
    # Resumed from 300; the checkpoints are now written more often.
    trusted = {300}
    write(tmp_path, 350)
    trusted.add(350)
    prune(tmp_path, None, trusted, every=1)
    found, problems = newest_valid(tmp_path)
    assert found is not None
    assert (found.step, len(problems)) == (350, 2)
    assert load_checkpoint(checkpoint_path(tmp_path, 300)).step == 300
    write(tmp_path, 450)
    prune(tmp_path, None, trusted | {450}, every=1)
    assert [step for step, _ in find_checkpoints(tmp_path)] == [500, 450, 350, 300, 200, 100]
    assert newest_valid(tmp_path)[0] is not None
    write(tmp_path, 500)
    prune(tmp_path, None, trusted | {450, 500}, every=1)
    assert kept(tmp_path) == ([500, 450], [350, 300, 200])


def test_what_a_signal_or_a_good_validation_added_is_not_kept_for_averaging(tmp_path):
    written: set[int] = set()
    for step in (10, 20, 23, 30, 35, 40, 47, 50, 60, 61):
        write(tmp_path, step)
        written.add(step)
        prune(tmp_path, 35 if step >= 35 else None, written, every=10)
    assert kept(tmp_path) == ([61, 60, 35], [50, 40, 30, 20])


def test_nothing_is_dropped_while_nothing_is_known_to_be_good(tmp_path):
    write(tmp_path, *range(1, 8))
    prune(tmp_path, None, set(), every=1)
    assert kept(tmp_path) == ([7, 6, 5, 4, 3, 2, 1], [])


def test_a_checkpoint_without_a_manifest_goes(tmp_path):
    write(tmp_path, 1, 2, 3)
    (checkpoint_path(tmp_path, 1) / "manifest.json").unlink()
    prune(tmp_path, None, {2, 3}, every=1)
    assert kept(tmp_path) == ([3, 2], [])


class Killed(BaseException):
    """What a kill would do, at a place of our choice."""


def killed_at(count: int, patch: pytest.MonkeyPatch) -> list[str]:
    """Lets the process end at the given change to the disk; returns the changes made."""
    changes: list[str] = []

    def watch(target: object, name: str) -> None:
        function: Callable[..., object] = getattr(target, name)

        def watched(*arguments: object, **options: object) -> object:
            if len(changes) == count:
                raise Killed
            changes.append(name)
            return function(*arguments, **options)

        patch.setattr(target, name, watched)

    for target, name in ((Path, "rename"), (Path, "replace"), (Path, "unlink"), (os, "unlink"), (os, "rmdir")):
        watch(target, name)
    return changes


def test_a_pruning_killed_at_any_moment_leaves_good_checkpoints_and_can_be_done_again(tmp_path, monkeypatch):
    trusted = set(range(1, 9))
    expected = ([8, 7, 1], [6, 5, 4])
    num_changes = 0
    while True:
        run = tmp_path / str(num_changes)
        write(run, *trusted)
        point_best(run, 1)
        with monkeypatch.context() as patch:
            changes = killed_at(num_changes, patch)
            try:
                prune(run, 1, trusted, every=1)
                break
            except Killed:
                pass
        assert len(changes) == num_changes
        found, problems = newest_valid(run)
        assert found is not None
        assert (found.step, problems) == (8, [])
        assert load_weights(run).step == 1
        remove_leftovers(run)
        assert not list(run.rglob(".*"))
        kept(run)
        prune(run, 1, trusted, every=1)
        assert kept(run) == expected
        num_changes += 1
    assert num_changes > 15


def test_space_for_two_checkpoints_and_a_third_is_asked_for(tmp_path, monkeypatch):
    free = 0

    def disk_usage(_: Path) -> shutil._ntuple_diskusage:
        return shutil._ntuple_diskusage(10**9, 0, free)

    monkeypatch.setattr(retention.shutil, "disk_usage", disk_usage)
    run = tmp_path / "not" / "there yet"
    size = 1_000_000
    free = 3 * size
    check_space(run, size)
    free -= 1
    with pytest.raises(StorageError, match=r"1\.0 MB need 3\.0 MB more .* 3\.0 MB are free; .* --run"):
        check_space(run, size)
    write(run, 1, num_numbers=size // 8)
    free = 2 * size
    check_space(run, size)
    write(run, 2, 3, 4, num_numbers=size // 8)
    free = size
    check_space(run, size)
    free -= 1  # older checkpoints make no room for a new one
    with pytest.raises(StorageError, match=r"1\.0 MB more"):
        check_space(run, size)


def fill(run: Path, files: Iterable[str]) -> None:
    for name in files:
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(f"content of {name}")


RECORD = [
    *("log.txt", "environment.json", "config.toml", "vocabulary.model"),
    *("report.html", "report.json", "events/rank-0.jsonl"),
]


def content_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_mirror_holds_the_record_and_the_best_weights(tmp_path):
    run, target = tmp_path / "run", tmp_path / "far" / "away"
    fill(run, [*RECORD, "lock", "notes.txt", "tensorboard/events"])
    assert mirror(run, target) is None
    assert content_of(target) == {name: (run / name).read_bytes() for name in RECORD}
    write(run, 1, 2)
    point_best(run, 1)
    assert mirror(run, target) is None
    assert sorted(path.name for path in (target / "best").iterdir()) == [
        "manifest.json",
        "model.safetensors",
        "state.json",
    ]
    for path in (target, target / "best"):
        assert load_weights(path).step == 1
    point_best(run, 2)
    assert mirror(run, target) is None
    assert load_weights(target).weights["weight"].unique().tolist() == [2]
    assert not list(target.rglob(".*"))


def test_a_mirror_copies_only_what_has_changed(tmp_path):
    run, target = tmp_path / "run", tmp_path / "mirror"
    fill(run, RECORD)
    write(run, 1)
    point_best(run, 1)
    mirror(run, target)

    def inodes() -> dict[str, int]:
        return {str(path.relative_to(target)): path.stat().st_ino for path in target.rglob("*") if path.is_file()}

    before = inodes()
    assert mirror(run, target) is None
    assert inodes() == before
    with (run / "log.txt").open("a") as file:
        file.write("one more line")
    os.utime(run / "report.json", ns=(1, 1))
    assert mirror(run, target) is None
    assert {name for name, inode in inodes().items() if inode != before[name]} == {"log.txt", "report.json"}
    assert (target / "log.txt").read_bytes() == (run / "log.txt").read_bytes()


def test_a_damaged_mirror_is_made_good(tmp_path):
    run, target = tmp_path / "run", tmp_path / "mirror"
    write(run, 1)
    point_best(run, 1)
    mirror(run, target)
    (target / "best" / "manifest.json").write_bytes(b"")
    (target / ".best.123.tmp").mkdir()
    assert mirror(run, target) is None
    assert load_weights(target).step == 1
    assert [path.name for path in target.iterdir()] == ["best"]


def test_a_mirror_that_cannot_be_written_is_a_warning(tmp_path):
    run = tmp_path / "run"
    fill(run, RECORD)
    (tmp_path / "file").write_text("in the way")
    warning = mirror(run, tmp_path / "file")
    assert warning is not None
    assert f"the mirror {tmp_path / 'file'}" in warning
    warning = mirror(run, tmp_path / "run")
    assert warning is not None
    assert "itself" in warning
    assert content_of(run).keys() == set(RECORD)


def test_a_folder_that_is_removed_never_stands_half_under_its_name(tmp_path, monkeypatch):
    write(tmp_path, 1)
    path = checkpoint_path(tmp_path, 1)

    def remove(folder: Path, ignore_errors: bool = False) -> None:
        assert ignore_errors or not path.exists()

    monkeypatch.setattr(folders.shutil, "rmtree", remove)
    folders.discard(path)
    assert not path.exists()


def test_the_mirror_of_another_run_is_left_alone(tmp_path):
    for name, start in (("one", "2026-01-01"), ("two", "2026-01-02")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "log.txt").write_text(name)
        (folder / "environment.json").write_text(f'{{"attempts": [{{"start": "{start}", "command_line": []}}]}}')
    target = tmp_path / "mirror"
    assert mirror(tmp_path / "one", target) is None
    assert mirror(tmp_path / "one", target) is None
    warning = mirror(tmp_path / "two", target)
    assert warning is not None
    assert "holds the mirror of another run" in warning
    assert (target / "log.txt").read_text() == "one"
