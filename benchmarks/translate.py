"""How fast trained models translate, and how well: ours in torch, the artifact, CTranslate2 alone, and Hugging Face.

    python benchmarks/translate.py RUN --source F --reference F [--lines 500] [--fast RUN] [--rounds 3] [--device cpu]

Every engine translates the same lines with the same weights and beam 4, in a process of its own; they take turns, so
that what else happens hits all. Target tokens are the pieces that an engine wrote, EOS included; the figures
are medians over the rounds, and rates of one round are compared with each other.

    torch            our beam search on the checkpoint (float32 on CPUs, bfloat16 on GPUs), pre-tokenised
    translate        the artifact through `septuagint.inference.translator`, from text to text; with a vocabulary map
                     where the run's data folder is still there
    ctranslate2      CTranslate2 called directly on pre-tokenised batches, of the size that was fastest before
    huggingface      `generate` of transformers on the Hugging Face export (networks that it has), sorted padded batches
                     of the size that was fastest before; its tokenizer's time is counted in

`--fast` measures `torch` and `translate` of a second run, to compare presets.
"""

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from arguments import at_least_one, mistakes_told

from septuagint.inference.evaluation import read_parallel
from septuagint.inference.scoring import score
from septuagint.machine import available_cores
from septuagint.progress import ProgressReport

# Of the first so many lines: translations, put together when they are asked for, and target tokens.
Translate = Callable[[int], tuple[Callable[[], list[str]], int]]

_CT2_BATCHES = [
    ("tokens", 512),
    ("tokens", 1024),
    ("tokens", 2048),
    ("tokens", 4096),
    ("examples", 32),
    ("examples", 64),
]
_HF_BATCHES = {"cpu": [8, 16, 32, 64], "cuda": [128, 256, 512, 1024]}


@dataclass(frozen=True, kw_only=True)
class Engine:
    """What is measured: a kind of engine on a folder."""

    name: str
    kind: str
    folder: str
    device: str
    beam_size: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--lines", type=at_least_one, default=500, help="spread over the whole text")
    parser.add_argument("--beam", type=at_least_one, default=4)
    parser.add_argument("--fast", type=Path, help="another run, whose speed is compared")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--rounds", type=at_least_one, default=3)
    parser.add_argument("--only", nargs="*", help="names of engines, such as torch or 'translate int8'")
    parser.add_argument("--huggingface", type=Path, help="a Hugging Face export of RUN that is already there")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    parallel = read_parallel(arguments.source, arguments.reference)
    num_lines = len(parallel.sources)
    rows = range(0, num_lines, max(1, num_lines // arguments.lines))[: arguments.lines]
    text = [parallel.sources[row] for row in rows], [parallel.references[row] for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        engines = export_all(arguments, Path(folder))
        if arguments.only:
            engines = [engine for engine in engines if engine.name in arguments.only]
        results = measure(engines, *text, target_language(arguments.run), arguments.rounds)
    if arguments.json:
        print(json.dumps(results, indent=1))
    else:
        print_table(results, len(rows), arguments)


def export_all(arguments: argparse.Namespace, folder: Path) -> list[Engine]:
    """Every form of the models that is measured. On GPUs, CTranslate2 stores half precision."""
    # Imported here: the processes that measure other engines do without torch.
    from septuagint.errors import ConfigError
    from septuagint.inference.export import Format, export
    from septuagint.inference.trained import open_trained

    report = ProgressReport(is_quiet=True)
    has_ctranslate2 = arguments.device == "cpu" or _has_ctranslate2_gpu()
    quantizations = ["float32", "int8"] if arguments.device == "cpu" else ["float16", "int8_float16"]
    engines: list[Engine] = []

    def add(name: str, kind: str, path: Path) -> None:
        engines.append(
            Engine(name=name, kind=kind, folder=str(path), device=arguments.device, beam_size=arguments.beam)
        )

    def export_to(run: Path, name: str, format: Format, quantization: str, *, vocabulary_map: bool = False) -> Path:
        options = {"format": format, "quantization": quantization, "vocabulary_map": vocabulary_map}
        export(run, folder / name, **options, report=report)
        return folder / name

    add("torch", "torch", arguments.run)
    if has_ctranslate2:
        for quantization in quantizations:
            path = export_to(arguments.run, quantization, "ctranslate2", quantization)
            add(f"translate {quantization}", "translate", path)
            add(f"ctranslate2 {quantization}", "ctranslate2", path)
    if arguments.device == "cpu":
        for name, run in (("", arguments.run), ("fast: ", arguments.fast)):
            if run is not None and open_trained(run).data is not None:
                path = export_to(run, f"{name}map", "ctranslate2", "int8", vocabulary_map=True)
                add(f"{name}translate int8 with a map", "translate", path)
    try:
        path = arguments.huggingface or export_to(arguments.run, "huggingface", "huggingface", "float32")
        add("huggingface", "huggingface", path)
    except ConfigError as error:
        print(f"no Hugging Face: {error}")
    if arguments.fast is not None:
        add("fast: torch", "torch", arguments.fast)
        if has_ctranslate2:
            for quantization in quantizations:
                path = export_to(arguments.fast, f"fast-{quantization}", "ctranslate2", quantization)
                add(f"fast: translate {quantization}", "translate", path)
    return engines


def target_language(run: Path) -> str:
    from septuagint.inference.trained import open_trained

    return str(open_trained(run).config["data"]["target_language"])


def _has_ctranslate2_gpu() -> bool:
    import ctranslate2

    return bool(ctranslate2.get_cuda_device_count())


def measure(
    engines: list[Engine], sources: list[str], references: list[str], language: str, num_rounds: int
) -> dict[str, dict[str, Any]]:
    """Tokens per second and seconds of each engine, the rounds of all taking turns, and the BLEU of the last."""
    context = multiprocessing.get_context("spawn")
    ends: dict[str, Connection] = {}
    processes = []
    for engine in engines:
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(engine, sources, theirs), daemon=True)
        process.start()
        theirs.close()
        ends[engine.name] = ours
        processes.append(process)
        try:
            ours.recv()  # ready: one engine warms up at a time
        except EOFError:
            raise SystemExit(f"{engine.name} could not be measured; see above") from None
    rates: dict[str, list[float]] = {engine.name: [] for engine in engines}
    results: dict[str, dict[str, Any]] = {}
    for number in range(num_rounds):
        order = engines if number % 2 == 0 else engines[::-1]
        for engine in order:
            ends[engine.name].send(True)
            translations, num_tokens, seconds, choice = ends[engine.name].recv()
            rates[engine.name].append(num_tokens / seconds)
            results[engine.name] = {
                "tokens_per_second": statistics.median(rates[engine.name]),
                "rounds": rates[engine.name],
                "tokens": num_tokens,
                "bleu": score(translations, references, language).bleu,
                "choice": choice,
            }
    for engine, process in zip(engines, processes, strict=True):
        ends[engine.name].send(False)
        process.join()
    return {engine.name: results[engine.name] for engine in engines}


def serve(engine: Engine, sources: list[str], connection: Connection) -> None:
    """Opens an engine, warms it up, and translates the text as often as it is asked to."""
    openers = {"torch": open_torch, "translate": open_artifact, "ctranslate2": open_bare, "huggingface": open_hf}
    translate, choice = openers[engine.kind](engine, sources)
    # What is compiled is compiled for as much text as there is.
    translate(len(sources) if engine.device == "cuda" and engine.kind == "torch" else 50)
    connection.send("ready")
    while connection.recv():
        begin = time.perf_counter()
        translations, num_tokens = translate(len(sources))
        seconds = time.perf_counter() - begin
        connection.send((translations(), num_tokens, seconds, choice))


def open_torch(engine: Engine, sources: list[str]) -> tuple[Translate, str]:
    import numpy as np
    import torch

    from septuagint.data.normaliser import normalise
    from septuagint.inference.beam import translate_ids
    from septuagint.inference.trained import open_trained

    torch.set_num_threads(available_cores())
    trained = open_trained(Path(engine.folder))
    model = trained.network().to(engine.device)
    dtype = torch.bfloat16 if engine.device == "cuda" else torch.float32

    ids, lengths = trained.vocabulary.encode([normalise(line) for line in sources])
    pieces = np.split(ids, np.cumsum(lengths)[:-1])

    def translate(num_lines: int) -> tuple[Callable[[], list[str]], int]:
        found = translate_ids(model, pieces[:num_lines], beam_size=engine.beam_size, dtype=dtype)
        best = [hypotheses[0].ids for hypotheses in found]
        return lambda: [trained.vocabulary.decode(ids) for ids in best], sum(len(ids) + 1 for ids in best)

    return translate, str(dtype).removeprefix("torch.")


def open_artifact(engine: Engine, sources: list[str]) -> tuple[Translate, str]:
    from septuagint.inference.artifact import Artifact
    from septuagint.inference.translator import Translator

    translator = Translator(Artifact(Path(engine.folder)), device=engine.device)

    def translate(num_lines: int) -> tuple[Callable[[], list[str]], int]:
        found = list(translator.translate([sources[:num_lines]], beam_size=engine.beam_size))
        return lambda: [line.text for line in found], sum(line.num_pieces for line in found)

    return translate, "as it chooses"


def open_bare(engine: Engine, sources: list[str]) -> tuple[Translate, str]:
    """The fastest of several batch sizes and ways to spread the cores."""
    import ctranslate2

    from septuagint.data.normaliser import normalise
    from septuagint.inference.artifact import MODEL, Artifact

    artifact = Artifact(Path(engine.folder))
    vocabulary, cores = artifact.vocabulary, available_cores()
    pieces = vocabulary.encode_pieces([normalise(line) for line in sources])
    limit = artifact.manifest.decode.length_limit(max(map(len, pieces)) + 1)
    spreads = [(cores, 1), (1, cores)] if engine.device == "cpu" else [(1, 1)]

    def open_with(spread: tuple[int, int], batch: tuple[str, int]) -> Callable[[list[list[str]]], list[list[str]]]:
        translator = ctranslate2.Translator(
            str(artifact.folder / MODEL), device=engine.device, inter_threads=spread[0], intra_threads=spread[1]
        )

        def run(tokens: list[list[str]]) -> list[list[str]]:
            results = translator.translate_batch(
                tokens,
                beam_size=engine.beam_size,
                max_batch_size=batch[1],
                batch_type=batch[0],
                max_decoding_length=limit,
                max_input_length=0,
            )
            return [result.hypotheses[0] for result in results]

        return run

    choices = [(spread, batch) for spread in spreads for batch in _CT2_BATCHES]
    spread, batch = _fastest(choices, lambda choice: open_with(*choice), pieces, num_inputs=64)
    run = open_with(spread, batch)

    def translate(num_lines: int) -> tuple[Callable[[], list[str]], int]:
        found = run(pieces[:num_lines])
        return lambda: [vocabulary.decode_pieces(part) for part in found], sum(len(part) + 1 for part in found)

    return translate, f"{batch[1]} {batch[0]}, {spread[0]} x {spread[1]} threads"


def open_hf(engine: Engine, sources: list[str]) -> tuple[Translate, str]:
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    torch.set_num_threads(available_cores())
    tokenizer = AutoTokenizer.from_pretrained(engine.folder)
    dtype = torch.bfloat16 if engine.device == "cuda" else torch.float32
    model = AutoModelForSeq2SeqLM.from_pretrained(engine.folder, dtype=dtype).to(engine.device).eval()

    @torch.inference_mode()
    def run(lines: Sequence[str], batch_size: int) -> tuple[Callable[[], list[str]], int]:
        order = sorted(range(len(lines)), key=lambda row: -len(lines[row]))
        found: list[list[int]] = [[]] * len(lines)
        num_tokens = 0
        for begin in range(0, len(order), batch_size):
            rows = order[begin : begin + batch_size]
            batch = tokenizer([lines[row] for row in rows], return_tensors="pt", padding=True).to(engine.device)
            longest = batch["input_ids"].shape[1]
            ids = model.generate(
                **batch, num_beams=engine.beam_size, max_new_tokens=min(2 * longest + 10, 1023), max_length=None
            )
            num_tokens += int((ids[:, 1:] != tokenizer.pad_token_id).sum())
            for row, line in zip(rows, ids.tolist(), strict=True):
                found[row] = line
        return lambda: tokenizer.batch_decode(found, skip_special_tokens=True), num_tokens

    sizes = _HF_BATCHES[engine.device]
    size = _fastest(sizes, lambda size: lambda lines: run(lines, size), list(sources), num_inputs=max(sizes))
    return lambda num_lines: run(sources[:num_lines], size), f"{size} sentences, {dtype}".replace("torch.", "")


def _fastest(
    choices: list[Any], make: Callable[[Any], Callable[[list[Any]], Any]], inputs: list[Any], *, num_inputs: int
) -> Any:
    """The choice that translates a part of the text in the shortest time."""
    part = inputs[:: max(1, len(inputs) // num_inputs)]
    times = []
    for choice in choices:
        run = make(choice)
        run(part[:20])
        begin = time.perf_counter()
        run(part)
        times.append(time.perf_counter() - begin)
    return choices[times.index(min(times))]


def print_table(results: dict[str, dict[str, Any]], num_lines: int, arguments: argparse.Namespace) -> None:
    print(f"{num_lines} lines, beam {arguments.beam}, {arguments.device}, medians of {arguments.rounds} rounds\n")
    print("| engine | target tokens per second | BLEU | with |\n|---|---|---|---|")
    for name, result in results.items():
        print(f"| {name} | {result['tokens_per_second']:,.0f} | {result['bleu']:.2f} | {result['choice']} |")
    print()
    ratios = [(f"translate {kind}", f"ctranslate2 {kind}") for kind in ("float32", "int8", "float16", "int8_float16")]
    mapped = "translate int8 with a map"
    ratios += [("translate int8", "huggingface"), (mapped, "huggingface"), ("torch", "huggingface")]
    ratios += [(mapped, "translate int8"), (f"fast: {mapped}", "translate int8")]
    ratios += [(f"fast: {name}", name) for name in ("torch", "translate float32", "translate int8", mapped)]
    for ours, theirs in ratios:
        if ours in results and theirs in results:
            pairs = zip(results[ours]["rounds"], results[theirs]["rounds"], strict=True)
            found = sorted(our / their for our, their in pairs)
            print(f"{ours} / {theirs}: {statistics.median(found):.2f} ({found[0]:.2f} to {found[-1]:.2f})")


if __name__ == "__main__":
    with mistakes_told():
        main()
