"""A checkpoint is there whole or not at all, and one that is damaged is never taken for a good one."""

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from septuagint.data.files import hash_file, hash_json
from septuagint.errors import CheckpointError
from septuagint.training import checkpoint_files
from septuagint.training.checkpoint import load_checkpoint, load_weights, newest_valid, remove_leftovers
from tests.training.test_checkpoint import FILES, bits, tensors, write


def rewrite_manifest(path: Path, **changes: Any) -> None:
    """A manifest with other content and the right hash."""
    body = json.loads((path / "manifest.json").read_bytes())
    body = {key: value for key, value in body.items() if key != "sha256"} | changes
    (path / "manifest.json").write_text(json.dumps({**body, "sha256": hash_json(body)}))


def test_others_may_read_a_checkpoint_where_the_umask_lets_them(tmp_path):
    path = write(tmp_path, 1)
    assert {(path / name).stat().st_mode for name in FILES} == {(path / "manifest.json").stat().st_mode}


def test_a_flipped_bit_anywhere_is_found_and_the_older_checkpoint_used(tmp_path):
    generator = random.Random(60)
    write(tmp_path, 1)
    path = write(tmp_path, 2)
    for number in range(60):
        file = path / FILES[number % len(FILES)]
        intact = file.read_bytes()
        damaged = bytearray(intact)
        damaged[generator.randrange(len(damaged))] ^= 1 << generator.randrange(8)
        file.write_bytes(damaged)
        found, problems = newest_valid(tmp_path)
        assert found is not None
        assert found.step == 1
        assert len(problems) == 1
        assert str(file) in problems[0]
        assert "damaged" in problems[0]
        file.write_bytes(intact)
    found, problems = newest_valid(tmp_path)
    assert found is not None
    assert (found.step, problems) == (2, [])


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("share", [0, 0.5, 0.9])
def test_a_truncated_file_is_found(tmp_path, name, share):
    write(tmp_path, 1)
    path = write(tmp_path, 2) / name
    os.truncate(path, int(share * path.stat().st_size))
    found, [problem] = newest_valid(tmp_path)
    assert found is not None
    assert found.step == 1
    assert problem.startswith(f"{path}: ")


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_found(tmp_path, name):
    write(tmp_path, 1)
    path = write(tmp_path, 2)
    (path / name).unlink()
    found, [problem] = newest_valid(tmp_path)
    assert found is not None
    assert found.step == 1
    assert name in problem
    assert "missing" in problem
    with pytest.raises(CheckpointError, match=r"missing.*; "):
        load_checkpoint(path)


def test_when_all_are_damaged_none_is_used_and_each_is_named(tmp_path):
    for step in (1, 2):
        (write(tmp_path, step) / "model.safetensors").write_bytes(b"")
    found, problems = newest_valid(tmp_path)
    assert found is None
    assert ["step-00000002" in problems[0], "step-00000001" in problems[1]] == [True, True]


def test_a_new_run_has_no_checkpoint_and_no_problem(tmp_path):
    assert newest_valid(tmp_path) == (None, [])


def test_a_newer_format_is_refused_and_not_passed_over(tmp_path):
    write(tmp_path, 1)
    path = write(tmp_path, 2)
    rewrite_manifest(path, version=2, files=["something else"])
    for call in (lambda: newest_valid(tmp_path), lambda: load_checkpoint(path), lambda: load_weights(path)):
        with pytest.raises(CheckpointError, match=r"version 2, but this program knows versions up to 1; update"):
            call()


HOSTILE: list[Callable[[Path], object]] = [
    lambda path: (path / "manifest.json").write_bytes(b"[" * 100_000),
    lambda path: (path / "manifest.json").write_bytes(b"[]"),
    lambda path: rewrite_manifest(path, format="another"),
    lambda path: rewrite_manifest(path, version="one"),
    lambda path: rewrite_manifest(path, files=None),
    lambda path: rewrite_manifest(path, files={}),
    lambda path: rewrite_manifest(path, files={"../../secret": {"sha256": "", "bytes": 1}}),
    lambda path: rewrite_with_hashes(path, "state.json", b"[]"),
    lambda path: rewrite_with_hashes(path, "state.json", b'{"step": "two"}'),
    lambda path: rewrite_with_hashes(path, "model.safetensors", b"no tensors"),
    lambda path: rewrite_with_hashes(path, "model.safetensors", b""),
    lambda path: ((path / "state.json").unlink(), (path / "state.json").mkdir()),
    lambda path: (shutil.rmtree(path), path.write_text("a file")),
]


def rewrite_with_hashes(path: Path, name: str, content: bytes) -> None:
    (path / name).write_bytes(content)
    files = {file: {"sha256": hash_file(path / file), "bytes": (path / file).stat().st_size} for file in FILES[1:]}
    rewrite_manifest(path, files=files)


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_what_is_no_checkpoint_is_refused_with_a_message(tmp_path, number):
    path = write(tmp_path, 2)
    HOSTILE[number](path)
    for call in (lambda: load_checkpoint(path), lambda: load_weights(path)):
        with pytest.raises(CheckpointError, match=f"^{path}.*; .*"):
            call()
    assert newest_valid(tmp_path)[0] is None


class Killed(BaseException):
    """What a kill would do, at a place of our choice."""


def test_the_only_checkpoint_can_be_found_at_every_moment_of_its_replacement(tmp_path, monkeypatch):
    rename = Path.rename
    for number in range(2):
        run = tmp_path / str(number)
        write(run, 1, seed=1)
        renames = iter(range(10))

        def killed(path: Path, target: Path, renames: Iterator[int] = renames, number: int = number) -> None:
            if next(renames) == number:
                raise Killed
            rename(path, target)

        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(checkpoint_files.Path, "rename", killed)
            write(run, 1, seed=2)
        for _ in range(2):
            found, problems = newest_valid(run)
            assert found is not None
            assert (bits(found.weights), problems) == (bits(tensors(1)), [])
            remove_leftovers(run)
        assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-00000001"]


def test_a_failed_write_leaves_the_old_checkpoint_and_nothing_else(tmp_path, monkeypatch):
    write(tmp_path, 1, seed=1)
    rename = Path.rename

    def failing(path: Path, target: Path) -> None:
        if path.name.endswith(".tmp"):
            raise OSError(5, "Input/output error")
        rename(path, target)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="Input/output error"):
        patch.setattr(checkpoint_files.Path, "rename", failing)
        write(tmp_path, 1, seed=2)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000001"]
    assert bits(load_weights(tmp_path).weights) == bits(tensors(1))
