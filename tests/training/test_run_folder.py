"""One process writes to a run folder, every attempt is on record, and another run is not taken for the same."""

import copy
import datetime
import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from septuagint.config import Config
from septuagint.config_file import load_config
from septuagint.data.manifest import read_manifest
from septuagint.errors import ConfigError, StorageError, UserError
from septuagint.training import run_folder
from septuagint.training.checkpoint import write_checkpoint
from septuagint.training.run_folder import MAY_CHANGE, RunFolder, check_same_run, identity, open_run
from tests.data.conftest import Project

ATTEMPT: dict[str, Any] = {
    "world_size": 2,
    "start_step": 0,
    "launcher": "torchrun",
    "hostnames": ["a", "b"],
    "device_names": ["cpu", "cpu"],
    "num_threads": 1,
    "precision": "fp32",
}


@pytest.fixture
def config_path(tmp_path: Path) -> Path:
    path = tmp_path / "my.toml"
    path.write_text(
        '[data]\nfolder = "out"\nsource_language = "en"\ntarget_language = "de"\n'
        '[[data.train]]\nsource = "a.en"\ntarget = "a.de"\n[training]\nmax_steps = 100\n'
    )
    return path


def opened(path: Path, config_path: Path, *overrides: str) -> Any:
    config = load_config(config_path, overrides)
    return open_run(path, config, config_path=config_path, vocabulary=b"pieces", overrides=overrides)


def test_the_vocabulary_is_kept_as_soon_as_an_attempt_begins(tmp_path, config_path):
    with opened(tmp_path / "run", config_path) as run:
        assert not (run.path / "vocabulary.model").exists()
        run.adopt([], is_begun=True)
        assert (run.path / "vocabulary.model").read_bytes() == b"pieces"


def environment(run: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run / "environment.json").read_bytes())
    return content


def test_every_attempt_is_on_record(tmp_path, config_path):
    path = tmp_path / "runs" / "one"
    with opened(path, config_path) as run:
        assert run.begin_attempt(**ATTEMPT) == 1
        [attempt] = environment(path)["attempts"]
        assert (attempt["number"], attempt["world_size"], attempt["end"], attempt["outcome"]) == (1, 2, None, None)
        run.end_attempt(end_step=70, outcome="stopped by a signal")
    with opened(path, config_path) as run:
        assert run.begin_attempt(**ATTEMPT | {"start_step": 70, "world_size": 1}) == 2
    record = environment(path)
    assert (record["format"], record["version"]) == ("septuagint-run", 1)
    first, second = record["attempts"]
    assert (first["end_step"], first["outcome"], first["launcher"]) == (70, "stopped by a signal", "torchrun")
    assert (second["start_step"], second["world_size"], second["end"]) == (70, 1, None)
    assert first["versions"].keys() == {"septuagint", "python", "torch", "numpy", "sentencepiece", "sacrebleu"}
    assert all(first["versions"].values())
    assert first["command_line"] == sys.argv
    start, end = (datetime.datetime.fromisoformat(first[key]) for key in ("start", "end"))
    assert start.utcoffset() == datetime.timedelta(0)
    assert start <= end <= datetime.datetime.now(datetime.UTC)


def test_an_error_that_ends_an_attempt_is_on_record(tmp_path, config_path):
    path = tmp_path / "run"
    with pytest.raises(ValueError, match="no good"), opened(path, config_path) as run:
        run.begin_attempt(**ATTEMPT)
        raise ValueError("no good\nat all")
    assert environment(path)["attempts"][0]["outcome"] == "ValueError: no good"
    with pytest.raises(KeyboardInterrupt), opened(path, config_path) as run:
        run.begin_attempt(**ATTEMPT)
        raise KeyboardInterrupt
    assert environment(path)["attempts"][1]["outcome"] == "KeyboardInterrupt"
    with pytest.raises(ConfigError), opened(path, config_path):
        raise ConfigError("before the attempt began")
    assert len(environment(path)["attempts"]) == 2


def test_the_commit_is_that_of_the_program_and_of_no_other_repository(tmp_path, monkeypatch):
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    package = tmp_path / "environment" / "septuagint" / "__init__.py"
    monkeypatch.setattr(run_folder.septuagint, "__file__", str(package))
    assert run_folder._git_commit() is None
    monkeypatch.setattr(run_folder.septuagint, "__file__", str(tmp_path / "septuagint" / "__init__.py"))
    assert run_folder._git_commit() is None  # nothing is committed yet
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    command = ["git", "-C", str(tmp_path), *author, "commit", "--quiet", "--allow-empty", "-m", "first"]
    subprocess.run(command, check=True)
    commit = run_folder._git_commit()
    assert commit is not None
    assert len(commit) == 40


def test_the_resolved_configuration_is_kept_and_means_the_same(tmp_path, config_path):
    path = tmp_path / "run"
    with opened(path, config_path) as run:
        assert not (path / "config.toml").exists()
        run.begin_attempt(**ATTEMPT)
    assert load_config(path / "config.toml") == load_config(config_path)
    before = (path / "config.toml").stat().st_ino
    with opened(path, config_path) as run:
        run.begin_attempt(**ATTEMPT)
    assert (path / "config.toml").stat().st_ino == before
    with opened(path, config_path, "training.max_steps=200") as run:
        assert load_config(path / "config.toml").training.max_steps == 100
        run.begin_attempt(**ATTEMPT)
    assert load_config(path / "config.toml").training.max_steps == 200


def test_a_second_process_is_refused_and_told_of_the_first(tmp_path, config_path):
    path = tmp_path / "run"
    code = (
        "import sys; from pathlib import Path\n"
        "from septuagint.config_file import load_config\n"
        "from septuagint.training.run_folder import open_run\n"
        "path, config_path = map(Path, sys.argv[1:])\n"
        "with open_run(path, load_config(config_path), config_path=config_path, vocabulary=b'pieces'):\n"
        "    print('open', flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, str(path), str(config_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "open\n"
        with pytest.raises(UserError, match=rf"\(process {first.pid} on \S+ since 20\S+\); .*--run"):
            opened(path, config_path).__enter__()
        first.send_signal(signal.SIGKILL)
        first.wait()
    with opened(path, config_path):
        assert f"process {os.getpid()} on " in (path / "lock").read_text()


def test_a_file_system_without_locks_is_good_enough(tmp_path, config_path, monkeypatch):
    def no_locks(*_: Any) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with opened(tmp_path / "run", config_path) as run:
        assert isinstance(run, RunFolder)


def test_a_folder_that_is_not_a_run_is_left_alone(tmp_path, config_path):
    path = tmp_path / "project"
    path.mkdir()
    (path / "config.toml").write_text("mine")
    with pytest.raises(StorageError, match=r"not empty \(config.toml\) and not a run of ours .*--run"):
        opened(path, config_path).__enter__()
    assert [entry.name for entry in path.iterdir()] == ["config.toml"]
    with pytest.raises(StorageError, match="a file stands where a folder should be"):
        opened(path / "config.toml", config_path).__enter__()


def test_a_run_killed_at_its_very_beginning_can_be_opened(tmp_path, config_path):
    for number, leftover in enumerate(["lock", ".environment.json.123.tmp"]):
        path = tmp_path / str(number)
        path.mkdir()
        (path / leftover).touch()
        with opened(path, config_path):
            pass
        assert sorted(entry.name for entry in path.iterdir()) == ["environment.json", "lock"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"half": ', "damaged"),
        (b"[]", "damaged"),
        (b'{"format": "other"}', "not the record"),
        (b'{"format": "septuagint-run", "version": 1, "attempts": [1]}', "damaged"),
        (b'{"format": "septuagint-run", "version": 2}', "version 2, but this program knows versions up to 1"),
    ],
)
def test_a_record_that_cannot_be_read_is_not_overwritten(tmp_path, config_path, content, message):
    path = tmp_path / "run"
    write_checkpoint(path, 1, {}, {}, {})
    (path / "environment.json").write_bytes(content)
    with pytest.raises(StorageError, match=message):
        opened(path, config_path).__enter__()
    assert (path / "environment.json").read_bytes() == content
    (path / "environment.json").unlink()  # as the message advises
    with opened(path, config_path) as run:
        assert run.attempts == []


def test_opening_a_run_clears_up_after_a_killed_process(tmp_path, config_path):
    path = tmp_path / "run"
    with opened(path, config_path):
        pass
    (path / "checkpoints" / ".step-00000001.99.tmp").mkdir(parents=True)
    with opened(path, config_path):
        assert list((path / "checkpoints").iterdir()) == []


@pytest.fixture(scope="module")
def same(tmp_path_factory: pytest.TempPathFactory) -> tuple[Config, dict[str, Any]]:
    """A configuration with prepared data, and the identity of a run with it."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        project = Project(tmp_path_factory.mktemp("same") / "project", monkeypatch)
        project.add_text(num_lines=100)
        project.settings |= {"training.tokens_per_step": 32_768, "cost.price_per_hour": 4.0}
        manifest = project.prepare().manifest
        config = load_config(project.config_path)
        return config, json.loads(json.dumps(identity(config, manifest)))


def changed(same: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    other = copy.deepcopy(same)
    *parents, last = key.split(".")
    place: Any = other
    for part in parents:
        place = place[int(part)] if isinstance(place, list) else place[part]
    assert last in place
    place[last] = value
    return other


def test_the_same_run_may_go_on(same):
    _, run = same
    check_same_run({**run, "step": 500, "cursor": {}}, run)


@pytest.mark.parametrize(
    "key",
    [
        *sorted(MAY_CHANGE),
        "cost.price_per_hour",
        "cost.currency",
        "data.folder",
        "data.train.0.source",
        "filters.max_characters",
        "vocabulary.size",
    ],
)
def test_what_alters_no_update_may_change(same, key):
    _, run = same
    check_same_run(run, changed(run, f"config.{key}", "something else"))


def test_a_run_goes_on_that_was_begun_before_a_setting_existed(same):
    _, run = same
    old = copy.deepcopy(run)
    del old["config"]["training"]["optimizer"]
    check_same_run(old, run)
    with pytest.raises(ConfigError, match=r'training\.optimizer: "adamw" in the run, "muon" now'):
        check_same_run(old, changed(run, "config.training.optimizer", "muon"))


def test_what_may_change_exists(same):
    config, _ = same
    assert {key.removeprefix("training.") for key in MAY_CHANGE} < set(type(config.training).model_fields)


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("config.training.tokens_per_step", 65_536, "training.tokens_per_step: 32768 in the run, 65536 now"),
        ("config.training.seed", 2, "training.seed: 1 in the run, 2 now"),
        ("config.training.learning_rate", 0.5, "training.learning_rate: not set in the run, 0.5 now"),
        ("config.training.adam_betas", [0.9, 0.9], "training.adam_betas: [0.9, 0.98] in the run, [0.9, 0.9] now"),
        ("config.training.init_from", "/a/b", 'training.init_from: not set in the run, "/a/b" now'),
        ("config.model.width", 1024, "model.width: 512 in the run, 1024 now"),
        ("config.model.preset", "fast", 'model.preset: "base" in the run, "fast" now'),
        ("config.data.train.0.weight", 2.0, "data.train.corpus.weight: 1.0 in the run, 2.0 now"),
        ("data_fingerprint", "0123456789", "the data folder was prepared anew from other text or settings ("),
        ("vocabulary_sha256", "0123456789", "the model's vocabulary and the data folder's differ ("),
    ],
)
def test_what_would_alter_an_update_is_refused_with_the_difference(same, key, value, line):
    _, run = same
    with pytest.raises(ConfigError) as caught:
        check_same_run(run, changed(run, key, value))
    _, *differences, last = str(caught.value).splitlines()
    assert len(differences) == 1
    assert differences[0].startswith(f"  {line}")
    assert last == "put it back as it was, or choose another run folder with --run"


def test_all_differences_are_named_at_once(same):
    _, run = same
    other = changed(changed(run, "config.training.seed", 9), "config.model.dropout", 0.5)
    with pytest.raises(ConfigError, match=r"(?s)model\.dropout.*training\.seed"):
        check_same_run(run, other)


def test_initial_weights_are_named_in_full(same, tmp_path, monkeypatch):
    config, run = same
    training = config.training.model_copy(update={"init_from": Path("weights")})
    monkeypatch.chdir(tmp_path)
    other = identity(config.model_copy(update={"training": training}), read_manifest(config.data.folder))
    assert other == changed(run, "config.training.init_from", str(tmp_path / "weights"))
