"""The test sets of a configuration, translated with a run's best weights and scored."""

from dataclasses import dataclass
from pathlib import Path

from septuagint.config import Config
from septuagint.data.dataset import open_dataset
from septuagint.inference.scoring import Score, score
from septuagint.model.transformer import Transformer
from septuagint.progress import ProgressReport
from septuagint.training.checkpoint import load_weights
from septuagint.training.precision import DTYPES, choose_device, choose_precision
from septuagint.training.state import load_weights_into
from septuagint.training.validation import translate_set


@dataclass(frozen=True, kw_only=True, slots=True)
class SetResult:
    """A set with its translation: (source, reference, translation) of each line."""

    name: str
    score: Score
    lines: list[tuple[str, str, str]]


def score_test_sets(config: Config, run: Path, report: ProgressReport) -> list[SetResult]:
    """Translates what training never saw."""
    dataset = open_dataset(config.data, ProgressReport(is_quiet=True))
    device = choose_device()
    precision = choose_precision(config.training.precision, device)
    checkpoint = load_weights(run)
    model = Transformer(config.model, dataset.vocabulary.size).to(device)
    load_weights_into(model, checkpoint.weights, str(checkpoint.path))
    results = []
    for text in dataset.test:
        with report.stage("translating", len(text.source), "sentences") as stage:
            translations = translate_set(model, text, dataset.vocabulary, DTYPES[precision], stage.advance)
        results.append(
            SetResult(
                name=text.name,
                score=score(translations, text.target_lines, config.data.target_language),
                lines=list(zip(text.source_lines, text.target_lines, translations, strict=True)),
            )
        )
    return results
