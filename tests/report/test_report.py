import json
import os
import time

import pytest

from septuagint.errors import UserError
from septuagint.report.answer import Answer, Figure
from septuagint.report.contents import Report
from septuagint.report.page.highlights import verdict_tone
from septuagint.report.report import (
    as_json,
    comparison_json,
    make_comparison,
    make_report,
    print_comparison,
    print_report,
    report_json,
    write_comparison,
    write_report,
)
from tests.report.full_runs import make_hostile, write_full_run
from tests.report.records import START, Life, Plan, write_run

IDS = (
    "duration fully_trained overfitting gpus_used network_bottleneck learning_rate training_set checkpoint_files "
    "checkpoint_size step_time step_time_and_traffic bottleneck incidents"
).split()


def strict(text: str) -> dict:
    """JSON without NaN and its kin, in plain ASCII."""
    assert text.isascii()

    def refuse(word: str) -> None:
        raise AssertionError(word)

    return json.loads(text, parse_constant=refuse)


def test_a_report_is_three_files_in_the_run_folder_and_nothing_else(tmp_path):
    run = write_full_run(tmp_path / "news")
    before = set(run.iterdir())
    paths = write_report(run)
    assert [path.name for path in paths] == ["report.html", "report.md", "report.json"]
    assert set(run.iterdir()) - before == set(paths)


def test_the_json_has_what_its_schema_says(tmp_path):
    run = write_full_run(tmp_path / "news")
    content = strict(write_report(run)[2].read_text())
    assert (content["format"], content["version"]) == ("septuagint-report", 1)
    assert (content["name"], content["run"]) == ("news", str(run))
    assert (content["is_finished"], content["is_running"], content["step"]) == (True, False, 1000)
    assert [answer["id"] for answer in content["answers"]] == IDS
    assert content["bottleneck"] == "network"
    for answer in content["answers"]:
        assert set(answer) == {"id", "question", "verdict", "sentence", "evidence", "confidence", "would_change"}
        assert all(set(figure) == {"name", "label", "value", "unit"} for figure in answer["evidence"])
    assert isinstance(content["problems"], list)


def test_numbers_that_are_not_finite_become_null(tmp_path):
    report = make_report(write_run(tmp_path / "run"))
    figures = tuple(Figure(name="x", label="x", value=value) for value in (float("nan"), float("inf"), 1.5, True, "a"))
    answer = Answer(
        id="a", question="?", verdict="no", sentence="", evidence=figures, confidence="low", would_change=""
    )
    made = Report(record=report.record, answers=(answer,), made=report.made)
    content = strict(as_json(report_json(made)))
    assert [figure["value"] for figure in content["answers"][0]["evidence"]] == [None, None, 1.5, True, "a"]
    assert content["bottleneck"] is None


def test_a_hostile_record_gives_strict_json_and_a_quiet_screen(tmp_path, capsys):
    report = make_report(make_hostile(write_full_run(tmp_path / "news")))
    strict(as_json(report_json(report)))
    print_report(report)
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\u202e" not in out and "\x00" not in out


def test_a_report_goes_into_another_folder_where_the_run_cannot_be_written(tmp_path):
    run = write_run(tmp_path / "run")
    paths = write_report(run, tmp_path / "elsewhere" / "deep")
    assert all(path.is_file() and path.parent == tmp_path / "elsewhere" / "deep" for path in paths)
    assert not (run / "report.html").exists()


def test_a_place_that_cannot_be_written_is_the_users_to_put_right(tmp_path):
    run = write_run(tmp_path / "run")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="a file stands where a folder should be"):
        write_report(run, tmp_path / "file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_the_users_to_put_right(tmp_path):
    run = write_run(tmp_path / "run")
    run.chmod(0o500)
    with pytest.raises(UserError, match="choose a folder that you may write to"):
        write_report(run)


def test_a_folder_without_a_record_is_the_users_mistake(tmp_path):
    with pytest.raises(UserError, match="no record"):
        write_report(tmp_path)
    with pytest.raises(UserError, match="no such folder"):
        make_report(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("stop", "state", "is_finished"),
    [
        ("max_steps", "finished: all steps are done", True),
        ("patience", "finished: it no longer got better", True),
        ("signal", "stopped by a signal", False),
        (None, "killed, or still running in silence", False),
    ],
)
def test_the_state_of_a_run_is_told(tmp_path, stop, state, is_finished):
    report = make_report(write_run(tmp_path / "run", Plan(lives=(Life(stop=stop),))))
    assert (report.state, report.is_finished, report.is_running) == (state, is_finished, False)


def test_a_run_that_gave_a_sign_of_life_just_now_is_running(tmp_path):
    run = write_run(tmp_path / "run", Plan(lives=(Life(stop=None),)))
    path = run / "events" / "rank-0.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    shift = time.time() - max(event["time"] for event in events)
    path.write_text("".join(json.dumps(event | {"time": event["time"] + shift}) + "\n" for event in events))
    report = make_report(run)
    assert report.is_running and report.state == "still running" and report.made.timestamp() > START


def test_the_screen_has_every_verdict_within_eighty_columns(tmp_path, capsys):
    report = make_report(write_full_run(tmp_path / "news"))
    print_report(report)
    out = capsys.readouterr().out
    assert all(len(line) <= 80 for line in out.splitlines())
    flat = " ".join(out.split())
    for answer in report.answers:
        assert f"{answer.question} " in flat and answer.sentence in flat
        needs_a_cure = verdict_tone(answer) in ("middle", "bad", "unknown")
        assert (f"→ {answer.would_change}" in flat) == needs_a_cure
    assert flat.count("→ ") > 2  # one is between the languages


def test_a_comparison_is_three_files_and_strict_json(tmp_path, capsys):
    runs = [write_full_run(tmp_path / "a" / "news"), write_full_run(tmp_path / "b" / "news", device="Tesla T4")]
    paths = write_comparison(runs, tmp_path / "out")
    assert [path.name for path in paths] == ["comparison.html", "comparison.md", "comparison.json"]
    content = strict(paths[2].read_text())
    assert content["format"] == "septuagint-comparison" and content["names"] == ["a/news", "b/news"]
    assert [run["answers"][0]["id"] for run in content["runs"]] == ["duration", "duration"]
    comparison = make_comparison(runs)
    assert comparison_json(comparison)["differences"] == content["differences"]
    print_comparison(comparison)
    out = capsys.readouterr().out
    assert all(len(line) <= 80 for line in out.splitlines())
    assert "a/news: en → de" in out and comparison.reports[0].answers[0].question in out
    record = comparison.reports[0].record
    best = max(look.bleu for look in (*record.validations, *record.averages))
    assert out.count(f"best BLEU {best:.1f}") == 2
    assert "    devices: Tesla V100 (a/news), Tesla T4 (b/news)" in out.splitlines()


def test_one_run_is_not_compared_with_itself(tmp_path):
    run = write_run(tmp_path / "run")
    with pytest.raises(UserError, match="two different run folders"):
        make_comparison([run, run])
