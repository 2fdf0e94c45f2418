"""The test sets of a data folder, translated with an artifact and scored."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from septuagint.config import DataConfig
from septuagint.data.dataset import open_evaluation_sets
from septuagint.data.manifest import read_manifest
from septuagint.errors import DataError
from septuagint.inference.artifact import Artifact
from septuagint.inference.evaluation import ParallelText
from septuagint.inference.scoring import Score, score
from septuagint.inference.translator import Translator
from septuagint.progress import ProgressReport


@dataclass(frozen=True, kw_only=True, slots=True)
class SetResult:
    """A set with its translation: (source, reference, translation) of each line."""

    name: str
    score: Score
    lines: list[tuple[str, str, str]]


def score_test_sets(data: DataConfig, artifact: Artifact, report: ProgressReport) -> list[SetResult]:
    """Translates what training never saw."""
    manifest = read_manifest(data.folder)
    results = []
    with Translator(artifact) as translator:
        for text in open_evaluation_sets(data.folder, manifest, manifest.test):
            with report.stage("translating", len(text.source_lines), "sentences") as stage:
                found = [line.text for line in translator.translate([text.source_lines], advance=stage.advance)]
            results.append(
                SetResult(
                    name=text.name,
                    score=score(found, text.target_lines, data.target_language),
                    lines=list(zip(text.source_lines, text.target_lines, found, strict=True)),
                )
            )
    return results


def read_test_sets(run: Path) -> dict[str, ParallelText]:
    """The test sets of the data folder that a run was trained on, by name."""
    cure = "give --source and --reference"
    try:
        data = tomllib.loads((run / "config.toml").read_text(encoding="utf-8"))["data"]
        folder = Path(data["folder"])
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{run}: only a run folder knows of test sets, by its config.toml; {cure}") from None
    manifest = read_manifest(folder)
    try:
        sets = open_evaluation_sets(folder, manifest, manifest.test)
    except (OSError, ValueError) as error:
        raise DataError(f"{folder}: its test sets cannot be read ({error}); run `septuagint prepare` again") from None
    if not sets:
        raise DataError(f"{folder}: was prepared without test sets; add [[data.test]] and prepare again, or {cure}")
    return {
        found.name: ParallelText(sources=found.source_lines, references=found.target_lines, warnings=[])
        for found in sets
    }
