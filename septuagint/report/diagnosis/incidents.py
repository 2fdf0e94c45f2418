"""What went wrong on the way."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from septuagint.report.answer import Answer, Figure
from septuagint.report.diagnosis.phrases import count, figure, listed, percent, seconds
from septuagint.report.diagnosis.time_use import TimeUse, slow_rank
from septuagint.report.reading.attempts import Attempt
from septuagint.report.reading.record import Record

QUESTION = "What went wrong on the way?"
# In fp16 the loss scale starts too high on purpose, and is found by skipping: once for each halving.
_SCALE_SEARCH_STEPS, _SCALE_SEARCH_SKIPS = 2000, 20
# Of the time in steps that the others wait for a rank: less is what any two machines differ by, now and then.
_SLOW_SHARE = 0.1
# A step that takes so many times the median, and seconds, was a stall. The first ones of an attempt warm up.
_STALL_FACTOR, _STALL_SECONDS, _WARMING_STEPS = 10.0, 1.0, 3
_ENDS = {
    None: "was killed",
    "not_finite": "ended because the loss was not finite",
    "lost_peer": "lost a rank or the network",
    "drift": "ended because ranks no longer had the same weights",
    "error": "ended with an error",
}
# Who then goes on with more steps or hours has not been interrupted; who asked for an end got one, with a checkpoint.
_PLANNED_ENDS = ("max_steps", "max_hours", "patience", "signal")
_BAD_ENDS = ("not_finite", "lost_peer", "drift", "error")
# What lowers a clock without anything being wrong: no work, a limit that somebody set or bought, or a neighbour.
_HARMLESS_REASONS = ("idle", "setting", "none", "power cap", "sync boost")
_SIGNS_OF_DAMAGE = ("damaged", "sha-256", "passed over", "left out of the average")
_MOST_WARNINGS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class _Incident:
    name: str
    words: str
    number: int


def incidents(record: Record, use: TimeUse) -> Answer:
    """Answers with a number of incidents, or none."""
    found = [*_of_steps(record, use), *_of_attempts(record, use), *_of_machines(record, use), *_of_files(record)]
    total = sum(incident.number for incident in found)
    has_ended = bool(record.attempts) and record.attempts[-1].stop_reason is not None
    words = [incident.words for incident in found] or ["nothing: no step was skipped, and no attempt was broken off"]
    words += _asked_to_stop(record)
    if not has_ended:
        words.append("the record has no end: the run is still going, or was killed")
    sentence = "; ".join(words)
    return Answer(
        id="incidents",
        question=QUESTION,
        verdict=count(total, "incident") if total else "none",
        sentence=f"{sentence[0].upper()}{sentence[1:]}.",
        evidence=(
            *(figure(incident.name, incident.words, incident.number) for incident in found),
            *_not_counted(record),
        ),
        confidence="low" if not record.attempts else "medium" if record.problems or not has_ended else "high",
        would_change="The log (log.txt) has every warning in full.",
    )


def _of_steps(record: Record, use: TimeUse) -> Iterator[_Incident]:
    if skipped := _unexpected_skips(record):
        words = f"{count(skipped, 'step')} skipped because something was not finite ({_where(record)})"
        yield _Incident(name="skipped_steps", words=words, number=skipped)
    walls = _stalls(record)
    if len(walls):
        many, longest = count(len(walls), "step"), seconds(float(walls.max()))
        words = f"{many} took more than {_STALL_FACTOR:.0f} times the median, the longest {longest}"
        yield _Incident(name="stalls", words=words, number=len(walls))


def _where(record: Record) -> str:
    return f"at step {listed([f'{skip.step:,}' for skip in record.skipped], most=3)}"


def _unexpected_skips(record: Record) -> int:
    """Skipped steps, less those by which fp16 finds its loss scale."""
    early = sum(skip.loss_scale is not None and skip.step <= _SCALE_SEARCH_STEPS for skip in record.skipped)
    return len(record.skipped) - (early if early <= _SCALE_SEARCH_SKIPS else 0)


def _stalls(record: Record) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The wall times of steps that stalled, as the lowest rank saw them."""
    tables = [table for table in record.steps.values() if len(table)]
    if not tables:
        return np.zeros(0)
    table = tables[0]
    _, places, attempts = np.unique(table.attempt, return_index=True, return_inverse=True)
    is_warm = table.step - table.step[places][attempts] >= _WARMING_STEPS
    least = max(_STALL_FACTOR * float(np.median(table.wall)), _STALL_SECONDS)
    return table.wall[is_warm & (table.wall > least)]


def _of_attempts(record: Record, use: TimeUse) -> Iterator[_Incident]:
    broken_off = [attempt for attempt in record.attempts[:-1] if attempt.stop_reason not in _PLANNED_ENDS]
    if broken_off:
        ends = listed([f"attempt {attempt.number} {_end(attempt)}" for attempt in broken_off])
        again = f" ({count(use.num_lost_steps, 'step')} done again)" if use.num_lost_steps else ""
        words = f"{count(len(broken_off), 'restart')}{again}: {ends}"
        yield _Incident(name="restarts", words=words, number=len(broken_off))
    if record.attempts and record.attempts[-1].stop_reason in _BAD_ENDS:
        last = record.attempts[-1]
        yield _Incident(name="bad_end", words=f"attempt {last.number} {_end(last)}", number=1)


def _asked_to_stop(record: Record) -> list[str]:
    """What no one needs to mend, but wants to know of: Ctrl-C, or a queue that takes its machine back."""
    stops = [attempt for attempt in record.attempts if attempt.stop_reason == "signal"]
    if not stops:
        return []
    places = listed([f"at step {attempt.last_step or 0:,}" for attempt in stops])
    return [f"{count(len(stops), 'attempt')} stopped when asked to, and saved first ({places})"]


def _end(attempt: Attempt) -> str:
    where = f" at step {attempt.last_step:,}" if attempt.last_step else ""
    return f"{_ENDS.get(attempt.stop_reason, 'ended for a reason of its own')}{where}"


def _of_machines(record: Record, use: TimeUse) -> Iterator[_Incident]:
    if throttled := _throttled(record):
        words = f"GPUs slowed down: {listed(throttled)}"
        yield _Incident(name="throttled_gpus", words=words, number=len(throttled))
    slow = slow_rank(record, use)
    if slow is not None and slow.seconds >= _SLOW_SHARE * use.step_seconds > 0:
        share = percent(slow.seconds / use.step_seconds)
        words = f"a slow rank: the others waited {share} of the time in steps for {slow.name}"
        yield _Incident(name="slow_ranks", words=words, number=1)


def _throttled(record: Record) -> list[str]:
    """Each GPU that was slowed down, with why and how much of the time."""
    found = []
    for host, table in record.machines.items():
        for index, gpu in table.gpus.items():
            reasons = Counter(reason for sample in gpu.throttle_reasons for reason in set(sample))
            harmful = [(reason, number) for reason, number in reasons.most_common() if _is_harmful(reason)]
            if harmful:
                share = percent(harmful[0][1] / max(len(table), 1))
                found.append(f"GPU {index} of {host} ({harmful[0][0]} in {share} of the samples)")
    return found


def _is_harmful(reason: str) -> bool:
    return not any(word in reason.lower().replace("_", " ") for word in _HARMLESS_REASONS)


def _of_files(record: Record) -> Iterator[_Incident]:
    damaged = [warned.message for warned in record.warnings if _is_about_damage(warned.message)]
    if damaged:
        words = f"a checkpoint was damaged: {listed(damaged, most=2)}"
        yield _Incident(name="damaged_checkpoints", words=words, number=len(damaged))
    if record.problems:
        words = f"the record is not whole: {listed(record.problems)}"
        yield _Incident(name="record_problems", words=words, number=len(record.problems))


def _is_about_damage(message: str) -> bool:
    return any(sign in message.lower() for sign in _SIGNS_OF_DAMAGE)


def _not_counted(record: Record) -> list[Figure]:
    """What looks like an incident and is none, and the warnings as they were given."""
    found = []
    if search := len(record.skipped) - _unexpected_skips(record):
        found.append(figure("scale_search_skips", "skipped to find the loss scale, which is normal in fp16", search))
    found.append(figure("num_warnings", "warnings in the record", len(record.warnings)))
    shown = enumerate(record.warnings[:_MOST_WARNINGS], start=1)
    return found + [figure(f"warning_{place}", "warning", warned.message) for place, warned in shown]
