"""How fast a training step is: non-padding target tokens per second, use of the hardware, and memory, on this machine.

    python benchmarks/train_step.py CONFIG [--presets base big …] [--ladder [N]] [--budgets 8192 32768 …] [--marian]
                                    [--kernels]

One row for the configuration as it is, or for each preset; with `--ladder` rows of the first one from the slow path up
to the default (or the last N of these), with `--budgets` rows of it with packs of so many target tokens, one a step.
The whole step is measured with the program's own parts: loader with prefetch, forward, label-smoothed loss, backward,
dropout, clipping, AdamW.
`--kernels` tells what the GPU's time of a step goes to, by torch's profiler, after the rounds.

    tok/s       target tokens that are not padding, the median of the rounds, and the least and the most of them
    TFLOP/s     6 for each weight that a token passes, padding not counted (`Transformer.flops_per_token`)
    MFU         their share of the peak of a large matrix product, measured at the beginning of the same run
    fill        the share of source and target positions that are not padding
    GiB         the most that torch had allocated on the GPU; on a CPU the most that the process held
    start       seconds from building the network to the end of the first step, without any compiled code from before

`--marian` (pip install transformers==5.22.2) measures Hugging Face's MarianMTModel of the same size beside `base` and
`big`, on the same text and in its best settings: batches sorted by length and padded, of the same token budget, made
ahead and pinned; SDPA attention, bf16 autocast with TF32 for the rest, fused AdamW; on a GPU also with its layers and
loss compiled. Nothing in its step waits for the device. Its rounds and ours take turns, so that what else happens on
the machine hits both. Every row has a process of its own; all others are measured one after the other.
"""

import argparse
import contextlib
import gc
import importlib
import json
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import textwrap
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import torch
from arguments import add_settings, at_least_one
from marian import Run, begin_marian

from septuagint.batch import Cursor
from septuagint.cluster.probe import measure_peak
from septuagint.config import PRESETS, Config
from septuagint.config_file import load_config
from septuagint.data.dataset import Dataset, open_dataset
from septuagint.data.loader import Loader
from septuagint.data.packing import pack_shape
from septuagint.errors import UserError
from septuagint.machine import available_cores
from septuagint.model.transformer import Transformer
from septuagint.progress import ProgressReport
from septuagint.training.precision import DTYPES, choose_device, choose_precision
from septuagint.training.state import build_training
from septuagint.training.step import train_step
from septuagint.world import World

# From the slow path to the default one: a name of at most 28 letters, what is set for it, and the system.
LADDER = [
    ("eager, fp32", ["training.precision=fp32", "training.compile=off"], "septuagint"),
    ("eager, bf16 autocast", ["training.precision=bf16", "training.compile=off"], "septuagint"),
    ("torch.compile, bf16", ["training.precision=bf16", "training.compile=on"], "septuagint"),
    ("our kernels, launched", ["training.precision=bf16"], "septuagint launched"),
    ("default", [], "septuagint"),
]
NUM_CPU_RUNGS = 3  # where there are no kernels of ours; the first is what a CPU does by default
# Parts of the names of kernels, by what they are for; the first that fits counts.
KERNELS = {
    "products of matrices": ("gemm", "nvjet", "cutlass", "xmma", "splitk"),
    "attention": ("_attend", "_deal", "flash"),
    "bias, dropout, sum and norm": ("_add_and_normalise", "_sum_rows"),
    "activation": ("_relu_back", "_swiglu"),
    "loss": ("_cross_entropy",),
    "embeddings": ("_embed", "embedding", "sort", "scan"),
    "optimizer and clipping": ("adam", "multi_tensor", "foreach"),
    "copies": ("memcpy", "memset"),
}
NUM_PROFILED_STEPS = 5
HEADERS = ["", "tok/s", "min–max k", "ms/step", "TFLOP/s", "MFU", "fill %", "GiB", "M par", "start"]
WIDTH = 100
COMPILE_LIMIT_SECONDS = 180  # of Marian's warm-up


@dataclass(frozen=True, kw_only=True)
class Row:
    """What is measured: a system with a configuration."""

    section: str
    name: str
    system: str  # septuagint, septuagint launched (not recorded), marian or marian compiled
    config: Config


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--presets", nargs="+", choices=list(PRESETS), help="instead of CONFIG's whole [model]")
    parser.add_argument(
        "--ladder", nargs="?", type=int, const=len(LADDER), default=0, metavar="N", help="the last N rungs, or all"
    )
    parser.add_argument("--budgets", nargs="+", type=at_least_one, default=[], help="target tokens of a pack and step")
    parser.add_argument("--marian", action="store_true", help="measure Hugging Face's MarianMTModel too")
    parser.add_argument("--kernels", action="store_true", help="where a GPU's time goes, for CONFIG or each preset")
    add_settings(parser)
    parser.add_argument("--device", choices=["auto", "cpu"], default="auto")
    parser.add_argument("--steps", type=at_least_one, default=20, help="in a round")
    parser.add_argument("--rounds", type=at_least_one, default=5)
    parser.add_argument("--warmup", type=int, default=10, help="steps that are not measured")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    parser.add_argument("--json", action="store_true", help="print everything that was measured")
    arguments = parser.parse_args()
    if arguments.presets and any(text.startswith("model.preset") for text in arguments.overrides):
        parser.error("--presets and --set model.preset both choose the network")
    try:
        groups = plan_groups(arguments)
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            machine = pool.submit(describe_machine, groups[0][0].config, arguments).result()
    except UserError as error:
        parser.error(str(error))
    measured: list[tuple[Row, dict[str, Any]]] = []
    for group in groups:
        twins = [found for row, found in measured if (row.config, row.system) == (group[0].config, group[0].system)]
        if twins and len(group) == 1:
            measured.append((group[0], twins[0] | {"section": group[0].section, "name": group[0].name}))
        else:
            measured += zip(group, measure_group(group, arguments, machine["peak_flops_per_second"]), strict=True)
    results = [found for _, found in measured]
    if arguments.json:
        print(json.dumps({"machine": machine, "rows": results}, indent=1))
    else:
        print_results(machine, results, is_markdown=arguments.markdown)


def plan_groups(arguments: argparse.Namespace) -> list[list[Row]]:
    """The rows that are measured. Those of a group take turns."""
    is_gpu = arguments.device != "cpu" and torch.cuda.is_available()
    presets = arguments.presets or [None]
    if arguments.kernels and not is_gpu:
        raise UserError("--kernels looks at a GPU, and there is none")

    def plan(section: str, name: str, overrides: list[str], preset: str | None = presets[0]) -> Row:
        network = [] if preset is None else [f'model={{preset="{preset}"}}']
        config = load_config(arguments.config, [*network, *arguments.overrides, *overrides])
        return Row(section=section, name=name or config.model.preset, system="septuagint", config=config)

    groups = []
    for preset in presets:
        own = plan("presets", "", [], preset)
        has_marian = arguments.marian and own.config.model.norm == "layer"
        systems = ["marian", *(["marian compiled"] if is_gpu else [])] if has_marian else []
        groups.append([own, *(replace(own, system=system, name=f"{own.name}: {system}") for system in systems)])
    if arguments.marian and not any(len(group) > 1 for group in groups):
        raise UserError("--marian is measured beside networks with norm = layer: --presets base big")
    first = groups[0][0].name
    ladder = LADDER if is_gpu else LADDER[:NUM_CPU_RUNGS]
    for name, overrides, system in ladder[max(0, len(ladder) - arguments.ladder) :]:
        groups.append([replace(plan(f"ladder of {first}", name, overrides), system=system)])
    for budget in arguments.budgets:
        overrides = [f"training.microbatch_tokens={budget}", f"training.tokens_per_step={budget}"]
        groups.append([plan(f"budgets of {first}", f"{budget:,} target tokens", overrides)])
    return groups


def describe_machine(config: Config, arguments: argparse.Namespace) -> dict[str, Any]:
    """What all rows have in common."""
    device = open_device(arguments.device)
    precision = choose_precision(config.training.precision, device)
    totals = open_dataset(config.data, ProgressReport(is_quiet=True)).totals()
    peaks = [measure_peak(device, DTYPES[precision]) for _ in range(3)]  # the first wakes a GPU up
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        "torch": torch.__version__,
        "precision": precision,
        "threads": torch.get_num_threads(),
        "peak_flops_per_second": max(filter(None, peaks), default=None),
        "source_tokens_per_sentence": totals.num_source_tokens / totals.num_pairs,
        "target_tokens_per_sentence": totals.num_target_tokens / totals.num_pairs,
        "rounds": arguments.rounds,
        "steps": arguments.steps,
    }


def open_device(wanted: str) -> torch.device:
    torch.set_num_threads(available_cores())
    return torch.device("cpu") if wanted == "cpu" else choose_device()


def measure_group(rows: list[Row], arguments: argparse.Namespace, peak: float | None) -> list[dict[str, Any]]:
    """The results of rows that take turns, after one has begun after the other."""
    workers: list[tuple[BaseProcess, Connection]] = []
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for row in rows:
            print(f"{row.section}, {row.name}: begins", file=sys.stderr)
            workers.append(start_worker(row, arguments, cache=f"{folder}/{len(workers)}"))
            limit = COMPILE_LIMIT_SECONDS if row.system == "marian compiled" else None
            results.append({"section": row.section, "name": row.name, "rounds": [], **receive(*workers[-1], limit)})
        for number in range(arguments.rounds):
            turns = list(zip(workers, results, strict=True))
            for (process, pipe), result in turns if number % 2 == 0 else turns[::-1]:
                if "error" not in result:
                    send(pipe, arguments.steps)
                    answer = receive(process, pipe)
                    if "error" in answer:
                        result |= answer
                    else:
                        result["rounds"].append(answer)
        if arguments.kernels and rows[0].section == "presets" and "error" not in results[0]:
            send(workers[0][1], "kernels")
            results[0] |= receive(*workers[0])
        for process, pipe in workers:
            send(pipe, 0)
            process.join(30)
            process.kill()
            process.join()  # its memory is free for the next row
    for result in results:
        if "error" not in result:
            result |= summarise(result, peak)
            if result is not results[0] and "error" not in results[0]:
                pairs = zip(results[0]["rates"], result["rates"], strict=True)
                result["ratios"] = [ours / theirs for ours, theirs in pairs]
        print(f"{result['section']}, {result['name']}: {describe_end(result)}", file=sys.stderr)
    return results


def describe_end(result: dict[str, Any]) -> str:
    if "error" in result:
        return textwrap.shorten(result["error"], WIDTH, placeholder=" …")
    _, rate, _, milliseconds, _, mfu, _, memory, _, start = cells(result)
    return f"{rate} tok/s, {milliseconds} ms/step, {mfu} MFU, {memory} GiB, start {start} s"


def start_worker(row: Row, arguments: argparse.Namespace, cache: str) -> tuple[BaseProcess, Connection]:
    """A row's process, which keeps what it compiles in a folder of its own, and our end of the pipe to it."""
    os.environ |= {"TORCHINDUCTOR_CACHE_DIR": cache, "TRITON_CACHE_DIR": f"{cache}/triton"}
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(row, arguments, theirs), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def send(pipe: Connection, order: int | str) -> None:
    with contextlib.suppress(ConnectionError):  # a dead worker is noticed when it should answer
        pipe.send(order)


def receive(process: BaseProcess, pipe: Connection, limit_seconds: float | None = None) -> dict[str, Any]:
    """What a worker says; that it died or took too long is an `error`."""
    if not pipe.poll(limit_seconds):
        process.kill()
        return {"error": f"not ready after {limit_seconds} s"}
    try:
        answer: dict[str, Any] = pipe.recv()
    except (EOFError, ConnectionError):
        process.join()
        return {"error": f"its process ended with exit code {process.exitcode}"}
    return answer


def work(row: Row, arguments: argparse.Namespace, pipe: Connection) -> None:
    """A row's process: begins, then does what it is told: so many steps, or to look at its kernels.

    What fails is an `error`.
    """
    try:
        device = open_device(arguments.device)
        dataset = open_dataset(row.config.data, ProgressReport(is_quiet=True))
        if "marian" in row.system:
            importlib.import_module("transformers.models.marian.modeling_marian")  # ours is imported too by now
        start = time.perf_counter()
        if "marian" not in row.system:
            is_recorded = row.system == "septuagint"
            run, parameters, precision = begin_septuagint(row.config, dataset, device, is_recorded=is_recorded)
        else:
            is_compiled = row.system == "marian compiled"
            run, parameters, precision = begin_marian(row.config, dataset, device, is_compiled=is_compiled)
        run(1)
        synchronise(device)
        start_seconds = time.perf_counter() - start
        # Padded batches meet shapes that have to be compiled anew: the last of them should come before the rounds.
        run(max(0, arguments.warmup * (10 if row.system == "marian compiled" else 1) - 1))
        gc.collect()
        gc.freeze()  # as the program does
        with torch.device("meta"):
            flops = Transformer(row.config.model, dataset.vocabulary.size).flops_per_token()
        flops = [row.config.training.num_looks * number for number in flops]
        begun = {"precision": precision, "parameters": parameters, "start_seconds": start_seconds}
        budgets = row.config.training.model_dump(include={"microbatch_tokens", "tokens_per_step"})
        pipe.send({**begun, **budgets, "flops_per_token": flops, "model": row.config.model.model_dump()})
        while order := pipe.recv():
            pipe.send(measure_kernels(run, device) if order == "kernels" else measure_round(run, order, device))
    except Exception as error:
        traceback.print_exc()
        pipe.send({"error": f"{type(error).__name__}: {error}"})


def measure_round(run: Run, num_steps: int, device: torch.device) -> dict[str, Any]:
    """Seconds and counts of some steps, and the most memory since the row began."""
    synchronise(device)
    start = time.perf_counter()
    counts = run(num_steps)
    synchronise(device)
    seconds = time.perf_counter() - start
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(device)
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": seconds, "steps": num_steps, "counts": counts.tolist(), "peak_bytes": peak}


def measure_kernels(run: Run, device: torch.device) -> dict[str, Any]:
    """Milliseconds of the GPU in a step, by what they were for, and the names of what is in none of `KERNELS`."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run(NUM_PROFILED_STEPS)
        synchronise(device)
    milliseconds: dict[str, float] = dict.fromkeys([*KERNELS, "the rest"], 0.0)
    rest: dict[str, float] = {}
    for event in profile.key_averages():
        name, spent = event.key.lower(), event.self_device_time_total / 1e3 / NUM_PROFILED_STEPS
        kind = next((kind for kind, parts in KERNELS.items() if any(part in name for part in parts)), "the rest")
        milliseconds[kind] += spent
        if kind == "the rest":
            rest[event.key] = spent
    return {"kernels": milliseconds, "rest": rest}


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def begin_septuagint(
    config: Config, dataset: Dataset, device: torch.device, *, is_recorded: bool
) -> tuple[Run, int, str]:
    """The program's own step, the number of its parameters, and its precision."""
    settings = config.training
    shape = pack_shape(settings.microbatch_tokens, dataset.totals())
    training = build_training(config, dataset.vocabulary.size, shape.max_length, World(device=device))
    if not is_recorded:
        training.recorder = None
    loader = Loader(
        dataset.train,
        dataset.order(settings.seed),
        shape,
        num_microbatches=settings.num_microbatches,
        start=Cursor(),
        pin_memory=device.type == "cuda",
    ).__enter__()
    steps = 0

    def run(num_steps: int) -> np.ndarray:
        nonlocal steps
        counts = np.zeros(4, np.int64)
        for _ in range(num_steps):
            steps += 1
            data = next(loader)
            train_step(training, data.microbatches, steps)
            for microbatch in data.microbatches:
                real = microbatch.num_source_tokens, microbatch.num_target_tokens
                counts += *real, shape.source_tokens, shape.target_tokens
        return counts

    parameters = sum(parameter.numel() for parameter in training.model.parameters())
    return run, parameters, training.precision + (", compiled" if training.is_compiled else "")


def summarise(result: dict[str, Any], peak_flops_per_second: float | None) -> dict[str, Any]:
    """The figures of a row, over its rounds."""
    rounds = result["rounds"]
    rates = [part["counts"][1] / part["seconds"] for part in rounds]
    flops = [np.dot(part["counts"][:2], result["flops_per_token"]) / part["seconds"] for part in rounds]
    source, target, source_positions, target_positions = np.sum([part["counts"] for part in rounds], axis=0)
    return {
        "tokens_per_second": statistics.median(rates),
        "rates": rates,
        "seconds_per_step": statistics.median(part["seconds"] / part["steps"] for part in rounds),
        "flops_per_second": statistics.median(flops),
        "mfu": None if peak_flops_per_second is None else statistics.median(flops) / peak_flops_per_second,
        "source_fill": source / source_positions,
        "target_fill": target / target_positions,
        "peak_bytes": rounds[-1]["peak_bytes"],
    }


def print_results(machine: dict[str, Any], rows: list[dict[str, Any]], *, is_markdown: bool) -> None:
    """What all rows have in common, a table for each section, and what could not be measured."""
    peak = machine["peak_flops_per_second"]
    print(
        f"{machine['device']}, torch {machine['torch']}, {machine['precision']}, {machine['threads']} threads, "
        f"peak {'unknown' if peak is None else f'{peak / 1e12:.3g} TFLOP/s'}\n"
        f"{machine['source_tokens_per_sentence']:.1f} source and {machine['target_tokens_per_sentence']:.1f} target "
        f"tokens a sentence; medians of {machine['rounds']} rounds of {machine['steps']} steps"
    )
    good = [row for row in rows if "error" not in row]
    for section in dict.fromkeys(row["section"] for row in good):
        chosen = [row for row in good if row["section"] == section]
        budgets = {(row["microbatch_tokens"], row["tokens_per_step"]) for row in chosen}
        sizes = ": packs of {:,} target tokens, {:,} a step".format(*budgets.pop()) if len(budgets) == 1 else ""
        print(f"\n{section}{sizes}\n")
        print_table([HEADERS, *map(cells, chosen)], is_markdown=is_markdown)
    kernels = {row["name"]: row["kernels"] for row in good if "kernels" in row}
    if kernels:
        print("\nmilliseconds of the GPU in a step\n")
        kinds = next(iter(kernels.values()))
        table = [[kind, *(f"{found[kind]:.2f}" for found in kernels.values())] for kind in kinds]
        print_table([["", *kernels], *table], is_markdown=is_markdown)
    print()
    for row in rows:
        if "error" in row:
            print(textwrap.shorten(f"{row['section']}, {row['name']}: {row['error']}", WIDTH, placeholder=" …"))
        elif ratios := row.get("ratios"):
            middle, least, most = statistics.median(ratios), min(ratios), max(ratios)
            print(f"{row['name']}: ours is {middle:.2f} times as fast ({least:.2f} to {most:.2f})")


def cells(result: dict[str, Any]) -> list[str]:
    """A row of the table, in the order of `HEADERS`."""
    rates = [rate / 1000 for rate in result["rates"]]
    low, high = (f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}" for rate in (min(rates), max(rates)))
    return [
        result["name"],
        f"{result['tokens_per_second']:,.0f}",
        f"{low}–{high}",
        f"{result['seconds_per_step'] * 1000:.1f}",
        f"{result['flops_per_second'] / 1e12:.3g}",
        "" if result["mfu"] is None else f"{result['mfu']:.1%}",
        f"{result['source_fill'] * 100:.1f} {result['target_fill'] * 100:.1f}",
        f"{result['peak_bytes'] / 2**30:.1f}",
        f"{result['parameters'] / 1e6:.1f}",
        f"{result['start_seconds']:.1f}",
    ]


def print_table(rows: list[list[str]], *, is_markdown: bool) -> None:
    """The first row is the header."""
    if is_markdown:
        rules = ["---", *["---:"] * (len(rows[0]) - 1)]
        print(*(f"| {' | '.join(row)} |" for row in [rows[0], rules, *rows[1:]]), sep="\n")
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *numbers in rows:
        print(name.ljust(widths[0]), *(text.rjust(width) for text, width in zip(numbers, widths[1:], strict=True)))


if __name__ == "__main__":
    main()
