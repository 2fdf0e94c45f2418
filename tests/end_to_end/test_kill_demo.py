"""The law of the whole program: kill it whenever you like, run it again, and nothing is lost."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kill_and_resume.py"


@pytest.mark.slow
def test_a_demo_killed_ten_times_ends_where_an_undisturbed_one_ends():
    command = [sys.executable, str(SCRIPT), "--kills", "10", "--steps", "40"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    print(result.stderr, result.stdout)
    found = json.loads(result.stdout)
    assert found["undisturbed"] == found["killed"]
    assert [validation["step"] for validation in found["killed"]["validations"]] == [20, 40]
    assert result.returncode == 0
    assert found["num_kills"] >= 8  # the last ones may come when all is done
    assert found["num_steps_redone"] > 0
