"""Muon: matrices move in all directions alike, instead of most in the few in which their gradients agree.

The momentum of a matrix's gradient takes the place of the gradient, and its singular values are brought near 1 (Jordan
et al., 2024). Embeddings, norms and biases keep AdamW. Every rank does this for itself: products of matrices are
rounded as a device does it, so all ranks must have the same kind.

N matrices of R rows and C columns.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from septuagint.config import ModelConfig
from septuagint.model.transformer import Transformer

MATRIX_RATE = 2.0  # the best of those tried: see docs/performance.md

_MOMENTUM = 0.95
# The root mean square of AdamW's updates is about this share of its rate (Liu et al., 2025): rates mean the same then.
_LENGTH = 0.2
# Five rounds of this polynomial bring singular values near 1, from 1/500 of the norm on.
_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
_NUM_ROUNDS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stack:
    """Matrices of one shape, and their momentum. A parameter may be several, one below the other."""

    parameters: list[Tensor]
    momentum_NRC: Tensor

    def cut(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Each parameter, or what has its shape, as its matrices."""
        return [tensor.reshape(-1, *self.momentum_NRC.shape[1:]) for tensor in tensors]

    def join(self, stacked_NRC: Tensor) -> list[Tensor]:
        """The part of each parameter, in its shape."""
        parts = torch.split(stacked_NRC, [len(part) for part in self.cut(self.parameters)])
        return [part.view_as(parameter) for part, parameter in zip(parts, self.parameters, strict=True)]


class Muon:
    """Muon for the matrices of the layers, AdamW for the rest. To the step it is like torch's fused AdamW.

    `grad_scale` divides the gradients, and where `found_inf` is 1, nothing changes. Nothing is read back to the host.
    `state` is what is remembered of each parameter, to be changed in place.
    """

    def __init__(
        self,
        model: Transformer,
        *,
        betas: tuple[float, float],
        epsilon: float,
        weight_decay: float,
    ) -> None:
        shapes: dict[tuple[int, int], list[Tensor]] = {}
        others: list[Tensor] = []
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2 and name.startswith(("encoder.", "decoder.")):
                shapes.setdefault(_matrix_shape(name, parameter, model.config), []).append(parameter)
            else:
                others.append(parameter)
        self._stacks = [_new_stack(shape, parameters) for shape, parameters in shapes.items()]
        matrices = [parameter for stack in self._stacks for parameter in stack.parameters]
        self.matrix_rate = MATRIX_RATE  # what the matrices take of the learning rate
        self._group: dict[str, Any] = {"params": matrices, "lr": 0.0, "weight_decay": weight_decay}
        self._adamw = torch.optim.AdamW(others, lr=0.0, betas=betas, eps=epsilon, weight_decay=0.0, fused=True)
        self.param_groups: list[dict[str, Any]] = [self._group, *self._adamw.param_groups]
        self.state: dict[Any, dict[str, Tensor]] = self._adamw.state
        for stack in self._stacks:
            momenta = stack.join(stack.momentum_NRC)
            self.state |= {matrix: {"momentum": own} for matrix, own in zip(stack.parameters, momenta, strict=True)}
        self.grad_scale: Tensor | None = None
        self.found_inf: Tensor | None = None

    @torch.no_grad()
    def step(self) -> None:
        device = self._group["params"][0].device
        found_inf = torch.zeros((), device=device) if self.found_inf is None else self.found_inf
        grad_scale = torch.ones((), device=device) if self.grad_scale is None else self.grad_scale
        rate = (1 - found_inf) * (self._group["lr"] * self.matrix_rate)
        for stack in self._stacks:
            self._move(stack, rate, grad_scale, found_inf > 0)
        self._adamw.grad_scale, self._adamw.found_inf = self.grad_scale, self.found_inf  # type: ignore[attr-defined]
        self._adamw.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients, or fills them with zeros."""
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        if not set_to_none:
            torch._foreach_zero_([parameter.grad for parameter in parameters if parameter.grad is not None])
            return
        for parameter in parameters:
            parameter.grad = None

    def _move(self, stack: _Stack, rate: Tensor, grad_scale: Tensor, is_skipped: Tensor) -> None:
        momentum_NRC, parameters = stack.momentum_NRC, stack.parameters
        gradients = [cast(Tensor, parameter.grad) for parameter in parameters]
        gradient_NRC = torch.cat(stack.cut(gradients)) / grad_scale
        # A momentum that moves towards itself stays what it is, whatever the gradient was.
        gradient_NRC = torch.where(is_skipped, momentum_NRC, gradient_NRC)
        momentum_NRC.lerp_(gradient_NRC, 1 - _MOMENTUM)
        direction_NRC = orthogonalise(gradient_NRC.lerp_(momentum_NRC, _MOMENTUM))  # Nesterov: one step ahead
        length = _LENGTH * math.sqrt(max(momentum_NRC.shape[1:]))
        if self._group["weight_decay"]:
            torch._foreach_mul_(parameters, 1 - rate * self._group["weight_decay"])
        torch._foreach_add_(parameters, stack.join(direction_NRC.float() * (-length * rate)))


def orthogonalise(matrices_NRC: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """The same singular vectors with singular values near 1, by Newton-Schulz; in bf16 on GPUs that have it."""
    a, b, c = _NEWTON_SCHULZ
    is_tall = matrices_NRC.shape[1] > matrices_NRC.shape[2]
    wide = matrices_NRC.mT if is_tall else matrices_NRC  # its products are the smaller ones
    wide = wide / torch.linalg.vector_norm(wide, dim=(1, 2), keepdim=True).clamp_min(1e-20)
    wide = wide.to(dtype or _dtype_on(wide.device))
    for _ in range(_NUM_ROUNDS):
        gram = torch.bmm(wide, wide.mT)
        wide = torch.baddbmm(wide, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), wide, beta=a)
    return wide.mT.contiguous() if is_tall else wide


def _dtype_on(device: torch.device) -> torch.dtype:
    has_bfloat16 = device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)
    return torch.bfloat16 if has_bfloat16 else torch.float32


def _new_stack(shape: tuple[int, int], parameters: list[Tensor]) -> _Stack:
    number = sum(parameter.numel() for parameter in parameters) // math.prod(shape)
    return _Stack(parameters=parameters, momentum_NRC=torch.zeros(number, *shape, device=parameters[0].device))


def _matrix_shape(name: str, parameter: Tensor, config: ModelConfig) -> tuple[int, int]:
    """Rows and columns of the matrices that a weight consists of: queries, keys and values, or the halves of SwiGLU."""
    rows = config.feedforward_width if ".feedforward.input." in name else config.width
    assert len(parameter) % rows == 0, f"{name} does not consist of matrices with {rows} rows"
    return rows, parameter.shape[1]
