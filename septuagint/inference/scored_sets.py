"""The test sets of a data folder, translated with an artifact and scored."""

import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from septuagint.data.dataset import EvaluationSet, open_evaluation_sets
from septuagint.data.manifest import read_manifest
from septuagint.errors import DataError
from septuagint.inference.evaluation import ParallelText
from septuagint.inference.scoring import Score, score
from septuagint.inference.training_text import count_seen, find_difference
from septuagint.inference.translator import Translator
from septuagint.progress import ProgressReport
from septuagint.training.checkpoint import load_weights


@dataclass(frozen=True, kw_only=True, slots=True)
class SetResult:
    """A set with its translation: (source, reference, translation) of each line; seconds are of translating alone."""

    name: str
    score: Score
    lines: list[tuple[str, str, str]]
    seconds: float
    num_target_tokens: int  # EOS included


def open_test_sets(folder: Path, *, otherwise: str = "") -> Sequence[EvaluationSet]:
    """The test sets of a data folder; where there are none to be had, a DataError says what to do, or `otherwise`."""
    manifest = read_manifest(folder)
    try:
        sets = open_evaluation_sets(folder, manifest, manifest.test)
    except (OSError, ValueError) as error:
        raise DataError(f"{folder}: its test sets cannot be read ({error}); run `septuagint prepare` again") from None
    if not sets:
        cure = f"add [[data.test]] and prepare again{otherwise and f', or {otherwise}'}"
        raise DataError(f"{folder}: was prepared without test sets; {cure}")
    return sets


def score_test_sets(sets: Sequence[EvaluationSet], translator: Translator, report: ProgressReport) -> list[SetResult]:
    """Translates what training never saw."""
    results = []
    for text in sets:
        begin = time.monotonic()
        with report.stage(f"translating {text.name}", len(text.source_lines), "lines") as stage:
            found = list(translator.translate([text.source_lines], advance=stage.advance))
        seconds = time.monotonic() - begin
        lines = [line.text for line in found]
        results.append(
            SetResult(
                name=text.name,
                score=score(lines, text.target_lines, translator.manifest.target_language),
                lines=list(zip(text.source_lines, text.target_lines, lines, strict=True)),
                seconds=seconds,
                num_target_tokens=sum(line.num_pieces for line in found),
            )
        )
    return results


def warn_of_seen(num_pairs: int, report: ProgressReport) -> None:
    """Says that scores are too good where training has seen some of the text."""
    if num_pairs:
        report.warn(
            f"the data folder was prepared anew with other validation or test text since the training, which saw up "
            f"to {num_pairs:,} pairs of which a side stands in that text: scores may be too good"
        )


def read_test_sets(run: Path, report: ProgressReport) -> dict[str, ParallelText]:
    """The test sets of the data folder that a run was trained on, by name."""
    if not run.is_dir():
        raise DataError(f"{run}: no such folder; give a run folder, such as runs/news")
    otherwise = "give --source and --reference"
    try:
        data = tomllib.loads((run / "config.toml").read_text(encoding="utf-8"))["data"]
        folder, languages = Path(data["folder"]), (data["source_language"], data["target_language"])
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{run}: only a run folder knows of test sets, by its config.toml; {otherwise}") from None
    manifest = read_manifest(folder)
    fingerprint = load_weights(run).state.get("data_fingerprint")
    if difference := find_difference(manifest, run, languages, fingerprint):
        raise DataError(f"{folder}: {difference}; {otherwise}")
    warn_of_seen(count_seen(manifest, run, fingerprint), report)
    return {
        found.name: ParallelText(sources=found.source_lines, references=found.target_lines, warnings=[])
        for found in open_test_sets(folder, otherwise=otherwise)
    }
