"""The step: gradients of a step's microbatches, summed, divided by the world's tokens, clipped and applied.

Nothing here waits for the device. A step whose loss or gradient is not finite leaves the weights as they were; that is
decided on the device too, and counted.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from septuagint.batch import Microbatch, PackedBatch
from septuagint.config import TrainingConfig
from septuagint.model.attention import Backend, Layout, make_layout
from septuagint.model.loss import token_loss
from septuagint.model.transformer import Transformer
from septuagint.training.optimizer import Optimizer, learning_rate, update_average
from septuagint.training.precision import DTYPES, LossScale, Precision
from septuagint.training.recorder import Recorder
from septuagint.training.synchrony import clear_gradients, gradient_sync
from septuagint.world import World

if TYPE_CHECKING:
    from septuagint.model.fast import HalfWeights

Forward = Callable[[PackedBatch, Layout, Tensor | None], tuple[Tensor, Tensor]]


class Objective(nn.Module):
    """(batch, layout, gradient scale) -> (loss sum, tokens): what is synchronised over ranks.

    With `consistency`, batches are `twice` the text: dropout drops other numbers of the second copy.
    With `halves` by kernels of our own, for a tiled layout; else by torch's operations, perhaps compiled.
    """

    def __init__(
        self,
        model: Transformer,
        precision: Precision,
        *,
        label_smoothing: float = 0.0,
        consistency: float = 0.0,
        halves: "HalfWeights | None" = None,
    ) -> None:
        super().__init__()
        self.model = model
        self._label_smoothing = label_smoothing
        self._consistency = consistency
        self._precision = precision
        self.halves = halves

    def forward(self, batch: PackedBatch, layout: Layout, gradient_scale: Tensor | None) -> tuple[Tensor, Tensor]:
        options = {"label_smoothing": self._label_smoothing, "consistency": self._consistency}
        if self.halves is not None:
            from septuagint.model.fast import FastPass  # needs Triton

            fast_pass = FastPass(self.model, self.halves, layout)
            hidden_TD = fast_pass.hidden_states(batch)
            return fast_pass.loss(hidden_TD, batch.labels_T, **options, gradient_scale=gradient_scale)
        weight, dtype = self.model.embeddings.weight, DTYPES[self._precision]
        with torch.autocast(weight.device.type, dtype=dtype, enabled=self._precision != "fp32"):
            hidden_TD = self.model(batch, layout)
        return token_loss(hidden_TD.to(dtype), weight, batch.labels_T, **options, gradient_scale=gradient_scale)


@dataclass(kw_only=True, slots=True)
class Training:
    """The weights, and everything that changes with them."""

    world: World
    model: Transformer
    optimizer: Optimizer
    settings: TrainingConfig
    precision: Precision
    backend: Backend
    max_length: int  # of a sentence, in tokens
    objective: nn.Module  # an Objective, or one whose gradients are averaged over the ranks
    forward: Forward  # the same, perhaps compiled
    halves: "HalfWeights | None"  # for our own kernels, where they are used
    recorder: Recorder | None  # of passes by our own kernels, in a world of one
    loss_scale: LossScale | None
    average: dict[str, Tensor] | None  # the moving average of the weights, by name
    skipped_steps: Tensor
    skipped_in_a_row: Tensor
    is_compiled: bool  # by torch, or by Triton as our own kernels are


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResult:
    """What a step did, still on the device. Loss, tokens and tally are the world's."""

    loss_sum: Tensor
    num_tokens: Tensor
    tally: Tensor
    gradient_norm: Tensor  # of the mean loss, before clipping
    loss_scale: Tensor | None
    skipped_steps: Tensor
    skipped_in_a_row: Tensor


def train_step(
    training: Training,
    microbatches: Sequence[Microbatch],
    step: int,
    *,
    tally: Sequence[float] = (),
    enter: Callable[[str], None] = lambda phase: None,
    lap: Callable[[str], None] = lambda part: None,
) -> StepResult:
    """Makes update number `step`, counted from 1, of all ranks' microbatches.

    `tally` is added up over the ranks on the way; `enter` is told what is being done, and `lap` to which part of the
    step the time goes from now on: see `stopwatch`. When the last gradients are complete, `synchrony` says so.
    """
    settings, parameters = training.settings, list(training.model.parameters())
    device = parameters[0].device
    lap("compute")
    training.model.train()
    scale = _gradient_scale(training)
    enter("forward")
    totals = torch.zeros(2 + len(tally), dtype=torch.float64, device=device)
    for index, value in enumerate(tally):
        if value:
            totals[2 + index].fill_(value)  # a number inside a kernel: nothing is copied
    for index, microbatch in enumerate(microbatches):
        is_last = index == len(microbatches) - 1
        torch.manual_seed(dropout_seed(settings.seed, step, microbatch.index))
        with gradient_sync(training.objective, enabled=is_last):
            lap("to_device")
            if training.recorder is not None:
                training.recorder.load(microbatch.batch, scale)
                lap("compute")
                loss, count = training.recorder.replay(is_first=index == 0)  # and the backward pass
            else:
                batch = microbatch.batch.to(device)
                lap("compute")
                loss, count = _forward(training, batch, scale)
            totals[0] += loss.detach()
            totals[1] += count
            if is_last:
                enter("backward and communication")
                adding = training.world.sum(totals)  # beside the backward pass, as the gradients will be
            if training.recorder is None:
                loss.backward()  # type: ignore[no-untyped-call]  # torch does not type it
    adding.wait()
    enter("optimizer")
    lap("optimizer")
    loss_sum, num_tokens = totals[0], totals[1]
    gradients = [p.grad for p in parameters if p.grad is not None]
    # The gradients were averaged over ranks; what we want is the mean over the world's tokens.
    divisor = (num_tokens.clamp_min(1) / training.world.size).float() * (1.0 if scale is None else scale)
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
        tally=totals[2:],
        gradient_norm=gradient_norm,
        loss_scale=None if training.loss_scale is None else training.loss_scale.scale,
        skipped_steps=training.skipped_steps,
        skipped_in_a_row=training.skipped_in_a_row,
    )
    if training.loss_scale is not None:
        training.loss_scale.update(is_skipped)
    return result


def rehearse(training: Training, microbatch: Microbatch) -> None:
    """Forward and backward of one microbatch on all ranks, without an update; recorded, where passes are."""
    training.model.train()
    scale = _gradient_scale(training)
    if training.recorder is not None:
        training.recorder.load(microbatch.batch, scale)
        training.recorder.replay(is_first=True)
    else:
        run_pass(training, microbatch.batch.to(training.world.device), scale)
    clear_gradients(training.objective, training.optimizer)


def run_pass(training: Training, batch: PackedBatch, scale: Tensor | None) -> tuple[Tensor, Tensor]:
    """(loss sum, tokens), with gradients added to the parameters'."""
    loss, count = _forward(training, batch, scale)
    loss.backward()  # type: ignore[no-untyped-call]  # torch does not type it
    return loss.detach(), count


def _forward(training: Training, batch: PackedBatch, scale: Tensor | None) -> tuple[Tensor, Tensor]:
    if training.settings.consistency:
        batch = batch.twice()
    return training.forward(batch, make_layout(batch, training.backend, training.max_length), scale)


def _gradient_scale(training: Training) -> Tensor | None:
    """The scale is for the mean loss, as everywhere; what is differentiated is the sum."""
    return None if training.loss_scale is None else training.loss_scale.scale / training.settings.tokens_per_step


def dropout_seed(seed: int, step: int, microbatch: int) -> int:
    """Which numbers are dropped depends on these three alone, whatever rank holds the microbatch."""
    digest = hashlib.blake2b(f"{seed} {step} {microbatch}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def _apply(training: Training, step: int, divisor: Tensor, is_skipped: Tensor) -> None:
    """The update, or none. The optimizer divides the gradients itself, and keeps everything as it is where it must."""
    settings, optimizer = training.settings, training.optimizer
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(step, settings, training.model.config.width)
    optimizer.grad_scale = divisor  # type: ignore[union-attr]  # torch's GradScaler speaks to optimizers like this
    optimizer.found_inf = is_skipped.float()  # type: ignore[union-attr]
    optimizer.step()
    clear_gradients(training.objective, optimizer)
    if training.average is not None:
        assert settings.ema_decay is not None
        weights = dict(training.model.named_parameters())
        update_average(
            training.average.values(), (weights[name] for name in training.average), step, settings.ema_decay
        )
