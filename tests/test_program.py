"""What a program says, and leaves with, where a signal comes while an error is on its way out of it."""

import signal
import subprocess
import sys

import pytest

_PROGRAM = """
import os, sys
from septuagint.errors import UserError
from septuagint.program import run_program

def call():
    try:
        {action}
    finally:
        os.kill(os.getpid(), {number})

run_program(call)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    ("action", "code", "message"),
    [
        ("raise UserError('line 3 is empty')", 2, "error: line 3 is empty\n"),
        ("pass", None, "\nstopped; run the same command again to go on\n"),
        ("raise KeyError('three')", None, "\nstopped; run the same command again to go on\n"),
    ],
)
def test_a_mistake_is_told_also_where_a_launcher_stops_us_for_the_same_mistake_of_another(
    action, code, message, number
):
    program = _PROGRAM.format(action=action, number=int(number))
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (code or 128 + number, message)
