"""Every option of [model] and [training] is read, and does what it says."""

import re
from pathlib import Path

import pytest

import septuagint
from septuagint.config import ModelConfig, TrainingConfig
from septuagint.training.run_folder import MAY_CHANGE
from tests.training.conftest import Tiny

# Three steps of this are the measure.
BASE = ["training.max_steps=3", "training.warmup_steps=1", "training.average_checkpoints=0"]
COSINE = ["training.schedule=cosine", "training.decay_steps=3"]
# What gives other weights, with anything that has to be set beside it.
ALTERS = {
    "training.max_steps": ["training.max_steps=2"],
    "training.tokens_per_step": ["training.tokens_per_step=192"],
    "training.microbatch_tokens": ["training.microbatch_tokens=128"],
    "training.seed": ["training.seed=2"],
    "training.optimizer": ["training.optimizer=muon"],
    "training.schedule": ["training.schedule=constant"],
    "training.decay_steps": COSINE,
    "training.learning_rate": ["training.learning_rate=0.02"],
    "training.warmup_steps": ["training.warmup_steps=3"],
    "training.label_smoothing": ["training.label_smoothing=0.3"],
    "training.consistency": ["training.consistency=2"],
    "training.weight_decay": ["training.weight_decay=0.5"],
    "training.adam_betas": ["training.adam_betas=[0.5, 0.9]"],
    "training.max_gradient_norm": ["training.max_gradient_norm=0.1"],
    "training.precision": ["training.precision=bf16"],
    "training.ema_decay": ["training.ema_decay=0.5"],
    "model.preset": ["model.preset=base"],
    "model.width": ["model.width=64"],
    "model.num_heads": ["model.num_heads=4"],
    "model.feedforward_width": ["model.feedforward_width=32"],
    "model.num_encoder_layers": ["model.num_encoder_layers=2"],
    "model.num_decoder_layers": ["model.num_decoder_layers=2"],
    "model.norm": ["model.norm=layer"],
    "model.positions": ["model.positions=sinusoidal"],
    "model.feedforward": ["model.feedforward=relu"],
    "model.dropout": ["model.dropout=0.5"],
    "data.train.0.weight": ["data.train.0.weight=2.5"],
}
# What leaves every update as it is; tested in `test_train`.
LEAVES = {
    "training.max_hours": "1",
    "training.validate_every": "2",
    "training.checkpoint_every": "2",
    "training.log_every": "1",
    "training.beam_size": "2",
    "training.sample_every": "1",
    "training.average_checkpoints": "5",
    "training.best_metric": "chrf",
    "training.patience": "9",
    "training.mirror": "../mirror",
    "training.timeout_minutes": "7",
}
ELSEWHERE = {"training.init_from", "training.compile"}  # in `test_train`


def last_weights(tiny: Tiny, *overrides: str) -> str:
    run = str(len(list(tiny.root.glob("runs/*"))))
    step = tiny.train(*BASE, *overrides, run=run).progress.step
    weights: str = tiny.result(run, step)["weights"]
    return weights


@pytest.fixture(scope="module")
def base(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        return last_weights(Tiny(tmp_path_factory.mktemp("base"), prepared / "config.toml"))


@pytest.mark.parametrize("overrides", ALTERS.values(), ids=ALTERS)
def test_an_option_of_learning_gives_other_weights(tiny, base, overrides):
    assert last_weights(tiny, *overrides) != base


def test_a_cosine_that_ends_later_gives_other_weights(tiny):
    later = [*COSINE[:1], "training.decay_steps=9"]
    assert last_weights(tiny, *COSINE) != last_weights(tiny, *later)


def test_an_option_of_watching_leaves_the_weights_alone(own_tiny, base):
    assert last_weights(own_tiny, *(f"{key}={value}" for key, value in LEAVES.items())) == base


def test_no_option_is_missing_here():
    options = {f"training.{name}" for name in TrainingConfig.model_fields}
    options |= {f"model.{name}" for name in ModelConfig.model_fields}
    assert options | {"data.train.0.weight"} == ALTERS.keys() | LEAVES.keys() | ELSEWHERE
    assert MAY_CHANGE - {"training.max_steps"} == LEAVES.keys() - {"training.best_metric"}


def test_every_option_is_read_somewhere():
    package = Path(septuagint.__file__).parent
    source = "\n".join(path.read_text() for path in package.rglob("*.py") if path.name != "config.py")
    for name in [*TrainingConfig.model_fields, *ModelConfig.model_fields]:
        if name != "preset":  # it only fills in the others
            assert re.search(rf"(settings|training|config|model)\.{name}\b", source), name
