import re

import numpy as np
import pytest

from septuagint.report.drawing.plots import make_plots
from septuagint.report.drawing.plots_of_time import STEP_PARTS, mean_of_ranks, seconds_by_part, useful_share
from septuagint.report.reading.record import read_record
from tests.report.full_runs import full_plan, write_full_run
from tests.report.records import Life, Plan, write_run

ALWAYS = {"loss", "learning_rate", "gradient_norm", "run", "step_split", "tokens", "use"}


def ids_of(record) -> set[str]:
    return {plot.id for plots in make_plots(record).groups.values() for plot in plots}


def test_every_plot_is_drawn_where_there_is_everything(tmp_path):
    record = read_record(write_full_run(tmp_path / "run"))
    several = {"rank_split", "rank_times", "network", "traffic"}
    assert ids_of(record) == ALWAYS | several | {"scores", "memory", "power"}
    assert make_plots(record).missing == ()


def test_every_plot_is_drawn_or_its_lack_explained(tmp_path):
    for name, plan in {
        "alone": Plan(),
        "old": full_plan(has_steps=False),
        "young": Plan(lives=(Life(last_step=0),)),
    }.items():
        plots = make_plots(read_record(write_run(tmp_path / name, plan)))
        titles = [missing.title for missing in plots.missing]
        assert len(titles) == len(set(titles)) and all(missing.reason for missing in plots.missing)
        assert len(plots.missing) + sum(map(len, plots.groups.values())) >= 12


def test_the_bar_of_a_run_has_all_its_seconds(tmp_path):
    record = read_record(write_full_run(tmp_path / "run"))
    walls = np.mean([table.wall.sum() for table in record.steps.values()])
    lost = np.mean([table.wall.sum() for table in record.lost_steps.values()])
    outside = np.mean([sum(sum(parts.values()) for parts in found.values()) for found in record.outside.values()])
    assert sum(seconds_by_part(record).values()) == pytest.approx(walls + lost + outside, rel=1e-6)


def test_useful_is_what_is_computed(tmp_path):
    plan = full_plan(parts={"compute": 0.2, "optimizer": 0.05, "communication": 0.749, "rest": 0.001}, noise=0.0)
    record = read_record(write_run(tmp_path / "run", plan))
    _, share = useful_share(list(record.steps.values()))
    assert share == pytest.approx(np.full(len(share), 25.0))


def test_the_mean_of_ranks_takes_ranks_that_lack_steps(tmp_path):
    record = read_record(write_run(tmp_path / "run", full_plan(noise=0.0)))
    tables = list(record.steps.values())
    whole = mean_of_ranks(tables, "wall")
    part = mean_of_ranks([tables[0], tables[1].select(tables[1].step > 400)], "wall")
    assert np.allclose(whole[0], part[0]) and np.allclose(whole[1], part[1])
    assert set(STEP_PARTS) == {
        "compute",
        "optimizer",
        "communication",
        "straggler_wait",
        "data_wait",
        "to_device",
        "rest",
    }


def test_a_slow_rank_stands_out_in_what_it_works_not_in_its_steps(tmp_path):
    slow = {1: {"compute": 0.3, "straggler_wait": 0.0}}
    plan = full_plan(
        parts={"compute": 0.2, "straggler_wait": 0.1, "communication": 0.05}, parts_of_rank=slow, noise=0.0
    )
    plots = make_plots(read_record(write_run(tmp_path / "run", plan)))
    (plot,) = [plot for plot in plots.groups["Where the time went"] if plot.id == "rank_times"]
    lines = re.findall(r"rank (\d) on \w+: ([\d.]+) at first", plot.chart.markup)
    assert {rank: float(milliseconds) for rank, milliseconds in lines} == {"0": 201, "1": 301, "2": 201, "3": 201}


def test_all_plots_over_steps_share_their_axis(tmp_path):
    record = read_record(write_full_run(tmp_path / "run"))
    ends = set()
    for plots in make_plots(record).groups.values():
        for plot in plots:
            if ">step</text>" in plot.chart.markup:
                ends.add(tuple(re.findall(r'text-anchor="middle">([\d,]+)</text>', plot.chart.markup)))
    assert ends == {("0", "200", "400", "600", "800", "1,000")}


def test_a_link_that_is_far_from_used_does_not_flatten_the_traffic(tmp_path):
    record = read_record(write_run(tmp_path / "run", full_plan(link_bytes_per_second=12e9)))
    (plot,) = [plot for plot in make_plots(record).groups["Machines and network"] if plot.id == "network"]
    assert "12 GB/s" in plot.caption and "measured capacity" not in plot.chart.markup
