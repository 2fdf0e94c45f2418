"""Where, with what and how a run was made: names and values for the end of a report."""

import datetime
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from septuagint.report.contents import Report, stop_words
from septuagint.report.quantities import plain, quantity, seconds
from septuagint.report.reading.attempts import Attempt
from septuagint.report.reading.fields import mapping, mappings, number, text, texts, whole
from septuagint.report.reading.record import Record
from septuagint.telemetry.events import Event

_MAX_ATTEMPTS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """A heading with names and values. `is_long`: folded away where that is possible."""

    title: str
    entries: tuple[tuple[str, str], ...]
    is_long: bool = False


def gather_facts(report: Report) -> list[Facts]:
    """All that the record tells; what it does not is left out."""
    record = report.record
    hosts = [Facts(title=f"Host {host}", entries=_hardware(event)) for host, event in record.hardware.items()]
    found = [
        Facts(title="Run", entries=_run(report)),
        Facts(title="Attempts", entries=_attempts(report)),
        *hosts,
        Facts(title="Software", entries=_software(record)),
        Facts(title="Settings", entries=tuple(settings(record).items()), is_long=True),
        Facts(title="Warnings", entries=_warnings(record), is_long=True),
    ]
    return [facts for facts in found if facts.entries]


def settings(record: Record) -> dict[str, str]:
    """Every setting of the latest attempt, by its full name."""
    if not record.attempts:
        return {}
    latest = record.attempts[-1]
    flat: dict[str, str] = {}
    for section, values in (("training", latest.training), ("model", latest.model)):
        for name, value in values.items():
            flat[f"{section}.{name}"] = value if isinstance(value, str) else json.dumps(value)
    return flat


def summary_line(report: Report) -> list[str]:
    """What kind of run it is, in a few words each."""
    attempts = report.record.attempts
    event = attempts[-1].fields if attempts else {}
    languages = [found for found in (text(event, "source_language"), text(event, "target_language")) if found]
    parts = [" → ".join(languages)] if len(languages) == 2 else []
    if attempts:
        parts += [preset] if (preset := text(attempts[-1].model, "preset")) else []
        parameters = number(event, "num_parameters")
        if parameters:
            parts += [f"{parameters / 1e6:.1f} M parameters" if parameters >= 1e5 else f"{parameters:,.0f} parameters"]
        parts += [_machines(attempts[-1])]
    return [*parts, f"step {report.last_step:,}", report.state]


def _machines(attempt: Attempt) -> str:
    devices = list(dict.fromkeys(rank.device for rank in attempt.ranks if rank.device))
    world, num_hosts = attempt.world_size or 1, max(1, len(attempt.hosts))
    ranks = "1 rank" if world == 1 else f"{world:,} ranks on {num_hosts:,} host{'s' if num_hosts > 1 else ''}"
    return f"{ranks} ({', '.join(devices)})" if devices else ranks


def _run(report: Report) -> tuple[tuple[str, str], ...]:
    record = report.record
    event = record.attempts[-1].fields if record.attempts else {}
    rows = {
        "folder": str(record.run.resolve()),
        "state": report.state,
        "steps": f"{report.last_step:,}" + (f" of {most:,}" if (most := whole(event, "max_steps")) else ""),
        "parameters": _count(event, "num_parameters"),
        "precision": text(event, "precision"),
        "attention": text(event, "attention"),
        "a step": _step_of(event),
        "learning rate": text(event, "learning_rate"),
        "data fingerprint": text(record.data, "fingerprint"),
        "vocabulary": _count(record.data, "vocabulary_size", "pieces"),
        "report made": moment(report.made.timestamp()),
    }
    return tuple((name, value) for name, value in rows.items() if value)


def _step_of(event: Event) -> str | None:
    packs, budget = whole(event, "num_microbatches"), number(event, "target_budget")
    if packs is None or budget is None:
        return None
    return f"{packs:,} pack{'s' if packs > 1 else ''} of up to {budget:,.0f} target tokens"


def _attempts(report: Report) -> tuple[tuple[str, str], ...]:
    """The latest ones. One that was followed by another is over, whether it said so or not."""
    attempts = report.record.attempts
    shown = []
    for attempt in attempts[-_MAX_ATTEMPTS:]:
        ended = report.state if attempt is attempts[-1] else stop_words(attempt.stop_reason or "killed")
        steps = f"steps {attempt.start_step or 0:,} to {attempt.last_step or 0:,}"
        what = f"{moment(attempt.start_time)}, {seconds(attempt.seconds)}, {steps}, {_machines(attempt)}; {ended}"
        shown.append((f"attempt {attempt.number}", what))
    return tuple(shown)


def _hardware(event: Event) -> tuple[tuple[str, str], ...]:
    cores = whole(event, "num_cores")
    gpus = Counter(_gpu(gpu) for gpu in mappings(event, "gpus"))
    rows = {
        "processor": " · ".join(filter(None, [text(event, "cpu_model"), f"{cores:,} cores" if cores else None])),
        "memory": _amount(event, "memory_bytes", "B"),
        "GPUs": "; ".join(f"{count} × {gpu}" if count > 1 else gpu for gpu, count in gpus.items()),
        "disk": _amount(event, "disk_free_bytes", "B", " free at the start"),
        "network": " · ".join(
            filter(None, [text(event, "interface"), _amount(event, "stated_bits_per_second", "bit/s", " stated")])
        ),
        "not available": "; ".join(f"{what}: {why}" for what, why in mapping(event, "not_available").items()),
    }
    return tuple((name, value) for name, value in rows.items() if value)


def _gpu(gpu: Mapping[str, Any]) -> str:
    parts = [text(gpu, "name"), _amount(gpu, "memory_bytes", "B"), _amount(gpu, "power_limit_watts", "W")]
    return ", ".join(part for part in parts if part)


def _software(record: Record) -> tuple[tuple[str, str], ...]:
    attempts = mappings(record.environment, "attempts")
    if not attempts:
        return ()
    latest = attempts[-1]
    versions = mapping(latest, "versions")
    rows = {
        "command line": " ".join(texts(latest, "command_line")),
        "started by": text(latest, "launcher"),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items() if isinstance(version, str)),
        "git commit": text(latest, "git_commit"),
    }
    return tuple((name, value) for name, value in rows.items() if value)


def _warnings(record: Record) -> tuple[tuple[str, str], ...]:
    shown = [(moment(warned.time), f"rank {warned.rank}: {warned.message}") for warned in record.warnings[-50:]]
    left_out = len(record.warnings) - len(shown)
    return tuple([(f"{left_out:,} earlier", "not shown"), *shown] if left_out else shown)


def _count(event: Mapping[str, Any], field: str, unit: str = "") -> str | None:
    value = whole(event, field)
    return None if value is None else f"{value:,} {unit}".rstrip()


def _amount(event: Mapping[str, Any], field: str, unit: str, after: str = "") -> str | None:
    value = number(event, field)
    return None if value is None else f"{quantity(value, unit)}{after}"


def moment(unix_seconds: float) -> str:
    """To the minute."""
    try:
        moment = datetime.datetime.fromtimestamp(unix_seconds, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return f"at {plain(unix_seconds)} s"
    return moment.strftime("%Y-%m-%d %H:%M UTC")
