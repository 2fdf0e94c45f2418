"""Hugging Face's MarianMTModel as a peer of `train_step.py`: in its best settings, on the same text."""

import math
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from septuagint.config import Config
from septuagint.data.dataset import Dataset
from septuagint.data.sentences import Sentences
from septuagint.data.vocabulary import EOS, PAD
from septuagint.training.optimizer import learning_rate
from septuagint.training.precision import DTYPES, choose_precision

NUM_AHEAD = 4  # steps of padded batches

# Makes so many steps; the real tokens of source and target, and the positions there were for them.
Run = Callable[[int], np.ndarray]


def begin_marian(config: Config, dataset: Dataset, device: torch.device, *, is_compiled: bool) -> tuple[Run, int, str]:
    """Hugging Face's MarianMTModel with the same sizes, dropout, loss, clipping, optimizer and precision."""
    settings = config.training
    precision = choose_precision(settings.precision, device)
    if precision != "fp32":
        torch.set_float32_matmul_precision("high")
    torch.manual_seed(settings.seed)
    model = make_marian(config, dataset.vocabulary.size).to(device).train()
    loss_of = smoothed_loss
    if is_compiled:
        # Layer by layer: for LayerDrop, compiled code of the whole would stop at a random number before each of them.
        for layer in [*model.model.encoder.layers, *model.model.decoder.layers]:
            layer.compile(dynamic=True)
        loss_of = torch.compile(smoothed_loss, dynamic=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, betas=settings.adam_betas, eps=1e-9, fused=True)
    batches = padded_batches(dataset, settings.microbatch_tokens, settings.seed, pin_memory=device.type == "cuda")
    thread = ThreadPoolExecutor(1, thread_name_prefix="padded batches")

    def prepare_step() -> list[tuple[list[Tensor], np.ndarray]]:
        return [next(batches) for _ in range(settings.num_microbatches)]

    ahead = deque(thread.submit(prepare_step) for _ in range(NUM_AHEAD))
    steps = 0

    def run(num_steps: int) -> np.ndarray:
        nonlocal steps
        total = np.zeros(4, np.int64)
        for _ in range(num_steps):
            steps += 1
            step = ahead.popleft().result()
            ahead.append(thread.submit(prepare_step))
            counts = np.sum([count for _, count in step], axis=0)
            for tensors, _ in step:
                source, inputs, labels = (tensor.to(device, non_blocking=True) for tensor in tensors)
                # Masks of four dimensions are taken as they are; others would be looked at, on the device.
                is_past = torch.ones(2 * inputs.shape[1:], dtype=torch.bool, device=device).tril()
                with torch.autocast(device.type, dtype=DTYPES[precision], enabled=precision != "fp32"):
                    logits = model(
                        input_ids=source,
                        attention_mask=(source != PAD)[:, None, None],
                        decoder_input_ids=inputs,
                        decoder_attention_mask=is_past[None, None],
                        use_cache=False,
                    ).logits
                    loss = loss_of(logits, labels, settings.label_smoothing)
                (loss / int(counts[1])).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_gradient_norm or math.inf, foreach=True)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(steps, settings, config.model.width)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            total += counts
        return total

    parameters = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    return run, parameters, precision + (", layers compiled" if is_compiled else "")


def make_marian(config: Config, vocabulary_size: int) -> Any:
    from transformers import MarianConfig, MarianMTModel

    sizes = config.model
    return MarianMTModel(
        MarianConfig(
            vocab_size=vocabulary_size,
            d_model=sizes.width,
            encoder_layers=sizes.num_encoder_layers,
            decoder_layers=sizes.num_decoder_layers,
            encoder_attention_heads=sizes.num_heads,
            decoder_attention_heads=sizes.num_heads,
            encoder_ffn_dim=sizes.feedforward_width,
            decoder_ffn_dim=sizes.feedforward_width,
            activation_function="relu",
            dropout=sizes.dropout,
            attention_dropout=0.0,
            activation_dropout=0.0,
            scale_embedding=True,
            max_position_embeddings=1024,
            pad_token_id=PAD,
            eos_token_id=EOS,
            decoder_start_token_id=EOS,
            attn_implementation="sdpa",
        )
    )


def smoothed_loss(logits: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
    return F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=PAD, label_smoothing=label_smoothing, reduction="sum"
    )


def padded_batches(
    dataset: Dataset, budget: int, seed: int, *, pin_memory: bool
) -> Iterator[tuple[list[Tensor], np.ndarray]]:
    """(source, decoder's inputs, labels) and their counts as in `Run`, without end.

    The pairs of an epoch sorted by length, cut into batches of up to `budget` padded tokens a side, in random order.
    """
    random = np.random.default_rng(seed)
    order = dataset.order(seed)
    corpora, numbers = order.pairs(0, order.num_pairs)
    source_lengths, target_lengths = dataset.train.lengths(corpora, numbers)
    rows = np.lexsort((source_lengths, target_lengths))
    batches, first, longest = [], 0, 0
    for position, length in enumerate(np.maximum(source_lengths, target_lengths)[rows].tolist()):
        longest = max(longest, length)
        if longest * (position - first + 1) > budget:
            batches.append(rows[first:position])
            first, longest = position, length
    batches.append(rows[first:])
    while True:
        for number in random.permutation(len(batches)):
            chosen = batches[number]
            sentences = dataset.train.gather(corpora[chosen], numbers[chosen])
            source, labels = (_padded(side) for side in sentences)
            inputs = np.roll(labels, 1, axis=1)
            inputs[:, 0] = EOS
            counts = np.array([*(len(side.ids) for side in sentences), source.size, labels.size])
            tensors = [torch.from_numpy(array) for array in (source, inputs, labels)]
            yield [tensor.pin_memory() for tensor in tensors] if pin_memory else tensors, counts


def _padded(sentences: Sentences) -> np.ndarray:
    is_real = np.arange(sentences.lengths.max()) < sentences.lengths[:, None]
    array = np.full(is_real.shape, PAD, np.int64)
    array[is_real] = sentences.ids
    return array
