"""What a run was trained on, by its own record, and whether a data folder still holds that."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from septuagint.data.manifest import Manifest
from septuagint.telemetry.events import read_events, record_path


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainedCorpus:
    """A corpus that a run was trained on."""

    name: str
    num_pairs: int
    num_overlapping: int  # pairs that were left out of it, as a side stood in validation or test text
    inputs: tuple[str, ...]  # SHA-256 of each file


def recorded_corpora(run: Path, fingerprint: str | None) -> list[TrainedCorpus]:
    """The training corpora of the data with that fingerprint; none where the record does not tell of it."""
    with contextlib.suppress(OSError, KeyError, TypeError, ValueError):
        for event in read_events(record_path(run, 0)):
            if event["event"] == "data" and event["fingerprint"] == fingerprint:
                return [
                    TrainedCorpus(
                        name=str(corpus["name"]),
                        num_pairs=int(corpus["pairs"]),
                        num_overlapping=_overlapping(corpus["dropped"]),
                        inputs=tuple(file["sha256"] for file in corpus["files"]),
                    )
                    for corpus in event["corpora"]
                    if corpus["split"] == "train"
                ]
    return []


def find_difference(manifest: Manifest, run: Path, languages: tuple[str, str], fingerprint: str | None) -> str | None:
    """Why a data folder is not that of a run; None where it is, be it with other validation and test sets by now.

    `languages` are the run's source and target, `fingerprint` is that of the data that it was trained on. Pairs are not
    counted: a new test set may take some out of the training text, as `overlap`.
    """
    if manifest.fingerprint == fingerprint:
        return None
    if (now := manifest.languages) != languages:
        return f"was prepared anew for {' to '.join(now)}, but the run translates {' to '.join(languages)}"
    recorded = {corpus.name: corpus.inputs for corpus in recorded_corpora(run, fingerprint)}
    if not recorded:
        return f"was prepared anew, and {record_path(run, 0)} does not tell whether from the same training text"
    if {corpus.name: tuple(file.sha256 for file in corpus.inputs) for corpus in manifest.train} != recorded:
        return "was prepared anew from training text that is not the run's"
    return None


def count_seen(manifest: Manifest, run: Path, fingerprint: str | None) -> int:
    """Up to how many pairs a run was trained on of which a side stands in evaluation text that its folder got later.

    Duplicates count, and what other filters would have dropped. Text that was taken out again in between is not seen.
    """
    then = {corpus.name: corpus.num_overlapping for corpus in recorded_corpora(run, fingerprint)}
    if manifest.fingerprint == fingerprint or not then:
        return 0
    return sum(max(0, _overlapping(corpus.dropped) - then[corpus.name]) for corpus in manifest.train)


def _overlapping(dropped: Mapping[str, int]) -> int:
    return int(dropped.get("overlap", 0))
