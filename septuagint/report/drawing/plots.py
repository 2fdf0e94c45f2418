"""The pictures of a report: all that the record has numbers for, and why the others are missing."""

from dataclasses import dataclass

from septuagint.report.drawing.plot import Missing, Plot
from septuagint.report.drawing.plots_of_learning import (
    plot_gradient_norm,
    plot_learning_rate,
    plot_losses,
    plot_scores,
    plot_sets,
)
from septuagint.report.drawing.plots_of_machines import plot_memory, plot_network, plot_power, plot_traffic, plot_use
from septuagint.report.drawing.plots_of_time import (
    plot_rank_split,
    plot_rank_times,
    plot_run,
    plot_step_split,
    plot_tokens,
)
from septuagint.report.reading.record import Record

_LEARNING = (plot_losses, plot_scores, plot_sets, plot_learning_rate, plot_gradient_norm)
_TIME = (plot_run, plot_rank_split, plot_step_split, plot_rank_times, plot_tokens)
_MACHINES = (plot_use, plot_memory, plot_power, plot_network, plot_traffic)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plots:
    """Groups of plots by what they are about, and those that could not be drawn."""

    groups: dict[str, tuple[Plot, ...]]
    missing: tuple[Missing, ...]


def make_plots(record: Record) -> Plots:
    """Every plot that there is something to draw for."""
    groups: dict[str, tuple[Plot, ...]] = {}
    missing: list[Missing] = []
    for name, makers in (
        ("How it learned", _LEARNING),
        ("Where the time went", _TIME),
        ("Machines and network", _MACHINES),
    ):
        made = [make_plot(record) for make_plot in makers]
        groups[name] = tuple(plot for plot in made if isinstance(plot, Plot))
        missing += [plot for plot in made if isinstance(plot, Missing)]
    return Plots(groups={name: plots for name, plots in groups.items() if plots}, missing=tuple(missing))
