"""From a checkpoint to an artifact: built, compared with the checkpoint, described, sealed, and only then in place."""

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch

import septuagint
from septuagint.data.dataset import EvaluationSet
from septuagint.data.files import one_at_a_time, read_object
from septuagint.data.folders import bring_back, filled_aside, is_temporary, scratch
from septuagint.data.manifest import HISTOGRAM_BIN
from septuagint.data.normaliser import NORMALISER
from septuagint.errors import ArtifactError, DataError, StorageError, UserError, writing_to
from septuagint.inference.argos import argos_name, write_argos, write_metadata
from septuagint.inference.artifact import (
    CARD,
    MANIFEST,
    MODEL,
    OF_RUN,
    SENTENCEPIECE,
    Artifact,
    DecodeSettings,
    Kind,
    Manifest,
    Origin,
    find_artifact,
    find_best_artifact,
    read_manifest,
    seal,
)
from septuagint.inference.ctranslate2_model import write_ctranslate2
from septuagint.inference.hugging_face import check_is_m2m100, write_hugging_face
from septuagint.inference.model_card import Background, write_card
from septuagint.inference.parity import Parity, check_hugging_face, check_parity, sample_pairs, score_artifact
from septuagint.inference.scored_sets import open_test_sets, score_test_sets, warn_of_seen
from septuagint.inference.scoring import Score
from septuagint.inference.search import MAX_LENGTH, MAX_LENGTH_EXTRA, MAX_LENGTH_RATIO
from septuagint.inference.trained import Trained, open_trained
from septuagint.inference.translator import Translator
from septuagint.inference.vocabulary_map import (
    NUM_PAIRS,
    VOCABULARY_MAP,
    learn_vocabulary_map,
    write_vocabulary_map,
)
from septuagint.machine import available_cores, cpu_model
from septuagint.progress import ProgressReport
from septuagint.training.checkpoint import checkpoint_path
from septuagint.training.checkpoint_files import STATE
from septuagint.training.run_folder import ENVIRONMENT

Format = Literal["ctranslate2", "huggingface", "argos"]
FORMATS: tuple[str, ...] = get_args(Format)
DEFAULT_QUANTIZATION = "int8"
# Lines of fewer pieces than all but one in a thousand training sentences have are translated whole.
_LONGEST_SHARE = 0.999
_FEWEST_PIECES = 32
# What quantisation changes is looked for in so many lines: a minute or two on two cores, for a network of usual size.
_MAX_BLEU_LINES = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What is made."""

    format: Format = "ctranslate2"
    quantization: str = DEFAULT_QUANTIZATION
    name: str | None = None  # the run's, where none is given
    license: str = "unknown"
    has_vocabulary_map: bool = False
    is_tested: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """What an export came to."""

    folder: Path
    manifest: Manifest
    num_bytes: int


def export(
    run: Path,
    target: Path,
    *,
    format: Format = "ctranslate2",
    quantization: str = DEFAULT_QUANTIZATION,
    checkpoint: str = "best",
    num_averaged: int | None = None,
    name: str | None = None,
    license: str = "unknown",
    vocabulary_map: bool = False,
    test_sets: bool = False,
    report: ProgressReport,
) -> Exported:
    """Makes a folder of a run's best checkpoint, of the one that is named, or of the average of the last ones.

    With `test_sets`, those of the run's data folder are translated with it, and its card tells how well, and how fast.
    """
    if num_averaged is not None and checkpoint != "best":
        raise UserError(f"either the mean of {num_averaged} checkpoints or {checkpoint!r}; give one of them")
    trained = open_trained(run, checkpoint=checkpoint, num_averaged=num_averaged)
    if format == "huggingface":
        check_is_m2m100(trained.model)
        quantization = "float32"
    if test_sets:
        _open_test_sets(trained)  # what is missing is missed before the work
        warn_of_seen(trained.num_seen_pairs(), report)
    options = Options(
        format=format,
        quantization=quantization,
        name=name,
        license=license,
        has_vocabulary_map=vocabulary_map,
        is_tested=test_sets,
    )
    place = target.resolve()
    if place == Path.cwd():
        raise UserError(f"{target}: the current folder cannot be replaced; give the name of a new one")
    with writing_to(target):
        place.parent.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(place.parent):
            exported = _export(trained, place, options, report)
    return replace(exported, folder=target)


def _export(trained: Trained, target: Path, options: Options, report: ProgressReport) -> Exported:
    """For who is alone with the target."""
    bring_back(target)
    _check_target(target)
    _remove_leftovers(target)
    with filled_aside(target) as folder:
        if options.format == "argos":
            with scratch(folder) as package:
                manifest = _build(trained, package, "ctranslate2", options, report)
                write_argos(package, folder / argos_name(manifest), manifest)
            manifest = seal(folder, manifest.model_dump(exclude={"files"}) | {"kind": "argos"})
        else:
            manifest = _build(trained, folder, options.format, options, report)
    num_bytes = sum(entry.bytes for entry in manifest.files.values())
    return Exported(folder=target, manifest=manifest, num_bytes=num_bytes)


def artifact_of_run(run: Path, report: ProgressReport) -> Artifact:
    """The artifact of a run's best checkpoint, in its folder; made where there is none, a damaged one, or another's."""
    folder = run / OF_RUN
    with writing_to(folder), one_at_a_time(run):
        if artifact := find_best_artifact(run, report.warn):
            return artifact
        trained = open_trained(run)  # the newest, where none is called best
        if not (run / "best").exists() and (artifact := find_artifact(run, trained.weights_sha256, report.warn)):
            return artifact
        report.say(f"exporting the best checkpoint of {run} into {folder}")
        _export(trained, folder, Options(), report)
        return Artifact(folder)


def _remove_leftovers(target: Path) -> None:
    """What exports of this name left that were killed."""
    for path in target.parent.glob(".*.tmp"):
        if is_temporary(path) and path.name.lstrip(".").startswith(f"{target.name}."):
            shutil.rmtree(path, ignore_errors=True)


def _check_target(target: Path) -> None:
    """An artifact may be replaced, a damaged one too; anything else is not ours to remove."""
    if target.is_dir() and any(target.iterdir()) and not _is_ours(target):
        raise StorageError(
            f"{target}: not empty, and not an artifact; choose another folder with --to, or move that one away"
        )
    if foreign := _foreign_entries(target):
        raise StorageError(
            f"{target}: an artifact, but with files of others in it ({foreign[0]}); choose another folder with --to, "
            "or move them away"
        )
    if target.exists() and not target.is_dir():
        raise StorageError(f"{target}: a file stands there; choose another folder with --to")


def _foreign_entries(folder: Path) -> list[str]:
    """What lies beside an artifact's own files; nothing is known of a damaged one."""
    try:
        own = {name.partition("/")[0] for name in read_manifest(folder).files} | {MANIFEST}
    except ArtifactError:
        return []
    return sorted(path.name for path in folder.iterdir() if path.name not in own)


def _is_ours(folder: Path) -> bool:
    """Other programs may have files of that name, too."""
    return (folder / MANIFEST).is_file() and b'"septuagint-artifact"' in (folder / MANIFEST).read_bytes()


def _build(trained: Trained, folder: Path, kind: Kind, options: Options, report: ProgressReport) -> Manifest:
    """Fills a folder. Every export is compared with the checkpoint in float32, whatever it is quantised to."""
    with scratch(folder) as single:
        with report.stage("converting", None, ""):
            _write_ctranslate2_folder(trained, single, "float32")
        with report.stage("comparing", None, ""):
            network, pairs = trained.network(), sample_pairs(trained.vocabulary, _pairs(trained))
            parity = check_parity(network, single / MODEL, trained.vocabulary, pairs)
        checks: dict[str, Any] = {"max_difference": parity.difference, "num_pieces": parity.num_pieces}
        if kind == "huggingface":
            _write_hugging_face_folder(trained, folder)
            with report.stage("comparing", None, ""):
                theirs = check_hugging_face(network, folder, pairs)
            if theirs is None:
                report.warn("transformers is not installed: not the folder was compared, but a CTranslate2 model")
            else:
                checks = {"max_difference": theirs.difference, "num_pieces": theirs.num_pieces}
        elif options.quantization == "float32" and not options.has_vocabulary_map:
            for path in single.iterdir():
                path.rename(folder / path.name)
        else:
            _write_ctranslate2_folder(trained, folder, options.quantization)
            if options.has_vocabulary_map:
                with report.stage("vocabulary map", None, ""):
                    _write_vocabulary_map(trained, folder)
            checks |= _compare_bleu(trained, single, folder, options, parity, report)
        if options.is_tested:
            # Nothing here translates with a Hugging Face folder: its weights are tested as CTranslate2 has them.
            tested = single if kind == "huggingface" else folder
            checks |= {"test_sets": _test(trained, tested, options, checks, report)}
    description = _describe(trained, kind, options, checks)
    card = write_card(Manifest(**description, files={}), _background(trained, options.license))
    (folder / CARD).write_text(card, encoding="utf-8")
    return seal(folder, description)


def _write_ctranslate2_folder(trained: Trained, folder: Path, quantization: str) -> None:
    (folder / MODEL).mkdir()
    write_ctranslate2(
        folder / MODEL,
        weights=trained.checkpoint.weights,
        model=trained.model,
        vocabulary=trained.vocabulary,
        quantization=quantization,
    )
    (folder / SENTENCEPIECE).write_bytes(trained.vocabulary_bytes)
    write_metadata(folder, trained.config["data"]["source_language"], trained.config["data"]["target_language"])


def _write_vocabulary_map(trained: Trained, folder: Path) -> None:
    vocabulary = trained.vocabulary
    frequent, allowed = learn_vocabulary_map(*trained.training_sample(NUM_PAIRS), vocabulary.size)
    write_vocabulary_map(folder / MODEL / VOCABULARY_MAP, vocabulary.pieces, frequent, allowed)


def _write_hugging_face_folder(trained: Trained, folder: Path) -> None:
    decode = _decode_settings(trained, Options())
    write_hugging_face(
        folder,
        weights=trained.checkpoint.weights,
        model=trained.model,
        vocabulary=trained.vocabulary_bytes,
        beam_size=decode.beam_size,
        length_penalty=decode.length_penalty,
        max_length=decode.max_length,
    )


def _pairs(trained: Trained) -> list[tuple[np.ndarray, np.ndarray]]:
    return [pair for text in trained.valid for pair in zip(text.source, text.target, strict=True)]


def _compare_bleu(
    trained: Trained, single: Path, folder: Path, options: Options, parity: Parity, report: ProgressReport
) -> dict[str, Any]:
    """What quantisation and a map change, on validation text; nothing where the text is no longer there."""
    pairs = [pair for text in trained.valid for pair in zip(text.source_lines, text.target_lines, strict=True)]
    if not pairs:
        report.warn("the validation text is not there, so what quantisation changes in BLEU was not measured")
        return {}
    chosen = np.linspace(0, len(pairs) - 1, min(len(pairs), _MAX_BLEU_LINES)).astype(int)  # from all over it
    sources, references = ([pairs[place][side] for place in chosen] for side in (0, 1))
    scores: list[Score] = []
    plain = Options(quantization="float32")
    for place, made_with in ((single, plain), (folder, options)):
        checks = {"max_difference": parity.difference, "num_pieces": parity.num_pieces}
        seal(place, _describe(trained, "ctranslate2", made_with, checks))
        with report.stage(f"BLEU {made_with.quantization}", len(sources), "lines") as stage:
            scores.append(score_artifact(Artifact(place), sources, references, stage.advance))
    return {
        "bleu_float32": scores[0].bleu,
        "bleu": scores[1].bleu,
        "bleu_change": scores[1].bleu - scores[0].bleu,
        "bleu_lines": scores[1].num_lines,
        "bleu_signature": scores[1].bleu_signature,
    }


def _open_test_sets(trained: Trained) -> Sequence[EvaluationSet]:
    if trained.data is None:
        raise DataError(
            f"{trained.data_folder}: not there, or prepared anew from other text or with another vocabulary, so its "
            "test sets are not to be had; put it back, or leave --test-sets out"
        )
    return open_test_sets(trained.data_folder, otherwise="leave --test-sets out")


def _test(
    trained: Trained, folder: Path, options: Options, checks: dict[str, Any], report: ProgressReport
) -> dict[str, Any]:
    """How good the artifact is on text that had no part in its making, and how fast."""
    seal(folder, _describe(trained, "ctranslate2", options, checks))
    with Translator(Artifact(folder)) as translator:
        results = score_test_sets(_open_test_sets(trained), translator, report)
        device = translator.device
    seconds = sum(result.seconds for result in results)
    num_target_tokens = sum(result.num_target_tokens for result in results)
    return {
        "scores": {result.name: asdict(result.score) for result in results},
        "seen_pairs": trained.num_seen_pairs(),
        "seconds": seconds,
        "target_tokens": num_target_tokens,
        "target_tokens_per_second": num_target_tokens / seconds,
        "hardware": _name_hardware(device),
    }


def _name_hardware(device: str) -> str:
    """What a translator computes on, in words."""
    if device == "cuda":
        return torch.cuda.get_device_name() if torch.cuda.is_available() else "a GPU"
    num_threads = available_cores()
    try:
        name = cpu_model()
    except OSError:
        name = "a CPU"
    return f"{num_threads} {'thread' if num_threads == 1 else 'threads'} of {name}"


def _describe(trained: Trained, kind: Kind, options: Options, checks: dict[str, Any]) -> dict[str, Any]:
    data = trained.config["data"]
    return {
        "kind": kind,
        "name": options.name or trained.run.absolute().name,
        "source_language": data["source_language"],
        "target_language": data["target_language"],
        "normaliser": NORMALISER if trained.data is None else trained.data.normaliser,
        "quantization": options.quantization,
        "preset": trained.model.preset,
        "num_parameters": sum(tensor.numel() for tensor in trained.checkpoint.weights.values()),
        "vocabulary_size": trained.vocabulary.size,
        "decode": _decode_settings(trained, options),
        "origin": Origin(
            run=trained.run.absolute().name,
            checkpoint=trained.name,
            step=trained.checkpoint.step,
            weights_sha256=trained.weights_sha256,
            septuagint_version=septuagint.__version__,
        ),
        "checks": checks,
    }


def _decode_settings(trained: Trained, options: Options) -> DecodeSettings:
    return DecodeSettings(
        max_length_ratio=MAX_LENGTH_RATIO,
        max_length_extra=MAX_LENGTH_EXTRA,
        max_length=MAX_LENGTH,
        max_source_pieces=min(_longest_source(trained), MAX_LENGTH),
        vocabulary_map=options.has_vocabulary_map,
    )


def _longest_source(trained: Trained) -> int:
    """In pieces: what training has taught, apart from a few outliers; else what it would have let in."""
    if trained.data is None:
        limit: int = trained.config["filters"]["max_pieces"]
        return max(_FEWEST_PIECES, limit or MAX_LENGTH)
    histograms = [corpus.source.lengths for corpus in trained.data.train]
    counts = np.zeros(max(map(len, histograms)), np.int64)
    for histogram in histograms:
        counts[: len(histogram)] += histogram
    bins = int(np.searchsorted(np.cumsum(counts), _LONGEST_SHARE * counts.sum())) + 1
    return max(_FEWEST_PIECES, bins * HISTOGRAM_BIN)


def _background(trained: Trained, license: str) -> Background:
    state = trained.checkpoint.state
    if "seconds" not in state:  # an average of an earlier version
        state = read_object(checkpoint_path(trained.run, trained.checkpoint.step) / STATE)
    attempts = read_object(trained.run / ENVIRONMENT).get("attempts", [])
    return Background(
        license=license,
        corpora=trained.training_corpora(),
        scores=_recorded_scores(trained),
        begun_with=_begun_with(trained.config["training"].get("init_from")),
        steps=trained.checkpoint.step,
        hours=state["seconds"] / 3600 if "seconds" in state else None,
        num_target_tokens=state.get("num_target_tokens"),
        device_names=attempts[-1].get("device_names", []) if attempts else [],
        settings=trained.model.model_dump(exclude={"preset"}),
    )


def _begun_with(start: str | None) -> str | None:
    """The name of a run, or that of a checkpoint and its run."""
    if start is None:
        return None
    path = Path(start)
    if path.parent.name == "checkpoints":
        return f"{path.parent.parent.name}, {path.name}"
    return path.name if path.name != "best" else path.parent.name


def _recorded_scores(trained: Trained) -> dict[str, Score]:
    """How these weights did on validation text, all of it and each set, where training has measured it."""
    state, names = trained.checkpoint.state, [corpus["name"] for corpus in trained.config["data"]["valid"]]
    entries = [state["validation"]] if "validation" in state else state.get("validations", [])
    for entry in entries:
        if entry["step"] == trained.checkpoint.step:
            sets = entry.get("scores_of_sets", {}) if len(names) > 1 else {}
            return {", ".join(names): Score(**entry["scores"])} | {name: Score(**sets[name]) for name in sets}
    return {}
