"""The run folder: who may write to it, what was asked of the run, and a record of every attempt.

`lock` belongs to the process that trains; one that is killed leaves none behind. `config.toml` is the resolved
configuration. `environment.json` lists the attempts, each written at its start and again at its end: one that was
killed has no end. `checkpoint` describes the checkpoints.
"""

import contextlib
import datetime
import importlib.metadata
import json
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import septuagint
from septuagint.config import Config, TrainingConfig
from septuagint.config_file import as_toml, describe
from septuagint.data.files import fsync_folder, locked, write_json, written_aside
from septuagint.data.folders import is_temporary
from septuagint.data.manifest import Manifest
from septuagint.errors import ConfigError, StorageError, writing_to
from septuagint.training.checkpoint import find_checkpoints, remove_leftovers

ENVIRONMENT = "environment.json"
VOCABULARY = "vocabulary.model"
FORMAT_VERSION = 1

MAY_CHANGE = frozenset(
    f"training.{name}"
    for name in (
        "max_steps",
        "max_hours",
        "validate_every",
        "checkpoint_every",
        "log_every",
        "beam_size",
        "sample_every",
        "patience",
        "average_checkpoints",
        "timeout_minutes",
        "mirror",
    )
)
"""Settings of [training] that alter no update already made. So may all of [cost], and where the text and the data
folder are: that the data is the same is known from its fingerprint."""


class RunFolder:
    """A run folder that this process alone writes to; see `open_run`."""

    def __init__(self, path: Path, config_toml: str, vocabulary: bytes) -> None:
        self.path = path
        self._config_toml, self._vocabulary = config_toml, vocabulary
        self._environment = _read_environment(path / ENVIRONMENT)
        self._is_under_way = False

    @property
    def attempts(self) -> list[dict[str, Any]]:
        """Every attempt so far, in order."""
        return list(self._environment["attempts"])

    def begin_attempt(
        self,
        *,
        world_size: int,
        start_step: int,
        launcher: str,
        hostnames: Sequence[str],
        device_names: Sequence[str],
        num_threads: int,
        precision: str,
    ) -> int:
        """Records the configuration and the start of an attempt; returns its number, counted from 1.

        To be called when `check_same_run` is content: until then the folder still tells of the run as it was.
        """
        attempt = {
            "number": len(self.attempts) + 1,
            "world_size": world_size,
            "start_step": start_step,
            "launcher": launcher,
            "start": _now(),
            "end": None,
            "end_step": None,
            "outcome": None,
            "hostnames": list(hostnames),
            "command_line": list(sys.argv),
            "versions": _versions(),
            "device_names": list(device_names),
            "num_threads": num_threads,
            "git_commit": _git_commit(),
            "precision": precision,
        }
        with writing_to(self.path):
            self._write_config()
            self._environment["attempts"].append(attempt)
            self._write_environment()
        self._is_under_way = True
        return len(self.attempts)

    def adopt(self, attempts: Sequence[dict[str, Any]], *, is_begun: bool) -> None:
        """Takes over what another disk knows of the run; with `is_begun`, the last attempt is the present one."""
        with writing_to(self.path):
            if is_begun:
                self._write_config()
            self._environment["attempts"] = list(attempts)
            self._write_environment()
        self._is_under_way = is_begun

    def end_attempt(self, *, end_step: int | None, outcome: str) -> None:
        """Records how the attempt ended."""
        self._environment["attempts"][-1].update(end=_now(), end_step=end_step, outcome=outcome)
        self._is_under_way = False
        with writing_to(self.path):
            self._write_environment()

    def _end_by(self, error: BaseException) -> None:
        """Records that an error ended the attempt, if one is under way; where that fails, the error still counts."""
        if self._is_under_way:
            reason = (str(error).splitlines() or [""])[0][:200]
            with contextlib.suppress(StorageError):
                self.end_attempt(end_step=None, outcome=f"{type(error).__name__}: {reason}".rstrip(": "))

    def _write_environment(self) -> None:
        write_json(self.path / ENVIRONMENT, self._environment)
        fsync_folder(self.path)

    def _write_config(self) -> None:
        """And the vocabulary: without it nobody can translate with the weights, and the data folder may go."""
        files = {"config.toml": self._config_toml.encode(errors="surrogateescape"), VOCABULARY: self._vocabulary}
        for name, content in files.items():
            path = self.path / name
            if not path.exists() or path.read_bytes() != content:
                with written_aside(path) as file:
                    file.write(content)


def num_attempts(path: Path) -> int:
    """How often a run was started."""
    return len(_read_environment(path / ENVIRONMENT)["attempts"])


@contextlib.contextmanager
def open_run(
    path: Path,
    config: Config,
    *,
    config_path: Path,
    vocabulary: bytes,
    overrides: Sequence[str] = (),
    patience_seconds: float = 0.0,
) -> Iterator[RunFolder]:
    """Takes a run folder for this process, a new one or one to go on with, and clears up what a killed one left.

    `patience_seconds` is how long to wait for another process that holds it.
    """
    config_toml = as_toml(describe(config, config_path, overrides))
    with contextlib.ExitStack() as stack:
        with writing_to(path):
            path.mkdir(parents=True, exist_ok=True)
            _check_ours(path)
            refusal = (
                f"{path}: another process is training in this folder ({{holder}}); "
                "wait until it has finished, stop it, or choose another folder with --run"
            )
            stack.enter_context(locked(path / "lock", refusal, patience_seconds))
            remove_leftovers(path)
            run = RunFolder(path, config_toml, vocabulary)
            run._write_environment()
        try:
            yield run
        except BaseException as error:
            run._end_by(error)
            raise


def _check_ours(path: Path) -> None:
    if (path / ENVIRONMENT).exists():
        _read_environment(path / ENVIRONMENT)
    elif not find_checkpoints(path):
        foreign = [entry.name for entry in path.iterdir() if entry.name != "lock" and not is_temporary(entry)]
        if foreign:
            raise StorageError(
                f"{path}: this folder is not empty ({min(foreign)}) and not a run of ours ({ENVIRONMENT} is missing); "
                "choose another one with --run"
            )


def _read_environment(path: Path) -> dict[str, Any]:
    """The record of attempts, or an empty one where there is none yet."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {"format": "septuagint-run", "version": FORMAT_VERSION, "attempts": []}
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict) and content.get("format") == "septuagint-run":
        version, attempts = content.get("version"), content.get("attempts")
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise StorageError(
                f"{path}: its format is version {version}, but this program knows versions up to {FORMAT_VERSION}; "
                "update Septuagint, or choose another folder with --run"
            )
        if isinstance(attempts, list) and all(isinstance(attempt, dict) for attempt in attempts):
            return content
    raise StorageError(
        f"{path}: damaged, or not the record of a Septuagint run; choose another folder with --run, or delete the file "
        "to go on without what it tells of earlier attempts"
    )


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _versions() -> dict[str, str | None]:
    versions: dict[str, str | None] = {"septuagint": septuagint.__version__, "python": platform.python_version()}
    for name in ("torch", "numpy", "sentencepiece", "sacrebleu"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def _git_commit() -> str | None:
    """Of this program, where it runs from a checkout of its own, and not of a repository it was installed into."""
    root = Path(septuagint.__file__).absolute().parent.parent
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def identity(config: Config, manifest: Manifest) -> dict[str, Any]:
    """What makes two attempts the same run: part of every checkpoint's state, and what `check_same_run` compares."""
    settings = config.model_dump(mode="json")
    if config.training.init_from is not None:
        settings["training"]["init_from"] = str(config.training.init_from.absolute())
    return {
        "config": settings,
        "data_fingerprint": manifest.fingerprint,
        "vocabulary_sha256": manifest.vocabulary.file.sha256,
    }


def check_same_run(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Refuses to go on with a run whose updates so far would have been others; names every difference.

    Both are made by `identity`; other keys, as a checkpoint's state has them, do not matter.
    """
    differences = _changed_data(old, new) + _changed_settings(old["config"], new["config"])
    if differences:
        raise ConfigError(
            "this run was begun otherwise, and cannot go on like this:\n"
            + "".join(f"  {difference}\n" for difference in differences)
            + "put it back as it was, or choose another run folder with --run"
        )


def _changed_data(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    differences = []
    if old["vocabulary_sha256"] != new["vocabulary_sha256"]:
        differences.append(
            "the model's vocabulary and the data folder's differ" + _in_short("vocabulary_sha256", old, new)
        )
    if old["data_fingerprint"] != new["data_fingerprint"]:
        differences.append(
            "the data folder was prepared anew from other text or settings" + _in_short("data_fingerprint", old, new)
        )
    return differences


def _in_short(key: str, old: dict[str, Any], new: dict[str, Any]) -> str:
    return f" ({old[key][:8]} in the run, {new[key][:8]} now)"


def _changed_settings(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    before, now = _settings(old), _settings(new)
    return [
        f"{key}: {_shown(before.get(key))} in the run, {_shown(now.get(key))} now"
        for key in sorted(before.keys() | now.keys())
        if key not in MAY_CHANGE and before.get(key) != now.get(key)
    ]


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    """What the fingerprint of the data does not cover: the network, the training, and how often text is repeated."""
    # A run of an earlier version did without settings that it did not know, as their defaults do.
    known = {"model": config["model"], "training": TrainingConfig().model_dump(mode="json") | config["training"]}
    settings = {f"{section}.{key}": value for section, values in known.items() for key, value in values.items()}
    return settings | {f"data.train.{corpus['name']}.weight": corpus["weight"] for corpus in config["data"]["train"]}


def _shown(value: Any) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)
