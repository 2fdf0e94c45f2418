"""Memory that does not suffice: which setting to lower, and to what."""

import contextlib
from collections.abc import Iterator

import torch

from septuagint.config import TrainingConfig
from septuagint.data.packing import PackShape
from septuagint.errors import UserError

# What is said where no class of its own is raised: by the CPU's allocator, the driver, and cuBLAS.
_SIGNS = ("can't allocate memory", "out of memory", "ALLOC_FAILED")


@contextlib.contextmanager
def lack_of_memory_explained(settings: TrainingConfig, shape: PackShape, device: torch.device) -> Iterator[None]:
    """Turns an error that is about memory into a UserError with the cure."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:  # torch's own are RuntimeErrors
        if not isinstance(error, MemoryError) and not any(sign in str(error) for sign in _SIGNS):
            raise
        where, is_taken = _describe(device)
        cure = "other programs hold most of it: end them, or choose another GPU with CUDA_VISIBLE_DEVICES"
        raise UserError(f"out of memory on {where}; {cure if is_taken else _cure(settings, shape)}") from error


def _describe(device: torch.device) -> tuple[str, bool]:
    """The device in words, and whether others have taken most of its memory."""
    if device.type != "cuda":
        return "the computer", False
    name = torch.cuda.get_device_name(device)
    try:
        free, total = torch.cuda.mem_get_info(device)
    except RuntimeError:  # there is not even room to ask
        return name, True
    ours = torch.cuda.memory_reserved(device)
    sizes = f"{total / 2**30:.1f} GiB, {free / 2**30:.1f} free, {ours / 2**30:.1f} ours"
    return f"{name} ({sizes})", total - free - ours > total / 2


def _cure(settings: TrainingConfig, shape: PackShape) -> str:
    lower = smaller_budget(settings, shape, settings.microbatch_tokens // 2)
    if lower is None:
        return "choose a smaller [model], a smaller vocabulary.size, or a lower filters.max_pieces"
    return (
        f"set training.microbatch_tokens = {lower} instead of {settings.microbatch_tokens}; tokens_per_step = "
        f"{settings.tokens_per_step} may stay, a step then takes more microbatches. A run that has checkpoints keeps "
        "its budget: there, free memory that other programs hold, or begin anew with --run"
    )


def smaller_budget(settings: TrainingConfig, shape: PackShape, most: int) -> int | None:
    """The largest budget of a pack up to this that divides a step and holds the longest pair."""
    least = -(-shape.max_length * shape.target_tokens // min(shape.source_tokens, shape.target_tokens))
    for budget in range(most, least - 1, -1):
        if settings.tokens_per_step % budget == 0:
            return budget
    return None
