"""Our kernels do what torch does in plain words, values and gradients; without a GPU, Triton's interpreter runs."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from septuagint.batch import IGNORE
from septuagint.config import ModelConfig
from septuagint.model.attention import has_kernels, make_layout, make_relation, reference_attention
from septuagint.model.loss import token_loss
from septuagint.model.transformer import Transformer, _rotate, position_table
from tests.model.conftest import SMALL, VOCABULARY_SIZE, pack, random_pairs
from tests.model.test_attention import offsets_of

pytest.importorskip("triton", reason="needs triton")
from septuagint.model.fast import FastPass, HalfWeights
from septuagint.model.kernels import attention
from septuagint.model.kernels.activation import relu_back, swiglu, swiglu_back
from septuagint.model.kernels.attention import attend_across, attend_within, make_side, make_tiles
from septuagint.model.kernels.embedding import Words, embed
from septuagint.model.kernels.loss import cross_entropy_in_place
from septuagint.model.kernels.residual import Drops, add_and_normalise
from septuagint.model.kernels.sums import sum_of_rows

HAS_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if HAS_GPU else "cpu")
# The interpreter is exact; on a GPU it is about what training does.
DTYPE, TOLERANCE = (torch.bfloat16, 1e-2) if HAS_GPU else (torch.float32, 1e-5)
# Short ones that share tiles, one that fills a tile, long ones of two and three tiles, and PAD: empty and not.
LENGTHS = [(5, 7), (1, 1), (12, 3), (30, 25), (64, 64), (17, 1), (70, 100), (3, 65), (130, 60), (4, 4), (0, 6), (9, 0)]


def numbers(*shape: int, seed: int = 1) -> torch.Tensor:
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return values.to(DEVICE, DTYPE).requires_grad_()


def assert_close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    ours, theirs = ours.detach().double(), theirs.detach().double()
    assert torch.isfinite(ours).all()
    assert float((ours - theirs).norm()) <= TOLERANCE * max(1e-3, float(theirs.norm()))


def relative_error(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    return float((ours - theirs).norm() / theirs.norm())


def exact(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [tensor.detach().double().requires_grad_() for tensor in tensors]


def new_drops(share: float, seed: int = 7) -> Drops:
    return Drops(share=share, seed=torch.tensor(seed, dtype=torch.int32, device=DEVICE) if share else None)


def sides(lengths):
    source, target = (offsets_of(list(column)).to(DEVICE) for column in zip(*lengths, strict=True))
    return make_side(source, int(source[-1])), make_side(target, int(target[-1]))


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 140), st.integers(0, 140)), min_size=1, max_size=60))
def test_every_token_is_in_one_tile_and_every_sentence_in_as_few_as_it_needs(lengths):
    lengths = [*lengths, (1, 1)]
    source, target = sides(lengths)
    for tiles in make_tiles(source, target):
        num_short, num_long = tiles.counts.tolist()
        rows = tiles.table.tolist()
        short, long = rows[:num_short], rows[len(rows) - num_long :]
        for first, last, side in ((0, 1, tiles.queries), (2, 3, tiles.keys)):
            covered = np.concatenate([np.arange(row[first], row[last]) for row in short + long])
            assert sorted(covered.tolist()) == list(range(len(side.sentences)))
        for row in short:
            assert row[:4] == row[4:] and max(row[1] - row[0], row[3] - row[2]) <= attention.SIZE
        for row in long:
            assert max(row[1] - row[0], row[3] - row[2]) <= attention.SIZE < max(row[5] - row[4], row[7] - row[6])


@pytest.mark.parametrize("is_rotary", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_within_a_text(is_causal, is_rotary):
    _, side = sides(LENGTHS)
    tiles = make_tiles(side, side)[0]
    num_heads, head_width = 2, 32
    config = ModelConfig.model_validate({"preset": "modern", **SMALL, "width": 64, "num_heads": 2})
    rotations = position_table(config, 128).to(DEVICE) if is_rotary else None
    projected, weights = numbers(len(side.sentences), 192), numbers(len(side.sentences), 64, seed=2)
    ours = attend_within(projected, tiles, rotations, num_heads, is_causal)
    (ours * weights).sum().backward()
    (plain,) = exact(projected)
    query, key, value = plain.view(-1, 3, num_heads, head_width).unbind(1)
    if rotations is not None:
        angles = rotations[side.positions.long()]
        query, key = (_rotate(x.float(), angles).double() for x in (query, key))
    relation = make_relation(side.offsets, side.offsets, "padded", 130, is_causal=is_causal)
    theirs = reference_attention(query, key, value, relation).flatten(1)
    (theirs * weights.double()).sum().backward()
    assert_close(ours, theirs)
    assert_close(projected.grad, plain.grad)


def test_attention_across_texts():
    source, target = sides(LENGTHS)
    tiles = make_tiles(source, target)[2]
    query, key_value = numbers(len(target.sentences), 64), numbers(len(source.sentences), 128, seed=2)
    weights = numbers(len(target.sentences), 64, seed=3)
    ours = attend_across(query, key_value, tiles, 2)
    (ours * weights).sum().backward()
    plain_query, plain_key_value = exact(query, key_value)
    key, value = plain_key_value.view(-1, 2, 2, 32).unbind(1)
    relation = make_relation(target.offsets, source.offsets, "padded", 130)
    theirs = reference_attention(plain_query.view(-1, 2, 32), key, value, relation).flatten(1)
    (theirs * weights.double()).sum().backward()
    assert_close(ours, theirs)
    assert_close(query.grad, plain_query.grad)
    assert_close(key_value.grad, plain_key_value.grad)


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("has_shift", [False, True])
@pytest.mark.parametrize("width", [48, 64])
def test_addition_and_norm(width, has_shift, share):
    drops = new_drops(share)
    stream, branch = numbers(70, width), numbers(70, width, seed=2)
    bias, scale, shift = (numbers(width, seed=seed).float().detach().requires_grad_() for seed in (3, 4, 5))
    weights = numbers(70, width, seed=6), numbers(70, width, seed=7)
    ours = add_and_normalise(stream, branch, bias, scale, shift if has_shift else None, drops, 1e-5)
    sum(((result * weight).sum() for result, weight in zip(ours, weights, strict=True)), start=0.0).backward()
    ones = torch.ones_like(stream)
    is_kept = (add_and_normalise(0 * ones, ones, None, scale, None, new_drops(share), 1e-5)[0] != 0).double()
    assert float(is_kept.mean()) == pytest.approx(1 - share, abs=0.03)
    exact_stream, exact_branch, exact_bias, exact_scale, exact_shift = exact(stream, branch, bias, scale, shift)
    added = exact_stream + (exact_branch + exact_bias) * is_kept * drops.factor
    norm = F.layer_norm(added, (width,), exact_scale, exact_shift) if has_shift else None
    theirs = added, F.rms_norm(added, (width,), exact_scale, 1e-5) if norm is None else norm
    sum(
        ((result * weight.double()).sum() for result, weight in zip(theirs, weights, strict=True)), start=0.0
    ).backward()
    for own, other in zip(ours, theirs, strict=True):
        assert_close(own, other)
    tensors = (stream, exact_stream), (branch, exact_branch), (bias, exact_bias), (scale, exact_scale)
    for own, other in (*tensors, *([(shift, exact_shift)] if has_shift else [])):
        assert_close(own.grad, other.grad)


def test_the_first_norm_adds_nothing():
    stream, scale = numbers(9, 64), torch.ones(64, device=DEVICE, requires_grad=True)
    same, normed = add_and_normalise(stream, None, None, scale, None, Drops(share=0.5, seed=None), 1e-5)
    (same.sum() + (normed * numbers(9, 64, seed=2)).sum()).backward()
    (plain,) = exact(stream)
    (plain.sum() + (F.rms_norm(plain, (64,), eps=1e-5) * numbers(9, 64, seed=2).double()).sum()).backward()
    assert torch.equal(same, stream)
    assert_close(stream.grad, plain.grad)


def test_places_and_seeds_drop_different_numbers():
    ones = torch.ones(64, 64, device=DEVICE, dtype=DTYPE)
    scale = torch.ones(64, device=DEVICE)
    kept = []
    for seed in (1, 2):
        drops = new_drops(0.5, seed)
        for _ in range(2):
            total, _ = add_and_normalise(torch.zeros_like(ones), ones, None, scale, None, drops, 1e-5)
            kept.append((total != 0).double() - 0.5)
    agreement = torch.stack(kept).flatten(1) @ torch.stack(kept).flatten(1).T / kept[0].numel() * 4
    assert torch.allclose(agreement.cpu(), torch.eye(4, dtype=torch.float64), atol=0.08)


def test_swiglu():
    both, gradient = numbers(5, 96), numbers(5, 48, seed=2)
    (plain,) = exact(both)
    gate, inner = plain.chunk(2, dim=1)
    theirs = F.silu(gate) * inner
    theirs.backward(gradient.double())
    assert_close(swiglu(both), theirs)
    assert_close(swiglu_back(gradient.detach(), both), plain.grad)


def test_the_way_back_through_relu():
    inner, gradient = numbers(300, 48).detach().relu(), numbers(300, 48, seed=2).detach()
    expected = gradient * (inner > 0)
    sums = relu_back(gradient, inner)
    assert torch.equal(gradient, expected)
    assert_close(sums, expected.double().sum(0))


def test_the_sum_of_rows():
    parts = numbers(777, 45).detach().float()
    assert_close(sum_of_rows(parts), parts.double().sum(0))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("num_pieces", [50, 5000])
def test_cross_entropy(num_pieces, smoothing):
    logits = numbers(7, num_pieces).detach() * 3
    labels = torch.tensor([0, 3, IGNORE, 49, num_pieces - 1, IGNORE, 7], device=DEVICE)
    scale = torch.tensor(0.5, device=DEVICE)
    (plain,) = exact(logits)
    theirs = F.cross_entropy(plain, labels, ignore_index=IGNORE, label_smoothing=smoothing, reduction="none")
    (theirs.sum() * 0.5).backward()
    without = logits.clone()
    assert_close(cross_entropy_in_place(without, labels, smoothing, 0.0, None, with_gradient=False), theirs)
    assert torch.equal(without, logits)
    assert_close(cross_entropy_in_place(logits, labels, smoothing, 0.0, scale, with_gradient=True), theirs)
    assert_close(logits, plain.grad)


@pytest.mark.parametrize("num_pieces", [50, 5000])
def test_cross_entropy_of_copies_that_shall_agree(num_pieces):
    logits = numbers(8, num_pieces).detach() * 3
    labels = torch.tensor([0, IGNORE, 49, num_pieces - 1], device=DEVICE).repeat(2)
    scale = torch.tensor(0.5, device=DEVICE)
    (plain,) = exact(logits)
    theirs = (
        F.cross_entropy(plain, labels, ignore_index=IGNORE, label_smoothing=0.1, reduction="none").view(2, 4).sum(0)
    )
    log_p, log_q = plain.log_softmax(-1).chunk(2)
    apart = (log_p.exp() * (log_p - log_q) + log_q.exp() * (log_q - log_p)).sum(-1)
    theirs = theirs + torch.where(labels[:4] == IGNORE, 0.0, 3.0 * 0.5 * apart)
    (theirs.sum() * 0.5).backward()
    without = logits.clone()
    assert_close(cross_entropy_in_place(without, labels, 0.1, 3.0, None, with_gradient=False), theirs)
    assert torch.equal(without, logits)
    assert_close(cross_entropy_in_place(logits, labels, 0.1, 3.0, scale, with_gradient=True), theirs)
    assert_close(logits, plain.grad)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_embeddings(share):
    drops = new_drops(share)
    ids = torch.tensor([4, 7, 4, 0, 49, 4], device=DEVICE), torch.tensor([7, 7, 1], device=DEVICE)
    positions = torch.tensor([0, 1, 2, 0, 1, 2], dtype=torch.int32, device=DEVICE)
    texts = [Words(ids=text, positions=positions[: len(text)]) for text in ids]
    half = numbers(50, 48)
    weight = half.detach().float().requires_grad_()
    sinusoids = numbers(3, 48, seed=2).detach().float()
    ours = embed(*texts, weight, half.detach(), sinusoids, 2.0, drops)
    gradients = [numbers(len(text), 48, seed=4) for text in ids]
    torch.autograd.backward(ours, gradients)
    (plain,) = exact(half)
    for text, own, gradient in zip(texts, ours, gradients, strict=True):
        expected = plain[text.ids] * 2.0 + sinusoids.double()[text.positions.long()]
        is_kept = (own != 0).double()
        assert float(is_kept.mean()) == pytest.approx(1 - share, abs=0.12)
        expected = expected * is_kept * drops.factor
        assert_close(own, expected)
        expected.backward(gradient.double())
    assert_close(weight.grad, plain.grad)


@pytest.mark.parametrize(
    "fields",
    [{"preset": "base"}, {"preset": "modern"}, {"norm": "rms", "feedforward": "relu", "positions": "rotary"}],
    ids=["base", "modern", "mixed"],
)
@pytest.mark.parametrize("consistency", [0.0, 2.0])
def test_the_whole_pass_is_that_of_the_network(fields, consistency):
    sizes = {"width": 64, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
    config = ModelConfig.model_validate({**SMALL, **sizes, **fields})
    torch.manual_seed(1)
    model = Transformer(config, VOCABULARY_SIZE).to(DEVICE).train()
    batch = pack(random_pairs([(5, 7), (1, 1), (12, 3), (66, 20)]), [2], [3]).to(DEVICE)
    options = {"label_smoothing": 0.1, "consistency": consistency}
    if consistency:  # copies that differ, as dropout would make them
        other = pack(random_pairs([(5, 7), (1, 1), (12, 3), (66, 20)], seed=5), [2], [3]).to(DEVICE)
        batch = dataclasses.replace(batch.twice(), source_ids_S=torch.cat([batch.source_ids_S, other.source_ids_S]))
    layout = make_layout(batch, "padded", 130)

    def plain_pass():
        return token_loss(model(batch, layout), model.embeddings.weight, batch.labels_T, **options)

    def fast_pass():
        fast = FastPass(model, HalfWeights(model, DTYPE), make_layout(batch, "tiled", 130))
        return fast.loss(fast.hidden_states(batch), batch.labels_T, **options, gradient_scale=None)

    def gradients_of(run):
        model.zero_grad()
        loss, count = run()
        loss.backward()
        return float(loss.detach()), int(count), {name: p.grad.clone() for name, p in model.named_parameters()}

    their_loss, their_count, theirs = gradients_of(plain_pass)
    with torch.autocast(DEVICE.type, dtype=DTYPE, enabled=HAS_GPU):
        *_, rounded = gradients_of(plain_pass)
    our_loss, our_count, ours = gradients_of(fast_pass)
    assert our_count == their_count
    assert our_loss == pytest.approx(their_loss, rel=TOLERANCE)
    for name, exact_gradient in theirs.items():
        # A number near zero that is rounded across it opens or shuts a ReLU: torch has that too.
        limit = max(5 * TOLERANCE, 2 * relative_error(rounded[name], exact_gradient))
        assert relative_error(ours[name], exact_gradient) < limit, name


def test_a_cpu_has_no_kernels():
    config = ModelConfig.model_validate({"preset": "base"})
    assert not has_kernels(config, torch.device("cpu"), torch.bfloat16)


def test_half_weights_follow_the_weights():
    model = Transformer(ModelConfig.model_validate({"preset": "base", **SMALL}), VOCABULARY_SIZE)
    halves = HalfWeights(model, torch.bfloat16)
    weight = model.encoder[0].feedforward.input.weight
    for value in (1.0, 3.0):
        weight.data.fill_(value)
        halves.refresh()
        assert torch.equal(halves.of(weight), torch.full_like(weight, value, dtype=torch.bfloat16))
