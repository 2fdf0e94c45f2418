"""What the monitor saw of each host, as columns: made from `machine` events."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from septuagint.report.reading.fields import Floats, Integers, column, column_of, mappings, texts, whole
from septuagint.telemetry.events import Event

_MAX_GPUS = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuTable:
    """One GPU, row for row with its host's table. NaN where not available."""

    utilisation_percent: Floats
    memory_used_bytes: Floats
    power_watts: Floats
    energy_joules: Floats
    sm_clock_mhz: Floats
    memory_clock_mhz: Floats
    temperature_celsius: Floats
    sm_activity_percent: Floats
    tensor_activity_percent: Floats
    memory_activity_percent: Floats
    throttle_reasons: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineTable:
    """The samples of one host, oldest first, of all attempts. NaN where not available."""

    attempt: Integers
    time: Floats  # Unix seconds
    step: Floats
    interval_seconds: Floats
    cpu_percent: Floats  # of all cores
    process_cpu_percent: Floats
    memory_used_bytes: Floats
    process_memory_bytes: Floats
    disk_read_bytes_per_second: Floats
    disk_written_bytes_per_second: Floats
    disk_free_bytes: Floats
    sent_bytes_per_second: Floats
    received_bytes_per_second: Floats
    cpu_energy_joules: Floats
    gpus: dict[int, GpuTable]

    def __len__(self) -> int:
        return len(self.time)


def machine_table(events: Sequence[Event]) -> MachineTable:
    """The samples of one host."""
    events = sorted(events, key=lambda event: float(event["time"]))
    named: dict[str, Any] = {
        entry.name: column_of(events, entry.name)
        for entry in fields(MachineTable)
        if entry.name not in ("attempt", "gpus")
    }
    attempt = np.array([event["attempt"] for event in events], dtype=np.int64)
    return MachineTable(**named, attempt=attempt, gpus=_gpus(events))


def _gpus(events: Sequence[Event]) -> dict[int, GpuTable]:
    samples = [
        {index: gpu for gpu in mappings(event, "gpus") if (index := whole(gpu, "index", most=_MAX_GPUS)) is not None}
        for event in events
    ]
    indices = sorted(set().union(*samples)) if samples else []
    return {index: _gpu_table([sample.get(index, {}) for sample in samples]) for index in indices}


def _gpu_table(samples: Sequence[Event]) -> GpuTable:
    named: dict[str, Any] = {
        entry.name: column([sample.get(entry.name) for sample in samples])
        for entry in fields(GpuTable)
        if entry.name != "throttle_reasons"
    }
    return GpuTable(**named, throttle_reasons=tuple(texts(sample, "throttle_reasons") for sample in samples))
