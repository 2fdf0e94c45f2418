"""What happened in a run, one small value an event: validations, samples, checkpoints and their kin."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from septuagint.report.reading.fields import column, mapping, number, numbers_by_name, positive, text, whole
from septuagint.telemetry.events import Event

_ON_THE_CURVE = ("current", "ema")


@dataclass(frozen=True, kw_only=True, slots=True)
class Validation:
    """One look at the validation text."""

    step: int
    time: float
    attempt: int
    weights: str
    valid_loss: float | None  # nats per target token, without dropout and label smoothing
    train_sample_loss: float | None  # the same measure, on training text
    bleu: float | None
    chrf: float | None
    bleu_signature: str
    num_lines: int | None
    seconds: float | None
    is_best: bool
    sets: dict[str, dict[str, float]]  # scores of each set, where there are several


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """A line that was translated on the way. Text of strangers: escape it."""

    step: int
    source: str
    reference: str
    translation: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedCheckpoint:
    """A checkpoint that reached the disk."""

    step: int
    time: float
    seconds: float | None
    bytes: float | None
    path: str
    files: dict[str, float]  # bytes by name


@dataclass(frozen=True, kw_only=True, slots=True)
class Warned:
    """A warning, once for all ranks that gave it."""

    time: float
    attempt: int
    rank: int
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Skipped:
    """A step without an update."""

    step: int
    attempt: int
    loss: float | None
    gradient_norm: float | None
    loss_scale: float | None
    in_a_row: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """The end of an attempt that ended by itself, as one rank tells."""

    time: float
    attempt: int
    rank: int
    step: int | None
    reason: str
    hours: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """What the network between the hosts carried at the start of an attempt."""

    attempt: int
    bus_bytes_per_second: float | None
    latency_seconds: float | None
    stated_bits_per_second: float | None
    sweep_seconds: float | None
    sizes_bytes: tuple[float, ...]
    seconds: tuple[float, ...]


def read_validation(event: Event) -> Validation:
    """From a `validation` event."""
    sets = {name: numbers_by_name(mapping(event, "sets"), name) for name in mapping(event, "sets")}
    return Validation(
        step=event["step"],
        time=float(event["time"]),
        attempt=event["attempt"],
        weights=text(event, "weights") or "current",
        valid_loss=number(event, "valid_loss_nats_per_token"),
        train_sample_loss=number(event, "train_sample_loss_nats_per_token"),
        bleu=number(event, "bleu"),
        chrf=number(event, "chrf"),
        bleu_signature=text(event, "bleu_signature") or "",
        num_lines=whole(event, "num_lines"),
        seconds=number(event, "seconds"),
        is_best=event.get("is_best") is True,
        sets=sets,
    )


def is_on_curve(validation: Validation) -> bool:
    """Whether these are the weights in training; the mean of several checkpoints is another thing."""
    return validation.weights in _ON_THE_CURVE


def read_sample(event: Event) -> Sample:
    """From a `sample` event."""
    names = ("source", "reference", "translation")
    return Sample(step=event["step"], **{name: text(event, name) or "" for name in names})


def read_checkpoint(event: Event) -> SavedCheckpoint:
    """From a `checkpoint` event."""
    return SavedCheckpoint(
        step=event["step"],
        time=float(event["time"]),
        seconds=number(event, "seconds"),
        bytes=positive(event, "bytes"),
        path=text(event, "path") or "",
        files={name: size for name, size in numbers_by_name(event, "files").items() if size >= 0},
    )


def read_skipped(event: Event) -> Skipped:
    """From a `skipped` event."""
    return Skipped(
        step=event["step"],
        attempt=event["attempt"],
        loss=number(event, "loss_nats_per_token"),
        gradient_norm=number(event, "gradient_norm"),
        loss_scale=number(event, "loss_scale"),
        in_a_row=whole(event, "in_a_row"),
    )


def read_stop(event: Event, rank: int) -> Stop:
    """From a `stop` event."""
    return Stop(
        time=float(event["time"]),
        attempt=event["attempt"],
        rank=rank,
        step=whole(event, "step"),
        reason=text(event, "reason") or "unknown",
        hours=number(event, "hours"),
    )


def read_link(event: Event) -> Link:
    """From a `link` event."""
    sizes, seconds = (column(_list(event, name)) for name in ("sizes_bytes", "seconds"))
    return Link(
        attempt=event["attempt"],
        bus_bytes_per_second=positive(event, "bus_bytes_per_second"),
        latency_seconds=positive(event, "latency_seconds"),
        stated_bits_per_second=positive(event, "stated_bits_per_second"),
        sweep_seconds=positive(event, "sweep_seconds"),
        sizes_bytes=tuple(map(float, sizes)),
        seconds=tuple(map(float, seconds)),
    )


def _list(event: Event, field: str) -> list[Any]:
    value = event.get(field)
    return value if isinstance(value, list) else []


def once_for_all_ranks(warnings: Sequence[Warned]) -> tuple[Warned, ...]:
    """The same words from several ranks of an attempt, or again and again, are one warning."""
    seen: dict[tuple[int, str], Warned] = {}
    for warned in sorted(warnings, key=lambda warned: warned.time):
        seen.setdefault((warned.attempt, warned.message), warned)
    return tuple(seen.values())
