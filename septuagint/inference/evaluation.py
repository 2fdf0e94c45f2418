"""A translator on known text: how good, how sure, how fast, and whether better than another."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from septuagint.errors import DataError
from septuagint.inference.scoring import Comparison, Metric, compare, measure
from septuagint.inference.text_checks import find_blanks, find_oddities
from septuagint.inference.text_stream import read_lines
from septuagint.inference.translator import Translation, Translator
from septuagint.progress import ProgressReport


@dataclass(frozen=True, kw_only=True, slots=True)
class ParallelText:
    """Source lines and what they should become."""

    sources: list[str]
    references: list[str]
    warnings: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """How a model did. Seconds are of translating alone; tokens are pieces of the translations, EOS included."""

    num_lines: int
    metrics: tuple[Metric, ...]
    comparisons: tuple[Comparison, ...]
    seconds: float
    num_target_tokens: int
    translations: list[str]

    @property
    def tokens_per_second(self) -> float:
        return self.num_target_tokens / self.seconds

    def fields(self) -> dict[str, Any]:
        """For --json."""
        return {
            "lines": self.num_lines,
            "metrics": {metric.name: asdict(metric) for metric in self.metrics},
            "comparisons": {comparison.name: asdict(comparison) for comparison in self.comparisons},
            "seconds": self.seconds,
            "target_tokens": self.num_target_tokens,
            "target_tokens_per_second": self.tokens_per_second,
        }


def read_parallel(source: Path, reference: Path) -> ParallelText:
    """Two files that are compared line by line; what looks odd in them is told in warnings."""
    found = {path: read_lines(path) for path in (source, reference)}
    sources, references = found[source].lines, found[reference].lines
    if len(sources) != len(references):
        raise DataError(
            f"{source} has {len(sources):,} lines, but {reference} has {len(references):,}; "
            "they are compared line by line"
        )
    if not sources:
        raise DataError(f"{source}: there are no lines to evaluate on")
    for path, text in found.items():
        if not any(map(str.strip, text.lines)):
            raise DataError(
                f"{path}: all of its {len(text.lines):,} lines are empty; give text to compare line by line"
            )
    warnings = [
        f"{path}: {text.num_damaged:,} lines are not UTF-8; what cannot be read counts as U+FFFD"
        for path, text in found.items()
        if text.num_damaged
    ]
    for lines, others, what in (
        (sources, references, f"sources in {source}"),
        (references, sources, f"references in {reference}"),
    ):
        warnings += find_blanks(lines, others, what) + find_oddities(lines, what)
    return ParallelText(sources=sources, references=references, warnings=warnings)


def read_translations(path: Path, num_lines: int) -> list[str]:
    """Another system's translations of the same text."""
    lines = read_lines(path).lines
    if len(lines) != num_lines:
        raise DataError(f"{path} has {len(lines):,} lines, but the references are {num_lines:,}; give one for each")
    return lines


def evaluate(
    texts: Mapping[str, ParallelText],
    translator: Translator,
    baseline: Translator | Sequence[str] | None,
    *,
    beam_size: int | None,
    report: ProgressReport,
) -> dict[str, Evaluation]:
    """Translates and scores each text; compares it with the baseline's translations where there is one."""
    language = translator.manifest.target_language
    results = {}
    for name, text in texts.items():
        if isinstance(baseline, Translator):
            others: Sequence[str] | None = [
                found.text for found in _translate(baseline, text, "baseline", beam_size, report)
            ]
        else:
            others = baseline
        begin = time.monotonic()
        found = _translate(translator, text, name or "translating", beam_size, report)
        seconds = time.monotonic() - begin
        translations = [translation.text for translation in found]
        with report.stage("scoring", None, ""):
            results[name] = Evaluation(
                num_lines=len(text.references),
                metrics=measure(translations, text.references, language),
                comparisons=() if others is None else compare(translations, others, text.references, language),
                seconds=seconds,
                num_target_tokens=sum(translation.num_pieces for translation in found),
                translations=translations,
            )
    return results


def _translate(
    translator: Translator, text: ParallelText, title: str, beam_size: int | None, report: ProgressReport
) -> list[Translation]:
    with report.stage(title, len(text.sources), "lines") as stage:
        return list(translator.translate([text.sources], beam_size=beam_size, advance=stage.advance))
