"""How fast `septuagint prepare` is, and how much memory it takes.

Ratios are measured side by side in one run, alternating, because machines are noisy:
  - the whole preparation (read, clean, deduplicate, encode, write) against bare `SentencePieceProcessor.encode` over
    the same text, already in memory, on the same number of processes;
  - against Hugging Face `datasets.map` with the same tokenisation, on the same number of processes (where `datasets` is
    installed: `pip install datasets`);
  - peak memory of the whole process tree at growing numbers of pairs.

    .venv/bin/python benchmarks/prepare.py --source europarl.en.xz --target europarl.de.xz

Without --source the demo's grammar provides the text. Text is repeated, with a variation, to the number of pairs.
"""

import argparse
import contextlib
import gc
import importlib.util
import itertools
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import sentencepiece
from arguments import at_least_one, mistakes_told

from septuagint.inference.evaluation import read_parallel

BATCH_LINES = 20_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, action="append", default=[], help="source text; repeatable")
    parser.add_argument("--target", type=Path, action="append", default=[], help="target text; repeatable")
    parser.add_argument("--pairs", type=at_least_one, default=1_000_000)
    parser.add_argument("--memory-pairs", type=at_least_one, nargs="*", default=[1_000_000, 2_000_000, 4_000_000])
    parser.add_argument("--workers", type=at_least_one, default=2)
    parser.add_argument("--repeats", type=at_least_one, default=3)
    arguments = parser.parse_args()
    if len(arguments.source) != len(arguments.target):
        parser.error("--source and --target go together, as often the one as the other")
    with mistakes_told():
        text = list(read_text(arguments.source, arguments.target))
    with tempfile.TemporaryDirectory() as temporary:
        results = measure(Path(temporary), text, arguments)
    print(json.dumps(results, indent=2))


def measure(folder: Path, text: list[tuple[str, str]], arguments: argparse.Namespace) -> dict[str, object]:
    source, target = folder / "text.en", folder / "text.de"
    write_text(text, arguments.pairs, source, target)
    model = train_model(folder, source, target)
    rounds: dict[str, list[float]] = {"prepare": [], "bare_encode": [], "datasets_map": []}
    has_datasets = importlib.util.find_spec("datasets") is not None
    for _ in range(arguments.repeats):
        rounds["prepare"].append(run_prepare(folder, source, target, model, arguments.workers)["seconds"])
        rounds["bare_encode"].append(run_bare_encode(model, [source, target], arguments.workers))
        if has_datasets:
            rounds["datasets_map"].append(run_datasets_map(folder, model, source, target, arguments.workers))
        say({name: [round(value, 2) for value in values] for name, values in rounds.items()})
    seconds = {name: statistics.median(values) for name, values in rounds.items() if values}
    memory = []
    for num_pairs in arguments.memory_pairs:
        write_text(text, num_pairs, source, target)
        # Here the vocabulary is trained too: it is what takes most memory.
        run = run_prepare(folder, source, target, None, arguments.workers)
        memory.append({"pairs": num_pairs, "peak_bytes": run["peak_bytes"], "seconds": round(run["seconds"], 1)})
        say(memory[-1])
    return {
        "cores": os.cpu_count(),
        "workers": arguments.workers,
        "pairs": arguments.pairs,
        "median_seconds": seconds,
        "rate_of_prepare_to_bare_encode": seconds["bare_encode"] / seconds["prepare"],
        "rate_of_prepare_to_datasets_map": seconds["datasets_map"] / seconds["prepare"] if has_datasets else None,
        "memory": memory,
        "bytes_per_further_pair": [
            (after["peak_bytes"] - before["peak_bytes"]) / (after["pairs"] - before["pairs"])
            for before, after in itertools.pairwise(memory)
        ],
    }


def say(value: object) -> None:
    print(json.dumps(value), file=sys.stderr, flush=True)


def read_text(sources: list[Path], targets: list[Path]) -> Iterator[tuple[str, str]]:
    if not sources:
        from septuagint.data.demo.corpus import generate_pairs

        yield from itertools.islice(generate_pairs(seed=1), 100_000)
        return
    for source, target in zip(sources, targets, strict=True):
        text = read_parallel(source, target)
        yield from zip(text.sources, text.references, strict=True)


def write_text(text: list[tuple[str, str]], num_pairs: int, source: Path, target: Path) -> None:
    """Repeats the text with a number behind each sentence, so that no pair occurs twice."""
    with source.open("w", encoding="utf-8") as source_file, target.open("w", encoding="utf-8") as target_file:
        for index in range(num_pairs):
            turn, position = divmod(index, len(text))
            suffix = f" ({turn})" if turn else ""
            source_file.write(f"{text[position][0]}{suffix}\n")
            target_file.write(f"{text[position][1]}{suffix}\n")


def write_config(folder: Path, source: Path, target: Path, model: Path | None) -> Path:
    # JSON writes strings as TOML does.
    lines = [
        "[data]",
        f"folder = {json.dumps(str(folder / 'data'))}",
        'source_language = "en"',
        'target_language = "de"',
        "[[data.train]]",
        f"source = {json.dumps(str(source))}",
        f"target = {json.dumps(str(target))}",
        "[vocabulary]",
        "size = 32768" if model is None else f"model = {json.dumps(str(model))}",
    ]
    path = folder / "benchmark.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def train_model(folder: Path, source: Path, target: Path) -> Path:
    run_prepare(folder, source, target, None, os.cpu_count() or 1)
    model = folder / "vocabulary.model"
    (found,) = (folder / "data").glob("shards-*/vocabulary.model")
    model.write_bytes(found.read_bytes())
    return model


def run_prepare(folder: Path, source: Path, target: Path, model: Path | None, workers: int) -> dict[str, float]:
    """A fresh preparation by the real command: seconds, and the highest sum of its processes' resident memory."""
    subprocess.run(["rm", "-rf", str(folder / "data")], check=True)
    config = write_config(folder, source, target, model)
    command = [sys.executable, "-m", "septuagint.cli", "prepare", str(config), "--workers", str(workers), "--quiet"]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process, watched(process.pid) as peak:
        if process.wait() != 0:
            raise SystemExit("prepare failed")
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak_bytes": peak[0]}


@contextlib.contextmanager
def watched(pid: int) -> Iterator[list[int]]:
    peak = [0]
    is_done = threading.Event()

    def watch() -> None:
        while not is_done.wait(0.05):
            total = 0
            with contextlib.suppress(psutil.Error):
                root = psutil.Process(pid)
                for process in [root, *root.children(recursive=True)]:
                    with contextlib.suppress(psutil.Error):
                        total += process.memory_info().rss
            peak[0] = max(peak[0], total)

    thread = threading.Thread(target=watch, name="watch-memory", daemon=True)
    thread.start()
    yield peak
    is_done.set()
    thread.join()


def run_bare_encode(model: Path, paths: list[Path], workers: int) -> float:
    """Nothing but encoding: text in memory, its lines shared out evenly. Reading and starting are not counted."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(workers), context.Queue()
    processes = [
        context.Process(target=_encode_share, args=(str(model), paths, worker, workers, barrier, results))
        for worker in range(workers)
    ]
    for process in processes:
        process.start()
    times = [results.get() for _ in processes]
    for process in processes:
        process.join()
    return max(end for _, end in times) - min(start for start, _ in times)


def _encode_share(model: str, paths: list[Path], worker: int, workers: int, barrier, results) -> None:  # type: ignore[no-untyped-def]
    gc.disable()  # as our own workers do
    processor = sentencepiece.SentencePieceProcessor(model_file=model)
    lines = [line for path in paths for line in path.read_text(encoding="utf-8").split("\n")[:-1]][worker::workers]
    barrier.wait()
    start = time.time()
    for first in range(0, len(lines), BATCH_LINES):
        processor.encode(lines[first : first + BATCH_LINES], num_threads=1)
    results.put((start, time.time()))


def run_datasets_map(folder: Path, model: Path, source: Path, target: Path, workers: int) -> float:
    """Reading and tokenising with Hugging Face datasets: no cleaning, no deduplication."""
    import datasets

    datasets.disable_progress_bars()
    cache = folder / "cache"
    subprocess.run(["rm", "-rf", str(cache)], check=True)
    start = time.perf_counter()
    sides = [
        datasets.load_dataset("text", data_files=str(path), split="train", cache_dir=str(cache)).rename_column(
            "text", name
        )
        for path, name in ((source, "source"), (target, "target"))
    ]
    pairs = datasets.concatenate_datasets(sides, axis=1)
    pairs.map(
        _Tokenise(str(model)), batched=True, batch_size=1000, num_proc=workers, remove_columns=["source", "target"]
    )
    return time.perf_counter() - start


class _Tokenise:
    """A callable that every process can load for itself."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.processor: sentencepiece.SentencePieceProcessor | None = None

    def __getstate__(self) -> dict[str, object]:
        return {"model": self.model, "processor": None}

    def __call__(self, batch: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        if self.processor is None:
            self.processor = sentencepiece.SentencePieceProcessor(model_file=self.model)
        return {name: self.processor.encode(lines, num_threads=1, add_eos=True) for name, lines in batch.items()}


if __name__ == "__main__":
    main()
