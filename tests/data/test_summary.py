"""The summary's figures are the manifest's."""

import io
import json

import pytest
from rich.console import Console

from septuagint.data.filters import FILTERS
from septuagint.data.parts import PartRecord
from septuagint.data.summary import dropped_by_filter, print_summary, summarise


@pytest.fixture
def prepared(project):
    project.add_text("one", 80)
    project.write(
        "two.tsv", ["[red]same[/red]\t[red]same[/red]", "a good pair\tein gutes Paar", "a good pair\tein gutes Paar"]
    )
    project.add(tsv="two.tsv")
    project.add_text("valid", 10, seed=2, split="valid")
    return project.prepare()


def shown(prepared, **options: bool) -> str:
    written = io.StringIO()
    print_summary(prepared, Console(file=written, width=80), **options)
    return written.getvalue()


def test_totals_are_sums_over_the_training_corpora(prepared):
    figures = summarise(prepared)
    train = prepared.manifest.train
    assert figures["train"]["lines"] == 83 and figures["train"]["pairs"] == 81
    assert figures["train"]["lines"] == figures["train"]["pairs"] + sum(figures["train"]["dropped"].values())
    for side in ("source", "target"):
        for unit in ("tokens", "words", "characters", "bytes"):
            assert figures["train"][side][unit] == sum(getattr(getattr(corpus, side), unit) for corpus in train)
        assert figures["train"][side]["longest"] == max(getattr(corpus, side).longest for corpus in train)
    assert [corpus["split"] for corpus in figures["corpora"]] == ["train", "train", "valid"]


def test_figures_are_json(prepared):
    figures = summarise(prepared)
    assert json.loads(json.dumps(figures)) == figures


def test_dropped_pairs_stand_in_the_order_of_the_filters(prepared):
    dropped = dropped_by_filter(prepared.manifest.train)
    assert dropped == {"copied_source": 1, "duplicate": 1}
    assert list(dropped) == [name for name in FILTERS if name in dropped]


def test_the_tables_fit_a_narrow_terminal_and_name_everything(prepared):
    text = shown(prepared)
    tables, _, last = text.rstrip("\n").rpartition("\n")
    assert max(map(len, tables.split("\n"))) <= 80
    for expected in ("one", "two", "valid", "copied_source", "duplicate", "400 pieces"):
        assert expected in text
    assert str(prepared.folder) in last and "prepared in" in last


def test_examples_are_shown_as_they_stand(prepared):
    text = shown(prepared, show_examples=True)
    assert "copied_source (two line 1)\n  [red]same[/red]\n  [red]same[/red]" in text
    assert "duplicate (two)\n  a good pair\n  ein gutes Paar" in text


def test_a_second_run_says_that_nothing_changed(project):
    project.add_text("one", 60)
    project.prepare()
    assert "nothing changed since it was prepared" in shown(project.prepare())


def test_an_example_that_is_cut_says_so():
    record = PartRecord(key="")
    record.drop("too_long", 7, "a" * 120, "b" * 121)
    assert record.examples == [{"filter": "too_long", "line": 7, "source": "a" * 120, "target": "b" * 120 + "…"}]
