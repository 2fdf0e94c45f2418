"""A checkpoint comes back as it was, from a run that was killed at any moment."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor

from septuagint.data.files import hash_file
from septuagint.errors import CheckpointError
from septuagint.training.checkpoint import (
    average_weights,
    best_path,
    checkpoint_path,
    find_checkpoints,
    load_checkpoint,
    load_weights,
    newest_valid,
    point_best,
    remove_leftovers,
    to_host,
    write_checkpoint,
    write_weights,
)

FILES = ("manifest.json", "model.safetensors", "optimizer.safetensors", "state.json")


def tensors(seed: int, num_numbers: int = 100) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "matrix": torch.randn(4, num_numbers, generator=generator),
        "half": torch.randn(num_numbers, generator=generator).bfloat16(),
        "scalar": torch.tensor(seed / 3, dtype=torch.float64),
        "count": torch.tensor(seed),
        "bytes": torch.arange(7, dtype=torch.uint8),
        "empty": torch.empty(0, 3),
    }


def write(run: Path, step: int, seed: int | None = None) -> Path:
    content = tensors(step if seed is None else seed)
    moments = {f"{name}.exp_avg": tensor for name, tensor in tensors(step + 1).items()}
    return write_checkpoint(run, step, content, moments, {"cursor": {"block": step, "pack": 3}}).path


def bits(content: dict[str, Tensor]) -> dict[str, tuple[torch.dtype, tuple[int, ...], bytes]]:
    return {
        name: (tensor.dtype, tuple(tensor.shape), tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        for name, tensor in content.items()
    }


def test_a_checkpoint_comes_back_bit_for_bit(tmp_path):
    weights, optimizer = tensors(1), tensors(2)
    state = {"cursor": {"block": 1, "pack": 2}, "loss": 0.1 + 0.2, "worst": float("inf"), "name": "\udc80ü\u2028"}
    saved = write_checkpoint(tmp_path, 500, weights, optimizer, state)
    assert saved.path == tmp_path / "checkpoints" / "step-00000500"
    assert sorted(file.name for file in saved.path.iterdir()) == sorted(FILES)
    assert saved.bytes == sum((saved.path / name).stat().st_size for name in FILES)
    loaded = load_checkpoint(saved.path)
    assert (loaded.step, loaded.path, loaded.state) == (500, saved.path, {**state, "step": 500})
    assert bits(loaded.weights) == bits(weights)
    assert bits(loaded.optimizer) == bits(optimizer)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000500"]


def test_equal_weights_have_equal_hashes(tmp_path):
    weights = tensors(1)
    backwards = {name: weights[name].clone() for name in reversed(weights)}
    one = write_checkpoint(tmp_path, 1, weights, {}, {"a": 1}).path
    two = write_checkpoint(tmp_path, 2, backwards, tensors(3), {"b": 2}).path
    three = write_checkpoint(tmp_path, 3, tensors(2), {}, {}).path
    assert hash_file(one / "model.safetensors") == hash_file(two / "model.safetensors")
    assert hash_file(one / "model.safetensors") != hash_file(three / "model.safetensors")


def test_copies_on_the_host_belong_to_nobody_else():
    original = {"turned": torch.arange(6.0).reshape(2, 3).t(), "weight": torch.nn.Parameter(torch.ones(2))}
    copies = to_host(original)
    with torch.no_grad():
        original["weight"].zero_()
    assert copies["weight"].tolist() == [1, 1]
    assert not copies["weight"].requires_grad
    assert copies["turned"].is_contiguous()
    assert copies["turned"].tolist() == original["turned"].tolist()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_copies_from_a_gpu_are_finished_when_they_are_handed_over():
    original = {str(number): torch.full((1 << 24,), float(number), device="cuda").sqrt() for number in range(8)}
    copies = to_host(original)
    for number in range(8):
        assert copies[str(number)].is_pinned()
        assert torch.equal(copies[str(number)], original[str(number)].cpu())


def test_weights_alone_are_for_translating_not_for_going_on(tmp_path):
    write(tmp_path, 1)
    path = checkpoint_path(tmp_path, 2)
    write_weights(path, 2, tensors(2), {})
    found, problems = newest_valid(tmp_path)
    assert found is not None
    assert (found.step, problems) == (1, [])
    assert bits(load_weights(path).weights) == bits(tensors(2))
    assert load_weights(path).optimizer == {}
    with pytest.raises(CheckpointError, match="weights alone"):
        load_checkpoint(path)


def test_a_run_is_translated_with_its_best_weights_or_else_the_newest_good_ones(tmp_path):
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        load_weights(tmp_path)
    for step in (1, 2, 3):
        write(tmp_path, step)
    (checkpoint_path(tmp_path, 3) / "model.safetensors").write_bytes(b"")
    assert load_weights(tmp_path).step == 2
    (checkpoint_path(tmp_path, 2) / "optimizer.safetensors").unlink()
    assert load_weights(tmp_path).step == 2
    point_best(tmp_path, 1)
    assert load_weights(tmp_path).step == 1
    assert load_weights(tmp_path / "best").step == 1
    (checkpoint_path(tmp_path, 1) / "model.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"step-00000001/model.safetensors: 0 bytes instead of"):
        load_weights(tmp_path)
    shutil.rmtree(checkpoint_path(tmp_path, 1))
    assert load_weights(tmp_path).step == 2
    shutil.rmtree(checkpoint_path(tmp_path, 2))
    with pytest.raises(CheckpointError, match=r"(?s)no checkpoint that can be used.*step-00000003"):
        load_weights(tmp_path)


def test_a_run_without_a_checkpoint_yet_is_still_a_run(tmp_path):
    (tmp_path / "environment.json").touch()
    with pytest.raises(CheckpointError, match="this run has no checkpoint yet; run `septuagint train` to go on"):
        load_weights(tmp_path)


def test_best_is_a_relative_link_that_is_replaced(tmp_path):
    assert best_path(tmp_path) is None
    for step in (1, 2):
        write(tmp_path, step)
        point_best(tmp_path, step)
    assert (tmp_path / "best").readlink() == Path("checkpoints/step-00000002")
    assert best_path(tmp_path) == checkpoint_path(tmp_path, 2)
    tmp_path.rename(tmp_path.with_name("moved"))
    assert load_weights(tmp_path.with_name("moved")).step == 2
    shutil.rmtree(tmp_path.with_name("moved") / "checkpoints" / "step-00000002")
    assert best_path(tmp_path.with_name("moved")) is None


def test_averaged_weights_are_the_mean(tmp_path):
    paths = [write(tmp_path, step) for step in (1, 2, 5)]
    mean = average_weights(paths)
    for name, tensor in mean.items():
        expected = sum(tensors(step)[name].double() for step in (1, 2, 5)) / 3
        assert tensor.dtype == tensors(1)[name].dtype
        assert torch.equal(tensor, torch.as_tensor(expected).to(tensor.dtype))
    assert bits(average_weights(paths[:1])) == bits(tensors(1))
    averaged = tmp_path / "checkpoints" / "averaged"
    write_weights(averaged, 5, mean, {"averaged_steps": [1, 2, 5]})
    point_best(tmp_path, "averaged")
    loaded = load_weights(tmp_path)
    assert loaded.path == averaged
    assert loaded.state == {"step": 5, "averaged_steps": [1, 2, 5]}
    assert [step for step, _ in find_checkpoints(tmp_path)] == [5, 2, 1]


def test_weights_of_another_network_are_not_averaged(tmp_path):
    one = write(tmp_path, 1)
    other = write_weights(tmp_path / "other", 2, tensors(2, num_numbers=50), {}).path
    with pytest.raises(CheckpointError, match="not the same network"):
        average_weights([one, other])
    (one / "model.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match="0 bytes instead of"):
        average_weights([one, other])


def test_a_stretch_done_again_replaces_its_checkpoint(tmp_path):
    write(tmp_path, 1, seed=1)
    path = write(tmp_path, 1, seed=2)
    assert bits(load_checkpoint(path).weights) == bits(tensors(2))
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


# Starts a process for every line it reads: importing torch ten times would take most of the test's time.
NURSERY = """
import os, sys
from pathlib import Path
import torch
from septuagint.training.checkpoint import point_best, write_checkpoint
from septuagint.training.retention import prune

def train(run, step):
    written = set()
    while True:
        step += 1
        content = {"weight": torch.full((200_000,), float(step))}
        write_checkpoint(run, step, content, content, {"last": step})
        written.add(step)
        if step % 3 == 0:
            point_best(run, step)
        prune(run, step - step % 3, written, every=1)

for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        train(Path(sys.argv[1]), int(line))
    print(pid, flush=True)
    os.waitpid(pid, 0)
    print("gone", flush=True)
"""


def test_a_process_killed_at_any_moment_leaves_a_good_checkpoint_and_nothing_to_clear_up(tmp_path):
    generator = random.Random(9)
    step = 0
    command = [sys.executable, "-c", NURSERY, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as nursery:
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        for number in range(10):
            print(step, file=nursery.stdin, flush=True)
            pid = int(nursery.stdout.readline())
            deadline = time.monotonic() + 20
            while not find_checkpoints(tmp_path):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            time.sleep(generator.uniform(0.01, 0.3))
            os.kill(pid, signal.SIGKILL)
            assert nursery.stdout.readline() == "gone\n"
            found, problems = newest_valid(tmp_path)
            assert found is not None
            assert problems == []
            assert found.step == found.state["last"] >= step
            assert found.weights["weight"].unique().tolist() == [found.step]
            remove_leftovers(tmp_path)
            left = [path for path in tmp_path.rglob("*") if path.name.startswith(".") or path.name.endswith(".tmp")]
            assert left == []
            assert newest_valid(tmp_path)[0] is not None
            # Going back a little, as after damage, replaces checkpoints too.
            step = max(found.step - number % 3, 0)
        nursery.stdin.close()


def test_clearing_up_leaves_alone_what_is_not_ours(tmp_path):
    path = write(tmp_path, 1)
    strange = [tmp_path / ".notes.tmp", tmp_path / ".old", path.parent / "step-1", path / "notes.12.tmp"]
    for file in strange:
        file.write_text("mine")
    remove_leftovers(tmp_path)
    assert all(file.read_text() == "mine" for file in strange)
    assert [step for step, _ in find_checkpoints(tmp_path)] == [1]
