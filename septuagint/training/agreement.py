"""Agreement: ranks that are about to train together make sure that they mean the same, and fail together."""

import json
import platform
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

import septuagint
from septuagint.config import Config, TrainingConfig
from septuagint.data.packing import PackShape
from septuagint.errors import UserError
from septuagint.training.memory import smaller_budget
from septuagint.training.precision import device_name
from septuagint.world import World

Result = TypeVar("Result")

# Paths may differ from host to host.
_MAY_DIFFER = ("training.init_from", "training.mirror")


def together(world: World, action: Callable[[], Result], wait: Callable[[], None] = lambda: None) -> Result:
    """Does something on every rank. Where a rank's user error stops it, all stop, and each says which rank and why.

    `wait` is called after the action: to wait for ranks that may need minutes more than others.
    """
    error = result = None
    try:
        result = action()
    except UserError as caught:
        error = caught
    wait()
    problems = world.gather(None if error is None else str(error))
    if world.size == 1 and error is not None:
        raise error
    if any(problem is not None for problem in problems):
        agreed = UserError(_describe_problems(problems, world))
        agreed.is_told = world.is_leader
        raise agreed
    return result  # type: ignore[return-value]  # the action's own result: there was no error


def _describe_problems(problems: Sequence[str | None], world: World) -> str:
    if len(set(problems)) == 1:
        return str(problems[0])
    where: dict[str, list[str]] = {}
    for rank, problem in enumerate(problems):
        if problem is not None:
            where.setdefault(problem, []).append(world.name(rank))
    return "\n".join(f"{', '.join(names)}: {problem}" for problem, names in where.items())


def leaders_first(world: World, action: Callable[[], Result], wait: Callable[[], None]) -> Result:
    """The same, but the others of a host wait for its leader: what it has read and verified, they need not."""
    first = together(world, lambda: action() if world.is_leader else None, wait)
    return together(world, lambda: action() if first is None else first, wait)


def check_same(world: World, own: dict[str, Any]) -> None:
    """Refuses a world in which a rank has other values than the rest; names the rank and the values."""
    found = world.gather(own)
    common = json.loads(Counter(json.dumps(values, sort_keys=True) for values in found).most_common(1)[0][0])
    lines = []
    for rank, values in enumerate(found):
        lines += [
            f"  {world.name(rank)}: {key} is {json.dumps(values.get(key))}, on the others {json.dumps(common.get(key))}"
            for key in sorted(values.keys() | common.keys())
            if values.get(key) != common.get(key)
        ]
    if lines:
        error = UserError(
            "the ranks would not train the same:\n"
            + "\n".join(lines)
            + "\ngive all machines the same configuration, data folder and versions"
        )
        error.is_told = world.is_leader
        raise error


def terms(config: Config, device: torch.device, num_threads: int) -> dict[str, Any]:
    """What ranks must agree on before they look at their disks."""
    settings = config.model_dump(mode="json")
    agreed = {
        f"{section}.{key}": value
        for section in ("model", "training")
        for key, value in settings[section].items()
        if f"{section}.{key}" not in _MAY_DIFFER
    }
    weights = {f"data.train.{corpus.name}.weight": corpus.weight for corpus in config.data.train}
    versions = {
        "version of septuagint": septuagint.__version__,
        "version of torch": torch.__version__.partition("+")[0],
        "version of Python": ".".join(platform.python_version_tuple()[:2]),
    }
    if config.training.optimizer != "muon":
        return {**agreed, **weights, **versions}
    # It multiplies matrices on each rank, and they must be rounded alike.
    needed = {"device": device_name(device), "number of threads": num_threads if device.type == "cpu" else None}
    return {**agreed, **weights, **versions, **{f'{name} (for optimizer = "muon")': needed[name] for name in needed}}


def check_enough_work(world: World, settings: TrainingConfig, shape: PackShape) -> None:
    """A rank without a microbatch would only wait for the others."""
    num_microbatches = settings.num_microbatches
    if world.size <= num_microbatches:
        return
    lower = smaller_budget(settings, shape, settings.tokens_per_step // world.size)
    smaller_packs = "" if lower is None else f", or training.microbatch_tokens = {lower}"
    error = UserError(
        f"{world.size} ranks, but a step has {num_microbatches} microbatches to share: start at most "
        f"{num_microbatches} ranks; or, in a new run, set training.tokens_per_step = "
        f"{world.size * settings.microbatch_tokens}{smaller_packs}"
    )
    error.is_told = world.is_leader
    raise error
