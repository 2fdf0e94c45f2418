"""A project that is trained in a second or two: a toy language, a tiny network, and ways to train and to disturb it."""

import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil
import pytest

from septuagint import cli
from septuagint.batch import Microbatch
from septuagint.config_file import load_config
from septuagint.data.files import hash_file
from septuagint.telemetry.events import latest, read_events, record_path
from septuagint.training import loop
from septuagint.training.checkpoint import checkpoint_path, load_weights
from septuagint.training.checkpoint_files import MODEL
from septuagint.training.step import StepResult, Training, train_step
from septuagint.training.train import Outcome, train
from tests.data import conftest
from tests.data.conftest import Project

small_disk = conftest.small_disk
no_process_left = conftest.no_process_left

WORDS = {
    "one": "eins", "two": "zwei", "three": "drei", "four": "vier", "red": "rot", "blue": "blau", "dog": "Hund",
    "cat": "Katze", "bird": "Vogel", "house": "Haus", "tree": "Baum", "sun": "Sonne",
}  # fmt: skip
SETTINGS = {
    "vocabulary.size": 330,
    "filters.overlap": False,
    "model.preset": "modern",
    "model.width": 32,
    "model.num_heads": 2,
    "model.feedforward_width": 64,
    "model.num_encoder_layers": 1,
    "model.num_decoder_layers": 1,
    "training.max_steps": 12,
    "training.tokens_per_step": 128,
    "training.microbatch_tokens": 64,
    "training.validate_every": 4,
    "training.checkpoint_every": 3,
    "training.log_every": 2,
    "training.beam_size": 1,
    "training.sample_every": 6,
    "training.learning_rate": 0.01,
    "training.warmup_steps": 10,
    "training.best_metric": "loss",
}

# Children of a process that has torch already start at once; they are real processes, to be signalled and killed.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["septuagint.training.train", "tests.training.conftest"])


def toy_text(num_lines: int, seed: int) -> tuple[list[str], list[str]]:
    """Sentences of three to five words, translated word by word."""
    generator = random.Random(seed)
    lines = [generator.choices(list(WORDS), k=generator.randint(3, 5)) for _ in range(num_lines)]
    return [" ".join(line) for line in lines], [" ".join(WORDS[word] for word in line) + " ." for line in lines]


class Tiny:
    """A prepared project; runs are folders beside its configuration, by name."""

    def __init__(self, root: Path, config_path: Path) -> None:
        self.root, self.config_path = root, config_path
        self._streams = root

    @property
    def data(self) -> Path:
        return self.config_path.parent / "out"

    def run_path(self, run: str) -> Path:
        return self.root / "runs" / run

    def train(self, *overrides: str, run: str = "run") -> Outcome:
        """Trains in this process, with `--set` overrides."""
        config = load_config(self.config_path, overrides)
        return train(
            config, config_path=self.config_path, run_path=self.run_path(run), overrides=overrides, is_quiet=True
        )

    def start(
        self, *overrides: str, run: str = "run", options: tuple[str, ...] = ("--quiet",), **settings: Any
    ) -> "Program":
        """`septuagint train` in a process of its own."""
        sets = [argument for override in overrides for argument in ("--set", override)]
        arguments = ["train", str(self.config_path), "--run", str(self.run_path(run)), *sets, *options]
        return Program(self._streams, arguments, **settings)

    def command(self, *overrides: str, **settings: Any) -> "Program":
        """The same, until its end."""
        program = self.start(*overrides, **settings)
        program.wait()
        return program

    def result(self, run: str = "run", step: int = 12) -> dict[str, Any]:
        """All that must not depend on how often a run was disturbed."""
        path = self.run_path(run)
        state = load_weights(checkpoint_path(path, step)).state
        best = load_weights(path)
        averaged = path / "checkpoints" / "averaged" / MODEL
        return {
            "weights": hash_file(checkpoint_path(path, step) / MODEL),
            "optimizer": hash_file(checkpoint_path(path, step) / "optimizer.safetensors"),
            "validations": state["validations"],
            "counters": {name: state[name] for name in ("cursor", "epochs", "num_pairs", "num_target_tokens")},
            "averaged": hash_file(averaged) if averaged.exists() else None,
            "best": (best.path.name, best.step, hash_file(best.path / MODEL)),
        }

    def scores(self, run: str = "run") -> list[dict[str, Any]]:
        """Every validation on record."""
        events = self.events(run, "validation")
        return [{key: event[key] for key in event if key not in ("time", "attempt", "seconds")} for event in events]

    def events(self, run: str = "run", kind: str | None = None) -> list[dict[str, Any]]:
        """The record, steps that were done again left out."""
        found = latest(read_events(record_path(self.run_path(run), 0)))
        return [event for event in found if kind in (None, event["event"])]

    def content(self, run: str = "run") -> dict[str, bytes]:
        """Every file of a run; the lock names the process that looked last."""
        path = self.run_path(run)
        files = [file for file in sorted(path.rglob("*")) if file.is_file() and file.name != "lock"]
        return {str(file.relative_to(path)): file.read_bytes() for file in files}


class Program:
    """`septuagint` with arguments, started, signalled and waited for as a shell would."""

    def __init__(
        self, folder: Path, arguments: list[str], *, terminal: Path | None = None, spare_bytes: int | None = None
    ) -> None:
        """Standard error goes to the `terminal`, if there is one; `spare_bytes` is the memory that may be taken."""
        self._streams = [folder / f"{time.monotonic_ns()}.{name}" for name in ("out", "err")]
        for path in self._streams:
            path.touch()
        streams = self._streams[0], terminal or self._streams[1]
        self._process: BaseProcess = _PROCESSES.Process(
            target=_run_cli, args=(arguments, dict(os.environ), streams, spare_bytes)
        )
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def stdout(self) -> str:
        return self._streams[0].read_text()

    @property
    def stderr(self) -> str:
        return self._streams[1].read_text()

    @property
    def exit_code(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float = 60) -> int:
        self._process.join(timeout)
        assert self.exit_code is not None, "it does not end"
        return self.exit_code

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait_until(self, is_so: Callable[[], object]) -> None:
        """Returns as soon as something is so while the program runs; fails if it ends before."""
        deadline = time.monotonic() + 60
        while not is_so():
            assert self._process.is_alive(), self.stderr
            assert time.monotonic() < deadline
            time.sleep(0.005)


def _run_cli(
    arguments: list[str], environment: dict[str, str], streams: tuple[Path, Path], spare_bytes: int | None
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, path in enumerate(streams, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOCTTY), descriptor)
    sys.stdout, sys.stderr = (os.fdopen(descriptor, "w", buffering=1, closefd=False) for descriptor in (1, 2))
    if spare_bytes is not None:
        limit = psutil.Process().memory_info().vms + spare_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    sys.argv = ["septuagint", *arguments]
    cli.main()


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's folder, for reading only."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        project = Project(tmp_path_factory.mktemp("tiny") / "project", monkeypatch)
        project.settings |= SETTINGS
        for split, num_lines, seed in (("train", 120, 1), ("valid", 8, 2), ("test", 8, 3)):
            source, target = toy_text(num_lines, seed)
            project.write(f"{split}.en", source)
            project.write(f"{split}.de", target)
            project.add(split, source=f"{split}.en", target=f"{split}.de")
        project.prepare()
        return project.root


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of threads decides the last digits; one is enough for a tiny network."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def tiny(prepared: Path, tmp_path: Path) -> Tiny:
    return Tiny(tmp_path, prepared / "config.toml")


@pytest.fixture
def own_tiny(prepared: Path, tmp_path: Path) -> Tiny:
    """With text and data folder of its own, to be damaged."""
    shutil.copytree(prepared, tmp_path / "project")
    return Tiny(tmp_path, tmp_path / "project" / "config.toml")


def terminate() -> None:
    """The signal comes at once: it is this process that sends it."""
    os.kill(os.getpid(), signal.SIGTERM)


DuringStep = Callable[[dict[int, Callable[[], object]]], dict[int, bytes]]


@pytest.fixture
def during_step(monkeypatch: pytest.MonkeyPatch) -> DuringStep:
    """Lets things happen while certain steps are made, once each; gives back what every step has read."""

    def arrange(events: dict[int, Callable[[], object]]) -> dict[int, bytes]:
        waiting, data = dict(events), {}

        def watched(training: Training, microbatches: tuple[Microbatch, ...], step: int, **options: Any) -> StepResult:
            data[step] = b"".join(microbatch.batch.labels_T.numpy().tobytes() for microbatch in microbatches)
            waiting.pop(step, lambda: None)()
            return train_step(training, microbatches, step, **options)

        monkeypatch.setattr(loop, "train_step", watched)
        return data

    return arrange


@pytest.fixture(scope="session")
def undisturbed(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiny]:
    """A finished run, for reading and copying only."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        tiny = Tiny(tmp_path_factory.mktemp("undisturbed"), prepared / "config.toml")
        tiny.train()
        yield tiny
