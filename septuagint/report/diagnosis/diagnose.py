"""The eleven questions that people ask about their run, and two more, answered from the record alone."""

from collections.abc import Callable

from septuagint.report.answer import Answer
from septuagint.report.diagnosis.bottleneck import bottleneck
from septuagint.report.diagnosis.devices import gpus_used
from septuagint.report.diagnosis.duration import duration
from septuagint.report.diagnosis.fully_trained import fully_trained
from septuagint.report.diagnosis.holdings import checkpoint_files, checkpoint_size, training_set
from septuagint.report.diagnosis.incidents import incidents
from septuagint.report.diagnosis.network import network_bottleneck
from septuagint.report.diagnosis.overfitting import overfitting
from septuagint.report.diagnosis.phrases import unknown
from septuagint.report.diagnosis.rate import learning_rate
from septuagint.report.diagnosis.step_times import step_time
from septuagint.report.diagnosis.time_use import time_use
from septuagint.report.diagnosis.traffic import step_time_and_traffic
from septuagint.report.reading.record import Record


def diagnose(record: Record) -> tuple[Answer, ...]:
    """One answer to each question, always in the same order."""
    use = time_use(record)
    questions: tuple[tuple[str, Callable[[], Answer]], ...] = (
        ("duration", lambda: duration(record, use)),
        ("fully_trained", lambda: fully_trained(record)),
        ("overfitting", lambda: overfitting(record)),
        ("gpus_used", lambda: gpus_used(record, use)),
        ("network_bottleneck", lambda: network_bottleneck(record, use)),
        ("learning_rate", lambda: learning_rate(record)),
        ("training_set", lambda: training_set(record)),
        ("checkpoint_files", lambda: checkpoint_files(record)),
        ("checkpoint_size", lambda: checkpoint_size(record)),
        ("step_time", lambda: step_time(record, use)),
        ("step_time_and_traffic", lambda: step_time_and_traffic(record)),
        ("bottleneck", lambda: bottleneck(record, use)),
        ("incidents", lambda: incidents(record, use)),
    )
    return tuple(_answer(id, ask) for id, ask in questions)


def _answer(id: str, ask: Callable[[], Answer]) -> Answer:
    try:
        return ask()
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # Our mistake, but at the end of a training of days the other twelve answers must not be lost with it.
        name = id.replace("_", " ")
        missing = f"This answer failed: {type(error).__name__}: {error}. Please report it, with the folder events/."
        return unknown(id, f"{name[0].upper()}{name[1:]}?", missing, "A fixed version of Septuagint.")
