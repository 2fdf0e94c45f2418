"""How fast a training step is: non-padding target tokens per second, fill and peak memory, on this machine.

    python benchmarks/train_step.py CONFIG [--steps 20] [--marian]

The whole step is measured with the program's own parts: loader with prefetch, forward, label-smoothed loss, backward,
dropout, clipping, AdamW. `--marian` (pip install transformers==5.22.2) measures Hugging Face's MarianMTModel of the
same size beside it, on the same text: length-bucketed padded batches of the same token budget, fused AdamW,
SDPA attention. Both run in processes of their own and take turns, so that what else happens
on the machine hits both; the figures are medians over the rounds.
"""

import argparse
import json
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch

from septuagint.batch import Cursor
from septuagint.config import Config
from septuagint.config_file import load_config
from septuagint.data.dataset import Dataset, open_dataset
from septuagint.data.loader import Loader
from septuagint.data.packing import pack_shape
from septuagint.data.vocabulary import EOS, PAD
from septuagint.data.workers import available_cores
from septuagint.progress import ProgressReport
from septuagint.training.optimizer import learning_rate
from septuagint.training.precision import choose_device
from septuagint.training.state import build_training
from septuagint.training.step import train_step
from septuagint.world import World

Run = Callable[[int], tuple[int, float, float]]  # steps -> target tokens, source fill, target fill


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--set", action="append", default=[], dest="overrides", metavar="KEY=VALUE")
    parser.add_argument("--device", choices=["auto", "cpu"], default="auto")
    parser.add_argument("--steps", type=int, default=20, help="in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=3, help="steps that are not measured")
    parser.add_argument("--marian", action="store_true", help="measure Hugging Face's MarianMTModel too")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.marian and arguments.device != "cpu" and torch.cuda.is_available():
        parser.error("--marian is measured in fp32 and uncompiled: compare on --device cpu")
    names = ["septuagint", *(["marian"] if arguments.marian else [])]
    results = measure(names, arguments)
    if arguments.json:
        print(json.dumps(results, indent=1))
        return
    first = results["machine"]
    print(f"{first['device']}, torch {torch.__version__}, {first['precision']}, {first['threads']} threads")
    for name in names:
        found = results[name]
        print(
            f"{name:<12} {found['target_tokens_per_second']:>12,.0f} target tok/s  "
            f"{found['seconds_per_step']:.4f} s/step  "
            f"fill {found['source_fill']:.1%} source, {found['target_fill']:.1%} target  "
            f"peak {found['peak_bytes'] / 2**30:.2f} GiB  {found['parameters'] / 1e6:.1f} M parameters"
        )
    if arguments.marian:
        ratios = results["ratios"]
        print(f"septuagint / marian: {results['ratio']:.2f} (rounds: {', '.join(f'{r:.2f}' for r in ratios)})")


def measure(names: list[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """Rounds in turn, each system in its own process."""
    context = multiprocessing.get_context("spawn")
    pipes: dict[str, Connection] = {}
    for name in names:
        pipes[name], theirs = context.Pipe()
        worker = context.Process(target=work, args=(name, arguments, theirs), daemon=True)
        worker.start()
        theirs.close()
    begun = {name: pipes[name].recv() for name in names}
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(arguments.rounds):
        for name in names:
            pipes[name].send(arguments.steps)
            rounds[name].append(pipes[name].recv())
    results: dict[str, Any] = {"machine": begun[names[0]]}
    for name in names:
        speeds = [found["target_tokens"] / found["seconds"] for found in rounds[name]]
        results[name] = {
            "target_tokens_per_second": statistics.median(speeds),
            "seconds_per_step": statistics.median(found["seconds"] / arguments.steps for found in rounds[name]),
            "source_fill": statistics.mean(found["source_fill"] for found in rounds[name]),
            "target_fill": statistics.mean(found["target_fill"] for found in rounds[name]),
            "peak_bytes": max(found["peak_bytes"] for found in rounds[name]),
            "parameters": begun[name]["parameters"],
            "rounds": speeds,
        }
        pipes[name].send(0)
    if len(names) > 1:
        results["ratios"] = [a / b for a, b in zip(*(results[name]["rounds"] for name in names), strict=True)]
        results["ratio"] = statistics.median(results["ratios"])
    return results


def work(name: str, arguments: argparse.Namespace, pipe: Connection) -> None:
    """A system's process: does as many steps as it is told."""
    torch.set_num_threads(available_cores())
    config = load_config(arguments.config, arguments.overrides)
    dataset = open_dataset(config.data, ProgressReport(is_quiet=True))
    device = torch.device("cpu") if arguments.device == "cpu" else choose_device()
    begin = {"septuagint": begin_septuagint, "marian": begin_marian}[name]
    run, machine = begin(config, dataset, device)
    run(arguments.warmup)
    pipe.send(machine)
    while num_steps := pipe.recv():
        _synchronise(device)
        start = time.perf_counter()
        target_tokens, source_fill, target_fill = run(num_steps)
        _synchronise(device)
        seconds = time.perf_counter() - start
        if device.type == "cuda":
            peak = torch.cuda.max_memory_allocated(device)
        else:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        pipe.send(
            {
                "target_tokens": target_tokens,
                "source_fill": source_fill,
                "target_fill": target_fill,
                "seconds": seconds,
                "peak_bytes": peak,
            }
        )


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def begin_septuagint(config: Config, dataset: Dataset, device: torch.device) -> tuple[Run, dict[str, Any]]:
    """The program's own step."""
    settings = config.training
    shape = pack_shape(settings.microbatch_tokens, dataset.totals())
    training = build_training(config, dataset.vocabulary.size, shape.max_length, World(device=device))
    loader = Loader(
        dataset.train,
        dataset.order(settings.seed),
        shape,
        num_microbatches=settings.num_microbatches,
        start=Cursor(),
        pin_memory=device.type == "cuda",
    ).__enter__()
    steps = 0

    def run(num_steps: int) -> tuple[int, float, float]:
        nonlocal steps
        num_source = num_target = num_packs = 0
        for _ in range(num_steps):
            steps += 1
            data = next(loader)
            train_step(training, data.microbatches, steps)
            num_packs += len(data.microbatches)
            num_source += sum(microbatch.num_source_tokens for microbatch in data.microbatches)
            num_target += sum(microbatch.num_target_tokens for microbatch in data.microbatches)
        return (
            num_target,
            num_source / (num_packs * shape.source_tokens),
            num_target / (num_packs * shape.target_tokens),
        )

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    return run, {
        "device": name,
        "precision": training.precision + (" compiled" if training.is_compiled else ""),
        "threads": torch.get_num_threads(),
        "parameters": sum(parameter.numel() for parameter in training.model.parameters()),
    }


def begin_marian(config: Config, dataset: Dataset, device: torch.device) -> tuple[Run, dict[str, Any]]:
    """Hugging Face's MarianMTModel with the same sizes, dropout, loss, clipping and optimizer, in fp32."""
    from transformers import MarianConfig, MarianMTModel

    sizes, settings = config.model, config.training
    torch.manual_seed(settings.seed)
    model = MarianMTModel(
        MarianConfig(
            vocab_size=dataset.vocabulary.size,
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
            forced_eos_token_id=EOS,
            attn_implementation="sdpa",
        )
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, betas=settings.adam_betas, eps=1e-9, fused=True)
    batches = padded_batches(dataset, settings.microbatch_tokens, settings.seed)
    steps = 0

    def run(num_steps: int) -> tuple[int, float, float]:
        nonlocal steps
        real, room = np.zeros(2), np.zeros(2)
        model.train()
        for _ in range(num_steps):
            steps += 1
            num_step_tokens = 0
            for _ in range(settings.num_microbatches):
                source, inputs, labels = (torch.from_numpy(array).to(device) for array in next(batches))
                logits = model(
                    input_ids=source, attention_mask=source != PAD, decoder_input_ids=inputs, use_cache=False
                ).logits
                loss = torch.nn.functional.cross_entropy(
                    logits.flatten(0, 1),
                    labels.flatten(),
                    ignore_index=PAD,
                    label_smoothing=settings.label_smoothing,
                    reduction="sum",
                )
                loss.backward()
                num_target = int((labels != PAD).sum())
                num_step_tokens += num_target
                real += (int((source != PAD).sum()), num_target)
                room += (source.numel(), labels.numel())
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad /= num_step_tokens
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_gradient_norm, foreach=True)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(steps, settings, sizes.width)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return int(real[1]), real[0] / room[0], real[1] / room[1]

    parameters = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    return run, {"parameters": parameters}


def padded_batches(dataset: Dataset, budget: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Pairs sorted by length, cut into batches of up to `budget` padded tokens a side, in random order."""
    random = np.random.default_rng(seed)
    pairs = [(corpus, pair) for corpus, size in enumerate(dataset.train.sizes) for pair in range(size)]
    corpora, numbers = np.array(pairs).T
    source_lengths, target_lengths = dataset.train.lengths(corpora, numbers)
    order = np.lexsort((source_lengths, target_lengths))
    batches, first, longest = [], 0, 0
    for position, row in enumerate(order):
        longest = max(longest, source_lengths[row], target_lengths[row])
        if longest * (position - first + 1) > budget:
            batches.append(order[first:position])
            first, longest = position, max(source_lengths[row], target_lengths[row])
    batches.append(order[first:])
    while True:
        for number in random.permutation(len(batches)):
            rows = batches[number]
            source, target = dataset.train.gather(corpora[rows], numbers[rows])
            labels = _padded(list(target))
            inputs = _padded([np.roll(sentence, 1) for sentence in target])
            yield _padded(list(source)), inputs, labels


def _padded(sentences: list[np.ndarray]) -> np.ndarray:
    array = np.full((len(sentences), max(map(len, sentences))), PAD, np.int64)
    for row, sentence in enumerate(sentences):
        array[row, : len(sentence)] = sentence
    return array


if __name__ == "__main__":
    main()
