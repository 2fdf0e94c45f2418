"""What a report says to a question: a verdict, a sentence, and the numbers it rests on."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One number of the evidence."""

    name: str  # scripts rely on it
    label: str  # for people
    value: float | int | str | bool | None
    unit: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """To one question about a run."""

    id: str
    question: str
    verdict: str  # yes, partly, no, unknown, or a value
    sentence: str
    evidence: tuple[Figure, ...]
    confidence: str  # high, medium or low
    would_change: str  # what would turn the verdict, or what to do about it
