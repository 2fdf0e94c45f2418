"""Accidents: a training across emulated hosts is disturbed in one way, and what became of it is measured.

A `Trial` is a small training on a testbed, with run and data folders that every host has for itself, or that all
share. Each scenario starts it, does the damage in the midst of a step, waits for the end, and returns a `Result`.
Times are taken from the record of the run, and from what the ranks say.
"""

import contextlib
import hashlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from septuagint.data.files import hash_file
from septuagint.telemetry.events import Event, latest, read_events, record_path
from septuagint.training.checkpoint import checkpoint_path
from septuagint.training.run_folder import ENVIRONMENT
from tests.distributed.testbed import NAMES, Host, Testbed

Disks = Literal["own", "shared"]

MAX_STEPS = 50
CHECKPOINT_EVERY = 10
TIMEOUT_SECONDS = 15.0
# In the midst between two checkpoints, so that there are steps to be done again.
DISTURBED_STEP = 25
PATIENCE_SECONDS = 180.0
SEPTUAGINT = str(Path(sys.executable).with_name("septuagint"))
TORCHRUN = str(Path(sys.executable).with_name("torchrun"))

# Of ranks that stop, of mpirun, and of the parent of --workers: whoever is first.
_SIGNS = ("error: ", "mpirun noticed", "warning: a rank was")
_WORDS = "one two three four red blue dog cat bird house tree sun".split()
_SETTINGS = f"""
[vocabulary]
size = 320

[filters]
overlap = false

[model]
preset = "modern"
width = 64
num_heads = 2
feedforward_width = 256
num_encoder_layers = 1
num_decoder_layers = 1

[training]
max_steps = {MAX_STEPS}
tokens_per_step = 768
microbatch_tokens = 64
validate_every = 20
checkpoint_every = {CHECKPOINT_EVERY}
log_every = 1
beam_size = 1
sample_every = 1000
learning_rate = 0.01
warmup_steps = 10
best_metric = "loss"
timeout_minutes = {TIMEOUT_SECONDS / 60}

[data]
folder = "out"
source_language = "en"
target_language = "de"
"""


def make_project(root: Path) -> Path:
    """Writes a small corpus and its configuration, and prepares them."""
    root.mkdir(parents=True, exist_ok=True)
    config = _SETTINGS
    for seed, (split, num_lines) in enumerate((("train", 400), ("valid", 8), ("test", 8))):
        generator = random.Random(seed)
        lines = [generator.choices(_WORDS, k=generator.randint(3, 6)) for _ in range(num_lines)]
        (root / f"{split}.en").write_text("".join(" ".join(line) + "\n" for line in lines))
        (root / f"{split}.de").write_text("".join(" ".join(word[::-1] for word in line) + " .\n" for line in lines))
        config += f'\n[[data.{split}]]\nsource = "{split}.en"\ntarget = "{split}.de"\n'
    (root / "config.toml").write_text(config)
    command = [SEPTUAGINT, "prepare", root / "config.toml", "--workers", "1", "--quiet"]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return root


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What became of a training. The seconds count from the fault; None where there was nothing to detect."""

    name: str
    disks: Disks
    detected_seconds: float | None  # until the first rank that is left says so
    resumed_seconds: float  # until the first step is made again
    steps_redone: int  # because of the fault
    hash: str  # of the final weights and the memory of the optimizer
    attempts: list[dict[str, Any]]
    output: str  # of all ranks and launchers
    events: list[Event]  # the record of rank 0

    @property
    def world_sizes(self) -> list[int]:
        return [attempt["world_size"] for attempt in self.attempts]

    @property
    def losses(self) -> dict[int, float]:
        """Of each step, as it was made last: they tell whether the batches were the same."""
        train = [event for event in latest(self.events) if event["event"] == "train"]
        return {event["step"]: event["loss_nats_per_token"] for event in train}


class Trial:
    """A training to be disturbed. Its files lie in a folder of its own."""

    def __init__(self, testbed: Testbed, folder: Path, disks: Disks, max_steps: int) -> None:
        self.testbed, self.disks, self.max_steps = testbed, disks, max_steps
        self.config, self.run, self.data = folder / "config.toml", folder / "run", folder / "out"
        self.output_path = folder / "output.txt"
        self.output_path.touch()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._fault: float | None = None
        self._detected: float | None = None

    @property
    def alpha(self) -> Host:
        return self.testbed.hosts[0]

    @property
    def beta(self) -> Host:
        return self.testbed.hosts[1]

    @property
    def output(self) -> str:
        return self.output_path.read_text(errors="replace")

    def folder_of(self, host: Host) -> Path:
        """The run folder that a host sees."""
        return host.private(self.run) if self.disks == "own" else self.run

    def command(self, *options: str) -> list[str]:
        """One thread: the number of threads has a say in the last digits."""
        return [SEPTUAGINT, *self.arguments(*options)]

    def arguments(self, *options: str) -> list[str]:
        settings = f"--threads=1 --set=training.max_steps={self.max_steps}".split()
        return ["train", str(self.config), "--run", str(self.run), *settings, *options]

    def start(
        self, host: Host, command: Sequence[str], env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        process = host.start(command, output=self.output_path, env=env)
        self._processes.append(process)
        return process

    def torchrun(self, host: Host, *, nodes: str = "1:2") -> subprocess.Popen[bytes]:
        """One host's launcher. Without `--`, torchrun would take --run for a short form of an option of its own."""
        line = (
            f"--nnodes={nodes} --nproc-per-node=1 --max-restarts=10 --rdzv-backend=c10d --rdzv-id=trial "
            f"--rdzv-endpoint={self.alpha.name}:29400 --rdzv-conf=last_call_timeout=5,keep_alive_interval=1"
        )
        words = [TORCHRUN, *line.split(), "--no-python", "--", *self.command()]
        return self.start(host, words, {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})

    def torchrun_everywhere(self, *, nodes: str = "1:2") -> list[subprocess.Popen[bytes]]:
        return [self.torchrun(host, nodes=nodes) for host in self.testbed.hosts]

    def mpirun(self, program: Sequence[str] | None = None) -> subprocess.Popen[bytes]:
        """One rank on each host, started from the first; of the training, or of another program."""
        words = self.testbed.mpirun_command(self.testbed.hosts, 1, program or self.command())
        return self.start(self.alpha, words)

    def pid_of(self, rank: int) -> int:
        """The process that is a rank, wherever it runs; its number outside of the hosts."""
        for host in self.testbed.hosts:
            for pid in host.pids():
                if _rank_of(pid) == rank:
                    return pid
        raise AssertionError(f"rank {rank} does not run:\n{self.output}")

    def kill(self, rank: int, number: signal.Signals = signal.SIGKILL) -> None:
        os.kill(self.pid_of(rank), number)

    def events(self, rank: int = 0) -> list[Event]:
        """A rank's record, from the disk that has most of it."""
        found = [list(read_events(record_path(self.folder_of(host), rank))) for host in self.testbed.hosts]
        return max(found, key=len)

    def wait_until(self, is_so: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            assert time.monotonic() < deadline, f"waited in vain until {what}:\n{self.output}"
            self._look()
            time.sleep(0.02)

    def wait_for_step(self, step: int, attempt: int = 1) -> None:
        def is_made() -> bool:
            return any(
                event["event"] == "train" and event["step"] >= step and event["attempt"] >= attempt
                for event in self.events()
            )

        def is_over() -> bool:
            return all(process.poll() is not None for process in self._processes)

        self.wait_until(lambda: is_made() or is_over(), f"step {step} of attempt {attempt} was made")
        assert is_made(), self.output

    def wait_for_exit(self, processes: Sequence[subprocess.Popen[bytes]]) -> list[int]:
        self.wait_until(lambda: all(process.poll() is not None for process in processes), "all had ended")
        return [process.wait() for process in processes]

    @property
    def detected_seconds(self) -> float | None:
        return None if self._detected is None or self._fault is None else self._detected - self._fault

    def begin_fault(self) -> None:
        """Just before the damage is done."""
        self._fault, self._num_before = time.time(), len(self.output)
        self._num_attempts = len(self.attempts())

    def _look(self) -> None:
        """Whether somebody who is left has said something of the fault."""
        if self._fault is None or self._detected is not None:
            return
        said = self.output[self._num_before :]
        if any(sign in said for sign in _SIGNS) or any(
            event["event"] == "stop" and event["time"] > self._fault and event["reason"] != "max_steps"
            for rank in range(len(self.testbed.hosts))
            for event in self.events(rank)
        ):
            self._detected = time.time()

    def attempts(self, host: Host | None = None) -> list[dict[str, Any]]:
        """As a host's disk knows them."""
        path = self.folder_of(host or self.alpha) / ENVIRONMENT
        return list(json.loads(path.read_text())["attempts"]) if path.exists() else []

    def end(self, host: Host | None = None) -> str:
        """What the run has come to on a host's disk."""
        return hash_of(checkpoint_path(self.folder_of(host or self.alpha), self.max_steps))

    def result(self, name: str) -> Result:
        assert self._fault is not None
        events = self.events()
        train = [event for event in events if event["event"] == "train"]
        again = [event for event in train if event["attempt"] > self._num_attempts]
        before = {event["step"] for event in train if event["attempt"] <= self._num_attempts}
        resumed = again[0]["time"] if again else _end_of_longest_pause(train, self._fault)
        return Result(
            name=name,
            disks=self.disks,
            detected_seconds=self.detected_seconds,
            resumed_seconds=resumed - self._fault,
            steps_redone=len(again) - len({event["step"] for event in again} - before),
            hash=self.end(),
            attempts=self.attempts(),
            output=self.output,
            events=events,
        )


def _end_of_longest_pause(train: Sequence[Event], since: float) -> float:
    times = [since, *(event["time"] for event in train if event["time"] > since)]
    return max(itertools.pairwise(times), key=lambda pair: pair[1] - pair[0])[1]


def _rank_of(pid: int) -> int | None:
    """What its launcher told a process that trains; None for others."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        environment = dict(
            entry.split(b"=", 1) for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if b"=" in entry
        )
        rank = environment.get(b"RANK", environment.get(b"OMPI_COMM_WORLD_RANK"))
        if rank is not None and b"train" in words:
            return int(rank)
    return None


@contextlib.contextmanager
def open_trial(
    project: Path, folder: Path, disks: Disks, *, num_hosts: int = 2, max_steps: int = MAX_STEPS
) -> Iterator[Trial]:
    """Hosts, and a copy of the prepared project for them."""
    shutil.copytree(project, folder, ignore=shutil.ignore_patterns("runs"))
    private = []
    if disks == "own":
        private = [folder / "run", folder / "out"]
        shutil.rmtree(folder / "out")
    with Testbed(NAMES[:num_hosts], private=private) as testbed:
        trial = Trial(testbed, folder, disks, max_steps)
        if disks == "own":
            for host in testbed.hosts:
                shutil.copytree(project / "out", host.private(trial.data), dirs_exist_ok=True)
        yield trial


def hash_of(checkpoint: Path) -> str:
    """Of the weights and the memory of the optimizer."""
    hashes = [hash_file(checkpoint / name) for name in ("model.safetensors", "optimizer.safetensors")]
    return hashlib.sha256("".join(hashes).encode()).hexdigest()


def undisturbed(project: Path, folder: Path, num_workers: int = 2) -> tuple[str, dict[int, float]]:
    """(the hash, the loss of each step) of a world that nothing happens to."""
    run = folder / "undisturbed"
    subprocess.run(
        [SEPTUAGINT, "train", project / "config.toml", "--run", run, "--threads", "1", f"--workers={num_workers}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    losses = {
        event["step"]: event["loss_nats_per_token"]
        for event in read_events(record_path(run, 0))
        if event["event"] == "train"
    }
    return hash_of(checkpoint_path(run, MAX_STEPS)), losses


def kill_rank(trial: Trial) -> Result:
    """torchrun: a rank is killed; its launcher and the other start all again."""
    launchers = trial.torchrun_everywhere()
    trial.wait_for_step(DISTURBED_STEP)
    trial.begin_fault()
    trial.kill(1)
    assert trial.wait_for_exit(launchers) == [0, 0], trial.output
    return trial.result("kill -9 of a rank (torchrun)")


def kill_host(trial: Trial) -> Result:
    """torchrun: a host loses power; the other goes on alone."""
    first, _ = trial.torchrun_everywhere()
    trial.wait_for_step(DISTURBED_STEP)
    trial.begin_fault()
    trial.beta.kill()
    assert trial.wait_for_exit([first]) == [0], trial.output
    return trial.result("power loss of a host (torchrun 1:2)")


def host_returns(trial: Trial) -> Result:
    """torchrun: a host loses power, the other goes on alone; the host returns, and both go on together."""
    first, _ = trial.torchrun_everywhere()
    trial.wait_for_step(DISTURBED_STEP)
    trial.beta.kill()
    trial.wait_for_step(DISTURBED_STEP, attempt=2)
    trial.beta.revive()
    trial.begin_fault()
    second = trial.torchrun(trial.beta)
    assert trial.wait_for_exit([first, second]) == [0, 0], trial.output
    return trial.result("a lost host returns (torchrun 1:2)")


def kill_launcher(trial: Trial) -> Result:
    """torchrun: a launcher is killed; its rank does not outlive it, and a new launcher brings it back."""
    first, second = trial.torchrun_everywhere(nodes="2")
    trial.wait_for_step(DISTURBED_STEP)
    trial.begin_fault()
    second.kill()
    trial.wait_until(lambda: not trial.beta.pids(), "the rank had left with its launcher")
    third = trial.torchrun(trial.beta, nodes="2")
    assert trial.wait_for_exit([first, third]) == [0, 0], trial.output
    return trial.result("kill -9 of a host's torchrun, started again")


def cut_link(trial: Trial, seconds: float) -> Result:
    """torchrun: the cable of a host is taken out for a while."""
    launchers = trial.torchrun_everywhere(nodes="2")
    trial.wait_for_step(DISTURBED_STEP)
    trial.begin_fault()
    trial.beta.cut()
    mended = time.monotonic() + seconds
    trial.wait_until(lambda: time.monotonic() > mended, "the cable was mended")
    trial.beta.mend()
    assert trial.wait_for_exit(launchers) == [0, 0], trial.output
    return trial.result(f"link cut of {seconds:.0f} s (torchrun)")


def cut_link_briefly(trial: Trial) -> Result:
    return cut_link(trial, 5)


def cut_link_for_long(trial: Trial) -> Result:
    return cut_link(trial, 40)


def kill_rank_under_mpirun(trial: Trial) -> Result:
    """mpirun: a rank is killed, and with it the job; the same command goes on."""
    launcher = trial.mpirun()
    trial.wait_for_step(DISTURBED_STEP)
    trial.begin_fault()
    trial.kill(1)
    (code,) = trial.wait_for_exit([launcher])
    assert code != 0
    assert trial.wait_for_exit([trial.mpirun()]) == [0], trial.output
    return trial.result("kill -9 of a rank (mpirun, started again)")


def kill_worker(trial: Trial) -> Result:
    """`--workers 2`: a rank is killed; the parent starts all again."""
    parent = trial.start(trial.alpha, trial.command("--workers", "2"))
    trial.wait_for_step(DISTURBED_STEP)
    trial.begin_fault()
    trial.kill(1)
    assert trial.wait_for_exit([parent]) == [0], trial.output
    return trial.result("kill -9 of a rank (--workers 2)")


def kill_parent_of_workers(trial: Trial) -> Result:
    """`--workers 2`: the parent is killed; the ranks save and leave, and the same command goes on."""
    parent = trial.start(trial.alpha, trial.command("--workers", "2"))
    trial.wait_for_step(DISTURBED_STEP)
    trial.begin_fault()
    parent.kill()
    trial.wait_until(lambda: not trial.alpha.pids(), "the ranks had left")
    again = trial.start(trial.alpha, trial.command("--workers", "2"))
    assert trial.wait_for_exit([again]) == [0], trial.output
    return trial.result("kill -9 of the parent (--workers 2, started again)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """A fault, the disks it is tried with, and whether the world is as large afterwards: the end is then the same."""

    play: Callable[[Trial], Result]
    disks: tuple[Disks, ...] = ("own",)
    keeps_size: bool = True
    max_steps: int = MAX_STEPS


SCENARIOS = (
    Scenario(play=kill_rank, disks=("own", "shared")),
    Scenario(play=kill_host, disks=("own", "shared"), keeps_size=False),
    # Long enough for a host to start while the other goes on alone.
    Scenario(play=host_returns, disks=("own", "shared"), keeps_size=False, max_steps=120),
    Scenario(play=kill_launcher),
    Scenario(play=cut_link_briefly),
    Scenario(play=cut_link_for_long),
    Scenario(play=kill_rank_under_mpirun),
    Scenario(play=kill_worker),
    Scenario(play=kill_parent_of_workers),
)
