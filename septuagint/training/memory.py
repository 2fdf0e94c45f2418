"""Memory that does not suffice: which setting to lower, and to what."""

import torch

from septuagint.config import TrainingConfig
from septuagint.data.packing import PackShape
from septuagint.errors import UserError


def explain_lack_of_memory(
    error: BaseException, settings: TrainingConfig, shape: PackShape, device: torch.device
) -> None:
    """Raises a UserError with the cure if that is what the error is about."""
    is_gpu = isinstance(error, torch.OutOfMemoryError)
    if not is_gpu and not isinstance(error, MemoryError) and "can't allocate memory" not in str(error):
        return
    where = "the computer"
    if is_gpu:
        free, total = torch.cuda.mem_get_info(device)
        where = (
            f"{torch.cuda.get_device_name(device)} ({total / 2**30:.1f} GiB, {free / 2**30:.1f} free, "
            f"{torch.cuda.memory_reserved(device) / 2**30:.1f} ours)"
        )
    lower = smaller_budget(settings, shape)
    cure = (
        f"set training.microbatch_tokens = {lower} instead of {settings.microbatch_tokens}; tokens_per_step = "
        f"{settings.tokens_per_step} may stay, a step then takes more microbatches. A run that has checkpoints keeps "
        "its budget: there, free memory that other programs hold, or begin anew with --run"
        if lower is not None
        else "choose a smaller [model], a smaller vocabulary.size, or a lower filters.max_pieces"
    )
    raise UserError(f"out of memory on {where}; {cure}") from error


def smaller_budget(settings: TrainingConfig, shape: PackShape) -> int | None:
    """The largest budget up to half of the present one that divides a step and holds the longest pair."""
    least = -(-shape.max_length * shape.target_tokens // min(shape.source_tokens, shape.target_tokens))
    for budget in range(settings.microbatch_tokens // 2, least - 1, -1):
        if settings.tokens_per_step % budget == 0:
            return budget
    return None
