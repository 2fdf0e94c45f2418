"""Events in words: the lines that people read, made from the record alone."""

import math
import re
from collections.abc import Callable

from rich.cells import cell_len, chop_cells

from septuagint.telemetry.events import Event, escape_controls, number

# The record has a sample whole; on a screen the beginning tells enough.
_MAX_SAMPLE_CHARACTERS = 500
# A terminal that is narrower breaks lines itself.
_LEAST_CELLS = 8
_REASONS = {
    "max_steps": "all steps are done",
    "max_hours": "its hours are used up",
    "patience": "it no longer gets better",
    "signal": "it was told to stop; the same command goes on from here",
    "not_finite": "the loss is no longer a number",
    "lost_peer": "another rank was lost; the same command goes on from the last checkpoint",
    "drift": "the weights are not the same on all ranks",
    "error": "an error",
}


_LAUNCHERS = {
    "workers": "--workers",
    "environment": "hand",
    "openmpi": "mpirun",
    "mpich": "mpiexec",
    "slurm": "srun",
}


def describe(event: Event) -> list[str]:
    """An event as plain lines without control characters; none for an event that is not for people."""
    make_lines = _LINES.get(event["event"])
    return [] if make_lines is None else [escape_controls(line) for line in make_lines(event)]


def wrap(line: str, width: int) -> list[str]:
    """A line in parts that fit into `width` cells, broken between fields, or else between words.

    The parts after the first begin under the second field, where that does not stand far to the right.
    """
    if cell_len(line) <= width:
        return [line]
    label = re.match(r" *\S+(?: \S+)* {2,}(?=\S)", line)
    if label is not None and cell_len(label[0]) <= width // 3:
        head = label[0]
        indent = " " * cell_len(head)
    else:
        head = " " * (len(line) - len(line.lstrip(" ")))
        indent = head + "    "
    rest = line[len(head) :]
    parts = []
    while rest:
        end = _place_to_break(rest, max(_LEAST_CELLS, width - cell_len(head)))
        parts.append(head + rest[:end].rstrip(" "))
        head, rest = indent, rest[end:].lstrip(" ")
    return parts


def _place_to_break(text: str, room: int) -> int:
    """Where the text ends if it fits, or else the last gap between fields that leaves no more than half of the line
    empty, or else the last one between words; a word that would fill more than a line is cut."""
    if cell_len(text) <= room:
        return len(text)
    end = len(chop_cells(text, room)[0])
    gap, space = text.rfind("  ", 0, end + 2), text.rfind(" ", 0, end + 1)
    if gap > end // 2:
        return gap
    word = text[space + 1 :].partition(" ")[0]
    return space if space > 0 and cell_len(word) <= room else end


def status_line(train: Event, *, step: int, max_steps: int | None, best_bleu: float | None, width: int) -> str:
    """The live line: where the run stands, as of its last `train` event. What matters less is left out to fit."""
    eta_seconds = number(train, "eta_seconds")
    if eta_seconds is not None:
        done_since_seconds = (step - train["step"]) * (number(train, "seconds_per_step") or 0.0)
        eta_seconds = max(0.0, eta_seconds - done_since_seconds)
    values = {**train, "eta_seconds": eta_seconds, "best_bleu": best_bleu}
    parts = [(0, f"step {step:,}" if max_steps is None else f"step {step:,}/{max_steps:,}")]
    parts += [(rank, part) for rank, field in _STATUS_FIELDS for part in _parts(values, field)]
    parts += [(4, part) for part in _verdict(train)] + [(9, part) for part in _split(train)]
    while len(line := "  ".join(part for _, part in parts)) > width and len(parts) > 1:
        parts.remove(max(parts))
    return line[:width]


# In the order of the line, with the order in which they matter.
_STATUS_FIELDS = (
    (1, "loss_nats_per_token"),
    (6, "seconds_per_step"),
    (5, "target_tokens_per_second"),
    (7, "learning_rate"),
    (8, "gradient_norm"),
    (2, "eta_seconds"),
    (3, "best_bleu"),
)
_BOTTLENECKS = {
    "network": "network",
    "exchange": "exchange between ranks",
    "data": "waits for data",
    "slow_rank": "waits for rank",
    "compute": "compute",
}
# The parts of a step, in short, in the order in which they come.
_SPLIT = {
    "data_wait": "data",
    "to_device": "copy",
    "compute": "compute",
    "straggler_wait": "wait",
    "communication": "net",
    "optimizer": "opt",
    "rest": "rest",
}


def _verdict(train: Event) -> list[str]:
    """What holds the steps up: `network 78%`."""
    share = number(train, "bottleneck_share")
    what = _BOTTLENECKS.get(str(train.get("bottleneck")))
    if share is None or what is None:
        return []
    slowest = number(train, "slowest_rank")
    return [f"{what}{'' if slowest is None else f' {slowest}'} {share:.0%}"]


def _split(train: Event) -> list[str]:
    """Where the time of a step goes; what is less than half a percent is left out."""
    seconds = {short: number(train, f"{part}_seconds_per_step") for part, short in _SPLIT.items()}
    wall = number(train, "seconds_per_step")
    if not wall or None in seconds.values():
        return []
    shares = [(short, value / wall) for short, value in seconds.items() if value is not None]
    return ["[" + " ".join(f"{short} {share:.0%}" for short, share in shares if share >= 0.005) + "]"]


def _parts(event: Event, *fields: str) -> list[str]:
    """The numbers that an event has, as people read them."""
    return [_FORMS[field](value) for field in fields if (value := number(event, field)) is not None]


def _attempt_lines(event: Event) -> list[str]:
    where = [event[field] for field in ("device", "precision") if event.get(field)]
    counts = _parts(event, "num_parameters", "world_size", "num_threads")
    lines = ["  ".join([f"attempt {event['attempt']}", *_parts(event, "start_step", "max_steps"), *where, *counts])]
    settings = event.get("settings", {}).get("training", {})
    if event.get("start_step") == 0 and settings.get("init_from"):
        lines.append(f"    weights from {settings['init_from']}")
    if len(event.get("hosts", ())) and event["world_size"] > 1:
        disks = "one run folder" if event["num_disks"] == 1 else f"a run folder on each of {event['num_disks']} disks"
        lines.append(
            f"    {event['world_size']} ranks, started by {_LAUNCHERS.get(event['launcher'], event['launcher'])}, on "
            f"{', '.join(event['hosts'])} through "
            f"{event['interface']}; {disks}"
        )
    if "target_budget" in event:
        num_packs = event["num_microbatches"]
        packs = "1 pack" if num_packs == 1 else f"{num_packs:,} packs"
        looks = ", looked at twice" if settings.get("consistency") else ""
        compiled = "compiled" if event["is_compiled"] else "not compiled"
        lines.append(
            f"    a step: {packs} of up to {event['source_budget']:,} source and "
            f"{event['target_budget']:,} target tokens{looks}, {event['attention']} attention, {compiled}"
        )
        lines.append(f"    learning rate: {event['learning_rate']}")
    return lines


def _train_lines(event: Event) -> list[str]:
    fields = (
        "loss_nats_per_token learning_rate gradient_norm seconds_per_step target_tokens_per_second epochs eta_seconds"
    )
    return ["  ".join([f"step {event['step']:,}", *_parts(event, *fields.split()), *_verdict(event)])]


def _skipped_lines(event: Event) -> list[str]:
    parts = _parts(event, "loss_nats_per_token", "gradient_norm", "loss_scale", "in_a_row")
    return ["  ".join([f"step {event['step']:,} skipped", *parts])]


def _validation_lines(event: Event) -> list[str]:
    fields = "valid_loss_nats_per_token", "train_sample_loss_nats_per_token", "bleu", "chrf"
    parts = [f"step {event['step']:,} validation", *_parts(event, *fields, "num_lines", "seconds")]
    if event.get("weights", "current") != "current":
        parts.append(f"weights: {event['weights']}")
    if event.get("is_best"):
        parts.append("best so far")
    sets = event.get("sets") or {}
    return ["  ".join(parts), *("  ".join([f"    {name}", *_parts(sets[name], *fields)]) for name in sets)]


def _sample_lines(event: Event) -> list[str]:
    lines = [f"step {event['step']:,} sample"]
    for field in ("source", "reference", "translation"):
        text = event[field]
        is_long = len(text) > _MAX_SAMPLE_CHARACTERS
        lines.append(f"    {field:<12} {text[:_MAX_SAMPLE_CHARACTERS]}{' ...' if is_long else ''}")
    return lines


def _checkpoint_lines(event: Event) -> list[str]:
    return ["  ".join([f"step {event['step']:,} checkpoint", *_parts(event, "bytes", "seconds"), event["path"]])]


def _link_lines(event: Event) -> list[str]:
    capacity, latency = number(event, "bus_bytes_per_second"), number(event, "latency_seconds")
    if capacity is None or latency is None:
        return []
    stated = number(event, "stated_bits_per_second")
    return [
        f"the link between the hosts carries {_short(capacity)}B/s ({_short(8 * capacity)}bit/s) one way, and a small "
        f"message takes {_seconds(latency)}; the interface states "
        + ("no speed" if stated is None else f"{_short(stated)}bit/s")
    ]


def _rehearsal_lines(event: Event) -> list[str]:
    return [
        " ".join(["compiled and rehearsed in" if event["is_compiled"] else "rehearsed in", *_parts(event, "seconds")])
    ]


def _warning_lines(event: Event) -> list[str]:
    return [f"warning: {event['message']}"]


def _stop_lines(event: Event) -> list[str]:
    reason = _REASONS.get(event["reason"], event["reason"])
    return ["  ".join([f"stopped at step {event['step']:,}: {reason}", *_parts(event, "hours")])]


_LINES: dict[str, Callable[[Event], list[str]]] = {
    "attempt": _attempt_lines,
    "train": _train_lines,
    "skipped": _skipped_lines,
    "validation": _validation_lines,
    "sample": _sample_lines,
    "checkpoint": _checkpoint_lines,
    "link": _link_lines,
    "rehearsal": _rehearsal_lines,
    "warning": _warning_lines,
    "stop": _stop_lines,
}


def _short(value: float) -> str:
    """Three digits and a unit: 12.3k."""
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.{0 if value >= 100 * limit else 1}f}{suffix}"
    return f"{value:.0f}"


def _seconds(value: float) -> str:
    if value < 0.1:
        return f"{1000 * value:.1f} ms"
    return f"{value:.{2 if value < 10 else 1}f} s"


def _duration(seconds: float) -> str:
    """How long to wait, to the minute."""
    if not math.isfinite(seconds):
        return "unknown"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 24:
        return f"{hours // 24} d {hours % 24:02} h"
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"


_FORMS: dict[str, Callable[[float], str]] = {
    "start_step": "from step {:,}".format,
    "max_steps": "to step {:,}".format,
    "num_parameters": "{:,} parameters".format,
    "world_size": "world of {:,}".format,
    "num_threads": lambda value: "1 thread" if value == 1 else f"{value:,} threads",
    "loss_nats_per_token": "loss {:.3f}".format,
    "valid_loss_nats_per_token": "loss {:.3f}".format,
    "train_sample_loss_nats_per_token": "on training text {:.3f}".format,
    "learning_rate": "lr {:.1e}".format,
    "gradient_norm": "grad {:.2f}".format,
    "loss_scale": "loss scale {:,.0f}".format,
    "in_a_row": "{:,} in a row".format,
    "epochs": "epoch {:.2f}".format,
    "bleu": "BLEU {:.2f}".format,
    "best_bleu": "best BLEU {:.1f}".format,
    "chrf": "chrF {:.2f}".format,
    "num_lines": "{:,} lines".format,
    "hours": "after {:.2f} h".format,
    "bytes": lambda value: f"{_short(value)}B",
    "seconds": _seconds,
    "seconds_per_step": lambda value: f"{_seconds(value)}/step",
    "target_tokens_per_second": lambda value: f"{_short(value)} tok/s",
    "eta_seconds": lambda value: f"ETA {_duration(value)}",
}
