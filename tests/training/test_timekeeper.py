"""The time of a run is all in its record, on every rank, and what ranks wait for each other is told apart."""

import time
from typing import Any

import numpy as np
import pytest
import torch

from septuagint.telemetry.events import STEP_PARTS, Event, read_events, record_path
from septuagint.training.timekeeper import Power, Timekeeper
from septuagint.training.watch import Watch
from septuagint.world import World
from tests.ranks import in_ranks
from tests.training.conftest import Tiny


def events_of(tiny: Tiny, rank: int, kind: str) -> list[Event]:
    return [event for event in read_events(record_path(tiny.run_path("run"), rank)) if event["event"] == kind]


@pytest.mark.parametrize("num_ranks", [1, 2])
def test_the_record_accounts_for_all_time_on_every_rank(tiny: Tiny, num_ranks: int):
    program = tiny.command("training.max_steps=30", options=("--quiet", "--workers", str(num_ranks)))
    assert program.exit_code == 0, program.stderr
    for rank in range(num_ranks):
        splits = events_of(tiny, rank, "steps")
        (begin,) = (event["time"] for event in events_of(tiny, rank, "attempt"))
        steps = [step for split in splits for step in range(split["first_step"], split["step"] + 1)]
        assert steps == list(range(1, 31))
        for split in splits:
            assert np.sum([split[part] for part in STEP_PARTS], axis=0) == pytest.approx(split["wall"], abs=1e-5)
            assert min((value for part in STEP_PARTS for value in split[part]), default=0) >= 0
        total = sum(sum(split["wall"]) + sum(split["outside_seconds"].values()) for split in splits)
        assert total == pytest.approx(splits[-1]["time"] - begin, rel=0.02, abs=0.05)
        outside = {part for split in splits for part in split["outside_seconds"]}
        assert {"start", "validation", "checkpoint", "sample", "logging"} <= outside


def test_a_line_of_the_log_has_the_means_of_its_steps(tiny: Tiny):
    tiny.train()
    for split, train in zip(events_of(tiny, 0, "steps"), events_of(tiny, 0, "train"), strict=False):
        assert train["seconds_per_step"] == pytest.approx(np.mean(split["wall"]), rel=1e-3)
        for part in STEP_PARTS:
            assert train[f"{part}_seconds_per_step"] == pytest.approx(np.mean(split[part]), abs=2e-6)
        assert 0 < train["model_flop_utilisation"] < 1


def late_steps(world: World, watch: Watch, lag_seconds: float) -> dict[str, Any]:
    """Two steps, in which rank 1 is late and the exchange itself takes a twentieth of a second."""
    power = Power(peak_flops_per_second=None, flops_per_source_token=1, flops_per_target_token=1)
    timekeeper = Timekeeper(world, f"clock {world.rank}", power)
    for _ in range(2):
        timekeeper.stopwatch.begin_step()
        timekeeper.stopwatch.lap("compute")
        time.sleep(0.02 + lag_seconds * world.rank)
        timekeeper.stopwatch.lap("communication")
        world.sum(torch.zeros(1)).wait()
        time.sleep(0.05)
        timekeeper.stopwatch.lap("optimizer")
    timekeeper.stopwatch.end_step()
    split, train = timekeeper.take(2)
    return {**split, **train}


def test_a_late_rank_is_told_apart_from_the_wire():
    early, late = in_ranks(2, late_steps, 0.2)
    assert early["straggler_wait"] == pytest.approx([0.2, 0.2], abs=0.05)
    assert early["communication"] == pytest.approx([0.05, 0.05], abs=0.04)
    assert late["straggler_wait"] == pytest.approx([0, 0], abs=0.02)
    assert late["communication"] == pytest.approx([0.05, 0.05], abs=0.04)
    for split in (early, late):
        assert (split["bottleneck"], split["slowest_rank"]) == ("slow_rank", 1)


def test_utilisation_is_the_models_operations_over_the_peak():
    power = Power(peak_flops_per_second=1e12, flops_per_source_token=10**6, flops_per_target_token=3 * 10**6)
    assert power.utilisation(100_000, 100_000) == pytest.approx(0.4)
    unknown = Power(peak_flops_per_second=None, flops_per_source_token=1, flops_per_target_token=1)
    assert unknown.utilisation(1, 1) is None
