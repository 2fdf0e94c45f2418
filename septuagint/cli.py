"""The command line: each verb reads its arguments, calls one function and prints.

Results go to standard output, everything else to standard error; `program` has the exit codes. Heavy imports happen
inside the verbs, so that --help comes at once.
"""

import contextlib
import dataclasses
import importlib.util
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from septuagint import __version__
from septuagint.errors import ArtifactError, DriftError, LostPeerError, UserError, writing_to
from septuagint.program import Stopped, run_program, stop, tell

if TYPE_CHECKING:
    from septuagint.config import Config
    from septuagint.data.prepare import Prepared
    from septuagint.inference.artifact import Artifact
    from septuagint.progress import ProgressReport
    from septuagint.training.launcher import Place
    from septuagint.training.train import Outcome

app = typer.Typer(
    name="septuagint",
    help="Train neural machine translation on the machines people really have.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ConfigArgument = Annotated[Path, typer.Argument(metavar="CONFIG", help="Configuration file (TOML).")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a value, such as training.max_steps=200. Repeatable."),
]
WorkersOption = Annotated[int | None, typer.Option(min=1, max=1024, help="Processes to use; all cores by default.")]
RunOption = Annotated[
    Path | None,
    typer.Option("--run", metavar="DIR", help="Run folder; runs/<name of CONFIG> in the current folder by default."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")]
ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="Run folder or exported folder.")]
BeamOption = Annotated[
    int | None,
    typer.Option("--beam", min=1, max=32, help="Hypotheses followed side by side; the model's own by default."),
]
DeviceOption = Annotated[
    str, typer.Option(help="cpu, cuda, or auto: a GPU where there is one that CTranslate2 can use.")
]
ThreadsOption = Annotated[int | None, typer.Option(min=1, max=1024, help="CPU threads; all cores by default.")]


@app.callback(invoke_without_command=True)
def program(version: Annotated[bool, typer.Option("--version", help="Show the version and leave.")] = False) -> None:
    if version:
        print(f"septuagint {__version__}")
        raise typer.Exit


@app.command()
def demo(
    workers: Annotated[
        int | None, typer.Option(min=1, max=2, help="Processes that prepare and train; one trains by default.")
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """See everything at work on a small corpus, in two minutes.

    Writes the corpus, prepares it, trains, translates sentences that training never saw, and reports how it went.
    Everything lies in configs/, data/ and runs/ of the current folder.
    """
    from septuagint.data.demo.install import install_demo
    from septuagint.progress import ProgressReport

    _need_extra("train")
    with ProgressReport(is_quiet=quiet) as report, report.stage("generating", None, ""):
        path = install_demo(Path())
    prepared = _prepare(path, [], workers, quiet, verify=False)
    from septuagint.config_file import load_config

    config = load_config(path)
    outcome = _train_demo(config, path, workers or 1, quiet)
    _exit_by_signal(outcome)
    from septuagint.inference.export import artifact_of_run
    from septuagint.inference.scored_sets import open_test_sets, score_test_sets
    from septuagint.inference.translator import Translator
    from septuagint.training.summary import print_demo, summarise_demo

    with ProgressReport(is_quiet=quiet) as report, Translator(artifact_of_run(outcome.run, report)) as translator:
        results = score_test_sets(open_test_sets(config.data.folder), translator, report)
    if as_json:
        _print_json(summarise_demo(prepared, outcome, results))
    else:
        print_demo(prepared, outcome, results)
        _print_verdicts(outcome.run)


@app.command()
def prepare(
    config: ConfigArgument,
    set_values: SetOption = None,
    workers: WorkersOption = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse damaged lines instead of dropping them.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Read every byte again to see what changed.")] = False,
    examples: Annotated[bool, typer.Option("--examples", help="Show pairs that each filter dropped.")] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Turn parallel text into a verified data folder. Run it again to go on or to check that nothing changed."""
    from septuagint.data.summary import print_summary, summarise

    overrides = [*(set_values or []), *(["data.strict=true"] if strict else [])]
    prepared = _prepare(config, overrides, workers, quiet, verify=verify)
    if as_json:
        _print_json(summarise(prepared))
    else:
        from rich.console import Console

        print_summary(prepared, Console(), show_examples=examples)


@app.command()
def train(
    config: ConfigArgument,
    run: RunOption = None,
    set_values: SetOption = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Ranks to start on this machine; without it this process alone trains."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, max=1024, help="CPU threads of a rank; its share of the cores by default.")
    ] = None,
    interface: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Network interface between hosts; the one that routes to them by default."),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train on a prepared data folder; run it again to go on.

    Uses the GPUs, or else the CPU. Ctrl-C finishes the step and saves. On several machines it is started by torchrun,
    mpirun or srun: see docs/clusters.md.
    """
    from septuagint.config_file import load_config

    loaded = load_config(config, set_values or [])
    place = _find_place()
    if workers is not None and place.launcher == "none":
        raise typer.Exit(_run_workers(workers, sys.argv[1:]))
    if workers is not None and place.launcher != "workers":
        raise UserError(f"--workers starts ranks, but {place.launcher} has started this one already: leave it out")
    outcome = _train(loaded, config, run, set_values or [], quiet, place, interface, threads)
    from septuagint.training.summary import print_outcome, summarise_outcome

    if place.rank > 0:
        pass  # rank 0 speaks for all
    elif as_json:
        _print_json(summarise_outcome(outcome))
    else:
        print_outcome(outcome, loaded.cost.currency)
        _print_verdicts(outcome.run)
    _exit_by_signal(outcome)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folder; several are compared.")],
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FOLDER", help="Where to write it; the run folder, for several the current one."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Answer what people ask about a run, with evidence: report.html, report.md and report.json.

    Time, training, overfitting, GPUs, network, learning rate, data, checkpoints, steps; what held it up, and what went
    wrong. Also while it runs. Several runs are set side by side: comparison.html, .md and .json.
    """
    Stopped.advice = ""
    from septuagint.report.report import (
        comparison_json,
        make_comparison,
        make_report,
        print_comparison,
        print_report,
        report_json,
        save_comparison,
        save_report,
    )

    if len(runs) > 1:
        comparison = make_comparison(runs)
        paths = save_comparison(comparison, to or Path())
        if as_json:
            _print_json(comparison_json(comparison))
        else:
            print_comparison(comparison)
    else:
        made = make_report(runs[0])
        paths = save_report(made, to or runs[0])
        if as_json:
            _print_json(report_json(made))
        else:
            print_report(made)
    if not as_json:
        print("\n" + "\n".join(map(str, paths)))


@app.command()
def evaluate(
    model: ModelArgument,
    source: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Text to translate, one sentence a line; the run's test sets by default."),
    ] = None,
    reference: Annotated[Path | None, typer.Option(metavar="FILE", help="What it should become, line by line.")] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(metavar="OTHER", help="Another model, or a file of translations, to compare with."),
    ] = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep the translations here.")] = None,
    beam: BeamOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Score a model on known text: BLEU, chrF and TER by sacreBLEU, with 95% intervals.

    Without --source and --reference the text is the test sets of the data folder that the run was trained on.
    """
    _need_extra("serve")
    Stopped.advice = ""  # it would begin anew
    if (source is None) != (reference is None):
        raise UserError("--source and --reference are two sides of one text: give both, or none for the test sets")
    if source is None and (output is not None or (baseline is not None and baseline.is_file())):
        raise UserError("--output and a --baseline of translations are for one text: give --source and --reference")
    if baseline is not None and not baseline.exists():
        cure = "give a file of translations, or a model that `septuagint export` or `septuagint train` has made"
        raise UserError(f"--baseline {baseline}: no such file or folder; {cure}")
    if output is not None and (output.is_dir() or not output.absolute().parent.is_dir()):
        problem = "is a folder" if output.is_dir() else f"there is no folder {output.parent}; make it first"
        raise UserError(f"--output {output}: {problem}")
    from septuagint.data.files import written_aside
    from septuagint.inference.evaluation import evaluate, read_parallel, read_translations
    from septuagint.inference.evaluation_summary import print_evaluations, summarise_evaluations
    from septuagint.inference.translator import Translator
    from septuagint.progress import ProgressReport

    with ProgressReport(is_quiet=quiet) as report, contextlib.ExitStack() as opened:

        def open_translator(artifact: "Artifact") -> Translator:
            return opened.enter_context(Translator(artifact, device=device, num_threads=threads))

        if source is not None and reference is not None:
            texts = {"": read_parallel(source, reference)}
        else:
            _need_extra("train")
            from septuagint.inference.scored_sets import read_test_sets

            texts = read_test_sets(model, report)
        for warning in (warning for text in texts.values() for warning in text.warnings):
            report.warn(warning)
        artifact = _open_model(model, report)
        other: Translator | list[str] | None = None
        if baseline is not None and baseline.is_file():
            other = read_translations(baseline, len(texts[""].sources))
        elif baseline is not None:
            other = open_translator(_open_model(baseline, report))
        results = evaluate(texts, open_translator(artifact), other, beam_size=beam, report=report)
    beam_size = artifact.manifest.decode.beam_size if beam is None else beam
    if as_json:
        _print_json(summarise_evaluations(results, artifact, beam_size))
    else:
        print_evaluations(results, artifact, beam_size)
    if output is not None:
        with writing_to(output.parent), written_aside(output) as file:
            file.write("".join(f"{line}\n" for line in results[""].translations).encode())


@app.command()
def translate(
    model: ModelArgument,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Text, one sentence a line; standard input by default.")
    ] = None,
    beam: BeamOption = None,
    n_best: Annotated[int, typer.Option(min=1, max=32, help="So many translations of each line, the best first.")] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="The score of each translation before it.")] = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object for each line.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Translate text, line by line: as many lines come out as went in, in the same order.

    With --n-best or --scores, columns are separated by tabs: line number (with --n-best), score, translation. The score
    is the mean log-probability of the translation's pieces.
    """
    _need_extra("serve")
    Stopped.advice = ""
    from septuagint.inference.text_stream import TextStream, count_lines
    from septuagint.inference.translation_output import format_translations
    from septuagint.inference.translator import Translator
    from septuagint.progress import ProgressReport

    stream = TextStream(path=file)
    # On a terminal the translations themselves show how far it is.
    with ProgressReport(is_quiet=quiet or sys.stdout.isatty()) as report:
        artifact = _open_model(model, report)
        num_lines = None if file is None else count_lines(file)
        with (
            Translator(artifact, device=device, num_threads=threads) as translator,
            report.stage("translating", num_lines, "lines") as stage,
        ):
            found = translator.translate(stream.windows(), beam_size=beam, num_hypotheses=n_best, advance=stage.advance)
            for text in format_translations(found, num_hypotheses=n_best, has_scores=scores, as_json=as_json):
                sys.stdout.buffer.write(text.encode(errors="replace"))
                sys.stdout.buffer.flush()
        if stream.num_damaged:
            report.warn(f"{stream.num_damaged:,} lines were not UTF-8; what could not be read became U+FFFD")


@app.command()
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder, or a folder of one of its checkpoints.")],
    to: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="Where the exported folder shall stand.")],
    format: Annotated[str, typer.Option(help="ctranslate2, huggingface (base and big), or argos.")] = "ctranslate2",
    quantization: Annotated[
        str | None,
        typer.Option(help="int8, int8_float32, int8_float16, int8_bfloat16, int16, float16, bfloat16 or float32."),
    ] = None,
    checkpoint: Annotated[
        str, typer.Option(metavar="NAME", help="best, averaged, newest, or the number of a step.")
    ] = "best",
    average: Annotated[
        int | None, typer.Option(metavar="N", min=2, max=100, help="The mean of the last N checkpoints instead.")
    ] = None,
    vocabulary_map: Annotated[
        bool,
        typer.Option(
            "--vocabulary-map", help="Look only at pieces that the source suggests: faster, a little less exact."
        ),
    ] = False,
    test_sets: Annotated[
        bool,
        typer.Option(
            "--test-sets", help="Translate the run's test sets with it: the model card tells how well and how fast."
        ),
    ] = False,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What the translator is called; like the run when not given.")
    ] = None,
    license: Annotated[str, typer.Option(help="For the model card, such as cc-by-4.0.")] = "unknown",
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a folder that translates anywhere, with model, vocabulary, settings, model card and hashes.

    The result is compared with the checkpoint before it gets its name.
    """
    _need_extra("train")
    Stopped.advice = ""
    from septuagint.inference.export import export
    from septuagint.inference.export_summary import check_options, print_export, summarise_export
    from septuagint.progress import ProgressReport

    options = check_options(format, quantization, vocabulary_map=vocabulary_map, name=name)
    with ProgressReport(is_quiet=quiet) as report:
        exported = export(
            run,
            to,
            checkpoint=checkpoint,
            num_averaged=average,
            license=license,
            test_sets=test_sets,
            report=report,
            **options,
        )
    if as_json:
        _print_json(summarise_export(exported))
    else:
        print_export(exported)


@app.command()
def config(config: ConfigArgument, set_values: SetOption = None, as_json: JsonOption = False) -> None:
    """Print the resolved configuration, and where each value came from."""
    from septuagint.config_file import as_toml, describe, load_config

    rows = describe(load_config(config, set_values or []), config, set_values or [])
    if as_json:
        _print_json([{"key": key, "value": value, "origin": origin} for key, value, origin in rows])
    else:
        print(as_toml(rows), end="")


def main() -> NoReturn:
    """The entry point of the command `septuagint`."""
    run_program(_call)


def _call() -> None:
    _check_settings(sys.argv[1:])
    app()


def _check_settings(arguments: list[str]) -> None:
    """Each value has a `--set` of its own here; the scripts in `benchmarks/` take several behind one."""
    for option, _, extra in zip(arguments, arguments[1:], arguments[2:], strict=False):
        if option == "--set" and re.match(r"[a-z]\w*(\.[a-z]\w*)+=", extra):
            raise UserError(f"{extra}: write --set before this value, too")


def _prepare(path: Path, overrides: list[str], workers: int | None, quiet: bool, *, verify: bool) -> "Prepared":
    from septuagint.config_file import load_config
    from septuagint.data.prepare import prepare
    from septuagint.machine import available_cores
    from septuagint.progress import ProgressReport

    config = load_config(path, overrides)
    with ProgressReport(is_quiet=quiet) as report:
        return prepare(config, num_workers=workers or available_cores(), report=report, verify=verify)


def _find_place() -> "Place":
    """What the launcher says, if there is one; this process does not outlive it."""
    from septuagint.training.launcher import die_with_launcher, find_place

    place = find_place(os.environ)
    if place.launcher not in ("none", "environment"):  # the shell that set variables by hand may go
        die_with_launcher()
    if place.launcher != "none":
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # what matters is said in words of our own
    return place


def _run_workers(number: int, arguments: list[str], *, has_result: bool = True) -> int:
    """The ranks of this machine, each with the same arguments; their exit code."""
    _need_extra("train")
    from septuagint.training.workers import run_workers

    return run_workers(number, arguments, has_result=has_result)


def _train(
    config: "Config",
    path: Path,
    run: Path | None,
    overrides: list[str],
    quiet: bool,
    place: "Place",
    interface: str | None = None,
    threads: int | None = None,
) -> "Outcome":
    _need_extra("train")
    signal.signal(signal.SIGUSR1, stop)  # until there is something to save: see `training.signals`
    from septuagint.training.train import train

    run_path = run or _run_path(path)
    before = _count_attempts(run_path)
    try:
        outcome = train(
            config,
            config_path=path,
            run_path=run_path,
            overrides=overrides,
            place=place,
            interface=interface,
            num_threads=threads,
            is_quiet=quiet,
        )
    except (LostPeerError, DriftError, UserError):
        # What ended a training is the first thing that its report should tell. One that was refused leaves none.
        if place.rank == 0 and _count_attempts(run_path) > before:
            _write_report(run_path, config.training.mirror)
        raise
    if place.rank == 0 and not (outcome.was_finished and (run_path / "report.json").exists()):
        _write_report(run_path, config.training.mirror)
    return outcome


def _count_attempts(run: Path) -> int:
    from septuagint.training.run_folder import num_attempts

    try:
        return num_attempts(run)
    except UserError:  # damaged: training itself says so
        return 0


def _write_report(run: Path, mirror_folder: Path | None) -> None:
    """At the end of a training, which is no worse for a report that cannot be written."""
    from septuagint.report.report import write_report
    from septuagint.training.retention import mirror

    try:
        write_report(run)
    except UserError as error:
        tell(f"warning: no report: {error}")
    if mirror_folder is not None:
        mirror(run, mirror_folder)  # what stands in its way has been said when the record was copied


def _print_verdicts(run: Path) -> None:
    from septuagint.report.report import make_report, print_verdicts

    with contextlib.suppress(UserError):  # that has been said when it was written
        print()
        print_verdicts(make_report(run))
        print(f"report: {run / 'report.html'}")


def _train_demo(config: "Config", path: Path, workers: int, quiet: bool) -> "Outcome":
    """In this process, or by workers; what these have come to is then read from the run folder."""
    from septuagint.training.launcher import Place

    alone, was_finished = Place(launcher="none"), True
    if workers > 1:
        before = _count_attempts(_run_path(path))
        arguments = ["train", str(path), "--workers", str(workers), *(["--quiet"] if quiet else [])]
        if code := _run_workers(workers, arguments, has_result=False):
            raise typer.Exit(code)
        was_finished = _count_attempts(_run_path(path)) == before
    outcome = _train(config, path, None, [], quiet, alone)
    return dataclasses.replace(outcome, was_finished=outcome.was_finished and was_finished)


def _open_model(path: Path, report: "ProgressReport") -> "Artifact":
    """An artifact, or that of a run folder, which is made first where there is none, or another checkpoint is best."""
    from septuagint.inference.artifact import Artifact, find_best_artifact, is_artifact

    if is_artifact(path):
        return Artifact(path)
    # A mirror has the best checkpoint alone, and a run that has just begun has none.
    if not any((path / name).exists() for name in ("checkpoints", "best", "environment.json")):
        what = "no such folder" if not path.exists() else "neither an exported folder nor a run folder"
        raise ArtifactError(f"{path}: {what}; give one that `septuagint export` or `septuagint train` has made")
    if (artifact := find_best_artifact(path, lambda problem: None)) is not None:
        return artifact
    _need_extra("train")
    from septuagint.inference.export import artifact_of_run

    return artifact_of_run(path, report)


def _run_path(config: Path) -> Path:
    return Path("runs") / config.stem


def _exit_by_signal(outcome: "Outcome") -> None:
    from septuagint.training.signals import exit_code

    if outcome.received is not None:
        raise typer.Exit(exit_code(outcome.received))


def _need_extra(name: str) -> None:
    """Says how to install what a verb needs beyond the base."""
    if missing := _missing_modules(name):
        raise UserError(f"not installed: {', '.join(missing)}; this needs: pip install 'septuagint[{name}]'")


def _missing_modules(extra: str) -> list[str]:
    modules = {
        "train": ("torch", "safetensors", "ctranslate2", "sacrebleu"),
        "serve": ("ctranslate2", "sacrebleu"),
    }[extra]
    return [module for module in modules if importlib.util.find_spec(module) is None]


def _print_json(value: object) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))


if __name__ == "__main__":
    main()
