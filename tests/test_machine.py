"""What is known of this machine."""

import os

import pytest

from septuagint import machine
from septuagint.machine import available_cores, cpu_model, has_bf16_products, has_wide_byte_products


def test_available_cores_are_those_of_this_process():
    assert 1 <= available_cores() <= (os.cpu_count() or 1)


def test_the_processor_has_a_name():
    assert cpu_model() == cpu_model().strip() != ""


@pytest.mark.parametrize(
    ("flags", "has_bf16", "has_bytes"),
    [
        ("fpu avx512f avx512_bf16 avx512_vnni", True, True),
        ("amx_tile amx_bf16", True, False),
        ("fpu avx512_vnni", False, True),
        ("fpu avx512f avx_vnni", False, False),
    ],
)
def test_processors_say_what_they_have_products_of(monkeypatch, tmp_path, flags, has_bf16, has_bytes):
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: {flags}\nbugs\t\t:\n")
    monkeypatch.setattr(machine, "_CPU_INFO", tmp_path / "cpuinfo")
    assert cpu_model() == "Some CPU"
    assert (has_bf16_products(), has_wide_byte_products()) == (has_bf16, has_bytes)


def test_a_processor_without_flags_has_neither(monkeypatch, tmp_path):
    (tmp_path / "cpuinfo").write_text("CPU implementer : 0x41\nFeatures : fp asimd\n")
    monkeypatch.setattr(machine, "_CPU_INFO", tmp_path / "cpuinfo")
    assert not has_bf16_products()
    assert not has_wide_byte_products()
