"""Translations as the lines that `septuagint translate` prints."""

import json
from collections.abc import Iterable, Iterator

from septuagint.inference.translator import Translation


def format_translations(
    translations: Iterable[Translation], *, num_hypotheses: int, has_scores: bool, as_json: bool
) -> Iterator[str]:
    """Text to write, line ends included: one line for each translation, or `num_hypotheses` lines in columns."""
    for number, translation in enumerate(translations, start=1):
        if as_json:
            yield json.dumps(_fields(number, translation), ensure_ascii=False) + "\n"
            continue
        for hypothesis in translation.hypotheses:
            columns = [hypothesis.text]
            if has_scores:
                columns.insert(0, f"{hypothesis.score:.4f}")
            if num_hypotheses > 1:
                columns.insert(0, str(number))
            yield "\t".join(columns) + "\n"


def _fields(number: int, translation: Translation) -> dict[str, object]:
    return {
        "line": number,
        "translation": translation.text,
        "score": translation.hypotheses[0].score,
        "hypotheses": [{"text": hypothesis.text, "score": hypothesis.score} for hypothesis in translation.hypotheses],
    }
