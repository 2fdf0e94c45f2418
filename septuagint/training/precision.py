"""Precision: which numbers a device computes in, and the loss scale that keeps 16-bit gradients from vanishing."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from septuagint.errors import UserError

Precision = Literal["bf16", "fp16", "fp32"]

DTYPES: dict[Precision, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

_FIRST_SCALE = 2.0**14
_LARGEST_SCALE = 2.0**24
_CLEAN_STEPS = 2000


def device_name(device: torch.device) -> str:
    """As people know it."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def choose_precision(wanted: Literal["auto", "bf16", "fp16", "fp32"], device: torch.device) -> Precision:
    """The precision for a device; a UserError where it cannot be had."""
    capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else None
    if wanted == "auto":
        if capability is None:
            return "fp32"
        # From Ampere on in hardware; older GPUs only pretend (torch.cuda.is_bf16_supported says yes to emulation).
        return "bf16" if capability >= (8, 0) else "fp16"
    if wanted == "fp16" and capability is None:
        raise UserError('training.precision = "fp16" needs a GPU; on a CPU use "fp32" or "auto"')
    if wanted == "bf16" and capability is not None and capability < (8, 0):
        raise UserError(
            f'training.precision = "bf16" needs a GPU of compute capability 8.0 or newer, this one has '
            f'{capability[0]}.{capability[1]}; use "fp16" or "auto"'
        )
    return wanted


def check_build(name: str, capability: tuple[int, int], architectures: list[str], build: str) -> None:
    """Refuses a GPU for which this build of torch holds no code, and says which build does.

    `architectures` are names like sm_90 (machine code, good for the same major version) and compute_90 (code that the
    driver can translate for anything newer).
    """
    for architecture in architectures:
        kind, _, digits = architecture.rstrip("af").partition("_")
        if not digits.isdecimal():
            continue
        major, minor = int(digits[:-1]), int(digits[-1])
        if kind == "sm" and major == capability[0] and minor <= capability[1]:
            return
        if kind == "compute" and (major, minor) <= capability:
            return
    if capability < (7, 5):
        cure = "install torch's build for CUDA 12.6 (its name ends in +cu126), the last with code for such GPUs"
    else:
        cure = "install torch's newest build for CUDA 13 (its name ends in +cu130 or higher)"
    raise UserError(
        f"{name} has compute capability {capability[0]}.{capability[1]}, but this torch ({build}) has code for "
        f"{', '.join(architectures) or 'no GPU'} only; {cure}"
    )


def choose_device(local_rank: int = 0) -> torch.device:
    """The GPU of a rank if there is one that torch can use, else the CPU. Ranks share GPUs where there are fewer."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", local_rank % torch.cuda.device_count())
    check_build(
        torch.cuda.get_device_name(device),
        torch.cuda.get_device_capability(device),
        torch.cuda.get_arch_list(),
        torch.__version__,
    )
    # cuDNN plans a kernel for each new shape, and decoding has one at every piece: 10 s for 2000 sentences, not 1.
    torch.backends.cuda.enable_cudnn_sdp(False)
    return device


@dataclass(kw_only=True, slots=True)
class LossScale:
    """Halved when a step overflows, doubled after 2000 clean ones. Lives on the device: nobody waits to read it."""

    scale: Tensor
    clean_steps: Tensor

    @classmethod
    def start(cls, device: torch.device, scale: float = _FIRST_SCALE, clean_steps: int = 0) -> "LossScale":
        """A scale for the mean loss; also the way back from a checkpoint."""
        return cls(
            scale=torch.tensor(scale, dtype=torch.float32, device=device),
            clean_steps=torch.tensor(clean_steps, dtype=torch.int64, device=device),
        )

    def update(self, is_skipped: Tensor) -> None:
        """After each step."""
        self.clean_steps = torch.where(is_skipped, 0, self.clean_steps + 1)
        is_due = self.clean_steps >= _CLEAN_STEPS
        grown = torch.where(is_due, (self.scale * 2).clamp(max=_LARGEST_SCALE), self.scale)
        self.scale = torch.where(is_skipped, self.scale / 2, grown)
        self.clean_steps = torch.where(is_due, 0, self.clean_steps)
