"""The attempts of a run: how often it was started, on what, with which settings, and how each one ended."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from septuagint.report.reading.fields import mapping, positive, text, texts, whole
from septuagint.telemetry.events import Event

_MAX_WORLD = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class RankStart:
    """What one rank said when an attempt began."""

    rank: int
    host: str
    device: str
    peak_flops_per_second: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One start of the run, as all its ranks tell."""

    number: int
    start_time: float  # Unix seconds of its first event, and of its last one
    end_time: float
    start_step: int | None
    last_step: int | None  # that any event of it names
    stop_reason: str | None  # None while it runs, and after a kill
    world_size: int | None
    ranks: tuple[RankStart, ...]
    fields: Event  # the whole event of its lowest rank; empty where it is lost

    @property
    def seconds(self) -> float:
        """That it lasted, from its first sign of life to its last."""
        return self.end_time - self.start_time

    @property
    def hosts(self) -> tuple[str, ...]:
        """Each once, in the order of ranks."""
        return tuple(dict.fromkeys(texts(self.fields, "hosts") or (rank.host for rank in self.ranks)))

    @property
    def training(self) -> dict[str, Any]:
        """The settings of `[training]`."""
        return mapping(mapping(self.fields, "settings"), "training")

    @property
    def model(self) -> dict[str, Any]:
        """The settings of `[model]`."""
        return mapping(mapping(self.fields, "settings"), "model")


def gather_attempts(
    *,
    spans: Mapping[int, Mapping[int, Sequence[float]]],
    starts: Mapping[int, int],
    last_steps: Mapping[int, int],
    begins: Sequence[tuple[int, Event]],
    stops: Sequence[tuple[int, Event]],
) -> tuple[Attempt, ...]:
    """From each rank's first and last time, the first and last step, and what each rank said at its ends."""
    told: dict[int, dict[int, Event]] = defaultdict(dict)
    for rank, event in begins:
        told[event["attempt"]][rank] = event
    # Rank 0 comes last, so that its word counts.
    from_last_rank = sorted(stops, key=lambda entry: -entry[0])
    reasons = {event["attempt"]: text(event, "reason") for _, event in from_last_rank}
    found: list[Attempt] = []
    for attempt in sorted(spans):
        ranks = told[attempt]
        fields = ranks[min(ranks)] if ranks else {}
        # Clocks of hosts may differ by hours: each rank's span is taken by its own.
        start = spans[attempt][min(spans[attempt])][0]
        seconds = max(last - first for first, last in spans[attempt].values())
        found.append(
            Attempt(
                number=attempt,
                start_time=start,
                end_time=start + seconds,
                start_step=starts.get(attempt),
                last_step=last_steps.get(attempt),
                stop_reason=reasons.get(attempt),
                world_size=whole(fields, "world_size", most=_MAX_WORLD) or len(ranks) or None,
                ranks=tuple(_rank_start(rank, ranks[rank]) for rank in sorted(ranks)),
                fields=fields,
            )
        )
    return tuple(found)


def _rank_start(rank: int, event: Event) -> RankStart:
    return RankStart(
        rank=rank,
        host=text(event, "host") or "",
        device=text(event, "device") or "",
        peak_flops_per_second=positive(event, "peak_flops_per_second"),
    )
