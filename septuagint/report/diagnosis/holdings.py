"""What a run read and what it wrote: the training set and the checkpoints."""

from typing import Any

from septuagint.report.answer import Answer, Figure
from septuagint.report.diagnosis.phrases import count, figure, listed, unknown
from septuagint.report.diagnosis.time_use import main_attempt
from septuagint.report.quantities import quantity
from septuagint.report.reading.fields import mappings, number, numbers_by_name, positive, text
from septuagint.report.reading.happenings import SavedCheckpoint
from septuagint.report.reading.record import Record

_SET_QUESTION = "How big was the training set?"
_FILES_QUESTION = "Which files make up a checkpoint?"
_SIZE_QUESTION = "How big is a checkpoint?"
_CONTENTS = {
    "model.safetensors": "the weights to translate with",
    "optimizer.safetensors": "what only training needs: the means that the optimizer keeps of each gradient",
    "state.json": "step, place in the data, counters, validations, configuration",
    "manifest.json": "SHA-256 of the other files",
}
_KEPT = "the two latest and the best are kept whole, of the last five also the weights alone"


def training_set(record: Record) -> Answer:
    """Answers with megabytes and pairs."""
    corpora = [corpus for corpus in mappings(record.data, "corpora") if corpus.get("split", "train") == "train"]
    if not corpora:
        return unknown(
            "training_set",
            _SET_QUESTION,
            "The record does not describe the training text (no `data` event).",
            "A run of this version records it; `septuagint prepare` shows it, too.",
        )
    totals = {name: _total(corpora, name) for name in _COUNTED}
    source, target, pairs, lines = (totals[name] for name in ("source_bytes", "target_bytes", "pairs", "lines"))
    dropped = _dropped(corpora)
    tokens = totals["source_tokens"] + totals["target_tokens"]
    sentence = (
        f"{quantity(source, 'B')} of source and {quantity(target, 'B')} of target text: {lines:,.0f} lines were read, "
        f"{pairs:,.0f} pairs kept, {tokens:,.0f} tokens on both sides"
    )
    if dropped:
        sentence += f"; {sum(dropped.values()):,.0f} were dropped, most as {max(dropped, key=lambda key: dropped[key])}"
    fingerprint = text(record.data, "fingerprint")
    return Answer(
        id="training_set",
        question=_SET_QUESTION,
        verdict=f"{quantity(source + target, 'B')}, {pairs:,.0f} pairs",
        sentence=f"{sentence}.",
        evidence=(
            *(figure(name, label, totals[name], unit) for name, (label, unit) in _COUNTED.items()),
            *(figure(f"dropped_{name}", f"dropped: {name}", number, "pairs") for name, number in dropped.items()),
            *_corpus_figures(corpora),
            figure("fingerprint", "fingerprint of the data folder", fingerprint),
        ),
        confidence="high",
        would_change="Other text or other filters: the fingerprint would be another, too.",
    )


_COUNTED = {
    "source_bytes": ("source text kept", "B"),
    "target_bytes": ("target text kept", "B"),
    "lines": ("lines read", "lines"),
    "pairs": ("pairs kept", "pairs"),
    "source_tokens": ("source tokens", "tokens"),
    "target_tokens": ("target tokens", "tokens"),
}


def _total(corpora: list[dict[str, Any]], name: str) -> float:
    return sum(max(0.0, number(corpus, name) or 0.0) for corpus in corpora)


def _dropped(corpora: list[dict[str, Any]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for corpus in corpora:
        for name, dropped in numbers_by_name(corpus, "dropped").items():
            if dropped > 0:
                total[name] = total.get(name, 0.0) + dropped
    return dict(sorted(total.items(), key=lambda entry: -entry[1]))


def _corpus_figures(corpora: list[dict[str, Any]]) -> list[Figure]:
    return [
        figure(
            f"corpus_{place}",
            f"corpus {text(corpus, 'name') or place}",
            f"{quantity(_total([corpus], 'source_bytes') + _total([corpus], 'target_bytes'), 'B')}, "
            f"{_total([corpus], 'lines'):,.0f} lines, {_total([corpus], 'pairs'):,.0f} pairs kept, "
            f"{_total([corpus], 'source_tokens'):,.0f} + {_total([corpus], 'target_tokens'):,.0f} tokens, "
            f"weight {number(corpus, 'weight') or 1:g}",
        )
        for place, corpus in enumerate(corpora, start=1)
    ]


def checkpoint_files(record: Record) -> Answer:
    """Answers with the files of the latest checkpoint."""
    saved = _latest(record)
    if saved is None or not saved.files:
        return unknown(
            "checkpoint_files",
            _FILES_QUESTION,
            "No checkpoint has been written yet." if saved is None else "The record names no files of its checkpoints.",
            "The next checkpoint of a run of this version is recorded with its files.",
        )
    files = sorted(saved.files.items(), key=lambda entry: -entry[1])
    described = [f"{name} ({quantity(size, 'B')}: {_CONTENTS.get(name, 'not one of ours')})" for name, size in files]
    return Answer(
        id="checkpoint_files",
        question=_FILES_QUESTION,
        verdict=count(len(files), "file"),
        sentence=f"A checkpoint is a folder ({saved.path or 'checkpoints/step-N'}) with {listed(described, most=6)}.",
        evidence=tuple(
            figure(f"file_{place}", f"{name}: {_CONTENTS.get(name, 'not one of ours')}", size, "B")
            for place, (name, size) in enumerate(files, start=1)
        ),
        confidence="high",
        would_change="With training.ema_decay the optimizer's file also holds the weights in training.",
    )


def checkpoint_size(record: Record) -> Answer:
    """Answers with the bytes of the latest checkpoint."""
    saved = _latest(record)
    size = None if saved is None else (saved.bytes or sum(saved.files.values()) or None)
    if saved is None or size is None:
        missing = (
            "No checkpoint has been written yet." if saved is None else "The record gives no size of its checkpoints."
        )
        return unknown("checkpoint_size", _SIZE_QUESTION, missing, "The next checkpoint is recorded with its size.")
    attempt = main_attempt(record)
    parameters = positive(attempt.fields, "num_parameters") if attempt else None
    sentence = f"A whole checkpoint has {quantity(size, 'B')}"
    if parameters:
        sentence += f" for {parameters:,.0f} parameters, {size / parameters:.1f} bytes each"
    written = len({checkpoint.step for checkpoint in record.checkpoints})
    return Answer(
        id="checkpoint_size",
        question=_SIZE_QUESTION,
        verdict=quantity(size, "B"),
        sentence=f"{sentence}; {count(written, 'checkpoint')} written, of which {_KEPT}.",
        evidence=(
            figure("checkpoint_bytes", "a whole checkpoint", size, "B"),
            figure("num_parameters", "parameters", parameters),
            figure("bytes_per_parameter", "of it for each parameter", size / parameters if parameters else None, "B"),
            figure("num_checkpoints", "checkpoints written", written),
            figure("write_seconds", "to write the latest, beside the training", saved.seconds, "s"),
            figure("kept", "kept", _KEPT),
        ),
        confidence="high",
        would_change="The size follows from the model: 12 bytes a parameter, 16 with training.ema_decay.",
    )


def _latest(record: Record) -> SavedCheckpoint | None:
    return max(record.checkpoints, key=lambda checkpoint: checkpoint.step, default=None)
