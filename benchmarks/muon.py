"""Whether Muon for the matrices of the layers beats well-tuned AdamW, in steps and in minutes to the same loss.

    python benchmarks/muon.py CONFIG [--steps 1500] [--seeds 1 2 3] [--optimizers adamw muon]
                              [--rates adamw=0.001,0.0015,0.002 muon=0.002,0.004,0.008] [--validate-every 100]
                              [--set KEY=VALUE ...] [--json FILE]

CONFIG is the configuration of a prepared data folder; its warm-up must be shorter than --steps, over which the rate
falls by a cosine. Everything but the optimizer is the program's own. Every rate is tried with the first seed, then the
one with the lowest loss at the end runs with the other seeds, the optimizers in turn. Muon's rates are those of the
matrices alone, and on AdamW's scale, as its updates are brought to AdamW's length; embeddings, norms and biases keep
AdamW, with its best rate if that was looked for in the same call, else with that of CONFIG.

Minutes are those of training alone, until the device is done: validation is not in them, nor are three first steps,
which compile and are undone. The loss is that of the validation set, without dropout and label smoothing.

With --json, FILE is written after every run, and runs that are in it already are not made again: a call that was
broken off goes on.
"""

import argparse
import gc
import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from arguments import add_settings, at_least_one

from septuagint.batch import Cursor, Microbatch, StepData
from septuagint.config import Config
from septuagint.config_file import load_config
from septuagint.data.dataset import Dataset, open_dataset
from septuagint.data.loader import Loader
from septuagint.data.packing import PackShape, evaluation_packs, pack_shape
from septuagint.errors import UserError
from septuagint.machine import available_cores
from septuagint.progress import ProgressReport
from septuagint.training.muon import Muon
from septuagint.training.optimizer import learning_rate, make_optimizer
from septuagint.training.precision import choose_device
from septuagint.training.state import build_training, load_weights_into
from septuagint.training.step import Training, train_step
from septuagint.training.validation import _loss, weights_for_translation
from septuagint.world import World

Curve = list[dict[str, float]]  # step, loss and seconds of training at each validation
Run = dict[str, Any]  # "identity": what it was; "curve", "milliseconds_per_step", ...: what came of it

RATES = {"adamw": "0.001,0.0015,0.002", "muon": "0.002,0.004,0.008"}

_NUM_WARMUP_STEPS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--steps", type=at_least_one, default=1500)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--optimizers", nargs="+", choices=list(RATES), default=list(RATES))
    parser.add_argument("--rates", nargs="+", default=[], metavar="OPTIMIZER=RATE,...")
    parser.add_argument("--validate-every", type=at_least_one, default=100, metavar="STEPS")
    add_settings(parser)
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    torch.set_num_threads(available_cores())
    try:
        given = RATES | dict(entry.split("=") for entry in arguments.rates)
        if given.keys() != RATES.keys():
            parser.error(f"--rates are for {' and '.join(RATES)}")
        rates = {name: sorted(map(float, given[name].split(","))) for name in sorted(arguments.optimizers)}
        experiment = open_experiment(arguments)
    except (UserError, ValueError) as error:
        parser.error(str(error))
    chosen = compare(experiment, rates)
    results = {name: summarise(runs) for name, runs in chosen.items()}
    print_results(experiment, rates, results)
    races: dict[str, Any] = {}
    if len(results) == 2:
        races["mean of the seeds"] = race({name: result["curve"] for name, result in results.items()})
        for seed, *runs in zip(arguments.seeds, *chosen.values(), strict=True):
            races[f"seed {seed}"] = race({run["identity"]["optimizer"]: run["curve"] for run in runs})
        print_races(races)
    write_results(experiment, {"results": results, "races": races})


@dataclass(frozen=True, kw_only=True, slots=True)
class Experiment:
    """What all runs share, and the runs so far."""

    arguments: argparse.Namespace
    device: torch.device
    dataset: Dataset
    shape: PackShape
    valid_batches: list[Microbatch]
    runs: list[Run]


def open_experiment(arguments: argparse.Namespace) -> Experiment:
    """The data, and the runs of earlier calls."""
    config = run_config(arguments, arguments.seeds[0], None)
    dataset = open_dataset(config.data, ProgressReport(is_quiet=True))
    shape = pack_shape(config.training.microbatch_tokens, dataset.totals())
    packs = [evaluation_packs(text.source, text.target, shape) for text in dataset.valid]
    has_runs = arguments.json is not None and arguments.json.exists()
    return Experiment(
        arguments=arguments,
        device=choose_device(),
        dataset=dataset,
        shape=shape,
        valid_batches=list(itertools.chain(*packs)),
        runs=json.loads(arguments.json.read_text())["runs"] if has_runs else [],
    )


def run_config(arguments: argparse.Namespace, seed: int, rate: float | None) -> Config:
    """The configuration of a run; without a rate, with the file's own."""
    steps, interval = arguments.steps, arguments.validate_every
    values = {"schedule": "cosine", "decay_steps": steps, "max_steps": steps, "validate_every": interval, "seed": seed}
    values |= {} if rate is None else {"learning_rate": rate}
    own = [f"training.{key}={value}" for key, value in values.items()]
    return load_config(arguments.config, [*arguments.overrides, *own])


def compare(experiment: Experiment, rates: dict[str, list[float]]) -> dict[str, list[Run]]:
    """The runs of each optimizer with its best rate, one for each seed. AdamW is first: Muon needs its best rate."""
    first, *others = experiment.arguments.seeds
    chosen: dict[str, list[Run]] = {}
    adamw_rate: float | None = None
    for name in rates:
        tried = [find_run(experiment, name, rate, first, adamw_rate) for rate in rates[name]]
        chosen[name] = [min(tried, key=lambda run: run["curve"][-1]["loss"])]
        if name == "adamw":
            adamw_rate = chosen[name][0]["identity"]["rate"]
    for seed in others:
        for name, runs in chosen.items():
            runs.append(find_run(experiment, name, runs[0]["identity"]["rate"], seed, adamw_rate))
    return chosen


def find_run(experiment: Experiment, optimizer: str, rate: float, seed: int, adamw_rate: float | None) -> Run:
    """A run of this kind, made now if need be. `adamw_rate` is for what Muon leaves to AdamW."""
    config = run_config(experiment.arguments, seed, adamw_rate if optimizer == "muon" else rate)
    identity = {
        "optimizer": optimizer,
        "rate": rate,
        "machine": f"{device_name(experiment.device)}, torch {torch.__version__}",
        "config": config.model_dump(mode="json"),
    }
    for run in experiment.runs:
        if run["identity"] == identity:
            return run
    tell(f"{optimizer}, rate {rate:g}, seed {seed}")
    run = {"identity": identity, **train(experiment, config, rate if optimizer == "muon" else None)}
    experiment.runs.append(run)
    write_results(experiment, {})
    return run


def train(experiment: Experiment, config: Config, muon_rate: float | None) -> dict[str, Any]:
    """What came of a whole run."""
    # Code that earlier runs compiled counts towards dynamo's limit, beyond which nothing more would be compiled.
    torch.compiler.reset()
    gc.collect()
    device, shape, settings = experiment.device, experiment.shape, config.training
    training = build_training(config, experiment.dataset.vocabulary.size, shape.max_length, World(device=device))
    if muon_rate is not None:
        muon = make_optimizer(training.model, settings.model_copy(update={"optimizer": "muon"}))
        assert isinstance(muon, Muon)
        muon.matrix_rate = muon_rate / learning_rate(settings.warmup_steps, settings, config.model.width)
        training.optimizer = muon
    # Now, and not when the step is compiled: long sentences make the table of positions grow.
    curve: Curve = [{"step": 0, "loss": validation_loss(experiment, training), "seconds": 0.0}]
    seconds = 0.0
    with Loader(
        experiment.dataset.train,
        experiment.dataset.order(settings.seed),
        shape,
        num_microbatches=settings.num_microbatches,
        start=Cursor(),
        pin_memory=device.type == "cuda",
    ) as loader:
        data = warm_up(training, loader)
        for begin in range(0, settings.max_steps, settings.validate_every):
            end = min(begin + settings.validate_every, settings.max_steps)
            seconds += make_steps(training, data, range(begin + 1, end + 1))
            curve.append({"step": end, "loss": validation_loss(experiment, training), "seconds": seconds})
            tell(f"  step {end:,}: loss {curve[-1]['loss']:.4f} after {seconds:.1f} s")
    return {
        "curve": curve,
        "milliseconds_per_step": 1e3 * seconds / settings.max_steps,
        "skipped_steps": int(training.skipped_steps),
        "precision": training.precision + (", compiled" if training.is_compiled else ""),
    }


def warm_up(training: Training, loader: Loader) -> Iterator[StepData]:
    """Makes the first steps, so that all is compiled, and undoes them in place; the data of all steps, theirs too."""
    weights = {name: parameter.detach().clone() for name, parameter in training.model.named_parameters()}
    first = list(itertools.islice(loader, _NUM_WARMUP_STEPS))
    make_steps(training, iter(first), range(1, _NUM_WARMUP_STEPS + 1))
    load_weights_into(training.model, weights, "before the warm-up")
    for tensor in itertools.chain(*(memory.values() for memory in training.optimizer.state.values())):
        tensor.zero_()
    training.average = None if training.average is None else weights
    training.skipped_steps.zero_()
    training.skipped_in_a_row.zero_()
    return itertools.chain(first, loader)


def make_steps(training: Training, data: Iterator[StepData], steps: range) -> float:
    """Seconds, until the device is done."""
    _synchronise(training.world.device)
    begin = time.perf_counter()
    for step in steps:
        train_step(training, next(data).microbatches, step)
    _synchronise(training.world.device)
    return time.perf_counter() - begin


def validation_loss(experiment: Experiment, training: Training) -> float:
    """Nats per token with the weights for translating; what is no number is worse than any."""
    with weights_for_translation(training):
        loss_sum, num_tokens = _loss(training, experiment.valid_batches, lambda num_sentences: None)
    return loss_sum / num_tokens if math.isfinite(loss_sum) else math.inf


def summarise(runs: Sequence[Run]) -> dict[str, Any]:
    """An optimizer's figures over the seeds, and the mean of its curves."""
    losses = [run["curve"][-1]["loss"] for run in runs]
    points = zip(*(run["curve"] for run in runs), strict=True)
    return {
        "rate": runs[0]["identity"]["rate"],
        "losses": losses,
        "milliseconds_per_step": statistics.median(run["milliseconds_per_step"] for run in runs),
        "curve": [{key: statistics.fmean(point[key] for point in at) for key in at[0]} for at in points],
    }


def race(curves: dict[str, Curve]) -> dict[str, Any]:
    """How far each is when it has the loss that the worse one ends with: at its first validation not above that."""
    target = max(curve[-1]["loss"] for curve in curves.values())
    reached = {name: next(point for point in curve[1:] if point["loss"] <= target) for name, curve in curves.items()}
    adamw, muon = reached["adamw"], reached["muon"]
    return {
        "loss": target,
        "reached": reached,
        "ratio_in_steps": muon["step"] / adamw["step"],
        "ratio_in_minutes": muon["seconds"] / adamw["seconds"],
    }


def print_results(experiment: Experiment, rates: dict[str, list[float]], results: dict[str, Any]) -> None:
    """A line for each optimizer, and whether its rates went far enough."""
    machine, precision = experiment.runs[-1]["identity"]["machine"], experiment.runs[-1]["precision"]
    print(f"{machine}, {precision}; {experiment.arguments.steps:,} steps, seeds {experiment.arguments.seeds}")
    for name, result in results.items():
        losses, tried = result["losses"], rates[name]
        print(
            f"{name:<5}  rate {result['rate']:<7g} final loss {statistics.fmean(losses):.4f} "
            f"(seeds {min(losses):.4f} to {max(losses):.4f})  {result['milliseconds_per_step']:.2f} ms/step"
        )
        if result["rate"] in (tried[0], tried[-1]):
            print(f"       its best rate is at the edge of those tried, {', '.join(map(str, tried))}: try more")


def print_races(races: dict[str, Any]) -> None:
    """Who was where when, and the verdict."""
    for title, found in races.items():
        reached = [
            f"{name} {at['step']:,.0f} steps, {at['seconds'] / 60:.2f} min" for name, at in found["reached"].items()
        ]
        ratios = f"{found['ratio_in_steps']:.2f} in steps, {found['ratio_in_minutes']:.2f} in minutes"
        print(f"to loss {found['loss']:.4f} ({title}): {'; '.join(reached)}; muon / adamw {ratios}")
    mean, *by_seed = (found["ratio_in_minutes"] for found in races.values())
    is_agreed = max(by_seed) < 1 or min(by_seed) > 1
    verdict = ("muon is faster" if mean < 1 else "adamw is faster") if is_agreed else "the seeds do not agree"
    print(f"in minutes of training alone, without validation: {verdict}, muon / adamw {mean:.2f} ", end="")
    print(f"(seeds {min(by_seed):.2f} to {max(by_seed):.2f})")


def write_results(experiment: Experiment, found: dict[str, Any]) -> None:
    """Everything so far, where it was asked for."""
    path: Path | None = experiment.arguments.json
    if path is not None:
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_text(json.dumps({"runs": experiment.runs, **found}, indent=1), encoding="utf-8")
        temporary.replace(path)


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {available_cores()} threads"


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
