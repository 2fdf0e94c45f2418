"""The strongest model that a text allows: trained for longer, and on more than the text itself, if that pays.

    python benchmarks/strongest.py CONFIG --folder DIR [--beside {nothing,turned,translations}] [--set KEY=VALUE ...]
               [--forward KEY=VALUE ...] [--finished KEY=VALUE ...] [--both KEY=VALUE ...]
               [--backward KEY=VALUE ...] [--student KEY=VALUE ...] [--teacher-beams 2]
               [--beams 4] [--json FILE] [--no-artifact]

CONFIG is the configuration of a prepared data folder with test sets. Nothing but that folder is read, so it can be
brought to the machine that trains. In DIR, one after the other, and only what is not there yet:

    forward/   trained on the text alone
    finished/  only with --finished: begins with the weights of the part before it, and is trained on the text alone
    artifact/  the strongest, for CTranslate2 in int8; its card has scores on the test sets, and its speed

With `--beside turned`, `finished` begins with a network that knows both directions:

    text/      the text of the data folder, a file for each corpus and language
    both/      trained on the text, and on the same text turned round beside it

With `--beside translations`, it begins with one that learned what two teachers say, too (data diversification).
`forward` is one of them:

    backward/  a teacher for the other direction
    said/      training sources as `forward` translates them, training targets as `backward` does; said anew when a
               teacher has been trained further (a student of the old text is then refused: move DIR/student away)
    student/   trained on the text, and on both translations of it beside it

`--set` changes settings of CONFIG for all of them, the others those of one. The best on validation text is the
strongest, of all but `backward`: it alone is scored on the test sets, as `results.py` does, and exported.
`--no-artifact` is for machines without CTranslate2; elsewhere `septuagint export DIR/finished --to FOLDER --name NAME
--test-sets` does the same.
"""

import argparse
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from arguments import add_settings, at_least_one, mistakes_told, new_file
from curves import PROGRAM, Run, minutes_at, train
from results import best_bleu, check_test_sets, measure, show, tell_validations, translate

from septuagint.config import Config
from septuagint.config_file import load_config
from septuagint.data.dataset import Dataset, open_dataset
from septuagint.data.files import written_aside
from septuagint.data.sentences import Sentences
from septuagint.errors import UserError
from septuagint.inference.trained import Trained, open_trained
from septuagint.model.transformer import Transformer
from septuagint.progress import ProgressReport, Stage
from septuagint.report.reading.record import read_record
from septuagint.training.checkpoint_files import MODEL as WEIGHTS
from septuagint.training.checkpoint_files import read_manifest
from septuagint.training.precision import choose_device

SPLITS = ("train", "valid", "test")
PARTS = ("forward", "finished", "both", "backward", "student")
# What can stand beside the text, and the part that `finished` begins with.
BESIDE = {"nothing": "forward", "turned": "both", "translations": "student"}
_ANY_LANGUAGE = {"min_script_share": 0.0, "language": False}
# A translation of so many lines is some seconds of a GPU, half a minute of a CPU.
_LINES_AT_A_TIME = {"cuda": 50_000, "cpu": 2_000}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--folder", type=Path, required=True)
    add_settings(parser)
    parser.add_argument("--beside", choices=BESIDE, default="nothing", help="what stands beside the text")
    for part in PARTS:
        told = f"settings of DIR/{part}"
        parser.add_argument(f"--{part}", nargs="+", action="extend", default=[], metavar="KEY=VALUE", help=told)
    parser.add_argument("--beams", type=at_least_one, default=4, help="hypotheses that a search for test text follows")
    parser.add_argument("--teacher-beams", type=at_least_one, help="the same, of teachers: 2 when not given")
    parser.add_argument("--no-artifact", action="store_true", help="score the strongest, but do not export it")
    parser.add_argument("--json", type=new_file, metavar="FILE")
    arguments = parser.parse_args()
    for option, beside in (
        ("both", "turned"),
        ("backward", "translations"),
        ("student", "translations"),
        ("teacher_beams", "translations"),
    ):
        if getattr(arguments, option) and arguments.beside != beside:
            parser.error(f"--{option.replace('_', '-')} goes with --beside {beside}")
    with mistakes_told():
        result = build(arguments)
    show(result, is_markdown=False)
    for name, told in result["parts"].items():
        strongest = ", the strongest" if name == result["strongest"] else ""
        print(f"{name}: {told['minutes']:.2f} minutes, validation BLEU {told['validation_bleu']:.2f}{strongest}")
    for name, told in result["said"].items():
        rate = f"{told['lines'] / told['seconds']:,.0f} lines a second"
        print(f"{name}: said {told['lines']:,} lines in {told['seconds']:.1f} s, {rate}")
    save(result, arguments.json)
    if not arguments.no_artifact:
        with mistakes_told():
            result["artifact"] = make_artifact(arguments.folder, result["strongest"], arguments.config.stem)
        save(result, arguments.json)


def save(result: dict[str, Any], path: Path | None) -> None:
    if path is not None:
        write_lines(path, [json.dumps(result, indent=1)])


def build(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the strongest model came to, and how it was made."""
    if not arguments.no_artifact:
        check_exports()
    folder = arguments.folder.absolute()
    check_test_sets(arguments.config, arguments.overrides)
    for part in PARTS:  # a mistake in the last of them, too, before the first is trained
        load_config(arguments.config, [*arguments.overrides, *getattr(arguments, part)])
    config = load_config(arguments.config, arguments.overrides)
    candidates = {"forward": (arguments.config, [*arguments.overrides, *arguments.forward])}
    parts = {"forward": train_part(folder / "forward", *candidates["forward"])}
    said: dict[str, dict[str, float]] = {}
    begun = BESIDE[arguments.beside]
    if begun != "forward":
        wide, teachers, said = write_wide_text(folder, config, arguments)
        parts |= teachers
        candidates[begun] = wide, getattr(arguments, begun)
        parts[begun] = train_part(folder / begun, *candidates[begun])
    if arguments.finished:
        weights = f"training.init_from={folder / begun}"
        candidates["finished"] = arguments.config, [*arguments.overrides, weights, *arguments.finished]
        parts["finished"] = train_part(folder / "finished", *candidates["finished"])
    strongest = max(candidates, key=lambda name: parts[name]["validation_bleu"])
    path, overrides = candidates[strongest]
    options = argparse.Namespace(
        config=path, overrides=overrides, beams=arguments.beams, translations=folder / "translations"
    )
    run = measure(load_config(path, overrides).training.seed, folder, options, name=strongest)
    return {
        "config": str(arguments.config),
        "settings": [*arguments.overrides, *getattr(arguments, strongest)],
        "beams": arguments.beams,
        "runs": [run],
        "strongest": strongest,
        "parts": parts,
        "said": said,
    }


def write_wide_text(
    folder: Path, config: Config, arguments: argparse.Namespace
) -> tuple[Path, dict[str, dict[str, Any]], dict[str, dict[str, float]]]:
    """The configuration of the text with what stands beside it; the teacher that was trained for it; what was said."""
    dataset = open_dataset(config.data, ProgressReport(is_quiet=True))
    texts = write_text(dataset, folder / "text" / dataset.manifest.fingerprint[:12])
    teachers: dict[str, dict[str, Any]] = {}
    said: dict[str, dict[str, float]] = {}
    if arguments.beside == "turned":
        entries = [entry | {"name": f"turned-{entry['name']}"} for entry in turned(texts["train"])]
        # It has been filtered the right way round; the other way round, a side is in another script than expected.
        config = config.model_copy(update={"filters": config.filters.model_copy(update=_ANY_LANGUAGE)})
    else:
        swapped = {split: turned(corpora) for split, corpora in texts.items()}
        backward = write_config(folder / "backward.toml", config, dataset, swapped, is_turned=True)
        teachers["backward"] = train_part(folder / "backward", backward, arguments.backward)
        entries, said = translations(folder, dataset, texts["train"], arguments.teacher_beams or 2)
    wide = texts | {"train": [*texts["train"], *entries]}
    return write_config(folder / f"{BESIDE[arguments.beside]}.toml", config, dataset, wide), teachers, said


def check_exports() -> None:
    """What is missing at the end should be missed before hours of training."""
    try:
        importlib.import_module("septuagint.inference.export")
    except ImportError as error:
        raise UserError(
            f"the artifact cannot be made here ({error}): install what is missing, or leave it out with --no-artifact"
        ) from None


def make_artifact(folder: Path, strongest: str, name: str) -> dict[str, Any]:
    """The best weights as a folder that translates, scored on the test sets; what is there is not made again."""
    from septuagint.inference.artifact import OF_RUN, find_artifact
    from septuagint.inference.export import Exported, export
    from septuagint.inference.export_summary import print_export, summarise_export

    report = ProgressReport()
    weights_sha256 = open_trained(folder / strongest).weights_sha256
    found = find_artifact(folder, weights_sha256, report.warn)
    if found is None or "test_sets" not in found.manifest.checks:
        exported = export(folder / strongest, folder / OF_RUN, name=name, test_sets=True, report=report)
    else:
        num_bytes = sum(entry.bytes for entry in found.manifest.files.values())
        exported = Exported(folder=found.folder, manifest=found.manifest, num_bytes=num_bytes)
    print_export(exported)
    return summarise_export(exported)


def write_text(dataset: Dataset, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The text of a data folder as files; corpora as a configuration lists them, by split."""
    folder.mkdir(parents=True, exist_ok=True)
    decode = dataset.vocabulary.decode
    texts: dict[str, list[dict[str, Any]]] = {split: [] for split in SPLITS}
    shards = zip(dataset.manifest.train, dataset.weights, dataset.train.sources, dataset.train.targets, strict=True)
    for corpus, weight, *sides in shards:
        entry: dict[str, Any] = {"name": corpus.name, "weight": weight}
        for side, sentences in zip(("source", "target"), sides, strict=True):
            entry[side] = str(folder / f"train.{corpus.name}.{side}")
            write_once(Path(entry[side]), map(decode, sentences))
        texts["train"].append(entry)
    for split, sets in (("valid", dataset.valid), ("test", dataset.test)):
        for text in sets:
            entry = {"name": text.name}
            for side, lines in (("source", text.source_lines), ("target", text.target_lines)):
                entry[side] = str(folder / f"{split}.{text.name}.{side}")
                write_once(Path(entry[side]), lines)
            texts[split].append(entry)
    return texts


def write_once(path: Path, lines: Iterable[str]) -> None:
    """Lines are not asked for where the file is there."""
    if not path.exists():
        write_lines(path, lines)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_aside(path) as file:
        file.writelines(f"{line}\n".encode() for line in lines)


def turned(corpora: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry | {"source": entry["target"], "target": entry["source"]} for entry in corpora]


def write_config(
    path: Path, config: Config, dataset: Dataset, texts: dict[str, list[dict[str, Any]]], *, is_turned: bool = False
) -> Path:
    """CONFIG with other text and the same vocabulary, prepared."""
    languages = [config.data.source_language, config.data.target_language]
    source_language, target_language = reversed(languages) if is_turned else languages
    data = {
        "folder": str(path.with_suffix("")) + "-data",
        "source_language": source_language,
        "target_language": target_language,
    }
    sections = {
        "data": data,
        "filters": config.filters.model_dump(exclude_none=True),
        "vocabulary": {"model": str(dataset.folder.absolute() / dataset.manifest.vocabulary.file.path)},
        "model": config.model.model_dump(exclude_none=True),
        "training": config.training.model_dump(mode="json", exclude_none=True),
    }
    lines = []
    for name, section in sections.items():
        lines += ["", f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in section.items())]
    for split in SPLITS:
        for entry in texts[split]:
            lines += ["", f"[[data.{split}]]", *(f"{key} = {json.dumps(value)}" for key, value in entry.items())]
    write_lines(path, lines)
    run_program("prepare", str(path))
    return path


def train_part(folder: Path, config: Path, overrides: list[str]) -> dict[str, Any]:
    """Trained in a folder of its own: how long it took, and how good it is on validation text."""
    run = Run(path=folder.name, name=folder.name, folder=folder, overrides=overrides, environment={})
    print(f"{run.name}: begins, or goes on", file=sys.stderr)
    train(run, config)
    record = read_record(folder)
    return {
        "minutes": minutes_at(record, record.validations[-1]),
        "validation_bleu": best_bleu(record),
        "validations": tell_validations(record),
    }


def translations(
    folder: Path, dataset: Dataset, texts: list[dict[str, Any]], num_beams: int
) -> tuple[list[dict[str, Any]], dict[str, dict[str, float]]]:
    """What the teachers say: training corpora with one side of the text, and a translation of it on the other.

    And how many lines each teacher said in how many seconds, from text to text; what was there before is not counted.
    The same weights and search say the same, so a folder is named by them.
    """
    entries, told = [], {}
    for teacher, given, written, shards in (
        ("forward", "source", "target", dataset.train.sources),
        ("backward", "target", "source", dataset.train.targets),
    ):
        missing = {}
        weights = read_manifest(folder / teacher / "best").files[WEIGHTS].sha256[:12]
        place = folder / "said" / f"{teacher}-{weights}-beam-{num_beams}"
        for entry, sentences in zip(texts, shards, strict=True):
            name = f"{teacher}-{entry['name']}"
            path = place / f"{entry['name']}.{written}"
            entries.append({"name": name, "weight": entry["weight"], given: entry[given], written: str(path)})
            if not path.exists():
                missing[path] = sentences
        if missing:
            begin = time.perf_counter()
            say_all(missing, open_trained(folder / teacher), num_beams)
            told[teacher] = {"lines": sum(map(len, missing.values())), "seconds": time.perf_counter() - begin}
    return entries, told


def say_all(texts: dict[Path, Sentences], trained: Trained, num_beams: int) -> None:
    network = trained.network().to(choose_device())
    with ProgressReport() as report:
        for path, sentences in texts.items():
            with report.stage(f"{trained.run.name}: {path.name}", len(sentences), "lines") as stage:
                write_lines(path, say(network, trained, sentences, num_beams, stage))


def say(network: Transformer, trained: Trained, sentences: Sentences, num_beams: int, stage: Stage) -> Iterator[str]:
    at_a_time = _LINES_AT_A_TIME[next(network.parameters()).device.type]
    for first in range(0, len(sentences), at_a_time):
        chosen = np.arange(first, min(first + at_a_time, len(sentences)))
        yield from translate(network, trained, sentences.take(chosen), num_beams)
        stage.advance(len(chosen))


def run_program(*arguments: str) -> None:
    done = subprocess.run([*PROGRAM, *arguments, "--quiet"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"septuagint {' '.join(arguments)} ended with exit code {done.returncode}:\n{done.stderr[-2000:]}")


if __name__ == "__main__":
    main()
