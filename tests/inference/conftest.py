"""A run that is trained once, its artifact, and artifacts of networks made by hand."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from septuagint.config import ModelConfig
from septuagint.data.files import write_manifest_file
from septuagint.data.vocabulary import Vocabulary
from septuagint.inference.artifact import MANIFEST, MODEL, SENTENCEPIECE, Artifact, read_manifest, seal
from septuagint.inference.ctranslate2_model import write_ctranslate2
from septuagint.inference.export import export
from septuagint.inference.translator import Translator
from septuagint.model.transformer import Transformer
from septuagint.progress import ProgressReport
from tests.data import conftest as data_conftest
from tests.data.conftest import Project
from tests.model.conftest import SMALL
from tests.training import conftest as training_conftest
from tests.training.conftest import SETTINGS, Tiny, toy_text

prepared = training_conftest.prepared
small_disk = data_conftest.small_disk
notes = data_conftest.notes

QUIET = ProgressReport(is_quiet=True)
STEPS = (10, 20, 30, 40)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """For small networks more threads only wait for each other: ten times as long where two tests run side by side."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def trained(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """A finished run with a checkpoint at each of STEPS and the average of them, for reading and copying only."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        tiny = Tiny(tmp_path_factory.mktemp("trained"), prepared / "config.toml")
        every = [f"training.{name}_every=10" for name in ("validate", "checkpoint")]
        tiny.train(f"training.max_steps={STEPS[-1]}", *every)
        return tiny


@pytest.fixture(scope="session")
def run_folder(trained: Tiny) -> Path:
    """For reading only."""
    return trained.run_path("run")


@pytest.fixture
def own_run(run_folder: Path, tmp_path: Path) -> Path:
    """A copy, to be changed."""
    return copy_run(run_folder, tmp_path / "run")


@pytest.fixture
def own_project(prepared: Path, own_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A copy of the text and the data folder, which `own_run` then takes for its own: to be prepared otherwise."""
    shutil.copytree(prepared, tmp_path / "project")
    project = Project(tmp_path / "project", monkeypatch)
    project.settings |= SETTINGS
    for split in ("train", "valid", "test"):
        project.add(split, source=f"{split}.en", target=f"{split}.de")
    config = own_run / "config.toml"
    config.write_text(config.read_text().replace(str(prepared / "out"), str(project.folder)))
    return project


def write_other_text(project: Project, split: str = "train") -> None:
    """Sentences that no run has seen, in the files of a split."""
    source, target = toy_text(100, seed=9)
    project.write(f"{split}.en", source)
    project.write(f"{split}.de", target)


def prepare_with_learned_text(project: Project) -> int:
    """With a test set of sources that runs have been trained on; how many of their pairs evaluation text has by now."""

    def lines(name: str) -> list[str]:
        return (project.root / name).read_text(encoding="utf-8").splitlines()

    project.settings["filters.overlap"] = True
    project.write("learned.en", lines("train.en")[:3])
    project.write("learned.de", ["etwas anderes"] * 3)
    project.add("test", source="learned.en", target="learned.de")
    project.prepare()
    known = {
        line for split in ("valid", "test", "learned") for side in ("en", "de") for line in lines(f"{split}.{side}")
    }
    return sum(not known.isdisjoint(pair) for pair in zip(lines("train.en"), lines("train.de"), strict=True))


@pytest.fixture(scope="session")
def artifact_folder(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run in float32, for reading only."""
    return export(
        run_folder, tmp_path_factory.mktemp("export") / "float32", quantization="float32", report=QUIET
    ).folder


@pytest.fixture
def own_artifact(artifact_folder: Path, tmp_path: Path) -> Path:
    """A copy, to be damaged."""
    return Path(shutil.copytree(artifact_folder, tmp_path / "artifact"))


@pytest.fixture(scope="session")
def vocabulary(artifact_folder: Path) -> Vocabulary:
    return Artifact(artifact_folder).vocabulary


@pytest.fixture(scope="session")
def translator(artifact_folder: Path) -> Iterator[Translator]:
    with open_translator(artifact_folder) as opened:
        yield opened


def copy_run(run: Path, target: Path) -> Path:
    return Path(shutil.copytree(run, target, symlinks=True))


def open_translator(folder: Path, **options: Any) -> Translator:
    return Translator(Artifact(folder), **{"device": "cpu", "num_threads": 1, **options})


def change_manifest(folder: Path, **fields: Any) -> None:
    """Sealed as it should be."""
    body = read_manifest(folder).model_dump(mode="json")
    write_manifest_file(folder / MANIFEST, body | fields)


def make_network(vocabulary: Vocabulary, preset: str = "base", seed: int = 1) -> Transformer:
    """Never trained, and restless: weights so large that what it says changes all the time, and ends here and there."""
    torch.manual_seed(seed)
    network = Transformer(ModelConfig.model_validate({"preset": preset, **SMALL}), vocabulary.size).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if parameter.ndim == 2 and not name.startswith("embeddings"):
                parameter *= 3
    return network


def make_obsessed_network(vocabulary: Vocabulary, piece: int) -> Transformer:
    """Writes one piece, again and again, until it is stopped."""
    network = make_network(vocabulary)
    with torch.no_grad():
        network.embeddings.weight[piece] = 100 * network.embeddings.weight[piece].abs()
        network.decoder_norm.bias.fill_(1.0)
    return network


def write_artifact(folder: Path, like: Path, network: Transformer, **decode: Any) -> Path:
    """An artifact of a network in float32, with the vocabulary and settings of another artifact, or others."""
    other = Artifact(like)
    (folder / MODEL).mkdir(parents=True)
    write_ctranslate2(
        folder / MODEL,
        weights=network.state_dict(),
        model=network.config,
        vocabulary=other.vocabulary,
        quantization="float32",
    )
    shutil.copy(like / SENTENCEPIECE, folder)
    description = other.manifest.model_dump(exclude={"files"})
    seal(folder, description | {"decode": description["decode"] | decode})
    return folder


def split_ids(vocabulary: Vocabulary, lines: list[str]) -> list[np.ndarray]:
    """As a data folder holds them: EOS last."""
    ids, lengths = vocabulary.encode(lines)
    return np.split(ids, np.cumsum(lengths)[:-1])


def septuagint(*arguments: object, text: bytes = b"", **options: Any) -> subprocess.CompletedProcess[bytes]:
    """The command, with text on its standard input."""
    command = [sys.executable, "-m", "septuagint.cli", *map(str, arguments)]
    return subprocess.run(command, input=text, capture_output=True, timeout=120, check=False, **options)
