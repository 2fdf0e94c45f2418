"""The command line: each verb reads its arguments, calls one function and prints.

Results go to standard output, everything else to standard error. Exit 0: good; 2: the user's mistake, told without a
traceback; 1: ours; 128 + n: stopped by signal n. Heavy imports happen inside the verbs, so that --help comes at once.
"""

import errno
import json
import os
import signal
import sys
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer

from septuagint import __version__
from septuagint.errors import UserError

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
    typer.Option("--set", metavar="KEY=VALUE", help="Override a value, such as vocabulary.size=8000. Repeatable."),
]
WorkersOption = Annotated[int | None, typer.Option(min=1, max=1024, help="Processes to use; all cores by default.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")]


class Stopped(BaseException):
    """A signal asked the program to stop. Not an Exception: nothing on the way may swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@app.callback(invoke_without_command=True)
def program(version: Annotated[bool, typer.Option("--version", help="Show the version and leave.")] = False) -> None:
    if version:
        print(f"septuagint {__version__}")
        raise typer.Exit


@app.command()
def demo(workers: WorkersOption = None, as_json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Generate the demo corpus, English and German, and prepare it."""
    from septuagint.data.demo.install import install_demo
    from septuagint.progress import ProgressReport

    with ProgressReport(is_quiet=quiet) as report, report.stage("generating", None, ""):
        config = install_demo(Path())
    _prepare(config, [], workers, as_json, quiet, verify=False, examples=False)


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
    overrides = [*(set_values or []), *(["data.strict=true"] if strict else [])]
    _prepare(config, overrides, workers, as_json, quiet, verify=verify, examples=examples)


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
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names and sentences that a terminal cannot show
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        print(f"error: the result could not be written: {error.strerror}", file=sys.stderr)
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115  # or Python tries again on its way out
        sys.exit(2)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except Stopped as stopped:
        print("\nstopped; run the same command again to go on", file=sys.stderr)
        sys.exit(128 + stopped.number)
    sys.exit(0)


def _stop(number: int, frame: FrameType | None) -> None:
    # A second signal ends the program at once, wherever it is.
    for again in (signal.SIGINT, signal.SIGTERM):
        signal.signal(again, signal.SIG_DFL)
    raise Stopped(number)


def _prepare(
    path: Path, overrides: list[str], workers: int | None, as_json: bool, quiet: bool, *, verify: bool, examples: bool
) -> None:
    from rich.console import Console

    from septuagint.config_file import load_config
    from septuagint.data.prepare import prepare
    from septuagint.data.summary import print_summary, summarise
    from septuagint.data.workers import available_cores
    from septuagint.progress import ProgressReport

    config = load_config(path, overrides)
    with ProgressReport(is_quiet=quiet) as report:
        prepared = prepare(config, num_workers=workers or available_cores(), report=report, verify=verify)
    if as_json:
        _print_json(summarise(prepared))
    else:
        print_summary(prepared, Console(), show_examples=examples)


def _print_json(value: object) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))


if __name__ == "__main__":
    main()
