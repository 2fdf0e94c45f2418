"""This machine: what a process may use of it, and what it is called."""

import os
import platform
import re
from pathlib import Path

_CPU_INFO = Path("/proc/cpuinfo")


def available_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_model() -> str:
    """As its maker calls it, or else its kind; an OSError where the system does not tell."""
    found = _read_cpu_info("model name")
    return found.strip() if found else platform.machine()


def has_bf16_products() -> bool:
    """Whether its processors have instructions for products in bf16; an OSError where the system does not tell."""
    return not {"avx512_bf16", "amx_bf16"}.isdisjoint(_read_cpu_info("flags").split())


def has_wide_byte_products() -> bool:
    """Whether its processors have instructions for products of bytes, 64 of them in a register; an OSError likewise."""
    return "avx512_vnni" in _read_cpu_info("flags").split()


def _read_cpu_info(name: str) -> str:
    found = re.search(rf"^{name}\s*:(.*)$", _CPU_INFO.read_text(errors="replace"), re.MULTILINE)
    return found[1] if found else ""
