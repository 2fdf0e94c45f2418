"""Nothing is lost: the demo is trained twice, undisturbed and killed again and again, and the two are compared.

The moments are drawn evenly over the steps of the run, and up to a second after them; every third kill waits for the
next checkpoint and strikes while it is written. After each kill the same command is run again. In the end the weights,
the memory of the optimizer and the scores of every validation must be the same, bit for bit.

    .venv/bin/python benchmarks/kill_and_resume.py --kills 10

Prints the result as JSON, and exits 0 only if nothing was lost. Takes six to nine minutes on two cores.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from arguments import at_least_one

from septuagint.data.demo.install import install_demo
from septuagint.data.files import hash_file
from septuagint.telemetry.events import read_events, record_path
from septuagint.training.checkpoint import checkpoint_path, load_checkpoint

PROGRAM = [sys.executable, "-m", "septuagint.cli"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=at_least_one, default=10)
    parser.add_argument("--steps", type=at_least_one, default=320, help="length of the run; the demo has 320")
    parser.add_argument("--seed", type=int, default=1, help="decides the moments")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = install_demo(Path(folder))
        subprocess.run([*PROGRAM, "prepare", str(config), "--quiet"], stdout=subprocess.DEVNULL, check=True)
        result = compare(config, arguments.steps, arguments.kills, random.Random(arguments.seed))
    print(json.dumps(result, indent=2))
    sys.exit(not result["is_equal"])


def compare(config: Path, num_steps: int, num_kills: int, generator: random.Random) -> dict[str, Any]:
    """Trains both runs and says where they ended."""
    undisturbed, killed = (config.parent / "runs" / name for name in ("undisturbed", "killed"))
    finish(command(config, undisturbed, num_steps))
    num_hits = 0
    for number, step in enumerate(sorted(generator.choices(range(num_steps), k=num_kills)), start=1):
        process = subprocess.Popen(command(config, killed, num_steps), stdout=subprocess.DEVNULL)
        wait_for_step(process, killed, number, step)
        time.sleep(generator.random())
        if number % 3 == 0:
            wait_for_write(process, killed)
        process.kill()
        is_hit = process.wait() < 0
        num_hits += is_hit
        print(f"kill {number} of {num_kills} {'hit' if is_hit else 'came late'}: {told_last(killed)}", file=sys.stderr)
    finish(command(config, killed, num_steps))
    ends = {run.name: end_of(run, num_steps) for run in (undisturbed, killed)}
    return {
        "num_kills": num_hits,
        "num_steps": num_steps,
        "num_steps_redone": num_steps_redone(killed),
        "is_equal": ends["undisturbed"] == ends["killed"],
        **ends,
    }


def command(config: Path, run: Path, num_steps: int) -> list[str]:
    """As the demo trains, in proportion; the log alone has every step, to tell how many were done again."""
    settings = {"max_steps": num_steps, "validate_every": num_steps // 2, "checkpoint_every": num_steps // 4}
    sets = [f"--set=training.{name}={value}" for name, value in {**settings, "log_every": 1}.items()]
    return [*PROGRAM, "train", str(config), "--run", str(run), "--quiet", *sets]


def finish(arguments: list[str]) -> None:
    subprocess.run(arguments, stdout=subprocess.DEVNULL, check=True)


def wait_for_step(process: subprocess.Popen[bytes], run: Path, attempt: int, step: int) -> None:
    """Until the record says that an attempt has come so far, or the program has ended."""
    while process.poll() is None:
        for event in read_events(record_path(run, 0)):
            if event["attempt"] == attempt and event.get("step", event.get("start_step", -1)) >= step:
                return
        time.sleep(0.05)


def wait_for_write(process: subprocess.Popen[bytes], run: Path) -> None:
    while process.poll() is None and not list(run.glob("checkpoints/.*.tmp")):
        time.sleep(0.001)


def told_last(run: Path) -> str:
    *_, event = read_events(record_path(run, 0))
    return f"after `{event['event']}` of step {event.get('step', event.get('start_step'))}"


def num_steps_redone(run: Path) -> int:
    """Steps that the log has more than once."""
    steps = [event["step"] for event in read_events(record_path(run, 0)) if event["event"] == "train"]
    return len(steps) - len(set(steps))


def end_of(run: Path, num_steps: int) -> dict[str, Any]:
    """What must not depend on how often the run was killed."""
    path = checkpoint_path(run, num_steps)
    return {
        "model_sha256": hash_file(path / "model.safetensors"),
        "optimizer_sha256": hash_file(path / "optimizer.safetensors"),
        "validations": [
            {
                **{key: found[key] for key in ("step", "valid_loss", "train_sample_loss")},
                "bleu": found["scores"]["bleu"],
            }
            for found in load_checkpoint(path).state["validations"]
        ],
        "best": str((run / "best").readlink()),
    }


if __name__ == "__main__":
    main()
