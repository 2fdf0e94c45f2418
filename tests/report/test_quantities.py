import math

import pytest

from septuagint.report.answer import Figure
from septuagint.report.quantities import figure_text, plain, quantity, seconds, unit_for


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0.0, "0"),
        (26.4, "26.4"),
        (0.369, "0.369"),
        (4_562_102, "4,562,102"),
        (9.882e-4, "9.88e-4"),
        (-2.1e-5, "-2.1e-5"),
        (999.96, "1,000"),
        (math.nan, "not a number"),
        (math.inf, "not a number"),
    ],
)
def test_numbers_are_short(value, told):
    assert plain(value) == told


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0.0, "0 s"),
        (0.0123, "12.3 ms"),
        (0.09999, "0.1 s"),
        (1.946, "1.95 s"),
        (30.0, "30 s"),
        (281.0, "4 min 41 s"),
        (2880.0, "48 min"),
        (3599.0, "1 h 00 min"),
        (11_520.0, "3 h 12 min"),
        (186_900.0, "2 d 03 h"),
    ],
)
def test_times_always_have_a_unit_that_cannot_be_misread(value, told):
    assert seconds(value) == told


def test_bytes_take_the_prefix_that_keeps_them_short():
    assert quantity(117.4e6, "B/s") == "117.4 MB/s"
    assert quantity(1e9, "bit/s") == "1 Gbit/s"
    assert quantity(512, "B") == "512 B"
    assert quantity(0, "B") == "0 B"


def test_an_axis_has_one_unit_for_all_its_numbers():
    assert unit_for(0.25, "s") == (1e-3, "ms")
    assert unit_for(1.9, "s") == (1.0, "s")
    assert unit_for(16.9e9, "B") == (1e9, "GB")
    assert unit_for(300, "W") == (1.0, "W")


@pytest.mark.parametrize(
    ("value", "unit", "told"),
    [
        (None, "s", "not known"),
        (True, "", "yes"),
        (False, "", "no"),
        ("rank 3", "", "rank 3"),
        (1, "steps", "1 step"),
        (5000, "steps", "5,000 steps"),
        (732_000_000, "B", "732 MB"),
        (83.456, "%", "83.5%"),
        (0.0123, "%", "0.01%"),
        (math.nan, "s", "not a number"),
    ],
)
def test_evidence_is_told_with_its_unit(value, unit, told):
    assert figure_text(Figure(name="name", label="label", value=value, unit=unit)) == told
