"""Precision is chosen for the device; the loss scale does what it says."""

import pytest
import torch

from septuagint.errors import UserError
from septuagint.training.precision import LossScale, check_build, choose_precision

CPU = torch.device("cpu")
GPU = torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("capability", "expected"),
    [((6, 0), "fp16"), ((7, 0), "fp16"), ((7, 5), "fp16"), ((8, 0), "bf16"), ((9, 0), "bf16")],
)
def test_a_gpu_computes_in_bf16_where_it_has_it_in_hardware(monkeypatch, capability, expected):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert choose_precision("auto", GPU) == expected


def test_a_cpu_computes_in_fp32():
    assert choose_precision("auto", CPU) == "fp32"
    assert choose_precision("bf16", CPU) == "bf16"


def test_what_a_device_does_not_have_is_refused_with_the_cure(monkeypatch):
    with pytest.raises(UserError, match='needs a GPU; on a CPU use "fp32"'):
        choose_precision("fp16", CPU)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 0))
    with pytest.raises(UserError, match=r'compute capability 8.0 or newer, this one has 7.0; use "fp16"'):
        choose_precision("bf16", GPU)


TODAY = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (8, 9), (9, 0), (12, 0)])
def test_a_gpu_with_machine_code_is_accepted(capability):
    check_build("a GPU", capability, TODAY, "2.13.0+cu130")


def test_a_newer_gpu_is_accepted_where_the_driver_can_translate():
    check_build("a GPU", (13, 0), [*TODAY, "compute_120"], "2.13.0+cu130")
    check_build("a GPU", (9, 0), ["sm_90a"], "2.13.0+cu130")


@pytest.mark.parametrize(("name", "capability"), [("Tesla V100", (7, 0)), ("Tesla P100", (6, 0))])
def test_a_gpu_without_code_is_refused_and_the_build_that_has_it_is_named(name, capability):
    with pytest.raises(UserError, match=rf"{name} has compute capability .* \+cu126"):
        check_build(name, capability, TODAY, "2.13.0+cu130")


def test_a_gpu_that_is_too_new_needs_a_newer_build():
    with pytest.raises(UserError, match=r"\+cu130 or higher"):
        check_build("a GPU", (12, 0), ["sm_80", "sm_90"], "2.11.0+cu126")


def test_the_loss_scale_halves_on_overflow_and_doubles_after_2000_clean_steps():
    scale = LossScale.start(CPU)
    assert scale.scale == 2**14
    scale.update(torch.tensor(True))
    assert scale.scale == 2**13
    for _ in range(1999):
        scale.update(torch.tensor(False))
    assert scale.scale == 2**13
    scale.update(torch.tensor(False))
    assert scale.scale == 2**14
    for _ in range(1999):
        scale.update(torch.tensor(False))
    scale.update(torch.tensor(True))
    assert scale.scale == 2**13
    assert scale.clean_steps == 0
