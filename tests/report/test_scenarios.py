"""Real trainings with a planted cause, whose report names it, and the same without, whose report does not.

What cannot be had here is imitated: a slow disk by files that take their time to be written, a starved loader by a
thread that takes its time, a slow machine by a rank that sleeps while it computes. The links are real.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from septuagint.data.loader import Loader
from septuagint.report.answer import Answer
from septuagint.report.report import make_report
from septuagint.training import checkpoint_writer, loop
from septuagint.training.checkpoint import write_checkpoint
from tests.conftest import need_tool
from tests.data.conftest import Project
from tests.distributed.conftest import hosts_possible
from tests.distributed.faulty import LAG_SECONDS
from tests.distributed.scenarios import Trial, make_project, open_trial
from tests.training import conftest
from tests.training.conftest import SETTINGS, Tiny, toy_text

__all__ = ["hosts_possible"]
prepared, tiny, one_thread, during_step = conftest.prepared, conftest.tiny, conftest.one_thread, conftest.during_step

pytestmark = pytest.mark.slow


def answers(run: Path) -> dict[str, Answer]:
    return {answer.id: answer for answer in make_report(run).answers}


def evidence(answer: Answer) -> dict[str, Any]:
    return {figure.name: figure.value for figure in answer.evidence}


# Validation and checkpoints are rare. A step takes milliseconds, or as many more as others use the machine: what is
# planted takes much longer.
CALM = ("training.max_steps=60", "training.validate_every=60", "training.checkpoint_every=60", "training.log_every=20")


@pytest.fixture(scope="module")
def calm(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answer]:
    """The control: nothing is wrong."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        quiet = Tiny(tmp_path_factory.mktemp("calm"), prepared / "config.toml")
        quiet.train(*CALM)
    return answers(quiet.run_path("run"))


def test_nothing_is_named_where_nothing_is_wrong(calm):
    assert calm["bottleneck"].verdict == "compute"
    assert calm["network_bottleneck"].verdict == "no"
    assert calm["incidents"].verdict == "none"


def test_a_starved_loader(tiny: Tiny, monkeypatch: pytest.MonkeyPatch):
    build = Loader._build

    def slowly(self: Loader, *arguments: Any) -> Any:
        time.sleep(0.1)
        return build(self, *arguments)

    monkeypatch.setattr(Loader, "_build", slowly)
    tiny.train(*CALM)
    found = answers(tiny.run_path("run"))
    assert found["bottleneck"].verdict == "data", found["bottleneck"]
    assert evidence(found["bottleneck"])["data_share"] > 50


def test_checkpoints_on_a_slow_disk(tiny: Tiny, monkeypatch: pytest.MonkeyPatch):
    def slowly(*arguments: Any) -> Any:
        time.sleep(1.5)
        return write_checkpoint(*arguments)

    monkeypatch.setattr(checkpoint_writer, "write_checkpoint", slowly)
    tiny.train(*CALM, "training.checkpoint_every=10")
    found = answers(tiny.run_path("run"))
    assert found["bottleneck"].verdict == "checkpoints"
    assert "checkpoint_every" in found["bottleneck"].would_change


def test_validation_too_often(tiny: Tiny):
    tiny.train(*CALM, "training.validate_every=1")
    found = answers(tiny.run_path("run"))
    assert found["bottleneck"].verdict == "validation"
    assert "validate_every" in found["bottleneck"].would_change


def test_a_step_that_is_not_a_number(tiny: Tiny, calm, monkeypatch: pytest.MonkeyPatch):
    make_step = loop.train_step

    def spoilt(training: Any, microbatches: Any, step: int, **options: Any) -> Any:
        weight = next(iter(training.model.parameters()))
        hook = weight.register_hook(lambda gradient: gradient * float("nan")) if step == 33 else None
        result = make_step(training, microbatches, step, **options)
        if hook is not None:
            hook.remove()
        return result

    monkeypatch.setattr(loop, "train_step", spoilt)
    tiny.train(*CALM)
    found = answers(tiny.run_path("run"))["incidents"]
    assert found.verdict != "none"
    assert "33" in found.sentence
    assert "skip" in found.sentence


def test_a_killed_and_resumed_run(tiny: Tiny, calm):
    settings = (*CALM, "training.max_steps=4000", "training.checkpoint_every=25", "training.validate_every=4000")
    program = tiny.start(*settings)
    program.wait_until(lambda: any(event["step"] >= 60 for event in tiny.events(kind="train")))
    os.kill(program.pid, signal.SIGKILL)
    program.wait()
    tiny.train(*settings, "training.max_steps=300")
    found = answers(tiny.run_path("run"))
    figures = evidence(found["duration"])
    assert figures["num_attempts"] == 2
    assert "killed" in found["incidents"].sentence
    assert evidence(calm["duration"])["num_attempts"] == 1
    table = make_report(tiny.run_path("run")).record.steps[0]
    assert table.step.tolist() == list(range(1, 301))


def make_learner(root: Path, monkeypatch: pytest.MonkeyPatch, *, num_pairs: int, **settings: Any) -> Project:
    """A project whose words are many: what was not in the training text cannot be known."""
    project = Project(root / "learner", monkeypatch)
    project.settings |= SETTINGS | {
        "vocabulary.size": 400,
        "model.width": 64,
        "model.feedforward_width": 256,
        "model.dropout": 0.0,
        "training.learning_rate": 0.003,
        "training.warmup_steps": 20,
        "training.tokens_per_step": 1024,
        "training.microbatch_tokens": 1024,
        "training.log_every": 25,
        "training.sample_every": 100_000,
        "training.checkpoint_every": 100_000,
    }
    project.settings |= settings
    generator = random.Random(5)
    words = {}
    while len(words) < 300:
        word = "".join(generator.choices("bdfgklmnprst", k=1) + generator.choices("aeiou", k=1) * 1) * 1
        word += "".join(generator.choices("abdefgiklmnoprstu", k=generator.randint(2, 5)))
        words[word] = "".join(generator.choices("abdefgiklmnoprstuz", k=generator.randint(3, 7)))
    for split, number in (("train", num_pairs), ("valid", 20)):
        lines = [generator.choices(list(words), k=generator.randint(3, 7)) for _ in range(number)]
        project.write(f"{split}.en", [" ".join(line) for line in lines])
        project.write(f"{split}.de", [" ".join(words[word] for word in line) for line in lines])
        project.add(split, source=f"{split}.en", target=f"{split}.de")
    project.prepare()
    return project


def train_learner(project: Project, *overrides: str) -> dict[str, Answer]:
    learner = Tiny(project.root, project.root / "config.toml")
    learner.train(*overrides)
    return answers(learner.run_path("run"))


def test_overfitting_on_200_pairs_and_not_on_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    few = make_learner(tmp_path / "few", monkeypatch, num_pairs=200)
    found = train_learner(few, "training.max_steps=700", "training.validate_every=70")["overfitting"]
    assert found.verdict == "yes", found
    many = make_learner(tmp_path / "many", monkeypatch, num_pairs=20_000)
    found = train_learner(many, "training.max_steps=50", "training.validate_every=10")["overfitting"]
    assert found.verdict == "no", found


def test_a_run_that_was_stopped_far_too_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    project = make_learner(tmp_path, monkeypatch, num_pairs=20_000)
    found = train_learner(project, "training.max_steps=48", "training.validate_every=8")
    assert found["fully_trained"].verdict == "no", found["fully_trained"]


def test_a_run_that_has_converged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The toy language of twelve words: there is nothing left to learn after some hundred steps."""
    project = Project(tmp_path / "toy", monkeypatch)
    project.settings |= SETTINGS | {
        "model.width": 64,
        "model.num_heads": 4,
        "model.feedforward_width": 128,
        "training.learning_rate": 0.006,
        "training.warmup_steps": 60,
        "training.tokens_per_step": 512,
        "training.microbatch_tokens": 512,
    }
    for split, number, seed in (("train", 3000, 1), ("valid", 40, 2)):
        source, target = toy_text(number, seed)
        project.write(f"{split}.en", source)
        project.write(f"{split}.de", target)
        project.add(split, source=f"{split}.en", target=f"{split}.de")
    project.prepare()
    found = train_learner(
        project,
        *("training.max_steps=600", "training.validate_every=40", "training.checkpoint_every=100000"),
        *("training.sample_every=100000", "training.log_every=50"),
    )
    assert found["fully_trained"].verdict == "yes", found["fully_trained"]
    assert found["overfitting"].verdict == "no", found["overfitting"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("cluster") / "project")


def train_on_hosts(
    project: Path, folder: Path, prepare: Callable[[Trial], None] = lambda trial: None, fault: str | None = None
) -> dict[str, Answer]:
    """A training by two ranks, each on a host of its own."""
    need_tool("mpirun")
    with open_trial(project, folder, "shared", max_steps=30) as trial:
        prepare(trial)
        settings = [
            f"--set=training.{name}" for name in ("log_every=10", "validate_every=1000", "checkpoint_every=1000")
        ]
        program = trial.command(*settings)
        if fault is not None:
            program = [sys.executable, "-m", "tests.distributed.faulty", fault, *trial.arguments(*settings)]
        assert trial.wait_for_exit([trial.mpirun(program)]) == [0], trial.output
        return answers(trial.run)


@pytest.fixture(scope="module")
def even(project: Path, tmp_path_factory: pytest.TempPathFactory, hosts_possible: None) -> dict[str, Answer]:
    """The control: two hosts that are alike, and a link without a limit."""
    return train_on_hosts(project, tmp_path_factory.mktemp("even") / "trial")


def test_a_link_of_20_megabits(project: Path, tmp_path: Path, even: dict[str, Answer]):
    def limit(trial: Trial) -> None:
        for host in trial.testbed.hosts:
            host.limit("20mbit")

    found = train_on_hosts(project, tmp_path / "slow", limit)
    network = found["network_bottleneck"]
    assert (network.verdict, found["bottleneck"].verdict) == ("yes", "network")
    figures = evidence(network)
    assert 15e6 < figures["capacity_bits_per_second"] < 25e6
    assert figures["bytes_per_step"] == pytest.approx(figures["expected_bytes_per_step"], rel=0.2)
    assert figures["link_use"] > 60
    assert even["network_bottleneck"].verdict != "yes", even["network_bottleneck"]
    assert even["bottleneck"].verdict != "network"


def test_a_slow_rank_is_named(project: Path, tmp_path: Path, even: dict[str, Answer]):
    found = train_on_hosts(project, tmp_path / "slow", fault="slow@1:1")
    assert found["bottleneck"].verdict == "slow_rank"
    assert "rank 1" in found["bottleneck"].sentence and "beta" in found["bottleneck"].sentence
    assert "rank 1" in found["incidents"].sentence
    assert found["network_bottleneck"].verdict != "yes"
    figures = evidence(found["bottleneck"])
    step = evidence(found["step_time"])["mean_seconds"]
    assert figures["slow_rank_share"] / 100 * step == pytest.approx(LAG_SECONDS, rel=0.35)
    assert even["bottleneck"].verdict != "slow_rank"
