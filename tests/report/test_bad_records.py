"""Whatever a record holds, every question gets an answer that can be shown and written as JSON."""

import contextlib
import copy
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from septuagint.errors import UserError
from septuagint.report.diagnosis.diagnose import diagnose
from septuagint.report.reading.record import read_record
from tests.report.records import Life, Plan, write_run
from tests.report.test_diagnosis import IDS

RICH = Plan(
    hosts=("alpha", "beta"),
    lives=(Life(last_step=14, stop=None), Life(start_step=10, last_step=40)),
    parts={"compute": 0.2, "communication": 0.1, "straggler_wait": 0.1},
    sent_bytes=40e6,
    log_every=5,
    checkpoint_every=10,
    validations={step: (3 - step / 50, 3 - step / 30, step / 2) for step in range(5, 41, 5)},
    averages={40: (2.0, 1.9, 21.0)},
    warnings=["a checkpoint is damaged; passed over"],
    skipped=[10],
    num_gpus=1,
    device="Tesla V100",
    price_per_hour=3.0,
)
BAD = [
    None,
    True,
    -1,
    0,
    1e308,
    10**400,
    float("nan"),
    float("inf"),
    "text",
    "",
    [],
    [None],
    [[1], "x"],
    {},
    {"a": [1]},
]


@pytest.fixture(scope="module")
def events(tmp_path_factory) -> list[list[dict[str, Any]]]:
    run = write_run(tmp_path_factory.mktemp("rich"), RICH)
    return [
        [json.loads(line) for line in (run / "events" / f"rank-{rank}.jsonl").read_text().splitlines()]
        for rank in (0, 1)
    ]


def check(run: Path, ranks: list[list[Any]]) -> None:
    """Writes the record as it came out, and asks all questions."""
    (run / "events").mkdir(parents=True, exist_ok=True)
    for rank, lines in enumerate(ranks):
        text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
        (run / "events" / f"rank-{rank}.jsonl").write_text(text)
    with contextlib.suppress(UserError):  # nothing was left of it
        answers = diagnose(read_record(run))
        assert [answer.id for answer in answers] == IDS
        for answer in answers:
            assert "This answer failed" not in answer.sentence, answer.sentence
            json.dumps(dataclasses.asdict(answer), allow_nan=False)


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value inside, one of each list."""
    if path:
        yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, inner in inside:
        yield from paths_of(inner, (*path, key))


def put(event: dict[str, Any], path: tuple[Any, ...], value: Any) -> None:
    target: Any = event
    with contextlib.suppress(KeyError, IndexError, TypeError):  # an earlier change has taken it away
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = copy.deepcopy(value)  # a later change may go into it


def test_the_record_itself_is_good(events, tmp_path):
    check(tmp_path, events)


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_damage_makes_an_answer_fail(events, tmp_path_factory, data):
    ranks: list[list[Any]] = copy.deepcopy(events)
    for _ in range(data.draw(st.integers(1, 25))):
        lines = ranks[data.draw(st.integers(0, 1))]
        place = data.draw(st.integers(0, len(lines) - 1)) if lines else 0
        how = data.draw(st.sampled_from(["drop", "tear", "spoil", "spoil", "spoil", "twice", "cut"]))
        if not lines or isinstance(lines[place], str):
            continue
        if how == "drop":
            del lines[place]
        elif how == "tear":
            lines[place] = json.dumps(lines[place])[: data.draw(st.integers(0, 300))] + "\n"
        elif how == "twice":
            lines.insert(0, copy.deepcopy(lines[place]))
        elif how == "cut" and data.draw(st.booleans()):
            del lines[place:]
        else:
            path = data.draw(st.sampled_from(list(paths_of(lines[place]))))
            put(lines[place], path, data.draw(st.sampled_from(BAD)))
    check(tmp_path_factory.mktemp("bad"), ranks)


@pytest.mark.parametrize("kind", "attempt data hardware link steps machine train validation checkpoint stop".split())
@pytest.mark.parametrize("bad", BAD[:9:4], ids=repr)
def test_no_field_of_a_kind_is_trusted(kind, bad, events, tmp_path):
    """The same field of all events of a kind, one after the other."""
    sample = next(event for event in events[0] if event["event"] == kind)
    for path in paths_of(sample):
        ranks = copy.deepcopy(events)
        for event in (event for lines in ranks for event in lines if event["event"] == kind):
            put(event, path, bad)
        check(tmp_path, ranks)


@pytest.mark.slow
@pytest.mark.parametrize("bad", BAD, ids=lambda bad: repr(bad)[:20])
def test_no_field_is_trusted_whatever_it_holds(bad, events, tmp_path):
    for kind in sorted({event["event"] for event in events[0]}):
        test_no_field_of_a_kind_is_trusted(kind, bad, events, tmp_path)


def test_every_beginning_of_a_record_can_be_read(events, tmp_path):
    """A run may be looked at while it goes on."""
    for length in range(0, len(events[0]) + 1, 3):
        check(tmp_path, [events[0][:length], events[1][: length // 2]])
