"""What a record is to tell, before it is written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SETTINGS: dict[str, Any] = {
    "training": {
        "max_steps": 1000,
        "tokens_per_step": 32_768,
        "validate_every": 100,
        "checkpoint_every": 500,
        "log_every": 100,
        "schedule": "inverse_sqrt",
        "learning_rate": None,
        "warmup_steps": 400,
        "decay_steps": None,
        "label_smoothing": 0.1,
    },
    "model": {"width": 512, "dropout": 0.1},
}
CORPORA = [
    {
        "name": "europarl",
        "weight": 1.0,
        "split": "train",
        "lines": 1_000_000,
        "pairs": 950_000,
        "dropped": {"duplicate": 30_000, "too_long": 20_000},
        "source_bytes": 120_000_000,
        "target_bytes": 130_000_000,
        "source_tokens": 30_000_000,
        "target_tokens": 32_000_000,
        "files": [{"path": "europarl.en.xz", "bytes": 40_000_000, "lines": 1_000_000, "sha256": "ab" * 32}],
    },
    {"name": "newstest2013", "weight": 1.0, "split": "valid", "lines": 3000, "pairs": 3000, "dropped": {}}
    | {"source_bytes": 400_000, "target_bytes": 440_000, "source_tokens": 90_000, "target_tokens": 95_000, "files": []},
]


@dataclass(frozen=True, kw_only=True)
class Life:
    """One attempt: which steps it did, how it ended, and how long nothing happened before it."""

    start_step: int = 0
    last_step: int = 1000
    stop: str | None = "max_steps"  # None: killed
    pause_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the record is to tell."""

    hosts: Sequence[str] = ("alpha",)
    ranks_per_host: int = 1
    lives: Sequence[Life] = (Life(),)
    parts: Mapping[str, float] = field(default_factory=lambda: {"compute": 0.2, "optimizer": 0.02, "data_wait": 0.002})
    parts_of_rank: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    noise: float = 0.02
    sent_bytes: float | Callable[[Any], Any] | None = None  # a step; or a function of the steps' communication seconds
    log_every: int = 100
    start_seconds: float = 5.0
    # by step: (validation loss, loss on the training sample, BLEU)
    validations: Mapping[int, tuple[float | None, float | None, float | None]] = field(default_factory=dict)
    validation_seconds: float = 1.0
    averages: Mapping[int, tuple[float | None, float | None, float | None]] = field(default_factory=dict)
    checkpoint_every: int = 500
    checkpoint_wait_seconds: float = 0.05
    warnings: Sequence[str] = ()
    skipped: Sequence[int] = ()
    device: str = "CPU"
    precision: str = "fp32"
    cpu_has_bf16: bool | None = False
    num_gpus: int = 0  # of each host
    gpu: Mapping[str, Any] = field(default_factory=dict)
    cpu_percent: float = 95.0
    link_bytes_per_second: float | None = 117e6
    stated_bits_per_second: float | None = 1e9
    peak_flops_per_second: float | None = 1e12
    gradient_bytes: int = 40_000_000
    price_per_hour: float | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    has_steps: bool = True
    seed: int = 1

    @property
    def world_size(self) -> int:
        return len(self.hosts) * self.ranks_per_host

    @property
    def settings(self) -> dict[str, Any]:
        return {"training": {**SETTINGS["training"], **self.training}, "model": SETTINGS["model"]}
