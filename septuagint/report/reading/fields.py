"""Fields of events that anybody may have damaged: whatever one holds, there is an answer, never an error."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from septuagint.telemetry.events import Event

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

# No quantity of a run comes near it, and products of several still fit into a float.
_MAX_NUMBER = 1e30
MAX_STEP = 10**12


def number_or_none(value: object) -> float | None:
    """A finite number of sensible size; else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < _MAX_NUMBER else None  # a NaN is less than nothing


def number(event: Mapping[str, Any], field: str) -> float | None:
    """A field that should be a number."""
    return number_or_none(event.get(field))


def positive(event: Mapping[str, Any], field: str) -> float | None:
    """A field that should be a number above zero."""
    value = number(event, field)
    return value if value is not None and value > 0 else None


def whole(event: Mapping[str, Any], field: str, *, most: int = MAX_STEP) -> int | None:
    """A field that should be a count."""
    value = event.get(field)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= most else None


def text(event: Mapping[str, Any], field: str) -> str | None:
    """A field that should be text."""
    value = event.get(field)
    return value if isinstance(value, str) else None


def mapping(event: Mapping[str, Any], field: str) -> dict[str, Any]:
    """A field that should be an object; empty where it is none."""
    value = event.get(field)
    return value if isinstance(value, dict) else {}


def mappings(event: Mapping[str, Any], field: str) -> list[dict[str, Any]]:
    """A field that should be a list of objects: those that are."""
    value = event.get(field)
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def texts(event: Mapping[str, Any], field: str) -> tuple[str, ...]:
    """A field that should be a list of texts: those that are."""
    value = event.get(field)
    return tuple(entry for entry in value if isinstance(entry, str)) if isinstance(value, list) else ()


def numbers_by_name(event: Mapping[str, Any], field: str) -> dict[str, float]:
    """A field that should be an object of numbers: those that are."""
    found = {key: number_or_none(value) for key, value in mapping(event, field).items()}
    return {key: value for key, value in found.items() if value is not None}


def column(values: Sequence[object]) -> Floats:
    """Numbers as an array, NaN where there is none."""
    try:
        array = np.array(values, dtype=np.float64)
        if array.ndim != 1:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        found = (number_or_none(value) for value in values)
        array = np.array([np.nan if value is None else value for value in found], dtype=np.float64)
    array[~(np.abs(array) < _MAX_NUMBER)] = np.nan
    return array


def column_of(events: Sequence[Event], field: str) -> Floats:
    """One field of many events."""
    return column([event.get(field) for event in events])
