"""Does a faster path learn the same, and how much sooner? Whole trainings by the program itself, and their records.

    python benchmarks/curves.py loss CONFIG [--steps 1000] [--seeds 1 2 3] [--together 3] [--svg FILE]
    python benchmarks/curves.py quality CONFIG --loss 3.0 --bleu 25 [--path half=training.precision=fp16 after=]

CONFIG is the configuration of a prepared data folder. Settings of `--set` hold for all runs; those of a path,
`--path NAME=KEY=VALUE,KEY=VALUE`, come after them. A path without settings is what the program does by itself.

`loss`: two paths, by default "plain" (fp32, not compiled) and "fast" (no settings), several seeds each. Validation is
at the end, unless `--set training.validate_every=N` asks for more. The rule: with three seeds or more, the paths differ
when the means of their final validation losses are further apart than twice the standard error of that difference,
sqrt((s1² + s2²) / seeds), with s1 and s2 the standard deviations between the seeds of each path; the exit code is 1
then. Both paths have the same weights at the start and the same order of text for a seed: the standard error of the
differences seed by seed stands beside it, and is the sharper measure where it is the smaller one.

`quality`: minutes until the first validation that reaches a loss and a BLEU, as often as CONFIG validates: by the
clock of the run, from its `attempt` event (the program is loaded and the network built) to the end of that validation,
with all that lies between, killed attempts included; and in steps alone. Every run begins without compiled code in its
caches. By default "before" (training.compile=on) and "after" (no settings).

Runs that have finished in `--folder` are not trained again, others go on where they stopped: take a new folder when the
code has changed. `--one NAME` trains one path or run (fast, fast-2) alone, so that the work can be spread over several
calls; a last call without it compares.
"""

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from arguments import add_settings, at_least_one, mistakes_told, new_file

from septuagint.config_file import load_config
from septuagint.data.manifest import read_manifest
from septuagint.errors import UserError
from septuagint.report.drawing.axes import WIDTH, Axis
from septuagint.report.drawing.charts import Series, line_chart
from septuagint.report.drawing.markup import text_of
from septuagint.report.reading.happenings import Validation
from septuagint.report.reading.record import Record, read_record
from septuagint.telemetry.events import read_events, record_path

Curve = dict[float, float]  # loss by step, or what else a line is drawn through

PROGRAM = [sys.executable, "-m", "septuagint.cli"]
PATHS = {
    "loss": {"plain": ["training.precision=fp32", "training.compile=off"], "fast": []},
    "quality": {"before": ["training.compile=on"], "after": []},
}
_NUM_ROWS = 10
_NUM_LAST_LINES = 20
_COLORS = ("#2867ad", "#d4561c")
_STYLE = (
    "svg { background: white } text { font: 12px sans-serif; fill: #59616c } path { fill: none } .grid { stroke: #ddd }"
    ".axis { stroke: #999 } .dashed { stroke-dasharray: 6 4 } .dots { stroke-width: 4; stroke-linecap: round }"
    f".c1 {{ stroke: {_COLORS[0]} }} .c2 {{ stroke: {_COLORS[1]} }}"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One training: a path and a seed."""

    path: str
    name: str
    folder: Path
    overrides: list[str]
    environment: dict[str, str]


def main() -> None:
    arguments = read_arguments()
    with tempfile.TemporaryDirectory() as temporary, mistakes_told():
        runs = plan_runs(arguments, (arguments.folder or Path(temporary)).absolute())
        train_all([run for run in runs if not is_finished(run, arguments.config)], arguments)
        if arguments.one is not None:
            return
        records = {run.name: read_record(run.folder) for run in runs}
    ran = {name: how_it_ran(record) for name, record in records.items()}
    for name, record in records.items():
        print(f"{name}: {ran[name]}")
        for warning in record.warnings:
            print(f"{name}: warning: {warning.message}")
    result = {"config": str(arguments.config), "settings": arguments.overrides, "paths": arguments.paths, "ran": ran}
    if arguments.verb == "loss":
        result |= compare_losses(runs, records, arguments)
        show_losses(result)
    else:
        result["runs"] = {name: tell_times(record, arguments.loss, arguments.bleu) for name, record in records.items()}
        show_quality(result)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    sys.exit(result.get("is_within_noise") is False)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    loss = verbs.add_parser("loss", help="two paths, several seeds: is the loss the same?")
    quality = verbs.add_parser("quality", help="minutes until a loss and a BLEU")
    for verb, seeds in ((loss, [1, 2, 3]), (quality, [1])):
        verb.add_argument("config", type=Path)
        verb.add_argument("--seeds", type=int, nargs="+", default=seeds)
        add_settings(verb)
        verb.add_argument("--path", nargs="+", action="extend", dest="paths", metavar="NAME=KEY=VALUE,...")
        verb.add_argument("--folder", type=Path, help="keeps the run folders; a temporary one by default")
        verb.add_argument("--one", metavar="NAME", help="train this path or run alone, into --folder")
        verb.add_argument("--json", type=new_file, metavar="FILE")
    loss.add_argument("--steps", type=at_least_one, default=1000)
    loss.add_argument("--together", type=at_least_one, default=1, help="trainings at the same time")
    loss.add_argument("--svg", type=new_file, metavar="FILE", help="draw the training losses")
    quality.add_argument("--loss", type=float, required=True, help="validation loss to reach, nats per token")
    quality.add_argument("--bleu", type=float, required=True, help="validation BLEU to reach")
    arguments = parser.parse_args()
    named = [text.partition("=") for text in arguments.paths or ()]
    paths = {name: [setting for setting in settings.split(",") if setting] for name, _, settings in named}
    arguments.paths = paths or PATHS[arguments.verb]
    if arguments.verb == "loss" and len(arguments.paths) != 2:
        parser.error(f"loss compares two paths, not {len(arguments.paths)}")
    if arguments.one is not None and arguments.folder is None:
        parser.error("--one needs --folder: the other runs are trained by other calls")
    return arguments


def plan_runs(arguments: argparse.Namespace, folder: Path) -> list[Run]:
    """Paths take turns."""
    settings = {"average_checkpoints": 0}
    if arguments.verb == "loss":
        steps = arguments.steps
        settings |= {"max_steps": steps, "validate_every": steps, "beam_size": 1, "sample_every": steps + 1}
        settings |= {"checkpoint_every": math.ceil(steps / 2), "log_every": min(25, max(1, steps // _NUM_ROWS))}
    shared = [f"training.{key}={value}" for key, value in settings.items()] + arguments.overrides
    runs = []
    for seed in arguments.seeds:
        for path, own in arguments.paths.items():
            name = f"{path}-{seed}"
            cache = folder / "caches" / name
            caches = {"TORCHINDUCTOR_CACHE_DIR": str(cache), "TRITON_CACHE_DIR": str(cache / "triton")}
            overrides, environment = (
                [*shared, *own, f"training.seed={seed}"],
                caches if arguments.verb == "quality" else {},
            )
            runs.append(Run(path=path, name=name, folder=folder / name, overrides=overrides, environment=environment))
    chosen = [run for run in runs if arguments.one in (None, run.path, run.name)]
    if not chosen:
        raise UserError(f"--one {arguments.one}: there are {', '.join(run.name for run in runs)}")
    return chosen


def is_finished(run: Run, config: Path) -> bool:
    """Whether it has been trained to its end with these settings and text. The program knows, too, but not at once."""
    loaded = load_config(config, run.overrides)
    settings, fingerprint = loaded.model_dump(mode="json"), read_manifest(loaded.data.folder).fingerprint
    begun, reason, of_text = None, None, None
    for event in read_events(record_path(run.folder, 0)):
        if event["event"] == "attempt":
            begun, reason = event["settings"], None
        elif event["event"] == "stop":
            reason = event["reason"]
        elif event["event"] == "data":
            of_text = event["fingerprint"]
    is_same = of_text == fingerprint and begun == {section: settings[section] for section in ("training", "model")}
    return is_same and reason in ("max_steps", "max_hours", "patience")


def train_all(runs: list[Run], arguments: argparse.Namespace) -> None:
    """The first that fails ends the program, as soon as those beside it are done. What is timed runs alone."""
    with ThreadPoolExecutor(arguments.together if arguments.verb == "loss" else 1) as pool:
        trainings = [pool.submit(train, run, arguments.config) for run in runs]
        try:
            for training in trainings:
                training.result()
        finally:
            pool.shutdown(cancel_futures=True)


def train(run: Run, config: Path) -> None:
    """Exits with the last lines of a training that fails."""
    command = [*PROGRAM, "train", str(config), "--run", str(run.folder), "--quiet"]
    command += [f"--set={override}" for override in run.overrides]
    environment = {**os.environ, **run.environment}
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, check=False)
    if done.returncode != 0:
        last_lines = "\n".join(done.stderr.splitlines()[-_NUM_LAST_LINES:])
        sys.exit(f"{run.name}: the training ended with exit code {done.returncode}:\n{last_lines}")
    print(f"{run.name}: trained", file=sys.stderr)


def how_it_ran(record: Record) -> str:
    """What `auto` came to, and where it ended."""
    fields, last = record.attempts[-1].fields, record.validations[-1]
    compiled = "compiled" if fields["is_compiled"] else "not compiled"
    where = f"{fields['device']}, {fields['precision']}, {fields['attention']} attention, {compiled}"
    attempts = f" in {len(record.attempts)} attempts" if len(record.attempts) > 1 else ""
    return f"{where}, {last.step:,} steps{attempts}"


def compare_losses(runs: list[Run], records: dict[str, Record], arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything that `loss` tells. Differences are the second path minus the first."""
    training: dict[str, list[Curve]] = {path: [] for path in arguments.paths}
    validation: dict[str, list[Curve]] = {path: [] for path in arguments.paths}
    for run in runs:
        table, looks = records[run.name].train, records[run.name].validations
        training[run.path].append(dict(zip(table.step.tolist(), table.loss.tolist(), strict=True)))
        validation[run.path].append({look.step: as_number(look.valid_loss) for look in looks})
    ends = {max(curve) for curves in validation.values() for curve in curves}
    if len(ends) > 1:
        sys.exit(f"not all runs were validated at the same last step, but at {sorted(ends)}")
    if arguments.svg is not None:
        x, y = Axis(label="step", is_whole=True), Axis(label="training loss, nats per target token")
        arguments.svg.write_text(draw("Training loss", training, x, y), encoding="utf-8")
    return {
        "seeds": arguments.seeds,
        "training": compare_curves(training),
        "validation": compare_curves(validation),
        **judge({path: [curve[max(curve)] for curve in curves] for path, curves in validation.items()}),
        "curves": {"training": training, "validation": validation},
    }


def as_number(loss: float | None) -> float:
    return math.nan if loss is None else loss


def compare_curves(curves: dict[str, list[Curve]]) -> list[dict[str, Any]]:
    """At ten steps that all curves have, or fewer: mean and spread (highest minus lowest) of each path."""
    steps = sorted(set.intersection(*(set(curve) for found in curves.values() for curve in found)))
    num_rows = min(_NUM_ROWS, len(steps))
    rows = []
    for step in (steps[round(len(steps) * row / num_rows) - 1] for row in range(1, num_rows + 1)):
        losses = {path: np.array([curve[step] for curve in found]) for path, found in curves.items()}
        told = {path: {"mean": float(found.mean()), "spread": float(np.ptp(found))} for path, found in losses.items()}
        first, second = told.values()
        rows.append({"step": step, **told, "difference": second["mean"] - first["mean"]})
    return rows


def judge(finals: dict[str, list[float]]) -> dict[str, Any]:
    """Final losses, and whether the paths differ by more than seeds do: None with fewer than three of them."""
    first, second = (np.array(losses) for losses in finals.values())
    differences, num_seeds = second - first, len(first)
    deviations = [float(found.std(ddof=1)) if num_seeds > 1 else math.nan for found in (first, second, differences)]
    difference, standard_error = float(differences.mean()), math.hypot(*deviations[:2]) / math.sqrt(num_seeds)
    return {
        "final_validation_losses": finals,
        "differences_by_seed": differences.tolist(),
        "difference_of_means": difference,
        "standard_deviations": dict(zip(finals, deviations, strict=False)),
        "standard_error": standard_error,
        "paired_standard_error": deviations[2] / math.sqrt(num_seeds),
        # A loss that is not a number is not within anything.
        "is_within_noise": abs(difference) <= 2 * standard_error if num_seeds >= 3 else None,
    }


def show_losses(result: dict[str, Any]) -> None:
    first, second = result["paths"]
    for kind in ("training", "validation"):
        print(f"\n{kind} loss, nats per token: mean over {len(result['seeds'])} seeds, and highest minus lowest")
        rows = [["step", first, "spread", second, "spread", "difference"]]
        for row in result[kind]:
            numbers = [f"{row[path][name]:.4f}" for path in (first, second) for name in ("mean", "spread")]
            rows.append([f"{row['step']:,}", *numbers, f"{row['difference']:+.4f}"])
        print_table(rows)
    print("\nfinal validation loss")
    columns = (result["seeds"], *result["final_validation_losses"].values(), result["differences_by_seed"])
    rows = [[f"{seed}", f"{a:.4f}", f"{b:.4f}", f"{change:+.4f}"] for seed, a, b, change in zip(*columns, strict=True)]
    print_table([["seed", first, second, "difference"], *rows])
    print(f"\n{verdict(result)}")


def verdict(result: dict[str, Any]) -> str:
    """In words."""
    if not any(result["differences_by_seed"]):
        return "no difference: both paths came to the very same losses"
    deviations = ", ".join(f"{value:.4f} ({path})" for path, value in result["standard_deviations"].items())
    told = (
        f"difference of means {result['difference_of_means']:+.4f}, standard deviation between seeds {deviations}\n"
        f"standard error of the difference {result['standard_error']:.4f}; "
        f"of the mean of the differences seed by seed {result['paired_standard_error']:.4f}\n"
    )
    if result["is_within_noise"] is None:
        return told + "fewer than three seeds: no verdict"
    is_or_not = "within noise" if result["is_within_noise"] else "NOT within noise"
    return f"{told}{is_or_not}: the limit is twice the standard error, {2 * result['standard_error']:.4f}"


def draw(title: str, curves: dict[str, list[Curve]], x: Axis, y: Axis, *, legend_top: int = 46) -> str:
    """A line for each run, coloured by path; the second path is dashed. Two paths at most."""
    series = [
        Series(name=path, x=np.array([*curve], float), y=np.array([*curve.values()]), color=color, is_dashed=color == 2)
        for color, (path, found) in enumerate(curves.items(), start=1)
        for curve in found
    ]
    markup = line_chart(title, series, x, y).markup
    # The legend of a report is HTML beside its picture.
    keys = "".join(
        f'<text x="{WIDTH - 40}" y="{place}" text-anchor="end" style="fill: {color}">{text_of(path)}</text>'
        for place, path, color in zip(itertools.count(legend_top, 16), curves, _COLORS, strict=False)
    )
    svg = markup[markup.index("<svg") : markup.index("</svg>")]
    return svg.replace("</desc>", f"</desc><style>{_STYLE}</style>") + keys + "</svg>\n"


def tell_times(record: Record, loss: float, bleu: float) -> dict[str, Any]:
    """Of one run; None for what was not reached."""
    looks, start = record.validations, next(iter(record.outside[0].values()))["start"]
    at_loss = next((look for look in looks if as_number(look.valid_loss) <= loss), None)
    at_bleu = next((look for look in looks if look.bleu is not None and look.bleu >= bleu), None)
    return {
        "seconds until the first step was done": start + float(record.steps[0].wall[0]),
        **times_at(record, at_loss, f"to loss {loss:g}"),
        **times_at(record, at_bleu, f"to BLEU {bleu:g}"),
        **times_at(record, looks[-1], "in all"),
        "target tokens per second, median": float(np.nanmedian(record.train.target_tokens_per_second)),
        "seconds of the first validation": looks[0].seconds,
        "seconds of a validation, median": float(np.median([look.seconds for look in looks])),
        "final validation loss": looks[-1].valid_loss,
        "final BLEU": looks[-1].bleu,
    }


def times_at(record: Record, look: Validation | None, goal: str) -> dict[str, Any]:
    """When a validation had been done. A step that was done twice counts twice by the clock, and once as a step."""
    names = (f"steps {goal}", f"minutes {goal}", f"minutes {goal}, steps alone")
    if look is None:
        return dict.fromkeys(names)
    steps = record.steps[0]
    seconds_in_steps = float(steps.wall[steps.step <= look.step].sum())
    return dict(zip(names, (look.step, minutes_at(record, look), seconds_in_steps / 60), strict=True))


def minutes_at(record: Record, look: Validation) -> float:
    """By the clock, from the start of each attempt, until a validation had been done."""
    attempts = {attempt.number: attempt for attempt in record.attempts}
    seconds = look.time - attempts[look.attempt].start_time
    seconds += sum(attempt.seconds for number, attempt in attempts.items() if number < look.attempt)
    return seconds / 60


def show_quality(result: dict[str, Any]) -> None:
    def as_text(value: float | None) -> str:
        return "not reached" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"

    runs = result["runs"]
    labels = next(iter(runs.values()))
    print()
    print_table([["", *runs], *([label, *(as_text(told[label]) for told in runs.values())] for label in labels)])


def print_table(rows: list[list[str]]) -> None:
    """The first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = [text.rjust(width) for text, width in zip(others, widths[1:], strict=True)]
        print("  ".join([first.ljust(widths[0]), *cells]).rstrip())


if __name__ == "__main__":
    main()
