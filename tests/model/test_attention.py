"""Packed attention equals attention on each pair alone."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from septuagint.model.attention import (
    choose_backend,
    make_relation,
    packed_attention,
    reference_attention,
)

lengths = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=12)


def offsets_of(lengths: list[int]) -> torch.Tensor:
    return torch.tensor(np.cumsum([0, *lengths]), dtype=torch.int32)


def attend(function, query, key, value, relation):
    query, key, value = (x.clone().requires_grad_() for x in (query, key, value))
    result = function(query, key, value, relation)
    weights = torch.randn(result.shape, generator=torch.Generator().manual_seed(2), dtype=result.dtype)
    # A query that faces no key has no right answer: PAD may stand there, and nothing is learnt from it.
    query_lengths, key_lengths = relation.query_offsets.diff(), relation.key_offsets.diff()
    has_keys = torch.repeat_interleave(key_lengths > 0, query_lengths)
    result = torch.where(has_keys[:, None, None], result, 0.0)
    (result * weights).sum().backward()
    return result.detach(), query.grad, key.grad, value.grad


@settings(deadline=None, max_examples=60)
@given(lengths, st.booleans(), st.integers(0, 2**31))
def test_padded_attention_equals_the_plain_one_and_so_does_its_gradient(pairs, is_causal, seed):
    query_lengths = [query for query, _ in pairs]
    key_lengths = query_lengths if is_causal else [key for _, key in pairs]
    if not any(query and key for query, key in zip(query_lengths, key_lengths, strict=True)):
        return  # nobody attends to anything
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(sum(query_lengths), 2, 8, generator=generator, dtype=torch.float64)
    key, value = (torch.randn(sum(key_lengths), 2, 8, generator=generator, dtype=torch.float64) for _ in range(2))
    relation = make_relation(
        offsets_of(query_lengths), offsets_of(key_lengths), "padded", max_length=40, is_causal=is_causal
    )
    packed = attend(packed_attention, query, key, value, relation)
    plain = attend(reference_attention, query, key, value, relation)
    for ours, theirs in zip(packed, plain, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_the_plain_attention_equals_torch_on_one_sentence():
    query, key, value = torch.randn(3, 7, 2, 8).unbind(0)
    for is_causal in (False, True):
        relation = make_relation(offsets_of([7]), offsets_of([7]), "padded", max_length=7, is_causal=is_causal)
        expected = torch.nn.functional.scaled_dot_product_attention(
            *(x.transpose(0, 1) for x in (query, key, value)), is_causal=is_causal
        ).transpose(0, 1)
        torch.testing.assert_close(reference_attention(query, key, value, relation), expected)


def test_a_sentence_does_not_see_its_neighbours():
    offsets = offsets_of([5, 9, 3])
    relation = make_relation(offsets, offsets, "padded", max_length=9)
    query, key, value = torch.randn(3, 17, 2, 8).unbind(0)
    before = packed_attention(query, key, value, relation)
    key, value = key.clone(), value.clone()
    key[5:14], value[5:14] = 100.0, -100.0
    after = packed_attention(query, key, value, relation)
    assert torch.equal(before[:5], after[:5])
    assert torch.equal(before[14:], after[14:])
    assert not torch.equal(before[5:14], after[5:14])


def test_a_cpu_attends_to_bf16_in_float32_as_its_kernel_for_bf16_is_slow():
    offsets = offsets_of([5, 9, 3])
    relation = make_relation(offsets, offsets, "padded", max_length=9)
    generator = torch.Generator().manual_seed(1)
    given = [torch.randn(17, 2, 8, generator=generator).bfloat16() for _ in range(3)]
    wide = attend(packed_attention, *(x.float() for x in given), relation)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        narrow = attend(packed_attention, *given, relation)
    assert {x.dtype for x in narrow} == {torch.bfloat16}
    torch.testing.assert_close(narrow[0], wide[0].bfloat16(), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_cpu_pads(dtype):
    assert choose_backend(torch.device("cpu"), dtype, 64) == "padded"
