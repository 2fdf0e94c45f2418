"""What only a GPU can show: the packed kernel, compiled code, half precision. Skipped where there is none."""

import pytest
import torch

from septuagint.batch import Microbatch
from septuagint.config import Config, ModelConfig, TrainingConfig
from septuagint.model.attention import choose_backend, make_layout, make_relation, packed_attention, reference_attention
from septuagint.training.state import build_training, compile_forward
from septuagint.training.step import train_step
from septuagint.world import World
from tests.model.conftest import SMALL, VOCABULARY_SIZE, pack, random_pairs
from tests.model.test_attention import offsets_of

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
GPU = torch.device("cuda", 0)
LENGTHS = [(5, 7), (1, 1), (12, 3), (9, 20), (2, 6), (30, 25), (64, 60), (17, 1)]


def relative_error(ours, theirs):
    ours, theirs = ours.detach().double(), theirs.detach().double()
    return float((ours - theirs).norm() / theirs.norm())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("is_causal", [False, True])
def test_the_packed_kernel_equals_the_plain_attention_and_so_does_its_gradient(dtype, is_causal):
    # The last three are PAD: with keys, without keys, and keys without queries.
    query_lengths, key_lengths = [7, 1, 30, 64, 5, 9, 0], [5, 1, 64, 30, 7, 0, 11]
    if is_causal:
        key_lengths = query_lengths
    queries, keys = offsets_of(query_lengths).to(GPU), offsets_of(key_lengths).to(GPU)
    relation = make_relation(queries, keys, "varlen", 64, is_causal=is_causal)
    torch.manual_seed(1)
    query = torch.randn(sum(query_lengths), 4, 64, device=GPU, dtype=dtype)
    key, value = torch.randn(2, sum(key_lengths), 4, 64, device=GPU, dtype=dtype).unbind(0)
    has_keys = torch.repeat_interleave(keys.diff() > 0, queries.diff())
    weights = torch.randn_like(query) * has_keys[:, None, None]
    results = []
    for function, kind in ((packed_attention, dtype), (reference_attention, torch.float64)):
        torch.empty(10_000_000, device=GPU).fill_(float("nan"))  # memory that nobody wrote would show
        inputs = [x.detach().to(kind).requires_grad_() for x in (query, key, value)]
        result = function(*inputs, relation)
        result.backward(weights.to(kind))
        results.append([result * has_keys[:, None, None], *(x.grad for x in inputs)])
    for ours, theirs in zip(*results, strict=True):
        assert torch.isfinite(ours).all()
        assert relative_error(ours, theirs) < 1e-2


def new_training(precision: str, preset: str = "base", dropout: float = 0.0, **settings: object):
    config = Config.model_construct(
        model=ModelConfig.model_validate({"preset": preset, **SMALL, "width": 64, "num_heads": 2, "dropout": dropout}),
        training=TrainingConfig.model_validate(
            {"warmup_steps": 1, "learning_rate": 1e-3, "precision": precision, "compile": "off", **settings}
        ),
    )
    return build_training(config, VOCABULARY_SIZE, 64, World(device=GPU))


def steps(training, num_steps=3):
    pairs = random_pairs(LENGTHS)
    microbatches = [
        Microbatch(batch=pack(pairs, [2], [3]), index=0, num_pairs=1, num_source_tokens=1, num_target_tokens=1),
        Microbatch(batch=pack(pairs[::-1], [2], [3]), index=1, num_pairs=1, num_source_tokens=1, num_target_tokens=1),
    ]
    return [train_step(training, microbatches, step) for step in range(1, num_steps + 1)]


@pytest.mark.parametrize("preset", ["base", "modern"])
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("compiled", ["off", "auto"], ids=["plain", "kernels"])
def test_half_precision_agrees_with_fp32_within_its_rounding(preset, precision, compiled):
    exact, rounded = steps(new_training("fp32", preset)), steps(new_training(precision, preset, compile=compiled))
    for ours, theirs in zip(rounded, exact, strict=True):
        assert int(ours.skipped_steps) == 0
        assert float(ours.loss_sum) == pytest.approx(float(theirs.loss_sum), rel=0.01)
        assert float(ours.gradient_norm) == pytest.approx(float(theirs.gradient_norm), rel=0.05)


@pytest.mark.parametrize("preset", ["base", "modern"])
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("consistency", [0.0, 5.0], ids=["one look", "two looks"])
def test_a_recorded_step_does_the_very_same(preset, precision, consistency):
    settings = {"dropout": 0.2, "compile": "auto", "consistency": consistency}
    recorded, launched = (new_training(precision, preset, **settings) for _ in range(2))
    assert recorded.recorder is not None
    launched.recorder = None
    ours, theirs = steps(recorded, 5), steps(launched, 5)
    assert [float(step.loss_sum) for step in ours] == [float(step.loss_sum) for step in theirs]
    for (name, own), other in zip(recorded.model.named_parameters(), launched.model.parameters(), strict=True):
        assert torch.equal(own, other), name
    assert len({float(step.loss_sum) for step in ours}) == 5
    recorded.model.grow_positions(2000)  # as a long validation line does: the recording keeps its own table
    torch.cuda.empty_cache()
    torch.empty(1 << 28, device=GPU).fill_(float("nan"))
    assert float(steps(recorded, 1)[0].loss_sum) == float(steps(launched, 1)[0].loss_sum)
    recorded.recorder.release()
    assert float(steps(recorded, 1)[0].loss_sum) == float(steps(launched, 1)[0].loss_sum)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # torch's compiler about itself
@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp32"])
def test_compiled_code_does_the_same_as_the_plain_one(precision):
    plain, compiled = new_training(precision, "modern"), new_training(precision, "modern")
    compile_forward(compiled)
    for ours, theirs in zip(steps(compiled), steps(plain), strict=True):
        assert float(ours.loss_sum) == pytest.approx(float(theirs.loss_sum), rel=0.01)
        assert float(ours.gradient_norm) == pytest.approx(float(theirs.gradient_norm), rel=0.05)


def test_the_backend_follows_the_precision():
    assert choose_backend(GPU, torch.bfloat16, 64) == "varlen"
    assert choose_backend(GPU, torch.float32, 64) == "padded"
    batch = pack(random_pairs(LENGTHS)).to(GPU)
    assert make_layout(batch, "varlen", 64).cross.padding is None
