"""What may be asked of an export, and what it came to, for people and for programs."""

from typing import Any

from septuagint.errors import UserError
from septuagint.inference.argos import argos_name
from septuagint.inference.ctranslate2_model import QUANTIZATIONS
from septuagint.inference.export import DEFAULT_QUANTIZATION, FORMATS, Exported


def check_options(
    format: str, quantization: str | None, *, vocabulary_map: bool, name: str | None = None
) -> dict[str, Any]:
    """Format and what goes with it, as `export` takes them; a mistake is told with what may be given."""
    if format not in FORMATS:
        raise UserError(f"--format {format}: must be {', '.join(FORMATS)}")
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise UserError(f"--quantization {quantization}: must be {', '.join(QUANTIZATIONS)}")
    if format == "huggingface" and quantization not in (None, "float32"):
        raise UserError(f"--quantization {quantization}: Hugging Face gets float32; quantise it there, or leave it out")
    if vocabulary_map and format != "ctranslate2":
        raise UserError(f"--vocabulary-map: what reads {format} does not use one; leave it out")
    if name is not None and (not name.strip() or not name.isprintable()):
        raise UserError(f"--name {name!r}: must be a name in one line")
    quantization = quantization or DEFAULT_QUANTIZATION
    return {"format": format, "quantization": quantization, "vocabulary_map": vocabulary_map, "name": name}


def summarise_export(exported: Exported) -> dict[str, Any]:
    """For --json: the manifest, and where it is."""
    return {
        "folder": str(exported.folder),
        "bytes": exported.num_bytes,
        **exported.manifest.model_dump(mode="json", exclude={"files"}),
    }


def print_export(exported: Exported) -> None:
    """A few lines."""
    manifest, checks = exported.manifest, exported.manifest.checks
    print(
        f"exported {manifest.origin.checkpoint} of {manifest.origin.run}: {manifest.kind}, {manifest.numbers}, "
        f"{exported.num_bytes / 1e6:.1f} MB"
    )
    print(
        f"float32 against the checkpoint: log-probabilities differ by at most {checks['max_difference']:.1e} "
        f"over {checks['num_pieces']:,} pieces"
    )
    if "bleu_change" in checks:
        print(
            f"{manifest.numbers} against float32: BLEU {checks['bleu_change']:+z.2f}, from "
            f"{checks['bleu_float32']:.2f} to {checks['bleu']:.2f} on {checks['bleu_lines']:,} lines of validation text"
        )
    if "test_sets" in checks:
        print_test_sets(checks["test_sets"])
    print(f"folder: {exported.folder}")
    if (package := exported.folder / argos_name(manifest)).exists():
        print(f"package: {package}")


def print_test_sets(found: dict[str, Any]) -> None:
    """A line for each test set, and how fast they were translated."""
    scores = found["scores"]
    width = max(map(len, scores))
    for name, score in scores.items():
        print(f"{name:{width}}  BLEU {score['bleu']:5.2f}  chrF {score['chrf']:5.2f}  {score['num_lines']:6,} lines")
    print(f"{found['target_tokens_per_second']:,.0f} target tokens per second on {found['hardware']}")
