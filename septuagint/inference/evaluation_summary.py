"""What an evaluation came to, for people and for programs."""

from typing import Any

from septuagint.inference.artifact import Artifact
from septuagint.inference.evaluation import Evaluation

# Below this, chance seldom makes such a difference. The test looks at one side, so it is half of the usual 0.05.
_SIGNIFICANT = 0.025


def summarise_evaluations(results: dict[str, Evaluation], artifact: Artifact, beam_size: int) -> dict[str, Any]:
    """For --json. A text that was given has no name; test sets have theirs."""
    manifest = artifact.manifest
    found = {name: result.fields() for name, result in results.items()}
    return {
        "model": str(artifact.folder),
        "quantization": manifest.quantization,
        "beam_size": beam_size,
        "step": manifest.origin.step,
        **found.get("", {"sets": found}),
    }


def print_evaluations(results: dict[str, Evaluation], artifact: Artifact, beam_size: int) -> None:
    """A line for each metric of each text, and what it takes to compare it."""
    manifest = artifact.manifest
    print(
        f"{artifact.folder}: {manifest.source_language} to {manifest.target_language}, {manifest.preset}, "
        f"{manifest.quantization}, step {manifest.origin.step:,}, beam {beam_size}"
    )
    for name, result in results.items():
        _print_evaluation(f"{name}: " if name else "", result)
    for metric in next(iter(results.values())).metrics:
        print(f"{metric.name:5}  {metric.signature}")


def _print_evaluation(title: str, result: Evaluation) -> None:
    print(
        f"{title}{result.num_lines:,} lines in {result.seconds:.1f} s, "
        f"{result.tokens_per_second:,.0f} target tokens per second"
    )
    for metric in result.metrics:
        interval = f"  95% interval {metric.low:.2f} to {metric.high:.2f}" if result.num_lines > 1 else ""
        print(f"{metric.name:5}  {metric.value:6.2f}{interval}")
    for comparison in result.comparisons:
        difference = comparison.value - comparison.baseline
        verdict = "by chance, perhaps"
        if comparison.p_value < _SIGNIFICANT:
            verdict = "better" if comparison.is_better else "worse"
        less = "; less is better" if comparison.name == "TER" else ""
        print(
            f"{comparison.name:5}  {difference:+z6.2f} against the baseline's {comparison.baseline:.2f}: {verdict} "
            f"(p = {comparison.p_value:.3f}, paired bootstrap{less})"
        )
