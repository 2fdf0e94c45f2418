"""What stands out in a run, and the words for it: for the top of a page, of a text, or of a screen."""

from dataclasses import dataclass

from septuagint.report.answer import Answer
from septuagint.report.contents import Report
from septuagint.report.reading.happenings import Sample, Validation
from septuagint.report.reading.record import Record

# The answers that one hopes for; others are neither good nor bad news.
_HOPED_FOR = {
    "fully_trained": "yes",
    "overfitting": "no",
    "gpus_used": "yes",
    "network_bottleneck": "no",
    "incidents": "none",
}
_WORDS = {"slow_rank": "a slow rank"}
_MAX_SAMPLES = 6
_MAX_CHARACTERS = 600


@dataclass(frozen=True, kw_only=True, slots=True)
class Highlight:
    """A number for the top of the page."""

    label: str
    value: str
    remark: str = ""


def find_highlights(report: Report) -> list[Highlight]:
    """Time, quality, speed, and what held it up; only those that are known."""
    verdicts = {answer.id: answer.verdict for answer in report.answers if answer.verdict != "unknown"}
    found = []
    if "duration" in verdicts:
        found.append(Highlight(label="Took", value=verdicts["duration"], remark=f"{report.last_step:,} steps"))
    if (best := best_validation(report.record)) is not None and best.bleu is not None:
        what = "" if best.weights == "current" else f", {best.weights}"
        found.append(Highlight(label="Best BLEU", value=f"{best.bleu:.1f}", remark=f"step {best.step:,}{what}"))
    if "step_time" in verdicts:
        found.append(Highlight(label="A step takes", value=verdicts["step_time"], remark=speed(report.record)))
    if "bottleneck" in verdicts:
        found.append(Highlight(label="Bottleneck", value=verdict_words(verdicts["bottleneck"])))
    return found


def best_validation(record: Record) -> Validation | None:
    """The one with the highest BLEU, averaged weights included."""
    scored = [validation for validation in (*record.validations, *record.averages) if validation.bleu is not None]
    return max(scored, key=lambda validation: validation.bleu or 0.0, default=None)


def speed(record: Record) -> str:
    """Target tokens per second of the whole world, as of the middle of the lines of the log."""
    numbers = sorted(float(value) for value in record.train.target_tokens_per_second if value > 0)
    return f"{numbers[len(numbers) // 2]:,.0f} target tokens/s" if numbers else ""


def verdict_words(verdict: str) -> str:
    """As people say it."""
    return _WORDS.get(verdict, verdict)


def verdict_tone(answer: Answer) -> str:
    """good, middle, bad, unknown, or value for what is only a fact."""
    if answer.verdict == "unknown":
        return "unknown"
    hoped_for = _HOPED_FOR.get(answer.id)
    if hoped_for is None:
        return "value"
    if answer.verdict == hoped_for:
        return "good"
    return "bad" if answer.verdict in ("yes", "no") else "middle"


def chosen_samples(record: Record) -> list[Sample]:
    """A few from all over the run, the last one among them."""
    samples = sorted(record.samples, key=lambda sample: sample.step)
    if len(samples) <= _MAX_SAMPLES:
        return samples
    last = len(samples) - 1
    return [samples[round(index * last / (_MAX_SAMPLES - 1))] for index in range(_MAX_SAMPLES)]


def shortened(value: str) -> str:
    """The beginning of a long text."""
    return value if len(value) <= _MAX_CHARACTERS else f"{value[:_MAX_CHARACTERS]} …"
