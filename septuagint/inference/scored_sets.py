"""The test sets of a configuration, translated with an artifact and scored."""

from dataclasses import dataclass

from septuagint.config import DataConfig
from septuagint.data.dataset import open_evaluation_sets
from septuagint.data.manifest import read_manifest
from septuagint.inference.artifact import Artifact
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
