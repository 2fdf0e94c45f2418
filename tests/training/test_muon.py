"""Muon moves a matrix by one with the same singular vectors and singular values near 1; the rest is AdamW's."""

import contextlib
import math
import warnings
from collections.abc import Iterator

import pytest
import torch

from septuagint.config import TrainingConfig
from septuagint.model.transformer import Transformer
from septuagint.training.muon import MATRIX_RATE, Muon, orthogonalise
from septuagint.training.optimizer import make_optimizer
from tests.model.conftest import small_model

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
RATE = 0.5


def new_muon(model: Transformer, **fields: object) -> Muon:
    optimizer = make_optimizer(model, TrainingConfig.model_validate({"optimizer": "muon", **fields}))
    assert isinstance(optimizer, Muon)
    for group in optimizer.param_groups:
        group["lr"] = RATE
    return optimizer


def assert_near_one(matrices: torch.Tensor) -> None:
    values = torch.linalg.svdvals(matrices)
    assert values.min() > 0.6 and values.max() < 1.3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (48, 160), (160, 48)])
def test_singular_vectors_stay_and_singular_values_come_near_one(rows, columns, dtype):
    torch.manual_seed(1)
    left, _, right = torch.linalg.svd(torch.randn(5, rows, columns, device=DEVICE), full_matrices=False)
    values = torch.logspace(0, -1.5, min(rows, columns), device=DEVICE)
    found = left.mT @ orthogonalise(left * values @ right, dtype).float() @ right.mT
    assert_near_one(found)
    assert (found - found.diagonal(dim1=1, dim2=2).diag_embed()).abs().max() < 0.1


def matrices_of(model: Transformer) -> dict[torch.nn.Parameter, tuple[torch.Tensor, ...]]:
    """The matrices that each weight of the layers consists of."""
    gated = {"input": 2} if model.config.feedforward == "swiglu" else {}
    parts = {"query_key_value": 3, "key_value": 2, **gated}
    return {
        parameter: parameter.detach().clone().chunk(parts.get(name.split(".")[-2], 1))
        for name, parameter in model.named_parameters()
        if parameter.ndim == 2 and not name.startswith("embeddings.")
    }


@pytest.mark.parametrize("preset", ["base", "modern"])
def test_every_matrix_moves_alone_and_all_by_the_same_length(preset):
    model = small_model(preset).to(DEVICE)
    optimizer, matrices = new_muon(model, weight_decay=0.1), matrices_of(model)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    for parameter, parts in matrices.items():
        # Queries, keys and values with gradients of other lengths: together, the longest would decide.
        for index, part in enumerate(parameter.grad.chunk(len(parts))):
            torch.nn.init.orthogonal_(part, gain=index + 1)
    optimizer.grad_scale, optimizer.found_inf = torch.tensor([10.0, 0.0], device=DEVICE)
    optimizer.step()
    rate = RATE * MATRIX_RATE
    for parameter, parts in matrices.items():
        torch.testing.assert_close(optimizer.state[parameter]["momentum"], 0.05 * parameter.grad / 10)
        for before, after in zip(parts, parameter.detach().chunk(len(parts)), strict=True):
            moved = (1 - 0.1 * rate) * before - after
            assert_near_one(moved / (rate * 0.2 * math.sqrt(max(before.shape))))


def test_what_is_no_matrix_of_a_layer_moves_as_with_adamw():
    models = small_model(), small_model()
    matrices = {id(parameter) for parameter in matrices_of(models[0])}
    for model, optimizer in zip(
        models, (new_muon(models[0]), make_optimizer(models[1], TrainingConfig())), strict=True
    ):
        torch.manual_seed(1)
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
        for group in optimizer.param_groups:
            group["lr"] = RATE
        optimizer.step()
    for ours, theirs in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(ours, theirs) == (id(ours) not in matrices)


def test_a_step_that_is_skipped_changes_nothing_and_waits_for_nothing():
    model = small_model().to(DEVICE)
    optimizer = new_muon(model, weight_decay=0.1)
    for number in (1.0, math.nan):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, number)
        before = [tensor.clone() for tensor in everything(model, optimizer)]
        optimizer.grad_scale, optimizer.found_inf = torch.tensor([number, float(math.isnan(number))], device=DEVICE)
        with not_waiting():
            optimizer.step()
    assert all(map(torch.equal, before, everything(model, optimizer)))


@contextlib.contextmanager
def not_waiting() -> Iterator[None]:
    """An error for whatever waits for a GPU."""
    if DEVICE.type != "cuda":
        yield
        return
    set_sync_debug_mode("error")
    try:
        yield
    finally:
        set_sync_debug_mode("default")


def set_sync_debug_mode(mode: str) -> None:
    with warnings.catch_warnings(action="ignore"):  # torch calls it a prototype
        torch.cuda.set_sync_debug_mode(mode)


def everything(model: Transformer, optimizer: Muon) -> list[torch.Tensor]:
    memory = [tensor for parameter in model.parameters() for tensor in optimizer.state[parameter].values()]
    return [parameter.detach() for parameter in model.parameters()] + memory
