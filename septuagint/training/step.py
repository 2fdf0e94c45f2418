"""The step: gradients of a step's microbatches, summed, divided by the world's tokens, clipped and applied.

Nothing here waits for the device. A step whose loss or gradient is not finite leaves the weights as they were; that is
decided on the device too, and counted.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from septuagint.batch import Microbatch, PackedBatch
from septuagint.config import TrainingConfig
from septuagint.model.attention import Backend, Layout, make_layout
from septuagint.model.loss import token_loss
from septuagint.model.transformer import Transformer
from septuagint.training.optimizer import learning_rate, update_average
from septuagint.training.precision import DTYPES, LossScale, Precision

Forward = Callable[[PackedBatch, Layout, Tensor | None], tuple[Tensor, Tensor]]


@dataclass(kw_only=True, slots=True)
class Training:
    """The weights, and everything that changes with them."""

    model: Transformer
    optimizer: torch.optim.AdamW
    settings: TrainingConfig
    precision: Precision
    backend: Backend
    max_length: int  # of a sentence, in tokens
    forward: Forward
    loss_scale: LossScale | None
    average: dict[str, Tensor] | None  # the moving average of the weights, by name
    skipped_steps: Tensor
    skipped_in_a_row: Tensor
    is_compiled: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResult:
    """What a step did, still on the device."""

    loss_sum: Tensor
    num_tokens: Tensor
    gradient_norm: Tensor  # of the mean loss, before clipping
    loss_scale: Tensor | None
    skipped_steps: Tensor
    skipped_in_a_row: Tensor


def train_step(training: Training, microbatches: Sequence[Microbatch], step: int) -> StepResult:
    """Makes update number `step`, counted from 1."""
    settings, parameters = training.settings, list(training.model.parameters())
    device = parameters[0].device
    training.model.train()
    scale = None
    if training.loss_scale is not None:
        # The scale is for the mean loss, as everywhere; what is differentiated is the sum.
        scale = training.loss_scale.scale / settings.tokens_per_step
    loss_sum = torch.zeros((), device=device)
    num_tokens = torch.zeros((), dtype=torch.int64, device=device)
    for microbatch in microbatches:
        torch.manual_seed(dropout_seed(settings.seed, step, microbatch.index))
        batch = microbatch.batch.to(device)
        layout = make_layout(batch, training.backend, training.max_length)
        loss, count = training.forward(batch, layout, scale)
        loss.backward()  # type: ignore[no-untyped-call]  # torch does not type it
        loss_sum += loss.detach()
        num_tokens += count
    gradients = [p.grad for p in parameters if p.grad is not None]
    divisor = num_tokens.clamp_min(1).float() * (1.0 if scale is None else scale)
    gradient_norm = torch.nn.utils.get_total_norm(gradients) / divisor
    is_skipped = ~(gradient_norm.isfinite() & loss_sum.isfinite())
    if settings.max_gradient_norm:
        divisor = divisor * (gradient_norm / settings.max_gradient_norm).clamp_min(1.0)
    _apply(training, step, divisor, is_skipped)
    training.skipped_steps = training.skipped_steps + is_skipped
    training.skipped_in_a_row = torch.where(is_skipped, training.skipped_in_a_row + 1, 0)
    result = StepResult(
        loss_sum=loss_sum,
        num_tokens=num_tokens,
        gradient_norm=gradient_norm,
        loss_scale=None if training.loss_scale is None else training.loss_scale.scale,
        skipped_steps=training.skipped_steps,
        skipped_in_a_row=training.skipped_in_a_row,
    )
    if training.loss_scale is not None:
        training.loss_scale.update(is_skipped)
    return result


def make_forward(model: Transformer, label_smoothing: float, precision: Precision) -> Forward:
    """(batch, layout, gradient scale) -> (loss sum, tokens): what is compiled on GPUs."""
    device_type = next(model.parameters()).device.type
    dtype = DTYPES[precision]

    def forward(batch: PackedBatch, layout: Layout, gradient_scale: Tensor | None) -> tuple[Tensor, Tensor]:
        with torch.autocast(device_type, dtype=dtype, enabled=precision != "fp32"):
            hidden_TD = model(batch, layout)
        return token_loss(
            hidden_TD.to(dtype),
            model.embeddings.weight,
            batch.labels_T,
            label_smoothing=label_smoothing,
            gradient_scale=gradient_scale,
        )

    return forward


def dropout_seed(seed: int, step: int, microbatch: int) -> int:
    """Which numbers are dropped depends on these three alone, whatever rank holds the microbatch."""
    digest = hashlib.blake2b(f"{seed} {step} {microbatch}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def _apply(training: Training, step: int, divisor: Tensor, is_skipped: Tensor) -> None:
    """The update, or none. Fused AdamW divides the gradients itself, and keeps everything as it is where it must."""
    settings, optimizer = training.settings, training.optimizer
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(step, settings, training.model.config.width)
    optimizer.grad_scale = divisor  # type: ignore[attr-defined]  # torch's GradScaler speaks to optimizers like this
    optimizer.found_inf = is_skipped.float()  # type: ignore[attr-defined]
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if training.average is not None:
        assert settings.ema_decay is not None
        weights = dict(training.model.named_parameters())
        update_average(
            training.average.values(), (weights[name] for name in training.average), step, settings.ema_decay
        )
