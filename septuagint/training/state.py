"""Everything that is state: how a training begins, what of it goes into a checkpoint, and how it comes back.

    weights                       model.safetensors (the moving average, where there is one)
    optimizer, weights in training  optimizer.safetensors
    progress: step, data cursor, loss scale, counters, validations        state.json

There are no random states to save: the order of the data and what dropout drops are functions of (seed, step).
"""

import importlib.util
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from septuagint.batch import Cursor
from septuagint.config import Config
from septuagint.errors import CheckpointError
from septuagint.model.attention import Backend, choose_backend, has_kernels
from septuagint.model.transformer import Transformer
from septuagint.training.checkpoint import Checkpoint, to_host
from septuagint.training.optimizer import make_optimizer, optimizer_tensors, restore_optimizer
from septuagint.training.precision import DTYPES, LossScale, Precision, choose_precision
from septuagint.training.recorder import Recorder
from septuagint.training.step import Objective, Training, run_pass
from septuagint.training.synchrony import synchronise
from septuagint.training.validation import Validation, read_validation
from septuagint.world import World

_RAW_WEIGHTS = "weights."


@dataclass(kw_only=True)
class Progress:
    """How far a run is, all attempts together."""

    step: int = 0
    cursor: Cursor = field(default_factory=Cursor)
    epochs: float = 0.0
    seconds: float = 0.0
    num_pairs: int = 0
    num_source_tokens: int = 0
    num_target_tokens: int = 0
    validations: list[Validation] = field(default_factory=list)


def build_training(config: Config, vocabulary_size: int, max_length: int, world: World) -> Training:
    """A training before its first step. The weights depend on the seed alone, not on the device."""
    device = world.device
    precision = choose_precision(config.training.precision, device)
    torch.manual_seed(config.training.seed)
    model = Transformer(config.model, vocabulary_size)
    model.grow_positions(max_length)
    model.to(device)
    settings = config.training
    objective = synchronise(
        Objective(model, precision, label_smoothing=settings.label_smoothing, consistency=settings.consistency), world
    )
    average = None
    if config.training.ema_decay is not None:
        average = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    training = Training(
        world=world,
        model=model,
        optimizer=make_optimizer(model, config.training),
        settings=config.training,
        precision=precision,
        backend=_plain_backend(model, device, precision),
        max_length=max_length,
        objective=objective,
        forward=objective,
        halves=None,
        recorder=None,
        loss_scale=LossScale.start(device) if precision == "fp16" else None,
        average=average,
        skipped_steps=torch.zeros((), dtype=torch.int64, device=device),
        skipped_in_a_row=torch.zeros((), dtype=torch.int64, device=device),
        is_compiled=False,
    )
    wanted = config.training.compile
    if wanted == "auto" and has_kernels(config.model, device, DTYPES[precision]):
        use_kernels(training)
    elif _should_compile(wanted, device):
        compile_forward(training)
    return training


def use_kernels(training: Training) -> None:
    """From now on a pass is done by kernels of our own; on one GPU, it is recorded."""
    from septuagint.model.fast import HalfWeights  # needs Triton

    device = training.world.device
    _objective(training).halves = training.halves = HalfWeights(training.model, DTYPES[training.precision])
    training.backend = "tiled"
    training.is_compiled = True
    if device.type == "cuda" and training.world.size == 1:
        training.recorder = Recorder(partial(run_pass, training), training.model, device)


def compile_forward(training: Training) -> None:
    """From now on the step runs compiled code; the first step waits for it to be made."""
    # One shape for the whole run: nothing is ever compiled a second time.
    training.forward = torch.compile(training.objective, dynamic=False)
    training.is_compiled = True


def go_on_plainly(training: Training) -> None:
    """From now on the step runs torch's own operations, one after the other."""
    _objective(training).halves = training.halves = None
    training.recorder = None
    training.forward = training.objective
    training.backend = _plain_backend(training.model, training.world.device, training.precision)
    training.is_compiled = False
    training.optimizer.zero_grad(set_to_none=True)


def _objective(training: Training) -> Objective:
    """The one that torch may have wrapped."""
    objective = training.objective if training.world.size == 1 else training.objective.module
    assert isinstance(objective, Objective)
    return objective


def _plain_backend(model: Transformer, device: torch.device, precision: Precision) -> Backend:
    return choose_backend(device, DTYPES[precision], model.config.width // model.config.num_heads)


def _should_compile(wanted: str, device: torch.device) -> bool:
    """`auto` compiles on GPUs for which we have no kernels, where the compiler's backend is there."""
    if wanted != "auto":
        return wanted == "on"
    return device.type == "cuda" and importlib.util.find_spec("triton") is not None


def snapshot(training: Training) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(weights to translate with, everything else that is a tensor), copied to the host."""
    weights = {name: parameter.detach() for name, parameter in training.model.named_parameters()}
    others = optimizer_tensors(training.model, training.optimizer)
    if training.average is not None:
        others |= {_RAW_WEIGHTS + name: tensor for name, tensor in weights.items()}
        weights = training.average
    return to_host(weights), to_host(others)


def counters(training: Training, progress: Progress) -> dict[str, Any]:
    """The part of a checkpoint that is numbers and text."""
    scale = training.loss_scale
    return {
        **asdict(progress),
        "skipped_steps": int(training.skipped_steps),
        "skipped_in_a_row": int(training.skipped_in_a_row),
        "loss_scale": None if scale is None else float(scale.scale),
        "clean_steps": None if scale is None else int(scale.clean_steps),
    }


def restore(training: Training, checkpoint: Checkpoint) -> Progress:
    """Puts a checkpoint back, bit for bit."""
    device = training.skipped_steps.device
    state = checkpoint.state
    raw = {
        name.removeprefix(_RAW_WEIGHTS): tensor
        for name, tensor in checkpoint.optimizer.items()
        if name.startswith(_RAW_WEIGHTS)
    }
    load_weights_into(training.model, raw or checkpoint.weights, str(checkpoint.path))
    if training.average is not None:
        training.average = {name: tensor.to(device, copy=True) for name, tensor in checkpoint.weights.items()}
    restore_optimizer(training.model, training.optimizer, checkpoint.optimizer)
    training.skipped_steps.fill_(state["skipped_steps"])
    training.skipped_in_a_row.fill_(state["skipped_in_a_row"])
    if training.loss_scale is not None and state["loss_scale"] is not None:
        training.loss_scale = LossScale.start(device, state["loss_scale"], state["clean_steps"])
    return read_progress(state)


def read_progress(state: dict[str, Any]) -> Progress:
    """The progress that a checkpoint's state tells of."""
    return Progress(
        **{
            **{name: state[name] for name in Progress.__dataclass_fields__},
            "cursor": Cursor(**state["cursor"]),
            "validations": [read_validation(entry) for entry in state["validations"]],
        }
    )


def load_weights_into(model: Transformer, weights: dict[str, Tensor], name: str) -> None:
    """Copies weights in; a CheckpointError where they are not of this network."""
    own = dict(model.named_parameters())
    problems = _differences(own, weights)
    if problems:
        raise CheckpointError(
            f"{name}: its weights are not those of the model in the configuration: {'; '.join(problems[:3])}"
            f"{' …' if len(problems) > 3 else ''}; set [model] as it was trained"
        )
    with torch.no_grad():
        for key, parameter in own.items():
            parameter.copy_(weights[key])


def _differences(own: dict[str, torch.nn.Parameter], weights: dict[str, Tensor]) -> Sequence[str]:
    problems = [f"{name} is missing" for name in own if name not in weights]
    problems += [f"{name} is not known" for name in weights if name not in own]
    problems += [
        f"{name} is {tuple(weights[name].shape)}, not {tuple(parameter.shape)}"
        for name, parameter in own.items()
        if name in weights and weights[name].shape != parameter.shape
    ]
    return problems
