"""A run that is stopped, killed or extended ends bit for bit where an undisturbed one ends."""

import functools
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from septuagint.data.order import EpochOrder
from septuagint.errors import ConfigError
from septuagint.telemetry.events import read_events, record_path
from septuagint.training import loop
from septuagint.training.checkpoint import (
    checkpoint_path,
    find_checkpoints,
    load_checkpoint,
    load_weights,
    write_checkpoint,
)
from septuagint.training.validation import Validation
from tests.training.conftest import terminate


@pytest.fixture
def during_validation(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets a signal come when a validation has begun, once; named by its step and its weights."""

    def arrange(*names: str) -> None:
        waiting = set(names)
        validate = loop.Loop.validate_weights

        def watched(self: loop.Loop, weights: str) -> Validation | None:
            if (name := f"{self.progress.step} {weights.split()[0]}") in waiting:
                waiting.remove(name)
                terminate()
            return validate(self, weights)

        monkeypatch.setattr(loop.Loop, "validate_weights", watched)

    return arrange


def test_a_signal_during_any_step_changes_nothing(tiny, undisturbed, during_step):
    expected_data = during_step({})
    tiny.train(run="undisturbed")
    stops = (1, 4, 5, 7, 12)
    data = during_step(dict.fromkeys(stops, terminate))
    for step in stops:
        outcome = tiny.train()
        assert (outcome.reason, outcome.received, outcome.progress.step) == ("signal", signal.SIGTERM, step)
        assert load_checkpoint(checkpoint_path(tiny.run_path("run"), step)).step == step
    assert tiny.train().reason == "max_steps"
    assert tiny.result() == undisturbed.result()
    assert tiny.scores() == undisturbed.scores()
    assert data == expected_data


def test_a_validation_broken_off_by_a_signal_is_made_up_for(tiny, undisturbed, during_validation):
    broken_off = ("4 current", "8 current", "12 current", "12 average")
    during_validation(*broken_off)
    for name in broken_off:
        outcome = tiny.train()
        assert (outcome.reason, outcome.progress.step) == ("signal", int(name.split()[0]))
    assert tiny.train().reason == "max_steps"
    assert tiny.result() == undisturbed.result()
    assert tiny.scores() == undisturbed.scores()
    assert tiny.train().was_finished


@pytest.mark.parametrize(
    "settings",
    [
        ["training.ema_decay=0.9"],
        ["training.optimizer=muon", "training.weight_decay=0.1"],
        ["training.precision=bf16", "data.train.0.weight=1.7"],
        ["model.preset=base", "model.dropout=0.3", "training.tokens_per_step=64", "training.weight_decay=0.1"],
    ],
)
def test_whatever_is_set_a_stopped_run_goes_on_bit_for_bit(tiny, during_step, settings):
    tiny.train(*settings, run="undisturbed")
    during_step(dict.fromkeys((2, 7), terminate))
    for _ in range(3):
        tiny.train(*settings)
    assert len(attempts(tiny.run_path("run"))) == 3
    assert tiny.result() == tiny.result("undisturbed")


def attempts(run: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads((run / "environment.json").read_bytes())["attempts"]
    return found


def has_reached(record: Path, attempt: int, step: int) -> bool:
    return any(event["attempt"] == attempt and event.get("step", 0) >= step for event in read_events(record))


def test_a_run_killed_again_and_again_ends_where_an_undisturbed_one_ends(tiny, undisturbed):
    generator = random.Random(1)
    record = record_path(tiny.run_path("run"), 0)
    for number, step in enumerate((2, 3, 6, 8, 11, 12), start=1):
        program = tiny.start()
        program.wait_until(functools.partial(has_reached, record, number, step))
        time.sleep(generator.uniform(0, 0.03))
        program.signal(signal.SIGKILL)
        assert program.wait() == -signal.SIGKILL
    tiny.train()
    assert tiny.result() == undisturbed.result()
    assert tiny.scores() == undisturbed.scores()
    assert not list(tiny.run_path("run").rglob(".*"))


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGUSR1, 0)])
def test_a_signal_ends_the_program_after_the_step_with_everything_saved(tiny, number, exit_code):
    program = tiny.start("training.max_steps=100000", options=("--json",))
    program.wait_until(lambda: "step 2 " in program.stderr)
    program.signal(number)
    assert program.wait() == exit_code
    assert "stopped at step" in program.stderr
    assert "the same command goes on from here" in program.stderr
    result = json.loads(program.stdout)
    assert (result["reason"], result["was_finished"]) == ("signal", False)
    assert load_checkpoint(checkpoint_path(tiny.run_path("run"), result["step"])).step == result["step"]
    (attempt,) = attempts(tiny.run_path("run"))
    assert (attempt["outcome"], attempt["end_step"]) == ("signal", result["step"])


def test_a_step_under_way_is_finished_and_a_second_signal_does_not_wait(tiny):
    slow_steps = ["training.tokens_per_step=9600", "training.max_steps=100", "training.log_every=1"]  # of 150 packs
    programs = {run: tiny.start(*slow_steps, run=run) for run in ("patient", "impatient")}
    for run, program in programs.items():
        program.wait_until(functools.partial(tiny.events, run, "train"))
    time.sleep(0.2)
    for program in programs.values():
        program.signal(signal.SIGTERM)
    time.sleep(0.1)
    programs["impatient"].signal(signal.SIGTERM)
    assert programs["impatient"].wait() == -signal.SIGTERM
    assert not find_checkpoints(tiny.run_path("impatient"))
    assert programs["patient"].wait() == 143
    ((step, _),) = find_checkpoints(tiny.run_path("patient"))
    assert step == tiny.events("patient", "stop")[0]["step"] == len(tiny.events("patient", "train"))


def test_a_run_killed_before_its_first_checkpoint_begins_again(tiny, undisturbed):
    never = [f"training.{name}=100000" for name in ("max_steps", "validate_every", "checkpoint_every")]
    program = tiny.start(*never)
    program.wait_until(functools.partial(tiny.events, "run", "train"))
    program.signal(signal.SIGKILL)
    program.wait()
    assert not find_checkpoints(tiny.run_path("run"))
    tiny.train()
    assert [attempt["start_step"] for attempt in attempts(tiny.run_path("run"))] == [0, 0]
    assert tiny.result() == undisturbed.result()


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGTERM, 143), (signal.SIGUSR1, 0)])
def test_a_signal_before_anything_is_begun_ends_the_program_at_once(tiny, number, exit_code):
    command = [sys.executable, "-m", "septuagint.cli", "train", tiny.config_path, "--run", tiny.run_path("run")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while "libtorch" not in Path(f"/proc/{process.pid}/maps").read_text():
            time.sleep(0.01)
        process.send_signal(number)
        assert process.stderr is not None
        assert process.stderr.read() == "\nstopped; run the same command again to go on\n"
    assert process.returncode == exit_code


def test_a_finished_run_says_so_in_seconds_and_writes_nothing(tiny):
    # The last checkpoint is due before the last validation, which is not the best.
    settings = ["training.max_steps=9", "training.best_metric=bleu", "training.validate_every=5"]
    first = tiny.train(*settings)
    before = tiny.content()
    begin = time.monotonic()
    again = tiny.train(*settings)
    assert time.monotonic() - begin < 5
    assert (again.was_finished, again.reason, again.best) == (True, "max_steps", first.best)
    assert tiny.content() == before
    for _ in range(2):  # the first one finds no report, and makes it
        program = tiny.command(*settings, options=())
        assert program.exit_code == 0
        assert program.stdout.startswith("finished: all steps are done (nothing was left to do)\nstep 9, ")
        reports = {name: content for name, content in tiny.content().items() if name.startswith("report.")}
        before |= reports if not before.keys() & reports.keys() else {}
        assert tiny.content() == before


def test_an_extended_run_ends_where_one_ends_that_was_as_long_from_the_start(tiny):
    """Also where the average was the best of the shorter run: it is no step of the longer one."""
    metric = "training.best_metric=chrf"
    assert tiny.train(metric).best.weights == "average of 4 checkpoints"
    assert (tiny.run_path("run") / "best").readlink() == Path("checkpoints/averaged")
    tiny.train(metric, "training.max_steps=16")
    tiny.train(metric, "training.max_steps=16", run="long")
    assert tiny.result(step=16) == tiny.result("long", step=16)


def test_a_kill_between_a_checkpoint_and_its_link_leaves_the_right_best(tiny, undisturbed):
    tiny.train("training.max_steps=8")
    best = tiny.run_path("run") / "best"
    best.unlink()
    tiny.train()
    assert tiny.result() == undisturbed.result()
    best.unlink()
    assert tiny.train().was_finished
    assert best.readlink() == Path("checkpoints/step-00000012")


def test_how_often_things_are_done_may_change(tiny, undisturbed):
    tiny.train("training.max_steps=5", "training.validate_every=2", "training.checkpoint_every=1")
    tiny.train("training.log_every=1", "training.sample_every=3", "training.patience=7", "training.max_hours=1")
    assert tiny.result()["weights"] == undisturbed.result()["weights"]


def test_what_would_alter_updates_already_made_is_refused_with_the_difference(tiny):
    tiny.train("training.max_steps=3")
    before = tiny.content()
    with pytest.raises(ConfigError) as caught:
        tiny.train("training.tokens_per_step=256", "model.dropout=0.2", "data.train.0.weight=2")
    assert str(caught.value).splitlines()[1:4] == [
        "  data.train.train.weight: 1.0 in the run, 2.0 now",
        "  model.dropout: 0.1 in the run, 0.2 now",
        "  training.tokens_per_step: 128 in the run, 256 now",
    ]
    assert tiny.content() == before


def test_another_number_of_threads_is_warned_of(tiny, monkeypatch):
    tiny.train("training.max_steps=3")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    tiny.train("training.max_steps=4")
    (warning,) = tiny.events(kind="warning")
    assert warning["message"].startswith("this attempt has 2 threads, the last one had 1: the result will differ")


def test_another_precision_is_warned_of(tiny):
    """As if the first attempt had been on a GPU."""
    tiny.train("training.max_steps=3")
    environment = tiny.run_path("run") / "environment.json"
    environment.write_text(environment.read_text().replace('"precision": "fp32"', '"precision": "bf16"'))
    tiny.train("training.max_steps=4")
    (warning,) = tiny.events(kind="warning")
    assert warning["message"].startswith("this attempt computes in fp32, the last one in bf16")


def test_a_finished_run_averages_anew_where_another_number_is_asked_for(tiny):
    tiny.train()
    assert tiny.train().was_finished
    assert not tiny.train("training.average_checkpoints=2").was_finished
    assert tiny.train("training.average_checkpoints=2").was_finished
    state = load_weights(tiny.run_path("run") / "checkpoints" / "averaged").state
    assert len(state["of_steps"]) == 2
    none = tiny.train("training.average_checkpoints=0")
    assert none.was_finished
    assert not none.best.is_average


def test_a_damaged_checkpoint_is_left_out_of_the_average_and_the_run_is_finished_all_the_same(tiny):
    tiny.train("training.average_checkpoints=0")
    (checkpoint_path(tiny.run_path("run"), 6) / "model.safetensors").write_bytes(b"")
    tiny.train()
    (warning,) = tiny.events(kind="warning")
    assert warning["message"].startswith("left out of the average: ")
    assert tiny.train().was_finished


def test_going_on_at_step_1_000_000_takes_the_work_of_going_on_at_step_9(tiny, undisturbed, during_step, monkeypatch):
    near = load_checkpoint(checkpoint_path(undisturbed.run_path("run"), 9))
    far = {"step": 1_000_000, "cursor": {**near.state["cursor"], "block": 40_000}}
    for run, state in (("near", near.state), ("far", near.state | far)):
        write_checkpoint(tiny.run_path(run), state["step"], near.weights, near.optimizer, state)
    pairs = EpochOrder.pairs
    num_planned: list[int] = []

    def watched(order: EpochOrder, start: int, stop: int):
        num_planned.append(stop - start)
        return pairs(order, start, stop)

    monkeypatch.setattr(EpochOrder, "pairs", watched)
    work = []
    for run, step in (("near", 10), ("far", 1_000_001)):
        num_planned.clear()
        during_step({step: lambda: work.append(list(num_planned))})
        outcome = tiny.train(f"training.max_steps={step}", run=run)
        assert outcome.progress.step == step
    assert work[0] == work[1]
    assert len(work[0]) == 1
