"""Ranks on GPUs. NCCL refuses two ranks on one GPU, so these go over Gloo; NCCL itself needs two GPUs."""

import pytest
import torch

from tests.training import conftest
from tests.training.conftest import Tiny

prepared, tiny, one_thread = conftest.prepared, conftest.tiny, conftest.one_thread

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

# Four microbatches a step, and nothing rounded to 16 bits: what differs is the order of additions.
SETTINGS = ["training.tokens_per_step=256", "training.precision=fp32", "training.log_every=1", "training.max_steps=6"]


def losses(tiny: Tiny, run: str) -> list[float]:
    return [event["loss_nats_per_token"] for event in tiny.events(run, "train")]


@pytest.mark.parametrize("compiled", ["off", "on"])
def test_two_ranks_on_one_gpu_do_the_same_steps_as_one(tiny, compiled):
    settings = [*SETTINGS, f"training.compile={compiled}"]
    for run, options in (("one", ()), ("two", ("--workers", "2"))):
        program = tiny.start(*settings, run=run, options=("--quiet", *options))
        assert program.wait(timeout=300) == 0, program.stderr
    assert len(losses(tiny, "one")) == 6
    assert losses(tiny, "two") == pytest.approx(losses(tiny, "one"), rel=1e-4)
    first, second = (tiny.events(run, "validation")[-1]["valid_loss_nats_per_token"] for run in ("one", "two"))
    assert second == pytest.approx(first, rel=1e-4)


def test_two_ranks_with_our_own_kernels_learn_as_one_does(tiny):
    settings = [setting for setting in SETTINGS if "precision" not in setting]
    settings += ["model.width=64", "model.num_heads=2"]
    for run, options in (("one", ()), ("two", ("--workers", "2"))):
        program = tiny.start(*settings, run=run, options=("--quiet", *options))
        assert program.wait(timeout=300) == 0, program.stderr
    assert losses(tiny, "two") == pytest.approx(losses(tiny, "one"), rel=2e-2)
    assert [tiny.events(run, "attempt")[0]["attention"] for run in ("one", "two")] == ["tiled", "tiled"]
