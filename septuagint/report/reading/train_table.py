"""The lines of the log as columns: made from the `train` events of one rank."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from septuagint.report.reading.fields import Floats, Integers, column_of, text
from septuagint.telemetry.events import Event


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainTable:
    """The lines of one rank's log that count, as columns. NaN where a field is missing or not finite."""

    attempt: Integers
    step: Integers
    time: Floats
    epochs: Floats
    loss: Floats  # nats per target token, with dropout and label smoothing
    learning_rate: Floats
    gradient_norm: Floats
    loss_scale: Floats
    skipped_steps: Floats
    seconds_per_step: Floats
    target_tokens_per_second: Floats
    source_tokens_per_second: Floats
    fill_target: Floats
    fill_source: Floats
    data_wait_seconds_per_step: Floats
    to_device_seconds_per_step: Floats
    compute_seconds_per_step: Floats
    communication_seconds_per_step: Floats
    straggler_wait_seconds_per_step: Floats
    optimizer_seconds_per_step: Floats
    rest_seconds_per_step: Floats
    model_flop_utilisation: Floats
    bottleneck_share: Floats
    bottleneck: tuple[str, ...]
    eta_seconds: Floats

    def __len__(self) -> int:
        return len(self.step)


def train_table(events: Sequence[Event]) -> TrainTable:
    """From `train` events that all have a step."""
    named: dict[str, Any] = {
        entry.name: column_of(events, entry.name)
        for entry in fields(TrainTable)
        if entry.name not in ("attempt", "step", "bottleneck", "loss")
    }
    return TrainTable(
        **named,
        attempt=np.array([event["attempt"] for event in events], dtype=np.int64),
        step=np.array([event["step"] for event in events], dtype=np.int64),
        loss=column_of(events, "loss_nats_per_token"),
        bottleneck=tuple(text(event, "bottleneck") or "" for event in events),
    )
