"""The network: a pair is the same in any company, and decoding step by step equals reading the whole."""

import pytest
import torch

from septuagint.config import PRESETS, ModelConfig
from septuagint.model.attention import make_layout, make_relation
from septuagint.model.loss import token_loss
from septuagint.model.transformer import Transformer, position_table
from tests.model.conftest import pack, random_pairs, small_model

LENGTHS = [(5, 7), (1, 1), (12, 3), (9, 20), (2, 6), (30, 25)]


def hidden_of(model, batch, max_length=64):
    return model(batch, make_layout(batch, "padded", max_length))


@pytest.mark.parametrize("preset", PRESETS)
def test_a_pair_is_the_same_packed_and_alone(preset):
    model = small_model(preset)
    pairs = random_pairs(LENGTHS)
    together = hidden_of(model, pack(pairs, source_pad=[4, 0], target_pad=[3, 9]))
    start = 0
    for source, target in pairs:
        alone = hidden_of(model, pack([(source, target)]))
        torch.testing.assert_close(together[start : start + len(target)], alone, rtol=1e-4, atol=1e-5)
        start += len(target)


@pytest.mark.parametrize("preset", ["base", "modern"])
def test_loss_and_gradient_of_a_set_of_pairs_do_not_depend_on_how_it_is_packed(preset):
    model = small_model(preset).double()
    pairs = random_pairs(LENGTHS)
    results = []
    for packs in ([pairs], [pairs[:2], pairs[2:]], [[pair] for pair in reversed(pairs)]):
        model.zero_grad()
        total, tokens = 0.0, 0
        for chosen in packs:
            batch = pack(chosen, source_pad=[3], target_pad=[2])
            hidden = hidden_of(model, batch)
            loss, count = token_loss(hidden, model.embeddings.weight, batch.labels_T, label_smoothing=0.1)
            loss.backward()
            total, tokens = total + loss.item(), tokens + int(count)
        results.append((total, tokens, [p.grad.clone() for p in model.parameters()]))
    for total, tokens, gradients in results[1:]:
        assert tokens == results[0][1] == sum(len(target) for _, target in pairs)
        assert total == pytest.approx(results[0][0], rel=1e-6)
        torch.testing.assert_close(gradients, results[0][2], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("preset", ["base", "modern", "fast"])
def test_cached_decoding_equals_recomputation(preset):
    model = small_model(preset)
    pairs = random_pairs([(5, 9), (12, 9), (7, 9)])
    batch = pack(pairs)
    expected = hidden_of(model, batch).view(3, 9, -1)
    relation = make_relation(batch.source_offsets, batch.source_offsets, "padded", 64)
    memory = model.encode(batch.source_ids_S, batch.source_offsets, relation)
    lengths = torch.tensor([5, 12, 7])
    state = model.start_decoding(memory, lengths, num_beams=2, room=4)
    targets = batch.target_ids_T.view(3, 9)
    # Two beams that both know the target: the second from the fifth token on, when it becomes a copy of the first.
    inputs = torch.stack([targets, torch.where(torch.arange(9) < 4, 7, targets)], dim=1)
    for position in range(9):
        if position == state.room:
            state.grow(2 * state.room)
        if position == 4:  # one sentence is finished
            state.follow(torch.zeros(3, 2, dtype=torch.int64))
            state.select(torch.tensor([2, 0]))
            inputs, expected = inputs[[2, 0]], expected[[2, 0]]
        length = position + 1 if position % 2 else state.room  # room that is not used yet changes nothing
        found = model.decode_next(inputs[:, :, position], state, length)
        torch.testing.assert_close(found[:, 0], expected[:, position], rtol=1e-4, atol=1e-5)
        if position >= 4:
            torch.testing.assert_close(found[:, 1], expected[:, position], rtol=1e-4, atol=1e-5)


def test_positions_grow_for_long_sentences():
    model = small_model("base")
    short = model.position_table.clone()
    model.grow_positions(5000)
    assert len(model.position_table) >= 5000
    assert torch.equal(model.position_table[: len(short)], short)


def test_sinusoids_begin_at_position_two_with_sines_first():
    table = position_table(ModelConfig.model_validate({"preset": "base"}), 4)
    angle = torch.tensor(2.0)
    assert table[0, 0] == angle.sin()
    assert table[0, 256] == angle.cos()
    assert table[3, 0] == torch.tensor(5.0).sin()


@pytest.mark.parametrize(
    ("preset", "millions"), [("base", 60.9), ("big", 209.9), ("modern", 61.6), ("modern-big", 212.9), ("fast", 63.8)]
)
def test_presets_have_their_sizes(preset, millions):
    with torch.device("meta"):
        model = Transformer(ModelConfig.model_validate({"preset": preset}), 32_768)
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(millions, abs=0.06)


def test_the_older_presets_have_biases_and_the_output_none():
    base, modern = small_model("base"), small_model("modern")
    assert any(name.endswith("bias") for name, _ in base.named_parameters())
    assert not any(name.endswith("bias") for name, _ in modern.named_parameters())
    assert torch.equal(base.logits(torch.zeros(1, 32)), torch.zeros(1, 50))


def test_dropout_works_in_training_only():
    model = small_model("base", dropout=0.5)
    batch = pack(random_pairs(LENGTHS))
    assert torch.equal(hidden_of(model, batch), hidden_of(model, batch))
    model.train()
    assert not torch.equal(hidden_of(model, batch), hidden_of(model, batch))
