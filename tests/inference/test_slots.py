"""Slots: what batches find, also when sentences come and go; the kernels, where there is a GPU: what torch finds."""

import importlib.util

import numpy as np
import pytest
import torch

from septuagint.data.vocabulary import EOS
from septuagint.inference import slots
from septuagint.inference.beam import translate_ids
from septuagint.inference.search import Rules
from septuagint.inference.slots import translate_in_slots
from tests.inference.test_beam import assert_same, restless_model, sources_of

HAS_KERNELS = importlib.util.find_spec("triton") is not None  # on a GPU, or in Triton's interpreter
needs_kernels = pytest.mark.skipif(not HAS_KERNELS, reason="needs triton")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class PlainKernels:
    """The kernels in the words of torch, one slot at a time."""

    @staticmethod
    def attend_to_past(query, key, value, past, pages, ancestors, steps):
        output = torch.empty_like(query)
        page_size = ancestors.shape[-1] // pages.shape[-1]
        for slot, step in enumerate(steps.tolist()):
            rows = [int(pages[slot, place // page_size]) * page_size + place % page_size for place in range(step + 1)]
            past[rows[-1], :, 0], past[rows[-1], :, 1] = key[slot], value[slot]
            for beam in range(query.shape[1]):
                own = [*ancestors[slot, beam, :step].tolist(), beam]
                keys_values = torch.stack([past[row, ancestor] for row, ancestor in zip(rows, own, strict=True)])
                output[slot, beam] = attend(query[slot, beam], keys_values)
        return output

    @staticmethod
    def attend_to_source(query, source, begins, counts):
        output = torch.empty_like(query)
        for slot, (begin, count) in enumerate(zip(begins.tolist(), counts.tolist(), strict=True)):
            for beam in range(query.shape[1]):
                output[slot, beam] = attend(query[slot, beam], source[begin : begin + count])
        return output

    @staticmethod
    def likeliest(logits, number, steps):
        logits = logits.float()
        logits[(steps == 0).repeat_interleave(len(logits) // len(steps)), EOS] = -torch.inf
        return tuple(logits.log_softmax(1).topk(number))


def attend(query_HK, keys_values):
    keys, values = keys_values.float().unbind(1)
    weights = (torch.einsum("hk,thk->ht", query_HK.float(), keys) * query_HK.shape[-1] ** -0.5).softmax(-1)
    return torch.einsum("ht,thk->hk", weights, values).to(query_HK.dtype)


@pytest.mark.parametrize("preset", ["base", "modern"])
@pytest.mark.parametrize(
    ("beam_size", "num_hypotheses", "length_penalty"), [(1, 1, 1.0), (4, 4, 1.0), (3, 2, 0.6), (4, 2, 0.0)]
)
@torch.inference_mode()
def test_slots_find_what_batches_find(monkeypatch, preset, beam_size, num_hypotheses, length_penalty):
    monkeypatch.setattr(slots, "_MAX_SLOTS", 4)
    monkeypatch.setattr(slots, "_PAGE", 8)
    model = restless_model(preset)
    per_token = slots._bytes_per_token(model, torch.float32)
    monkeypatch.setattr(slots, "_SOURCE_BYTES", 80 * per_token)  # more than one share, and the first is not the largest
    monkeypatch.setattr(slots, "_PAST_BYTES", 21 * 8 * beam_size * per_token)  # not enough pages for all slots
    monkeypatch.setattr(slots, "_FOUND_BYTES", 9 * 2 * 4 * beam_size * 136)  # nor room for all translations
    rules = {"beam_size": beam_size, "num_hypotheses": num_hypotheses, "length_penalty": length_penalty}
    sources = sources_of(3, 12, 1, 7, 12, 5, 2, 9, 30, 6, 5, 4, 8, 62)
    told = []
    found = translate_in_slots(model, sources, Rules(**rules), torch.float32, PlainKernels, told.append)
    assert_same(found, translate_ids(model, sources, **rules))
    assert sum(told) == len(sources)
    assert len(told) > 4


def test_slots_take_no_more_memory_than_there_is(monkeypatch):
    model, rules = restless_model(), Rules(beam_size=4, num_hypotheses=1, length_penalty=1.0)
    page = 32 * 4 * slots._bytes_per_token(model, torch.float32)
    for num_bytes, expected in [(0, 3), (50 * page, 50), (page * 10**6, 3 * 32)]:
        monkeypatch.setattr(slots, "_PAST_BYTES", num_bytes)
        with torch.inference_mode():
            made = slots.Slots(
                model, rules, torch.float32, PlainKernels, longest=40, num_sentences=100, num_source_tokens=4000
            )
        assert len(made._memories[0].past_PW2HK) == 32 * (expected + 1)
    for num_bytes, expected in [(0, 2), (17 * 4 * 4 * len(model.embeddings.weight), 16), (1 << 40, 32)]:
        monkeypatch.setattr(slots, "_LOGITS_BYTES", num_bytes)
        with torch.inference_mode():
            made = slots.Slots(
                model, rules, torch.float32, PlainKernels, longest=40, num_sentences=100, num_source_tokens=4000
            )
        assert len(made._steps_B) == expected


def test_shares_hold_the_longest_sentences_first_within_a_budget():
    lengths = [5, 100, 6, 30, 90, 20, 7, 40, 101]
    shares = list(slots._shares(lengths, 200))
    assert [[lengths[row] for row in share] for share in shares] == [[101], [100, 90], [40, 30, 20, 7, 6, 5]]
    shares = list(slots._shares(lengths, 200, 4))
    assert [[lengths[row] for row in share] for share in shares] == [[101], [100, 90], [40, 30, 20, 7], [6, 5]]
    assert sorted(row for share in shares for row in share) == list(range(len(lengths)))


@needs_kernels
@pytest.mark.parametrize(("num_beams", "num_heads", "head_width"), [(4, 8, 64), (1, 2, 8), (5, 3, 24), (20, 2, 32)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_attention_kernels_find_what_torch_finds(num_beams, num_heads, head_width, dtype):
    from septuagint.inference import gpu_kernels

    generator = np.random.default_rng(1)
    steps, page_size, num_pages = torch.tensor([0, 1, 7, 40, 16, 31, 32, 63]), 32, 2
    head = (num_heads, head_width)

    def random(*shape):
        return torch.from_numpy(generator.normal(size=shape).astype(np.float32)).to(DEVICE, dtype)

    query, key, value = random(len(steps), num_beams, 3, *head).unbind(2)
    past = random(len(steps) * num_pages * page_size, num_beams, 2, *head)
    pages = torch.from_numpy(generator.permutation(len(steps) * num_pages).reshape(len(steps), num_pages))
    ancestors = torch.from_numpy(generator.integers(0, num_beams, (len(steps), num_beams, num_pages * page_size)))
    inputs = (query, key, value, past, pages.to(DEVICE), ancestors.int().to(DEVICE), steps.to(DEVICE))
    expected_past = past.clone()
    expected = PlainKernels.attend_to_past(*inputs[:3], expected_past, *inputs[4:])
    found = gpu_kernels.attend_to_past(*inputs)
    assert relative_error(found, expected) < (1e-5 if dtype == torch.float32 else 1e-2)
    assert torch.equal(past, expected_past)

    source = random(200, 2, *head)
    begins, counts = torch.tensor([0, 0, 3, 100, 199, 70, 8, 9]), torch.tensor([1, 200, 64, 65, 1, 130, 31, 33])
    found = gpu_kernels.attend_to_source(query, source, begins.to(DEVICE), counts.to(DEVICE))
    expected = PlainKernels.attend_to_source(query, source, begins, counts)
    assert relative_error(found, expected) < (1e-5 if dtype == torch.float32 else 1e-2)


def relative_error(found, expected):
    return float((found.float() - expected.float()).norm() / expected.float().norm())


@needs_kernels
@pytest.mark.parametrize("num_pieces", [300, 4096, 10_001])
def test_the_kernel_finds_the_likeliest_pieces(num_pieces):
    from septuagint.inference import gpu_kernels

    logits = torch.randn(20, num_pieces, device=DEVICE)
    logits[:, EOS] = 10.0
    logits[3, :8] = 20.0 + torch.arange(8)  # all in one part
    steps = torch.tensor([0, 1, 0, 5, 9], device=DEVICE)
    log_probs, ids = gpu_kernels.likeliest(logits, 8, steps)
    expected_log_probs, expected_ids = PlainKernels.likeliest(logits.clone(), 8, steps)
    torch.testing.assert_close(log_probs, expected_log_probs)
    assert torch.equal(ids, expected_ids)
