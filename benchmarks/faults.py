"""What an accident costs: a small training across emulated hosts is disturbed in every way that `scenarios` knows.

Root builds the hosts, from namespaces (see tests/distributed/testbed.py).

    .venv/bin/python benchmarks/faults.py

Prints a table: seconds from the fault until a rank that is left, or the launcher, says so; seconds until the next step
is made; steps that were made again; and whether the final weights, and the memory of the optimizer, are those of an
undisturbed run, which is asked where the world is as large as before. Exits 0 only if they are. The timeout of the run
is 15 seconds: a host without power, and a link that stays cut, are given up after it. Ten minutes on two cores.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.distributed.scenarios import SCENARIOS, Disks, Result, Scenario, make_project, open_trial, undisturbed

COLUMNS = ("fault", "disks", "s to detect", "s to go on", "steps redone", "final hash equal")


def main() -> None:
    if os.geteuid() != 0:
        sys.exit("this benchmark emulates hosts, which only root can: run it with sudo, or in a privileged container")
    rows, is_well = [], True
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder) / "project")
        expected, _ = undisturbed(project, Path(folder))
        for scenario in SCENARIOS:
            for disks in scenario.disks:
                result = play(scenario, disks, project, Path(folder) / f"{scenario.play.__name__}-{disks}")
                is_equal = result.hash == expected if scenario.keeps_size else None
                is_well = is_well and is_equal is not False
                rows.append(row(result, is_equal))
                print("; ".join(rows[-1]), file=sys.stderr, flush=True)
    print(table(rows))
    sys.exit(not is_well)


def play(scenario: Scenario, disks: Disks, project: Path, folder: Path) -> Result:
    with open_trial(project, folder, disks, max_steps=scenario.max_steps) as trial:
        return scenario.play(trial)


def row(result: Result, is_equal: bool | None) -> tuple[str, ...]:
    detected = "–" if result.detected_seconds is None else f"{result.detected_seconds:.1f}"
    equal = {True: "yes", False: "no", None: "– (other world size)"}[is_equal]
    return result.name, result.disks, detected, f"{result.resumed_seconds:.1f}", str(result.steps_redone), equal


def table(rows: Sequence[Sequence[str]]) -> str:
    """In Markdown."""
    rule = ["---"] * len(COLUMNS)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (COLUMNS, rule, *rows))


if __name__ == "__main__":
    main()
