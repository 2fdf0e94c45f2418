"""The model card: what a translator is, how good, made of what and on what, and what it is not fit for."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from septuagint.inference.artifact import Manifest
from septuagint.inference.scoring import Score

_USE = {
    "ctranslate2": """```
pip install 'septuagint[serve]'
septuagint translate . input.txt > output.txt
```

In Python, or with CTranslate2 alone: `model/` is a CTranslate2 model, `sentencepiece.model` cuts text into pieces.""",
    "huggingface": """```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer, model = AutoTokenizer.from_pretrained("."), AutoModelForSeq2SeqLM.from_pretrained(".")
ids = model.generate(**tokenizer(["A sentence."], return_tensors="pt", padding=True))
print(tokenizer.batch_decode(ids, skip_special_tokens=True))
```""",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Background:
    """What a card tells that the manifest does not."""

    license: str
    corpora: Sequence[tuple[str, int]]  # name and pairs of each
    scores: Mapping[str, Score]  # by text: what training measured on validation text, all of it and each set
    begun_with: str | None  # whose weights; None: random ones
    steps: int
    hours: float | None  # None: not recorded
    num_target_tokens: int | None
    device_names: Sequence[str]
    settings: dict[str, Any]  # of the network


def write_card(manifest: Manifest, background: Background) -> str:
    """Markdown with the front matter that Hugging Face reads."""
    pair = f"{manifest.source_language}-{manifest.target_language}"
    return "\n".join(
        [
            *_front_matter(manifest, background, pair),
            f"# {manifest.name}: {manifest.source_language} to {manifest.target_language}",
            "",
            f"A Transformer of {manifest.num_parameters:,} parameters (preset `{manifest.preset}`, "
            f"{manifest.vocabulary_size:,} pieces, {manifest.quantization}), trained with Septuagint "
            f"{manifest.origin.septuagint_version}.",
            "",
            _USE[manifest.kind],
            "",
            "## How good it is",
            "",
            *_scores(manifest, background),
            "",
            "## How it was made",
            "",
            *_making(manifest, background),
            "",
            "## Limits",
            "",
            "- It translates sentences, one at a time, without what stands before them. Lines of more than "
            f"{manifest.decode.max_source_pieces} pieces are cut into sentences first.",
            *_map_limit(manifest),
            "- It knows the kinds of text that it was trained on; on others it may be fluent and wrong.",
            "- Nobody has looked for bias, insults or invented facts in what it writes.",
            "- The licence of a model may depend on that of its training text; this card only repeats what was said.",
            "",
        ]
    )


def _map_limit(manifest: Manifest) -> list[str]:
    if not manifest.decode.vocabulary_map:
        return []
    return [
        "- Its vocabulary map leaves out pieces that no source of a batch suggests, so a line's translation can depend "
        "on the lines that are translated with it."
    ]


def _front_matter(manifest: Manifest, background: Background, pair: str) -> list[str]:
    """YAML; text is written as JSON, which YAML reads: the language `no` is then not a falsehood."""
    lines = [
        "---",
        "language:",
        *(f"- {_yaml(language)}" for language in (manifest.source_language, manifest.target_language)),
        f"license: {_yaml(background.license)}",
        "pipeline_tag: translation",
        f"library_name: {'transformers' if manifest.kind == 'huggingface' else 'ctranslate2'}",
        "tags:",
        "- translation",
        "- septuagint",
        "metrics:",
        "- bleu",
        "- chrf",
    ]
    results = [("test", *found) for found in _test_scores(manifest).items()]
    results += [("validation", *found) for found in background.scores.items()]
    if results:
        lines += ["model-index:", f"- name: {_yaml(manifest.name)}", "  results:"]
    for split, text, score in results:
        lines += [
            "  - task:",
            "      type: translation",
            f"      name: {_yaml(f'Translation {pair}')}",
            "    dataset:",
            f"      name: {_yaml(text)}",
            f"      type: {split}",
            f"      args: {_yaml(pair)}",
            "    metrics:",
        ]
        for name, value, signature in (
            ("BLEU", score.bleu, score.bleu_signature),
            ("chrF", score.chrf, score.chrf_signature),
        ):
            lines += [
                f"    - name: {name}",
                f"      type: {name.lower()}",
                f"      value: {value:.2f}",
                f"      args: {_yaml(signature)}",
            ]
    return [*lines, "---", ""]


def _yaml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _test_scores(manifest: Manifest) -> dict[str, Score]:
    """By text, where they were asked for."""
    scores = manifest.checks.get("test_sets", {"scores": {}})["scores"]
    return {text: Score(**fields) for text, fields in scores.items()}


def _scores(manifest: Manifest, background: Background) -> list[str]:
    checks, tests = manifest.checks, _test_scores(manifest)
    lines = []
    if tests:
        test_sets = checks["test_sets"]
        lines += [
            f"On test text, translated by CTranslate2 in {manifest.numbers} with beam {manifest.decode.beam_size}, at "
            f"{test_sets['target_tokens_per_second']:,.0f} target tokens per second on {test_sets['hardware']}:",
            "",
            *_table(tests),
            "",
        ]
        if num_pairs := test_sets.get("seen_pairs"):
            lines += [
                f"Test or validation text was changed after the training, which saw up to {num_pairs:,} pairs of "
                "which a side stands in it by now: these scores may be too good.",
                "",
            ]
    if background.scores:
        lines += ["On validation text, as training measured it:", "", *_table(background.scores), ""]
    else:
        lines += ["It was not validated in training.", ""]
    for signatures in dict.fromkeys(map(_signatures, [*tests.values(), *background.scores.values()])):
        lines += [signatures, ""]
    lines += [
        f"In float32 its log-probabilities differ from the checkpoint's by at most {checks['max_difference']:.1e}, "
        f"over {checks['num_pieces']:,} pieces.",
    ]
    if "bleu_change" in checks:
        lines.append(
            f"{manifest.numbers} changes BLEU by {checks['bleu_change']:+z.2f} (from {checks['bleu_float32']:.2f} "
            f"to {checks['bleu']:.2f} on {checks['bleu_lines']:,} lines of validation text, beam "
            f"{manifest.decode.beam_size})."
        )
    elif manifest.numbers != "float32":
        lines.append(f"What {manifest.numbers} changes was not measured: the validation text was not there.")
    return lines


def _table(scores: Mapping[str, Score]) -> list[str]:
    return [
        "| text | lines | BLEU | chrF |",
        "|---|---:|---:|---:|",
        *(
            f"| {_cell(text)} | {score.num_lines:,} | {score.bleu:.2f} | {score.chrf:.2f} |"
            for text, score in scores.items()
        ),
    ]


def _signatures(score: Score) -> str:
    return f"BLEU is sacreBLEU's `{score.bleu_signature}`, chrF `{score.chrf_signature}`."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _making(manifest: Manifest, background: Background) -> list[str]:
    num_pairs = sum(pairs for _, pairs in background.corpora)
    devices = ", ".join(
        f"{background.device_names.count(name)} x {name}" for name in dict.fromkeys(background.device_names)
    )
    tokens, hours = background.num_target_tokens, background.hours
    effort = [
        "target tokens not recorded" if tokens is None else f"{tokens:,} target tokens",
        "hours not recorded," if hours is None else f"{hours:.2f} hours",
    ]
    return [
        f"- Training text: {num_pairs:,} pairs" if background.corpora else "- Training text: not recorded",
        *(f"  - {name}: {pairs:,}" for name, pairs in background.corpora),
        *([f"- Begun with: the weights of {begun}, trained before"] if (begun := background.begun_with) else []),
        f"- Training: {background.steps:,} steps, {', '.join(effort)} on {devices or 'hardware that was not recorded'}",
        f"- Checkpoint: {manifest.origin.checkpoint} of {manifest.origin.run}, weights SHA-256 "
        f"`{manifest.origin.weights_sha256}`",
        f"- Network: {', '.join(f'{key} {value}' for key, value in background.settings.items())}",
        f"- Decoding: beam {manifest.decode.beam_size}, length penalty {manifest.decode.length_penalty:g}",
    ]
