"""The optimizer, the learning rate as a pure function of the step, and the moving average of the weights."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from septuagint.config import TrainingConfig
from septuagint.model.transformer import Transformer
from septuagint.training.muon import MATRIX_RATE, Muon

Optimizer = torch.optim.AdamW | Muon

_ADAM_EPSILON = 1e-9
# Where a cosine ends, as a share of the peak: steps beyond it still learn a little.
_COSINE_FLOOR = 0.01


def learning_rate(step: int, training: TrainingConfig, width: int) -> float:
    """The rate of update number `step`, counted from 1. Depends on the step alone, so there is nothing to save.

    `inverse_sqrt` without a peak of its own is the reference policy: 2 · d^-0.5 · min(step^-0.5, step · warmup^-1.5).
    """
    warmup = training.warmup_steps
    peak = training.learning_rate or 2.0 * width**-0.5 * warmup**-0.5
    if step <= warmup:
        return peak * step / warmup
    if training.schedule == "inverse_sqrt":
        return peak * math.sqrt(warmup / step)
    if training.schedule == "cosine":
        assert training.decay_steps is not None
        progress = min(1.0, (step - warmup) / (training.decay_steps - warmup))
        return peak * (_COSINE_FLOOR + (1 - _COSINE_FLOOR) * (1 + math.cos(math.pi * progress)) / 2)
    return peak


def describe_learning_rate(training: TrainingConfig, width: int) -> str:
    """The formula with this run's numbers."""
    warmup = training.warmup_steps
    peak = learning_rate(warmup, training, width)
    rise = f"peak {peak:.3g} at step {warmup:,} after a linear warm-up"
    if training.optimizer == "muon":
        rise = f"{rise} ({MATRIX_RATE:g} times as much for matrices, by Muon)"
    if training.schedule == "inverse_sqrt":
        if training.learning_rate is None:
            return f"2.0 · {width}^-0.5 · min(step^-0.5, step · {warmup}^-1.5), {rise}"
        return f"{peak:.3g} · min(sqrt({warmup} / step), step / {warmup}), {rise}"
    if training.schedule == "cosine":
        return f"{rise}, then half a cosine down to {_COSINE_FLOOR:.0%} of it at step {training.decay_steps:,}"
    return f"{rise}, then constant"


def make_optimizer(model: Transformer, training: TrainingConfig) -> Optimizer:
    """Muon or fused AdamW. Weight decay is for the matrices of the layers: not for embeddings, norms and biases."""
    betas, decay = training.adam_betas, training.weight_decay
    if training.optimizer == "muon":
        return Muon(model, betas=betas, epsilon=_ADAM_EPSILON, weight_decay=decay)
    decayed = [p for name, p in model.named_parameters() if p.ndim > 1 and not name.startswith("embeddings.")]
    others = [p for name, p in model.named_parameters() if p.ndim <= 1 or name.startswith("embeddings.")]
    groups = [{"params": decayed, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=0.0, betas=betas, eps=_ADAM_EPSILON, fused=True)


def optimizer_tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimizer's memory by name, for a checkpoint. AdamW has none before the first step."""
    return {
        f"{key}.{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def restore_optimizer(model: nn.Module, optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Puts `optimizer_tensors` back; in place where there is one, since Muon's stand together."""
    for name, parameter in model.named_parameters():
        memory = optimizer.state[parameter]
        for key in ("step", "exp_avg", "exp_avg_sq", "momentum"):
            if f"{key}.{name}" not in tensors:
                continue
            value = tensors[f"{key}.{name}"]
            if key in memory:
                memory[key].copy_(value)
            else:
                memory[key] = value.to(parameter.device, copy=True)


@torch.no_grad()
def update_average(average: Iterable[Tensor], weights: Iterable[Tensor], step: int, decay: float) -> None:
    """Moves the average towards the weights; faster in the first steps, when both are still far from anything."""
    rate = 1 - min(decay, (1 + step) / (10 + step))
    torch._foreach_lerp_(list(average), list(weights), rate)
