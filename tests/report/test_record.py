"""The record is read back as it was written, and whatever is wrong with it is told, not thrown."""

import json
import time
from pathlib import Path

import numpy as np
import pytest

from septuagint.errors import UserError
from septuagint.report.reading.record import read_record
from tests.report.records import Life, Plan, write_run

TWO_HOSTS = Plan(
    hosts=("alpha", "beta"),
    parts={"compute": 0.2, "communication": 0.3, "optimizer": 0.01},
    sent_bytes=40e6,
    validations={500: (3.0, 2.9, 20.0), 1000: (2.8, 2.6, 22.0)},
    averages={1000: (2.7, 2.5, 23.0)},
    num_gpus=2,
)
KILLED = Plan(lives=(Life(last_step=650, stop=None), Life(start_step=500, last_step=1000, pause_seconds=60)))


def lines_of(run: Path, rank: int = 0) -> list[str]:
    return (run / "events" / f"rank-{rank}.jsonl").read_text().splitlines()


def rewrite(run: Path, lines: list[str], rank: int = 0) -> None:
    (run / "events" / f"rank-{rank}.jsonl").write_text("\n".join(lines) + "\n")


def test_every_step_of_every_rank_is_there(tmp_path):
    record = read_record(write_run(tmp_path, TWO_HOSTS))
    assert record.problems == ()
    assert sorted(record.steps) == [0, 1]
    for table in record.steps.values():
        assert table.step.tolist() == list(range(1, 1001))
        parts = sum(table.part(name) for name in ("compute", "communication", "optimizer", "rest"))
        np.testing.assert_allclose(parts, table.wall, atol=1e-5)
        assert (np.diff(table.time) > 0).all()
        assert table.sent_bytes.mean() == 40e6


def test_parts_outside_steps_and_in_them_make_up_the_attempt(tmp_path):
    record = read_record(write_run(tmp_path, TWO_HOSTS))
    outside = record.outside[0][1]
    assert outside["start"] == 5 and outside["validation"] == pytest.approx(3)
    assert record.attempts[0].seconds == pytest.approx(record.steps[0].wall.sum() + sum(outside.values()), abs=0.01)


def test_columns_of_the_log(tmp_path):
    train = read_record(write_run(tmp_path, TWO_HOSTS)).train
    assert train.step.tolist() == list(range(100, 1001, 100))
    assert train.loss[0] == 2.5 and np.isnan(train.loss_scale).all()


def test_averages_are_not_on_the_curve(tmp_path):
    record = read_record(write_run(tmp_path, TWO_HOSTS))
    assert [look.valid_loss for look in record.validations] == [3.0, 2.8]
    assert [look.bleu for look in record.averages] == [23.0]


def test_hosts_and_their_gpus(tmp_path):
    record = read_record(write_run(tmp_path, TWO_HOSTS))
    assert sorted(record.machines) == ["alpha", "beta"]
    machine = record.machines["beta"]
    assert len(machine.gpus) == 2 and (machine.gpus[1].utilisation_percent == 99).all()
    assert len(machine.gpus[1].throttle_reasons) == len(machine)
    assert record.links[0].bus_bytes_per_second == 117e6
    assert record.data["corpora"][0]["name"] == "europarl"


def test_steps_done_again_count_once_and_stand_apart(tmp_path):
    record = read_record(write_run(tmp_path, KILLED))
    assert record.steps[0].step.tolist() == list(range(1, 1001))
    assert record.steps[0].attempt.tolist() == [1] * 500 + [2] * 500
    assert record.lost_steps[0].step.tolist() == list(range(501, 651))
    assert record.train.step.tolist() == list(range(100, 1001, 100))
    assert [attempt.stop_reason for attempt in record.attempts] == [None, "max_steps"]


def test_an_attempt_that_begins_anew_takes_all_steps(tmp_path):
    plan = Plan(lives=(Life(last_step=300, stop=None), Life(last_step=0, stop=None)))
    record = read_record(write_run(tmp_path, plan))
    assert len(record.steps[0]) == 0 and len(record.lost_steps[0]) == 300


def test_the_start_of_an_attempt_may_be_known_from_the_environment_alone(tmp_path):
    run = write_run(tmp_path, KILLED)
    kept = [line for line in lines_of(run) if '"attempt", "attempt": 2' not in line]
    assert len(kept) == len(lines_of(run)) - 1
    rewrite(run, kept)
    (run / "environment.json").write_text(json.dumps({"attempts": [{"number": 2, "start_step": 500}]}))
    record = read_record(run)
    assert len(record.lost_steps[0]) == 150
    assert "the beginning of attempt 2 is missing from the record" in record.problems


def test_hosts_whose_clocks_differ_do_not_stretch_the_run(tmp_path):
    run = write_run(tmp_path, TWO_HOSTS)
    late = [json.loads(line) for line in lines_of(run, 1)]
    rewrite(run, [json.dumps(event | {"time": event["time"] + 7200}) for event in late], 1)
    assert read_record(run).attempts[0].seconds < 700


def test_a_folder_without_a_record_is_the_users_mistake(tmp_path):
    for folder in (tmp_path / "missing", tmp_path):
        with pytest.raises(UserError, match=r"name the folder"):
            read_record(folder)
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "rank-0.jsonl").write_text("")
    with pytest.raises(UserError, match="nothing that can be read"):
        read_record(tmp_path)


def test_damaged_lines_are_named(tmp_path):
    run = write_run(tmp_path, TWO_HOSTS)
    lines = lines_of(run, 1)
    lines[6], lines[8] = lines[6][:40], "\x00\x00"
    rewrite(run, lines, 1)
    assert "rank 1's record has 2 damaged lines (7, 9), passed over" in read_record(run).problems


def test_a_rank_without_a_file_is_named(tmp_path):
    run = write_run(tmp_path, TWO_HOSTS)
    (run / "events" / "rank-1.jsonl").unlink()
    assert "the record of rank 1 is missing (events/rank-N.jsonl)" in read_record(run).problems


def test_an_older_record_says_that_it_has_no_steps(tmp_path):
    record = read_record(write_run(tmp_path, Plan(has_steps=False)))
    assert len(record.steps[0]) == 0 and len(record.train) == 10
    assert "no `steps` events" in record.problems[0]


def test_steps_that_are_missing_in_the_middle_are_counted(tmp_path):
    run = write_run(tmp_path)
    lines = [line for line in lines_of(run) if not ('"steps"' in line and '"step": 300,' in line)]
    rewrite(run, lines)
    assert "rank 0's record does not tell the times of 100 steps" in read_record(run).problems


def test_a_part_that_cannot_be_true_is_counted_as_rest(tmp_path):
    run = write_run(tmp_path)
    events = [json.loads(line) for line in lines_of(run)]
    steps = next(event for event in events if event["event"] == "steps")
    steps["compute"][:3] = [None, "x", 1e25]
    rewrite(run, list(map(json.dumps, events)))
    record = read_record(run)
    table = record.steps[0]
    assert "3 steps of rank 0 have times that cannot be true, counted as rest" in record.problems
    assert table.compute[:3].tolist() == [0, 0, 0]
    np.testing.assert_allclose(table.rest[:3], table.wall[:3] - table.optimizer[:3] - table.data_wait[:3])


def test_half_a_line_at_the_end_is_a_run_that_goes_on(tmp_path):
    run = write_run(tmp_path, Plan(lives=(Life(stop=None),)))
    path = run / "events" / "rank-0.jsonl"
    path.write_text(path.read_text() + '{"time": 17')
    assert read_record(run).problems == ()


@pytest.mark.slow
def test_a_hundred_thousand_steps_are_read_in_two_seconds(tmp_path):
    run = write_run(tmp_path, Plan(hosts=("a", "b"), sent_bytes=4e7, num_gpus=2, lives=(Life(last_step=100_000),)))
    begin = time.perf_counter()
    record = read_record(run)
    assert time.perf_counter() - begin < 2
    assert len(record.steps[1]) == 100_000
