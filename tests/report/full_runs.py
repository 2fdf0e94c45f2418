"""Run folders that have something for every part of a report, plain or hostile."""

import json
from pathlib import Path
from typing import Any

from tests.report.records import Life, Plan, write_run

HOSTILE = '<script>alert(1)</script>]]>"onload="x|`[a](javascript:b)*\u202e\x1b[2J\x00\uffff\ud800&lt;'
# What no program takes for text any more: kinds of events, and words that are looked up.
_KEPT = ("event", "weights", "reason", "split")


def full_plan(**changes: Any) -> Plan:
    """Two hosts with two GPUs each, a restart, validations and all that can go wrong."""
    steps = range(100, 1001, 100)
    options: dict[str, Any] = {
        "hosts": ("alpha", "beta"),
        "ranks_per_host": 2,
        "num_gpus": 2,
        "device": "Tesla V100",
        "gpu": {"memory_used_bytes": 13e9, "power_watts": 95.0, "sm_activity_percent": 40.0},
        "parts": {"compute": 0.17, "optimizer": 0.01, "communication": 1.4, "data_wait": 0.002},
        "sent_bytes": 183e6,
        "lives": (Life(last_step=570, stop=None), Life(start_step=500, pause_seconds=60.0)),
        "validations": {step: (2 + 100 / step, 1.9 + 100 / step, 25 - 1000 / step) for step in steps},
        "averages": {1000: (2.0, 1.9, 26.0)},
        "skipped": (300,),
        "warnings": ("the disk was slow",),
        "price_per_hour": 4.8,
    }
    return Plan(**options | changes)


def write_full_run(run: Path, **changes: Any) -> Path:
    """With samples and an environment, too."""
    write_run(run, full_plan(**changes))
    sample = {"source": "A house.", "reference": "Ein Haus.", "translation": "Das Haus."}
    events = [
        {"time": 1_760_000_100.0 + step, "event": "sample", "attempt": 1, "step": step, **sample} for step in (100, 200)
    ]
    with (run / "events" / "rank-0.jsonl").open("a") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)
    attempt = {"number": 1, "start_step": 0, "command_line": ["septuagint", "train"], "versions": {"torch": "2.13.0"}}
    (run / "environment.json").write_text(json.dumps({"attempts": [attempt | {"git_commit": "c0ffee"}]}))
    return run


def make_hostile(run: Path) -> Path:
    """Every text of the record, and every name in it that strangers may choose, is an attack."""
    for path in (*(run / "events").glob("*.jsonl"), run / "environment.json"):
        lines = [json.dumps(_attacked(json.loads(line))) for line in path.read_text().splitlines()]
        path.write_text("\n".join(lines) + "\n")
    return run


def _attacked(value: Any, name: str = "") -> Any:
    if isinstance(value, str):
        return value if name in _KEPT else value + HOSTILE
    if isinstance(value, dict):
        renamed = {key + HOSTILE if name in ("files", "dropped", "sets", "versions") else key: key for key in value}
        return {new: _attacked(value[old], old) for new, old in renamed.items()}
    return [_attacked(entry, name) for entry in value] if isinstance(value, list) else value
