"""How good a recipe is: trained with several seeds, and its best weights scored on the test sets of its data folder.

    python benchmarks/results.py train CONFIG [--seeds 1 2 3] [--set KEY=VALUE ...] [--beams 4] [--folder DIR]
                                       [--translations DIR] [--json FILE]
    python benchmarks/results.py show FILE ... [--markdown] [--svg FILE]

CONFIG is the configuration of a prepared data folder with test sets. Which weights are best is decided on validation
alone, by the program itself; the test sets are translated once, at the end, by the search that validation uses, and
scored by sacreBLEU on the text as it came; "BLEU lc" is the same without regard to case, for figures of others that
were made so. Minutes are those of the record: everything from the first attempt's beginning to the end of its last
validation. Runs that have finished in `--folder` are not trained again; one of other text or settings is refused.

`show` puts what several calls of `train` wrote together: seeds of the same settings into one table, different settings
one below the other; `--svg` draws the validation BLEU of up to two settings over minutes.
"""

import argparse
import json
import statistics
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from arguments import add_settings, at_least_one, mistakes_told, new_file
from curves import Run, draw, how_it_ran, minutes_at, print_table, train
from sacrebleu.metrics.bleu import BLEU

from septuagint.config_file import load_config
from septuagint.data.dataset import EvaluationSet, open_evaluation_sets
from septuagint.data.manifest import read_manifest
from septuagint.data.sentences import Sentences
from septuagint.errors import UserError
from septuagint.inference.beam import translate_ids
from septuagint.inference.scoring import bleu_tokenizer, score
from septuagint.inference.spelled import decode_ids
from septuagint.inference.trained import Trained, open_trained
from septuagint.model.transformer import Transformer
from septuagint.report.drawing.axes import Axis
from septuagint.report.reading.record import Record, read_record
from septuagint.training.precision import DTYPES, choose_device, choose_precision

METRICS = {"bleu": "BLEU", "chrf": "chrF", "bleu_lowercase": "BLEU lc"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    training = verbs.add_parser("train", help="train a recipe, and score it")
    training.add_argument("config", type=Path)
    training.add_argument("--seeds", type=int, nargs="+", default=[1])
    add_settings(training)
    training.add_argument("--beams", type=at_least_one, default=4, help="hypotheses that the search follows")
    training.add_argument("--folder", type=Path, help="keeps the run folders; a temporary one by default")
    training.add_argument("--translations", type=Path, metavar="DIR", help="keeps what was translated")
    training.add_argument("--json", type=new_file, metavar="FILE", help="what `show` reads; written after every seed")
    showing = verbs.add_parser("show", help="put results together")
    showing.add_argument("files", type=Path, nargs="+", metavar="FILE")
    showing.add_argument("--svg", type=new_file, metavar="FILE", help="draw validation BLEU over minutes")
    for verb in (training, showing):
        verb.add_argument("--markdown", action="store_true", help="print Markdown tables")
    arguments = parser.parse_args()
    with mistakes_told():
        results = [train_and_score(arguments)] if arguments.verb == "train" else read_results(arguments.files)
        if arguments.verb == "show" and arguments.svg is not None and len(results) > 2:
            raise UserError(f"--svg draws up to two recipes, not {len(results)}; give the files of two")
    for result in results:
        show(result, is_markdown=arguments.markdown)
    if arguments.verb == "show" and arguments.svg is not None:
        arguments.svg.write_text(draw_bleu(results), encoding="utf-8")


def train_and_score(arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything that a recipe came to, all seeds."""
    check_test_sets(arguments.config, arguments.overrides)
    result = {"config": str(arguments.config), "settings": arguments.overrides, "beams": arguments.beams, "runs": []}
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.folder or Path(temporary)).absolute()
        for seed in arguments.seeds:
            result["runs"].append(measure(seed, folder, arguments))
            if arguments.json is not None:
                arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def check_test_sets(config: Path, overrides: list[str]) -> None:
    """Before anything is trained."""
    if not read_manifest(load_config(config, overrides).data.folder).test:
        raise UserError(f"{config}: has no test sets; add [[data.test]], and prepare again")


def read_results(files: list[Path]) -> list[dict[str, Any]]:
    """What was written, with the seeds of the same recipe and settings together."""
    results: dict[str, dict[str, Any]] = {}
    for file in files:
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            key, runs = json.dumps([found["config"], found["settings"], found["beams"]]), found["runs"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = getattr(error, "strerror", None) or "not what `--json` wrote"
            raise UserError(f"{file}: cannot be shown: {reason}") from None
        if key in results:
            results[key]["runs"] += runs
        else:
            results[key] = found
    return list(results.values())


def measure(seed: int, folder: Path, arguments: argparse.Namespace, *, name: str = "") -> dict[str, Any]:
    """A training with one seed, in folder/name, and what came of it."""
    name, overrides = name or f"seed-{seed}", [*arguments.overrides, f"training.seed={seed}"]
    run = Run(path=name, name=name, folder=folder / name, overrides=overrides, environment={})
    train(run, arguments.config)
    trained, record = open_trained(run.folder), read_record(run.folder)
    if trained.data is None:
        raise UserError(f"{run.folder}: was trained on another data folder; take another --folder")
    sets = open_evaluation_sets(trained.data_folder, trained.data, trained.data.test)
    network = trained.network().to(choose_device())
    scores = {text.name: score_set(text, network, trained, seed, arguments) for text in sets}
    return {
        "seed": seed,
        "ran": how_it_ran(record),
        "num_pairs": sum(corpus.pairs for corpus in trained.data.train),
        "num_parameters": sum(parameter.numel() for parameter in network.parameters()),
        "preset": trained.config["model"]["preset"],
        "weights": trained.name,
        "validation_bleu": best_bleu(record),
        "minutes": minutes_at(record, record.validations[-1]),
        "validations": tell_validations(record),
        "scores": scores,
    }


def tell_validations(record: Record) -> list[dict[str, Any]]:
    """What each came to, and after how many minutes."""
    return [
        {
            "minutes": minutes_at(record, look),
            "step": look.step,
            "loss": look.valid_loss,
            "bleu": look.bleu,
            "sets": look.sets,
        }
        for look in record.validations
    ]


def best_bleu(record: Record) -> float:
    """On validation text, of a checkpoint or the average of the last ones."""
    return max(look.bleu or 0.0 for look in (*record.validations, *record.averages))


def score_set(
    text: EvaluationSet, network: Transformer, trained: Trained, seed: int, arguments: argparse.Namespace
) -> dict[str, Any]:
    lines = translate(network, trained, text.source, arguments.beams)
    if arguments.translations is not None:
        arguments.translations.mkdir(parents=True, exist_ok=True)
        content = "".join(f"{line}\n" for line in lines)
        (arguments.translations / f"{text.name}.{seed}.txt").write_text(content, encoding="utf-8")
    language = trained.config["data"]["target_language"]
    without_case = BLEU(lowercase=True, tokenize=bleu_tokenizer(language))
    return {
        **asdict(score(lines, text.target_lines, language)),
        "bleu_lowercase": without_case.corpus_score(lines, [text.target_lines]).score,
        "bleu_lowercase_signature": str(without_case.get_signature()),
    }


def translate(network: Transformer, trained: Trained, sources: Sentences, num_beams: int) -> list[str]:
    """By the search that validation uses, in the precision of the training."""
    device = next(network.parameters()).device
    precision = choose_precision(trained.config["training"]["precision"], device)
    found = translate_ids(network, list(sources), beam_size=num_beams, dtype=DTYPES[precision])
    data = trained.config["data"]
    languages = data["source_language"], data["target_language"]
    return [
        decode_ids(trained.vocabulary, best.ids, source, languages)
        for (best, *_), source in zip(found, sources, strict=True)
    ]


def show(result: dict[str, Any], *, is_markdown: bool) -> None:
    """A row for each test set: the mean of the seeds, and of several the lowest and the highest."""
    runs = result["runs"]
    first = runs[0]
    print(f"{result['config']} {' '.join(result['settings'])}".rstrip())
    print(f"{first['preset']}, {first['num_parameters'] / 1e6:.1f} M parameters, {first['num_pairs']:,} pairs")
    print(f"{first['ran']}; beam {result['beams']}")
    for run in runs:
        told = f"best {run['weights']}, validation BLEU {run['validation_bleu']:.2f}"
        print(f"seed {run['seed']}: {run['minutes']:.2f} minutes, {told}")
    has_range = ["seeds"] if len(runs) > 1 else []
    rows = [["test set", "lines", *(cell for name in METRICS.values() for cell in (name, *has_range))]]
    for name, found in first["scores"].items():
        of_seeds = [run["scores"][name] for run in runs]
        cells = [name, f"{found['num_lines']:,}"]
        for metric in METRICS:
            values = [scores[metric] for scores in of_seeds]
            cells += [f"{statistics.fmean(values):.2f}", *(f"{min(values):.2f}-{max(values):.2f}" for _ in has_range)]
        rows.append(cells)
    print()
    if is_markdown:
        rules = ["---", *["---:"] * (len(rows[0]) - 1)]
        print(*(f"| {' | '.join(row)} |" for row in [rows[0], rules, *rows[1:]]), sep="\n")
    else:
        print_table(rows)
    any_set = next(iter(first["scores"].values()))
    print(*("", *(f"{name} {any_set[f'{metric}_signature']}" for metric, name in METRICS.items()), ""), sep="\n")


def draw_bleu(results: list[dict[str, Any]]) -> str:
    """A line for each run, coloured by recipe; a recipe is called by its preset and what the other has not."""
    shared = set.intersection(*(set(result["settings"]) for result in results))
    curves = {}
    for result in results:
        preset = result["runs"][0]["preset"]
        told = {*shared, f"model.preset={preset}"}
        name = " ".join([preset, *(setting for setting in result["settings"] if setting not in told)])
        curves[name] = [{look["minutes"]: look["bleu"] for look in run["validations"]} for run in result["runs"]]
    return draw("BLEU over minutes", curves, Axis(label="minutes"), Axis(label="validation BLEU"), legend_top=150)


if __name__ == "__main__":
    main()
