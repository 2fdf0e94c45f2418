"""How fast each preset will translate, and how large it will be: known before anything is trained.

    python benchmarks/presets.py CONFIG [--presets base modern fast] [--text NAME] [--lines 300] [--rounds 3] [--beam 4]
                                 [--quantization int8] [--json FILE]

CONFIG is the configuration of a prepared data folder with test sets, for its pieces and for lines of real length. The
networks have the weights that training begins with. What they say is nonsense, so they are told how long it shall be:
every batch of similar lines as long as its references are on average, beam search and all. That takes as long as with
trained weights, but for what a batch saves when its shorter sentences have ended. Rates compare with each other, then,
and not to the last percent with those of `translate.py`. Presets take turns, so that what else happens hits all;
figures are medians of the rounds, with the lowest and the highest.
"""

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import ctranslate2
import torch
from arguments import add_settings, at_least_one, mistakes_told, new_file
from curves import print_table

from septuagint.config import PRESETS, ModelConfig
from septuagint.config_file import load_config
from septuagint.data.dataset import EvaluationSet
from septuagint.data.manifest import read_manifest
from septuagint.data.vocabulary import Vocabulary
from septuagint.errors import UserError
from septuagint.inference.ctranslate2_model import QUANTIZATIONS, write_ctranslate2
from septuagint.inference.length_batches import batches_of_similar_length
from septuagint.inference.scored_sets import open_test_sets
from septuagint.inference.translator import BATCH_PIECES, open_engine
from septuagint.machine import available_cores, cpu_model
from septuagint.model.transformer import Transformer


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Lines of similar length, as pieces, and how long their translations shall be."""

    pieces: list[list[str]]
    length: int


@dataclass(frozen=True, kw_only=True)
class Result:
    preset: str
    num_parameters: int
    num_bytes: int
    tokens_per_second: list[float]  # of each round


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    add_settings(parser)
    parser.add_argument("--presets", nargs="+", choices=PRESETS, default=list(PRESETS))
    parser.add_argument("--text", metavar="NAME", help="a test set; the first by default")
    parser.add_argument("--lines", type=at_least_one, default=300, help="spread over the whole text")
    parser.add_argument("--rounds", type=at_least_one, default=3)
    parser.add_argument("--beam", type=at_least_one, default=4)
    parser.add_argument("--quantization", choices=QUANTIZATIONS, default="int8")
    parser.add_argument("--json", type=new_file, metavar="FILE")
    arguments = parser.parse_args()
    with mistakes_told():
        results = measure_presets(arguments)
    print(f"{arguments.quantization}, beam {arguments.beam}, {available_cores()} threads of {cpu_model()}\n")
    show(results)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n", encoding="utf-8")


def measure_presets(arguments: argparse.Namespace) -> list[Result]:
    folder = load_config(arguments.config, arguments.overrides).data.folder
    vocabulary = Vocabulary.load(folder / read_manifest(folder).vocabulary.file.path)
    sets = {text.name: text for text in open_test_sets(folder)}
    name = next(iter(sets)) if arguments.text is None else arguments.text
    if name not in sets:
        raise UserError(f"--text {name}: the test sets of {folder} are {', '.join(sets)}")
    batches = make_batches(sets[name], vocabulary, arguments.lines)
    with tempfile.TemporaryDirectory() as temporary:
        results = [write_preset(preset, vocabulary, Path(temporary), arguments) for preset in arguments.presets]
        for _ in range(arguments.rounds):
            for result in results:
                rate = measure_rate(Path(temporary) / result.preset, batches, arguments.beam)
                result.tokens_per_second.append(rate)
    return results


def make_batches(text: EvaluationSet, vocabulary: Vocabulary, num_lines: int) -> list[Batch]:
    """As the translator makes them. The lengths are those of the ids, with EOS."""
    rows = range(0, len(text.source), max(1, len(text.source) // num_lines))[:num_lines]
    sources, targets = ([side[row] for row in rows] for side in (text.source, text.target))
    names = vocabulary.pieces
    batches = []
    for batch in batches_of_similar_length([len(source) for source in sources], BATCH_PIECES["cpu"]):
        pieces = [[names[i] for i in sources[row][:-1]] for row in batch]
        length = round(statistics.fmean(len(targets[row]) for row in batch))
        batches.append(Batch(pieces=pieces, length=length))
    return batches


def write_preset(preset: str, vocabulary: Vocabulary, folder: Path, arguments: argparse.Namespace) -> Result:
    model = ModelConfig.model_validate({"preset": preset})
    torch.manual_seed(1)
    weights = Transformer(model, vocabulary.size).state_dict()
    (folder / preset).mkdir()
    write_ctranslate2(
        folder / preset, weights=weights, model=model, vocabulary=vocabulary, quantization=arguments.quantization
    )
    return Result(
        preset=preset,
        num_parameters=sum(tensor.numel() for tensor in weights.values()),
        num_bytes=sum(path.stat().st_size for path in (folder / preset).iterdir()),
        tokens_per_second=[],
    )


def measure_rate(folder: Path, batches: list[Batch], beam_size: int) -> float:
    """Target tokens per second, EOS included, of all cores."""
    engine = open_engine(folder, "cpu", available_cores())
    translate(engine, batches[-1:], beam_size)  # short lines, to warm up
    begin = time.perf_counter()
    num_tokens = translate(engine, batches, beam_size)
    seconds = time.perf_counter() - begin
    engine.unload_model()
    return num_tokens / seconds


def translate(engine: ctranslate2.Translator, batches: list[Batch], beam_size: int) -> int:
    """The number of tokens written."""
    under_way = []
    for batch in batches:
        under_way += engine.translate_batch(
            batch.pieces,
            asynchronous=True,
            beam_size=beam_size,
            length_penalty=1.0,
            min_decoding_length=batch.length,
            max_decoding_length=batch.length,
            max_input_length=0,
        )
    found = [len(result.result().hypotheses[0]) for result in under_way]
    expected = [batch.length for batch in batches for _ in batch.pieces]
    assert found == expected, "translations of another length than was asked for"
    return sum(found)


def show(results: list[Result]) -> None:
    first = results[0]
    rows = [["preset", "M parameters", "MB", "tok/s", "min-max", f"of {first.preset}'s", "min-max"]]
    for result in results:
        ratios = [a / b for a, b in zip(result.tokens_per_second, first.tokens_per_second, strict=True)]
        rates = result.tokens_per_second
        rows.append(
            [
                result.preset,
                f"{result.num_parameters / 1e6:.1f}",
                f"{result.num_bytes / 1e6:.1f}",
                f"{statistics.median(rates):,.0f}",
                f"{min(rates):,.0f}-{max(rates):,.0f}",
                f"{statistics.median(ratios):.2f}",
                f"{min(ratios):.2f}-{max(ratios):.2f}",
            ]
        )
    print_table(rows)


if __name__ == "__main__":
    main()
