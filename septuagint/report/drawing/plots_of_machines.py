"""Pictures of the machines: GPUs or processors, memory, power, and the network between hosts."""

from collections.abc import Iterator

import numpy as np

from septuagint.report.drawing.axes import Axis
from septuagint.report.drawing.charts import Level, Series, line_chart, scatter_chart
from septuagint.report.drawing.plot import Missing, Plot, drawn, lines_for, restarts, steps_axis
from septuagint.report.drawing.plots_of_time import useful_share
from septuagint.report.drawing.thinning import means_per_x
from septuagint.report.quantities import quantity, unit_for
from septuagint.report.reading.fields import Floats, mappings, positive
from septuagint.report.reading.machine_table import GpuTable, MachineTable
from septuagint.report.reading.record import Record

_NO_SAMPLES = "the monitor has left no samples (`machine` events)"
_NO_GPU = "the monitor saw no GPU"
_ONE_HOST = "all ranks run on one host, or traffic was not counted"
# A limit so far above everything measured would flatten the lines.
_FAR = 3.0


def plot_use(record: Record) -> Plot | Missing:
    """What tools show as use, beside what is useful: of GPUs, or of processors where there are none."""
    title = "Use of the GPUs: what tools show, and what is useful"
    if not list(_gpus(record)):
        return _plot_processors(record)
    series = []
    for name, field, color in (
        ("utilisation that tools show", "utilisation_percent", 8),
        ("SM activity", "sm_activity_percent", 4),
        ("tensor core activity", "tensor_activity_percent", 5),
    ):
        x, y = _mean_of_gpus(record, field)
        series.append(Series(name=name, x=x, y=y, color=color, is_dashed=color == 8))
    series += _useful(record)
    return drawn(
        "use",
        title,
        "A GPU that waits for the network inside a kernel counts as 100% busy. The useful share is the part of a step "
        "in which the model is computed; model FLOP utilisation compares its arithmetic with the most that the device "
        "can do.",
        line_chart(title, series, steps_axis(record), Axis(label="%", from_zero=True), restarts=restarts(record)),
        else_reason=_NO_SAMPLES,
    )


def _plot_processors(record: Record) -> Plot | Missing:
    title = "Use of the processors"
    lines = {host: _per_step(table, table.cpu_percent) for host, table in record.machines.items()}
    series = [*lines_for(lines, first_color=3), *_useful(record)] if lines else []
    return drawn(
        "use",
        title,
        "All cores of each host, by everybody on it. There are no GPUs.",
        line_chart(title, series, steps_axis(record), Axis(label="%", from_zero=True), restarts=restarts(record)),
        else_reason=_NO_SAMPLES,
    )


def plot_memory(record: Record) -> Plot | Missing:
    """Of each GPU, or of each host."""
    gpus = list(_gpus(record))
    if gpus:
        title, total = "GPU memory", _smallest(record, "memory_bytes")
        lines = {name: _per_step(table, gpu.memory_used_bytes) for name, table, gpu in gpus}
    else:
        title, total = (
            "Memory of the hosts",
            _least(positive(event, "memory_bytes") for event in record.hardware.values()),
        )
        lines = {host: _per_step(table, table.memory_used_bytes) for host, table in record.machines.items()}
    return _against_limit(record, "memory", title, lines, "B", total, "what there is", _NO_SAMPLES)


def plot_power(record: Record) -> Plot | Missing:
    """Of each GPU, against its limit."""
    lines = {name: _per_step(table, gpu.power_watts) for name, table, gpu in _gpus(record)}
    limit = _smallest(record, "power_limit_watts")
    return _against_limit(record, "power", "GPU power", lines, "W", limit, "power limit", _NO_GPU)


def plot_network(record: Record) -> Plot | Missing:
    """Bytes that leave each host, against what the link carried when it was measured."""
    lines = {host: _per_step(table, table.sent_bytes_per_second) for host, table in record.machines.items()}
    lines = {host: line for host, line in lines.items() if np.isfinite(line[1]).any()} or _counted(record)
    capacity = next((link.bus_bytes_per_second for link in reversed(record.links) if link.bus_bytes_per_second), None)
    return _against_limit(
        record,
        "network",
        "Network: sent by each host",
        lines,
        "B/s",
        capacity,
        "measured capacity of the link",
        _ONE_HOST,
    )


def plot_traffic(record: Record) -> Plot | Missing:
    """Step time against traffic, a point a step."""
    title = "Step time against network traffic"
    tables = [table for _, table in sorted(record.steps.items()) if np.isfinite(table.sent_bytes).any()]
    if not tables:
        return Missing(title=title, reason=_ONE_HOST)
    table = tables[0]
    seconds_factor, seconds_unit = unit_for(float(np.percentile(table.wall, 97)), "s")
    bytes_factor, bytes_unit = unit_for(float(np.nanmax(table.sent_bytes)), "B")
    points = Series(name="steps", x=table.sent_bytes / bytes_factor, y=table.wall / seconds_factor, color=1)
    return drawn(
        "traffic",
        title,
        "One point a step: what the first host sent in it, and how long it took. The gradient has one size, so points "
        "in one column are steps that sent the same and took longer for other reasons.",
        scatter_chart(
            title,
            [points],
            Axis(label=f"{bytes_unit} sent in the step", from_zero=True),
            Axis(label=f"{seconds_unit} per step", from_zero=True),
        ),
        else_reason=_ONE_HOST,
    )


def _against_limit(
    record: Record,
    id: str,
    title: str,
    lines: dict[str, tuple[Floats, Floats]],
    unit: str,
    limit: float | None,
    limit_name: str,
    else_reason: str,
) -> Plot | Missing:
    numbers = np.concatenate([y[np.isfinite(y)] for _, y in lines.values()]) if lines else np.zeros(0)
    if not len(numbers):
        return Missing(title=title, reason=else_reason)
    highest = float(numbers.max())
    is_near = limit is not None and limit <= _FAR * highest
    factor, shown_unit = unit_for(max(highest, limit if is_near and limit is not None else 0.0), unit)
    scaled = {name: (x, y / factor) for name, (x, y) in lines.items()}
    levels = [Level(name=limit_name, y=limit / factor)] if is_near and limit is not None else []
    told = "not known" if limit is None else quantity(limit, unit)
    mean = quantity(float(numbers.mean()), unit)
    return drawn(
        id,
        title,
        f"{limit_name[0].upper()}{limit_name[1:]}: {told}. Mean of what is shown: {mean}.",
        line_chart(
            title,
            lines_for(scaled),
            steps_axis(record),
            Axis(label=shown_unit, from_zero=True),
            levels=levels,
            restarts=restarts(record),
        ),
        else_reason=else_reason,
    )


def _useful(record: Record) -> list[Series]:
    tables = [table for table in record.steps.values() if len(table)]
    series = []
    if tables:
        x, y = useful_share(tables)
        series.append(Series(name="useful share of a step", x=x, y=y, color=1))
    flops = 100 * record.train.model_flop_utilisation
    series.append(Series(name="model FLOP utilisation", x=record.train.step.astype(float), y=flops, color=2))
    return series


def _gpus(record: Record) -> Iterator[tuple[str, MachineTable, GpuTable]]:
    for host, table in record.machines.items():
        for index, gpu in table.gpus.items():
            yield f"{host} GPU {index}", table, gpu


def _mean_of_gpus(record: Record, field: str) -> tuple[Floats, Floats]:
    found = list(_gpus(record))
    steps = np.concatenate([table.step for _, table, _ in found])
    return means_per_x(steps, np.concatenate([getattr(gpu, field) for _, _, gpu in found]))


def _per_step(table: MachineTable, numbers: Floats) -> tuple[Floats, Floats]:
    """Several samples at one step, as while it validates, are one point."""
    return means_per_x(table.step, numbers)


def _counted(record: Record) -> dict[str, tuple[Floats, Floats]]:
    """The rate from the bytes of each step, where the monitor has none."""
    return {
        f"rank {rank}'s host": (table.step.astype(float), table.sent_bytes / np.maximum(table.wall, 1e-9))
        for rank, table in record.steps.items()
        if np.isfinite(table.sent_bytes).any()
    }


def _smallest(record: Record, field: str) -> float | None:
    return _least(positive(gpu, field) for event in record.hardware.values() for gpu in mappings(event, "gpus"))


def _least(numbers: Iterator[float | None]) -> float | None:
    return min((number for number in numbers if number is not None), default=None)
