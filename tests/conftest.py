"""What all tests share: a missing tool skips a test on a developer's machine, and fails it where CI is set."""

import os
import shutil
from collections.abc import Generator

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton: its kernels run as Python then


def need_tool(name: str) -> str:
    """The path of a program; the test is skipped where it is not installed."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"needs {name}")
    return path


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if os.environ.get("CI") and report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason.startswith("needs "):
            report.outcome = "failed"
            report.longrepr = f"skipped in continuous integration, where nothing may be missing: {reason}"
    return report
