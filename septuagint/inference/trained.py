"""A trained network with all that belongs to it: a checkpoint's weights, its vocabulary, and the text of its run."""

import contextlib
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from safetensors.torch import save

from septuagint.config import ModelConfig
from septuagint.data.dataset import EvaluationSet, open_evaluation_sets, open_training_shards
from septuagint.data.files import hash_bytes
from septuagint.data.manifest import Manifest as DataManifest
from septuagint.data.manifest import read_manifest as read_data_manifest
from septuagint.data.order import sample_pairs
from septuagint.data.sentences import Sentences
from septuagint.data.vocabulary import Vocabulary
from septuagint.errors import CheckpointError, DataError
from septuagint.inference.training_text import count_seen, find_difference, recorded_corpora
from septuagint.model.transformer import Transformer
from septuagint.training.checkpoint import (
    Checkpoint,
    average_weights,
    checkpoint_path,
    find_checkpoints,
    load_weights,
)
from septuagint.training.checkpoint_files import MODEL as WEIGHTS
from septuagint.training.checkpoint_files import read_manifest as read_checkpoint_manifest
from septuagint.training.run_folder import VOCABULARY
from septuagint.training.state import load_weights_into


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A checkpoint with all that belongs to it."""

    run: Path
    checkpoint: Checkpoint
    name: str
    weights_sha256: str  # as a file of tensors
    config: dict[str, Any]  # the resolved configuration, as JSON
    model: ModelConfig
    vocabulary_bytes: bytes
    vocabulary: Vocabulary
    data_folder: Path
    data: DataManifest | None  # where the data folder is still there, with the same training text and vocabulary
    valid: Sequence[EvaluationSet]

    def network(self) -> Transformer:
        """The network with the checkpoint's weights."""
        network = Transformer(self.model, self.vocabulary.size)
        load_weights_into(network, self.checkpoint.weights, str(self.checkpoint.path))
        return network.eval()

    def training_corpora(self) -> list[tuple[str, int]]:
        """Name and pairs of each, as the run's record has them, else the data folder; none where both are gone."""
        recorded = recorded_corpora(self.run, self.checkpoint.state.get("data_fingerprint"))
        if not recorded and self.data is not None:
            return [(corpus.name, corpus.pairs) for corpus in self.data.train]
        return [(corpus.name, corpus.num_pairs) for corpus in recorded]

    def num_seen_pairs(self) -> int:
        """How many pairs of its training text, at most, have a side in evaluation text that was added later."""
        fingerprint = self.checkpoint.state.get("data_fingerprint")
        return 0 if self.data is None else count_seen(self.data, self.run, fingerprint)

    def training_sample(self, num_pairs: int) -> tuple[Sentences, Sentences]:
        """(source, target) sentences that it may have been trained on; a CheckpointError where they are not there."""
        try:
            if self.data is None:
                raise DataError("it is not there, or was prepared anew")
            shards = open_training_shards(self.data_folder, self.data)
            weight_of = {corpus["name"]: corpus["weight"] for corpus in self.config["data"]["train"]}
            weights = [weight_of.get(corpus.name, 1.0) for corpus in self.data.train]
            return shards.gather(*sample_pairs(shards.sizes, weights, num_pairs, seed=1))
        except (DataError, OSError, ValueError) as error:
            raise CheckpointError(f"{self.data_folder}: the training text cannot be read: {error}") from None


def open_trained(run: Path, *, checkpoint: str = "best", num_averaged: int | None = None) -> Trained:
    """Reads a checkpoint, and finds its vocabulary and text; a CheckpointError says what is missing."""
    if not run.is_dir():
        raise CheckpointError(f"{run}: no such folder; give a run folder, such as runs/news")
    loaded = _choose(run, checkpoint) if num_averaged is None else _average(run, num_averaged)
    own_run = _run_of(loaded.path.resolve(), run)
    try:
        config = loaded.state["config"]
        model = ModelConfig.model_validate(config["model"])
        data_folder = _data_folder(own_run, Path(config["data"]["folder"]))
        sha256 = loaded.state["vocabulary_sha256"]
    except (KeyError, TypeError, ValidationError):
        raise CheckpointError(
            f"{loaded.path}: does not say which network and vocabulary it belongs to; use another checkpoint of the run"
        ) from None
    data = _read_data(data_folder, own_run, loaded.state)
    vocabulary_bytes = _find_vocabulary(own_run, data_folder, data, sha256)
    if num_averaged is None:
        name, weights_sha256 = loaded.path.name, read_checkpoint_manifest(loaded.path).files[WEIGHTS].sha256
    else:
        name, weights_sha256 = f"the mean of the last {num_averaged} checkpoints", hash_bytes(save(loaded.weights))
    return Trained(
        run=own_run,
        checkpoint=loaded,
        name=name,
        weights_sha256=weights_sha256,
        config=config,
        model=model,
        vocabulary_bytes=vocabulary_bytes,
        vocabulary=Vocabulary(vocabulary_bytes),
        data_folder=data_folder,
        data=data,
        valid=() if data is None else _open_valid(data_folder, data),
    )


def _run_of(checkpoint: Path, given: Path) -> Path:
    """The run folder. A checkpoint's folder may be given instead, and a mirror has its best one directly in it."""
    run = checkpoint.parent.parent if checkpoint.parent.name == "checkpoints" else checkpoint.parent
    return given if given.resolve() == run else run


def _choose(run: Path, name: str) -> Checkpoint:
    """`best`, `averaged`, `newest`, a step's number, or a folder's name."""
    if name == "best":
        return load_weights(run)
    found = find_checkpoints(run)
    if name == "newest" and found:
        return load_weights(found[0][1])
    step = name.removeprefix("step-")
    path = checkpoint_path(run, int(step)) if step.isascii() and step.isdecimal() else run / "checkpoints" / name
    if not path.is_dir():
        steps = ", ".join(str(step) for step, _ in reversed(found)) or "none"
        raise CheckpointError(
            f"{run}: no checkpoint {name!r}; give best, averaged, newest or a step: there are {steps}"
        )
    return load_weights(path)


def _average(run: Path, number: int) -> Checkpoint:
    """The mean of the last checkpoints' weights; all else is the newest one's."""
    paths = [path for _, path in find_checkpoints(run)][:number]
    if len(paths) < number:
        raise CheckpointError(f"{run}: has {len(paths)} checkpoints, so {number} cannot be averaged")
    newest = load_weights(paths[0])
    state = {**newest.state, "validations": []}  # the mean was never validated
    return Checkpoint(step=newest.step, path=newest.path, state=state, weights=average_weights(paths))


def _data_folder(run: Path, recorded: Path) -> Path:
    """Where the run's configuration says, with its whole path, or where the checkpoint says."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return Path(tomllib.loads((run / "config.toml").read_text(encoding="utf-8"))["data"]["folder"])
    return recorded


def _read_data(folder: Path, run: Path, state: dict[str, Any]) -> DataManifest | None:
    """The manifest of the data folder, if it is still there and the same but for validation and test sets."""
    try:
        manifest = read_data_manifest(folder)
    except DataError:
        return None
    if manifest.vocabulary.file.sha256 != state["vocabulary_sha256"]:
        return None
    data = state["config"]["data"]
    languages = data["source_language"], data["target_language"]
    return None if find_difference(manifest, run, languages, state.get("data_fingerprint")) else manifest


def _open_valid(folder: Path, manifest: DataManifest) -> Sequence[EvaluationSet]:
    try:
        return open_evaluation_sets(folder, manifest, manifest.valid)
    except (DataError, OSError, ValueError):
        return ()


def _find_vocabulary(run: Path, data_folder: Path, data: DataManifest | None, sha256: str) -> bytes:
    """The vocabulary that the weights were trained with: a copy in the run folder, or that of the data folder."""
    paths = [run / VOCABULARY] + ([] if data is None else [data_folder / data.vocabulary.file.path])
    for path in paths:
        with contextlib.suppress(OSError):
            if hash_bytes(content := path.read_bytes()) == sha256:
                return content
    raise CheckpointError(
        f"{run}: its vocabulary is not there, or another: neither {run / VOCABULARY} nor the data folder {data_folder} "
        f"has the one with SHA-256 {sha256[:8]}…; put back one of them"
    )
