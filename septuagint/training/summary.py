"""What a training came to, for people and for programs."""

from dataclasses import asdict
from typing import Any

from septuagint.data.prepare import Prepared
from septuagint.data.summary import summarise
from septuagint.inference.scored_sets import SetResult
from septuagint.training.checkpoint import best_path
from septuagint.training.train import Outcome

_NUM_SAMPLES = 5
_REASONS = {
    "max_steps": "finished: all steps are done",
    "max_hours": "finished: the hours are used up",
    "patience": "finished: validation has not become better for a while",
    "signal": "stopped by a signal; run the same command again to go on",
}


def summarise_outcome(outcome: Outcome) -> dict[str, Any]:
    """For --json."""
    progress, best = outcome.progress, outcome.best
    checkpoint = best_path(outcome.run)
    return {
        "run": str(outcome.run),
        "reason": outcome.reason,
        "was_finished": outcome.was_finished,
        "step": progress.step,
        "epochs": progress.epochs,
        "hours": progress.seconds / 3600,
        "cost": outcome.cost,
        "target_tokens": progress.num_target_tokens,
        "best": None if best is None else best.fields(),
        "best_checkpoint": None if checkpoint is None else str(checkpoint),
    }


def print_outcome(outcome: Outcome, currency: str) -> None:
    """A few lines for the end of the screen."""
    progress, best = outcome.progress, outcome.best
    print(f"{_REASONS[outcome.reason]}{_already(outcome)}")
    cost = "" if outcome.cost is None else f", {outcome.cost:.2f} {currency}"
    print(f"step {progress.step:,}, {progress.epochs:.1f} epochs, {_duration(progress.seconds)} of training{cost}")
    if best is not None:
        what = "" if best.weights == "current" else f" ({best.weights})"
        print(f"best: BLEU {best.scores.bleu:.1f}, chrF {best.scores.chrf:.1f} on validation, step {best.step:,}{what}")
        print(f"      {best.scores.bleu_signature}")
    print(f"run folder: {outcome.run}")


def summarise_demo(prepared: Prepared, outcome: Outcome, results: list[SetResult]) -> dict[str, Any]:
    """For --json."""
    tests = [
        {"set": result.name, **asdict(result.score), "samples": [list(line) for line in _samples(result)]}
        for result in results
    ]
    return {"prepared": summarise(prepared), "training": summarise_outcome(outcome), "tests": tests}


def print_demo(prepared: Prepared, outcome: Outcome, results: list[SetResult]) -> None:
    """What the demo has come to: samples, the score on unseen text, and where everything is."""
    progress = outcome.progress
    for result in results:
        for source, reference, translation in _samples(result):
            print(f"source       {source}\nreference    {reference}\ntranslation  {translation}\n")
    num_pairs = sum(corpus.pairs for corpus in prepared.manifest.train)
    print(
        f"trained on {num_pairs:,} pairs for {progress.step:,} steps in {_duration(progress.seconds)}; "
        f"validation BLEU {outcome.best.scores.bleu if outcome.best else 0:.1f}{_already(outcome)}"
    )
    for result in results:
        print(
            f"{result.name}: BLEU {result.score.bleu:.1f}, chrF {result.score.chrf:.1f} on {result.score.num_lines} "
            f"sentences it never saw\n      {result.score.bleu_signature}"
        )
    print(f"data folder: {prepared.folder}\nrun folder:  {outcome.run}")


def _already(outcome: Outcome) -> str:
    return " (nothing was left to do)" if outcome.was_finished else ""


def _samples(result: SetResult) -> list[tuple[str, str, str]]:
    """Five lines from all over the set."""
    return result.lines[:: max(1, len(result.lines) // _NUM_SAMPLES)][:_NUM_SAMPLES]


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
