"""How good a recipe is: trained with several seeds, and its best weights scored on the test sets of its data folder.

    python benchmarks/results.py CONFIG [--seeds 1 2 3] [--set KEY=VALUE ...] [--beams 4] [--folder DIR]
                                 [--markdown] [--json FILE] [--translations DIR]

CONFIG is the configuration of a prepared data folder with test sets. Which weights are best is decided on validation
alone, by the program itself; the test sets are translated once, at the end, by the search that validation uses, and
scored by sacreBLEU on the text as it came. Minutes are those of the record: everything from the first attempt's
beginning to the end of its last validation. Runs that have finished in `--folder` are not trained again.
"""

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from curves import Run, how_it_ran, is_finished, times_at, train

from septuagint.config_file import load_config
from septuagint.data.dataset import EvaluationSet, open_evaluation_sets
from septuagint.errors import UserError
from septuagint.inference.beam import translate_ids
from septuagint.inference.scoring import Score, score
from septuagint.inference.trained import Trained, open_trained
from septuagint.report.reading.record import read_record
from septuagint.training.precision import DTYPES, choose_device, choose_precision


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--set", nargs="+", action="extend", default=[], dest="overrides", metavar="KEY=VALUE")
    parser.add_argument("--beams", type=int, default=4, help="hypotheses that the search follows side by side")
    parser.add_argument("--folder", type=Path, help="keeps the run folders; a temporary one by default")
    parser.add_argument("--translations", type=Path, metavar="DIR", help="keeps what was translated")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        try:
            folder = (arguments.folder or Path(temporary)).absolute()
            runs = [measure(seed, folder, arguments) for seed in arguments.seeds]
        except UserError as error:
            sys.exit(str(error))
    show(runs, is_markdown=arguments.markdown)
    if arguments.json is not None:
        told = {"config": str(arguments.config), "settings": arguments.overrides, "beams": arguments.beams}
        arguments.json.write_text(json.dumps({**told, "runs": runs}, indent=1) + "\n", encoding="utf-8")


def measure(seed: int, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """A training with one seed, and what came of it."""
    name, overrides = f"seed-{seed}", [*arguments.overrides, f"training.seed={seed}"]
    run = Run(path=name, name=name, folder=folder / name, overrides=overrides, environment={})
    if not is_finished(run, arguments.config):
        train(run, arguments.config)
    trained, record = open_trained(run.folder), read_record(run.folder)
    assert trained.data is not None
    sets = open_evaluation_sets(trained.data_folder, trained.data, trained.data.test)
    if not sets:
        raise UserError(f"{arguments.config}: has no test sets; add [[data.test]], and prepare again")
    precision = load_config(arguments.config, overrides).training.precision
    network = trained.network().to(choose_device())
    scores = {text.name: score_set(text, network, trained, precision, seed, arguments) for text in sets}
    return {
        "seed": seed,
        "ran": how_it_ran(record),
        "num_pairs": sum(corpus.pairs for corpus in trained.data.train),
        "num_parameters": sum(parameter.numel() for parameter in network.parameters()),
        "weights": trained.name,
        "minutes": times_at(record, record.validations[-1], "in all")["minutes in all"],
        "validations": [
            {
                "minutes": times_at(record, look, "")["minutes "],
                "step": look.step,
                "loss": look.valid_loss,
                "bleu": look.bleu,
            }
            for look in record.validations
        ],
        "scores": {name: asdict(found) for name, found in scores.items()},
    }


def score_set(
    text: EvaluationSet, network: Any, trained: Trained, precision: Any, seed: int, arguments: argparse.Namespace
) -> Score:
    device = next(network.parameters()).device
    dtype = DTYPES[choose_precision(precision, device)] if device.type == "cuda" else torch.float32
    found = translate_ids(network, list(text.source), beam_size=arguments.beams, dtype=dtype)
    lines = [trained.vocabulary.decode(hypotheses[0].ids) for hypotheses in found]
    if arguments.translations is not None:
        arguments.translations.mkdir(parents=True, exist_ok=True)
        content = "".join(f"{line}\n" for line in lines)
        (arguments.translations / f"{text.name}.{seed}.txt").write_text(content, encoding="utf-8")
    return score(lines, text.target_lines, trained.config["data"]["target_language"])


def show(runs: list[dict[str, Any]], *, is_markdown: bool) -> None:
    """A row for each test set: the mean of the seeds, and the lowest and the highest of them."""
    first = runs[0]
    print(f"{first['ran']}, {first['num_parameters'] / 1e6:.1f} M parameters, {first['num_pairs']:,} pairs")
    for run in runs:
        best = max(look["bleu"] or 0.0 for look in run["validations"])
        print(f"seed {run['seed']}: {run['minutes']:.2f} minutes, best {run['weights']}, validation BLEU {best:.2f}")
    rows = [["test set", "lines", "BLEU", "seeds", "chrF", "seeds"]]
    for name, found in first["scores"].items():
        of_seeds = [run["scores"][name] for run in runs]
        cells = [name, f"{found['num_lines']:,}"]
        for metric in ("bleu", "chrf"):
            values = [scores[metric] for scores in of_seeds]
            cells += [f"{statistics.fmean(values):.2f}", f"{min(values):.2f} to {max(values):.2f}"]
        rows.append(cells)
    print()
    if is_markdown:
        rules = ["---", *["---:"] * (len(rows[0]) - 1)]
        print(*(f"| {' | '.join(row)} |" for row in [rows[0], rules, *rows[1:]]), sep="\n")
    else:
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for label, *cells in rows:
            print("  ".join([label.ljust(widths[0]), *map(str.rjust, cells, widths[1:])]).rstrip())
    any_set = next(iter(first["scores"].values()))
    print(f"\nBLEU {any_set['bleu_signature']}\nchrF {any_set['chrf_signature']}")


if __name__ == "__main__":
    main()
