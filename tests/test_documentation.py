"""README and docs are held to what the program does."""

import ast
import functools
import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch

from septuagint.config import PRESETS, FilterConfig, ModelConfig, TrainingConfig
from septuagint.config_file import load_config
from septuagint.data.demo.corpus import write_demo_corpus
from septuagint.data.filters import FILTERS
from septuagint.model.transformer import Transformer
from septuagint.telemetry.events import Event, read_events, record_path
from septuagint.telemetry.tensorboard import scalars
from septuagint.telemetry.wording import status_line
from septuagint.training.loop import MAX_SKIPPED_IN_A_ROW
from septuagint.training.optimizer import learning_rate
from septuagint.training.run_folder import MAY_CHANGE
from tests.guides import GUIDES, read_guide

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DATA_FOLDER = (ROOT / "docs/data-folder.md").read_text(encoding="utf-8")
RUN_FOLDER = (ROOT / "docs/run-folder.md").read_text(encoding="utf-8")
TRAINING = (ROOT / "docs/training.md").read_text(encoding="utf-8")

TINY = """
[data]
folder = "../data/demo"
source_language = "en"
target_language = "de"
[[data.train]]
source = "../data/demo/train.en"
target = "../data/demo/train.de"
[[data.valid]]
source = "../data/demo/valid.en"
target = "../data/demo/valid.de"
[[data.valid]]
source = "../data/demo/test.en"
target = "../data/demo/test.de"
[vocabulary]
size = 500
[model]
preset = "modern"
width = 16
num_heads = 2
feedforward_width = 16
num_encoder_layers = 1
num_decoder_layers = 1
[training]
max_steps = 4
tokens_per_step = 512
microbatch_tokens = 512
validate_every = 2
checkpoint_every = 2
log_every = 2
sample_every = 2
"""


def code_blocks(text: str, language: str = "") -> list[str]:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [content for found, content in blocks if found == language]


def section(text: str, title: str) -> str:
    """What stands under a heading, up to the next of its level or above."""
    level = len(title) - len(title.lstrip("#"))
    _, found, rest = text.partition(f"\n{title}\n")
    assert found, f"no heading {title!r}"
    return re.split(rf"^#{{1,{level}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str, *, with_heads: bool = False) -> list[list[str]]:
    """The cells of every row of the tables."""
    tables = re.findall(r"^(\|.*\n)\|[-|]+\|\n((?:\|.*\n)*)", text, flags=re.MULTILINE)
    lines = [line for head, body in tables for line in ((head if with_heads else "") + body).splitlines()]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]


def names(text: str) -> list[str]:
    return re.findall(r"`([\w./]+)`", text)


def named_in_first_column(text: str) -> list[str]:
    return [name for row in rows(text) for name in names(row[0])]


def septuagint(*arguments: object, cwd: Path | None = None) -> str:
    command = [sys.executable, "-m", "septuagint.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd).stdout


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny corpus, prepared."""
    folder = tmp_path_factory.mktemp("documentation")
    write_demo_corpus(folder / "data/demo", num_train=500, num_valid=10, num_test=10)
    (folder / "configs").mkdir()
    (folder / "configs/tiny.toml").write_text(TINY, encoding="utf-8")
    septuagint("prepare", "configs/tiny.toml", "--quiet", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def run(demo: Path) -> Path:
    """A run folder with everything in it."""
    septuagint("train", "configs/tiny.toml", "--quiet", cwd=demo)
    return demo / "runs/tiny"


@pytest.fixture(scope="module")
def events(run: Path) -> list[Event]:
    return list(read_events(record_path(run, 0)))


def test_every_command_of_the_readme_exists_with_its_options():
    commands = commands_of(README)
    assert {command.split()[1] for command in commands} == {
        *("prepare", "config", "train", "report", "translate", "evaluate", "export")
    }
    for command in commands:
        check_options(command)


def test_every_command_of_the_guides_exists_with_its_options():
    commands = [command for path in GUIDES for block in read_guide(path) for command in block.commands]
    assert {command.split()[1] for command in commands} == {
        *("prepare", "train", "report", "translate", "evaluate", "export")
    }
    for command in commands:
        check_options(command)


def commands_of(text: str) -> list[str]:
    lines = [line for block in code_blocks(text, "sh") for line in block.splitlines()]
    return [line for line in lines if line.startswith("septuagint ")]


def check_options(command: str) -> None:
    """`septuagint VERB … # comment`: there is such a verb, and it has these options."""
    verb, *rest = command.partition("#")[0].split()[1:]
    for option in (word for word in rest if word.startswith("--")):
        assert re.search(rf"{option}\b", help_of(verb)), command


@functools.cache
def help_of(verb: str) -> str:
    return septuagint(verb, "--help")


def test_the_make_targets_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"^make (\w+)", README, flags=re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_the_configuration_in_the_readme_is_valid(tmp_path):
    path = tmp_path / "news.toml"
    path.write_text("\n".join(code_blocks(README, "toml")), encoding="utf-8")
    commands = commands_of(README)
    overrides = [value for command in commands for value in re.findall(r"--set (\S+)", command)]
    config = load_config(path, overrides)
    assert len(config.data.train) == 3
    assert config.training.max_steps == 100_000 and config.model.preset == "modern"


def test_the_file_tree_of_the_readme_is_the_file_tree():
    (tree,) = (block for block in code_blocks(README) if block.startswith("septuagint/\n"))
    listed: list[str] = []
    folders: list[str] = []
    for indent, name in re.findall(r"^( {2,6})(\w+(?:\.py|/)) +\S", tree, flags=re.MULTILINE):
        folders = folders[: len(indent) // 2 - 1]
        if name.endswith("/"):
            folders.append(name)
        else:
            listed.append("".join(folders) + name)
    package = ROOT / "septuagint"
    present = {path.relative_to(package).as_posix() for path in package.glob("**/*.py") if path.name != "__init__.py"}
    assert sorted(listed) == sorted(path for path in present if not path.startswith("data/demo/"))


def test_every_document_is_linked_from_the_readme_and_every_link_leads_somewhere():
    documents = sorted((ROOT / "docs").glob("**/*.md"))
    links = {(path, *link) for path in [ROOT / "README.md", *documents] for link in links_of(path)}
    linked = {link for path, link, _ in links if path == ROOT / "README.md"}
    assert {path.relative_to(ROOT).as_posix() for path in documents} <= linked
    for path, link, heading in links:
        assert (path.parent / link).exists(), f"{path}: {link}"
        assert not heading or heading in anchors(path.parent / link), f"{path}: {link}#{heading}"


def links_of(path: Path) -> list[tuple[str, str]]:
    """The files that a document links to, each with the heading there that is meant, if one is."""
    return re.findall(r"\]\(([^)#:]+)(?:#([^)]+))?\)", path.read_text(encoding="utf-8"))


def anchors(path: Path) -> set[str]:
    """The headings of a document, as GitHub's links name them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_documentation_describes_every_filter_with_its_default():
    filters = DATA_FOLDER.partition("*Filters*")[2].partition("## Running")[0]
    defaults = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", filters, flags=re.MULTILINE))
    assert list(defaults) == list(FILTERS)
    for default in defaults.values():
        if setting := re.match(r"`(\w+) = ([\w.]+)`", default):
            assert str(getattr(FilterConfig(), setting[1])).lower() == setting[2]


def test_the_python_of_the_documentation_runs(demo):
    (snippet,) = code_blocks(DATA_FOLDER, "python")
    result = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True, check=True, cwd=demo)
    assert result.stdout.startswith("500 [")


def test_the_tree_of_the_run_folder_is_what_training_writes(run):
    (tree,) = (block for block in code_blocks(RUN_FOLDER) if block.startswith("runs/"))
    listed = {indent: set() for indent in (2, 4, 6)}
    for indent, name in re.findall(r"^( {2,6})([\w./-]+)", tree, flags=re.MULTILINE):
        listed[len(indent)].add(name.rstrip("/"))
    septuagint("translate", run, ROOT / "LICENSE", "--quiet")  # makes the artifact
    assert {name.partition("/")[0] for name in listed[2]} == {path.name for path in run.iterdir()}
    assert all((run / name).exists() for name in listed[2])
    kinds = {re.sub(r"\d+", "", path.name) for path in (run / "checkpoints").iterdir()}
    assert {re.sub(r"\d+", "", name) for name in listed[4]} == kinds
    assert listed[6] == {path.name for path in (run / "checkpoints/step-00000004").iterdir()}


def test_the_documentation_lists_every_event_with_its_fields(events):
    documented = {
        kind: named_in_first_column(section(RUN_FOLDER, f"### `{kind}`"))
        for kind in re.findall(r"^### `(\w+)`$", RUN_FOLDER, flags=re.MULTILINE)
    }
    emitted = emitted_by_the_code()
    assert set(documented) == set(emitted)
    recorded: dict[str, set[str]] = defaultdict(set)
    for event in events:
        recorded[event["event"]] |= event.keys() - {"time", "event", "attempt"}
    # What a good run has none of is read from the code.
    assert set(emitted) - set(recorded) == {"skipped", "warning", "link", "rehearsal"}
    for kind, fields in documented.items():
        assert sorted(fields) == sorted(recorded.get(kind, emitted[kind])), kind


EMIT = ("emit", "_emit")  # the monitor's own


def emitted_by_the_code() -> dict[str, set[str]]:
    """The kinds of events, and those of their fields that are written out where they are emitted."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "septuagint").glob("**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in EMIT:
                kind = node.args[0]
                assert isinstance(kind, ast.Constant), f"{path}: the kind of an event is written out"
                found[kind.value] |= {keyword.arg for keyword in node.keywords if keyword.arg is not None}
    return found


GPU = {
    "index": "INDEX", "utilisation_percent": 99, "memory_used_bytes": 1, "power_watts": 1.0, "energy_joules": 1.0,
    "temperature_celsius": 40, "sm_activity_percent": 1.0, "tensor_activity_percent": 1.0,
}  # fmt: skip


def test_the_documentation_lists_the_tags_of_tensorboard(events):
    tags = {"valid/sample"}
    for event in events:
        # On a CPU there is no scale, on one host no traffic.
        machine = {"host": "HOST", "gpus": [GPU], "sent_bytes_per_second": 1.0, "received_bytes_per_second": 1.0}
        tags |= scalars({**event, "loss_scale": 1.0, **machine}).keys()
    assert sorted(named_in_first_column(section(RUN_FOLDER, "## tensorboard"))) == sorted(tags)


def test_the_documentation_lists_what_the_files_of_a_run_hold(run):
    environment = json.loads((run / "environment.json").read_bytes())
    text = section(RUN_FOLDER, "## environment.json")
    assert {"format", "version", "attempts"} == environment.keys()
    assert f"`{environment['format']}`, version {environment['version']} " in text
    assert sorted(named_in_first_column(text)) == sorted(environment["attempts"][0])
    assert all(name in text for name in environment["attempts"][0]["versions"])
    checkpoint = run / "checkpoints/step-00000004"
    manifest = json.loads((checkpoint / "manifest.json").read_bytes())
    text = section(RUN_FOLDER, "## Checkpoints")
    files = {path.name for path in checkpoint.iterdir()}
    state = json.loads((checkpoint / "state.json").read_bytes())
    assert sorted(named_in_first_column(text)) == sorted([*files, *state])
    assert f"`format` `{manifest['format']}`, `version` {manifest['version']}" in text
    averaged = json.loads((run / "checkpoints/averaged/state.json").read_bytes())
    paragraph = next(part for part in text.split("\n\n") if part.startswith("`averaged`"))
    assert sorted(averaged) == sorted(names(paragraph.partition("Its state holds")[2]))


def test_the_documentation_lists_the_settings_that_may_change():
    text = section(RUN_FOLDER, "## Going on").partition("may change between attempts:")[2].partition("So may")[0]
    assert sorted(names(text)) == sorted(MAY_CHANGE)


def test_the_documentation_has_every_setting_of_training_with_its_default():
    table = rows(section(TRAINING, "## Every setting of `[training]`"))
    defaults = {row[0].strip("`"): row[1] for row in table}
    actual = TrainingConfig().model_dump(mode="json")
    assert list(defaults) == list(actual)
    for name, cell in defaults.items():
        assert toml_value(cell) == actual[name], name


def test_the_documentation_has_every_setting_of_the_model_with_the_presets_values():
    presets, *table = rows(section(TRAINING, "## Models"), with_heads=True)
    assert [name.strip("`") for name in presets[1:]] == list(PRESETS)
    models = [ModelConfig.model_validate({"preset": name}) for name in PRESETS]
    *settings, parameters = table
    assert [row[0].strip("`") for row in settings] == [name for name in ModelConfig.model_fields if name != "preset"]
    for row in settings:
        assert [toml_value(cell) for cell in row[1:]] == [getattr(model, row[0].strip("`")) for model in models]
    assert parameters[1:] == [f"{num_parameters(model) / 1e6:.1f} M" for model in models]
    assert f'`preset` is `"{ModelConfig.model_validate({}).preset}"` when not given' in TRAINING


def num_parameters(config: ModelConfig) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in Transformer(config, 32_768).parameters())


def toml_value(cell: str) -> Any:
    return None if cell == "–" else tomllib.loads(f"value = {cell}")["value"]


def test_the_documentation_has_the_learning_rate_of_the_defaults():
    width = ModelConfig.model_validate({}).width
    table = [row for row in rows(section(TRAINING, "## Learning rate")) if row[0].replace(",", "").isdecimal()]
    assert len(table) == 4
    for step, rate in table:
        assert rate == f"{learning_rate(int(step.replace(',', '')), TrainingConfig(), width):.1e}"


def test_the_live_line_of_the_documentation_is_what_a_terminal_shows():
    (line,) = (block.strip() for block in code_blocks(TRAINING) if block.startswith("step "))
    train = {
        "step": 260, "loss_nats_per_token": 1.261, "seconds_per_step": 0.24, "target_tokens_per_second": 8500.0,
        "learning_rate": 5.4e-4, "gradient_norm": 0.23, "eta_seconds": 15.0, "bottleneck": "compute",
        "bottleneck_share": 0.93, "data_wait_seconds_per_step": 0.0, "to_device_seconds_per_step": 0.0,
        "compute_seconds_per_step": 0.216, "straggler_wait_seconds_per_step": 0.01,
        "communication_seconds_per_step": 0.005, "optimizer_seconds_per_step": 0.007, "rest_seconds_per_step": 0.002,
    }  # fmt: skip
    assert line == status_line(train, step=260, max_steps=320, best_bleu=83.7, width=160)


def test_the_documentation_says_when_training_gives_up():
    assert f"{MAX_SKIPPED_IN_A_ROW} steps in a row" in " ".join(TRAINING.split())


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.toml")), ids=lambda path: path.stem)
def test_every_configuration_that_ships_is_valid(path):
    load_config(path)


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.toml")), ids=lambda path: path.stem)
def test_a_learning_rate_that_a_configuration_names_is_its_peak(path):
    config = load_config(path)
    peak = learning_rate(config.training.warmup_steps, config.training, config.model.width)
    for named in re.findall(r"# peak ([\d.e-]+)", path.read_text(encoding="utf-8")):
        assert f"{peak:.1e}" == f"{float(named):.1e}"
