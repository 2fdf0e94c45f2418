"""How training scales over machines: efficiency of 1, 2 and 4 ranks, and how much of the communication overlaps.

    .venv/bin/python benchmarks/scaling.py efficiency
    .venv/bin/python benchmarks/scaling.py overlap

The machines are hosts of the tests' testbed, whose cables have a limited rate; so this needs root. Each has one rank,
and every step is the program's own: world, gradients averaged by DistributedDataParallel, clipping, AdamW, over real
gradients of a Transformer with the proportions of `base` (6 + 6 layers; 64 pieces of vocabulary for each number of its
width, 28% of the weights). Compute alone is paced: a layer takes its share of a given time for forward, and twice that
for backward, most of which it sleeps. So the cores are not the limit, and gradients come out layer after layer as on
a GPU. The wire's time is that of a ring: each rank sends 2 (n - 1) / n of the gradients.

`efficiency`: the same step, of the same number of microbatches, by 1, 2 and 4 ranks; each time at the rate at which
the wire needs a given share of a rank's compute. Efficiency is the time of one rank, over n times that of n.

`overlap`: two ranks, the same step in three ways: as it is; with gradients averaged after the backward pass, in the
same buckets; without averaging. What the first two take longer than the third is exposed communication. Beside that
of the first stands what the program's own stopwatch says of it, by rank 0, and how much of the step it can name.

Ways and worlds take turns, so that what else happens on the machine hits all; figures are medians over the rounds.
"""

import argparse
import contextlib
import datetime
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from arguments import at_least_one
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from septuagint.batch import Microbatch
from septuagint.cluster.probe import ring_bytes
from septuagint.config import Config, ModelConfig, TrainingConfig
from septuagint.data.packing import PackShape, build_microbatch
from septuagint.data.sentences import Sentences, offsets_of
from septuagint.machine import available_cores
from septuagint.telemetry.stopwatch import Stopwatch
from septuagint.training.launcher import find_place
from septuagint.training.meter import Tally
from septuagint.training.rendezvous import join_world
from septuagint.training.state import build_training
from septuagint.training.step import Training, rehearse, train_step
from septuagint.training.synchrony import announce_arrival
from septuagint.world import World
from tests.distributed.testbed import NAMES, TOOLS, Testbed

Way = Literal["overlapped", "afterwards", "silent"]
WAYS: tuple[Way, ...] = ("overlapped", "afterwards", "silent")

# Few tokens: what is really computed must fit into the pace, on cores that all ranks share.
_SHAPE = PackShape(source_tokens=32, target_tokens=32, max_pairs=4, max_length=8)
_NUM_SUMS = 20
_START_SECONDS = 120.0
_ANSWER_SECONDS = 1800.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What all ranks of a world are told."""

    width: int
    pace_seconds: float  # of a microbatch, forward and backward
    num_microbatches: int  # of a step, over all ranks
    bucket_mb: float | None  # MiB; None: as the program has it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    efficiency = verbs.add_parser("efficiency", help="1, 2 and 4 ranks do the same step")
    efficiency.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4], choices=range(1, len(NAMES) + 1))
    efficiency.add_argument("--wire-share", type=float, default=0.1, help="the wire's time, of a rank's compute")
    overlap = verbs.add_parser("overlap", help="two ranks, with and without overlap")
    overlap.add_argument("--gigabits", type=float, default=1.0, help="rate of the cables, per second")
    for verb, width, pace, microbatches in ((efficiency, 96, 3.0, 4), (overlap, 256, 1.5, 2)):
        verb.add_argument("--width", type=at_least_one, default=width, help="of the model; base itself has 512")
        verb.add_argument("--pace", type=float, default=pace, help="seconds that a microbatch takes")
        verb.add_argument("--microbatches", type=at_least_one, default=microbatches, help="of a step, over all ranks")
        verb.add_argument("--bucket-mb", type=float, help="gradients that travel together, in MiB; not the program's")
        verb.add_argument("--rounds", type=at_least_one, default=5)
        verb.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    missing = why_impossible()
    if missing is not None:
        parser.error(missing)
    measure, show = {"efficiency": (measure_efficiency, show_efficiency), "overlap": (measure_overlap, show_overlap)}[
        arguments.verb
    ]
    result = measure(arguments)
    if arguments.json:
        print(json.dumps(result, indent=1))
    else:
        show(result)


def why_impossible() -> str | None:
    """What the testbed needs and does not have here."""
    if os.geteuid() != 0:
        return "this emulates hosts, which only root can: run it as root, in a privileged container or a VM"
    tools = [tool for tool in TOOLS if shutil.which(tool) is None]
    if tools:
        return f"this emulates hosts, and needs {', '.join(tools)}: install iproute2 and util-linux"
    attempt = subprocess.run(
        "unshare --mount --uts --ipc --net --pid --fork mount -t sysfs sysfs /sys".split(),
        capture_output=True,
        text=True,
        check=False,
    )
    if attempt.returncode != 0:
        return f"no right to make namespaces; a container must be a privileged one ({attempt.stderr.strip()})"
    return None


def measure_efficiency(arguments: argparse.Namespace) -> dict[str, Any]:
    """Every world does one step in each round."""
    job = job_of(arguments)
    with Testbed(NAMES[: max(arguments.ranks)]) as testbed, contextlib.ExitStack() as stack:
        worlds = {size: stack.enter_context(started(testbed, size, job)) for size in arguments.ranks}
        payload_bytes = next(iter(worlds.values())).about["payload_bytes"]
        rows = []
        for size in arguments.ranks:
            compute_seconds = job.pace_seconds * job.num_microbatches / size
            sent_bytes, wire_seconds = ring_bytes(payload_bytes, size), arguments.wire_share * compute_seconds
            rows.append(
                {
                    "num_ranks": size,
                    "compute_seconds": compute_seconds,
                    "gigabits_per_second": sent_bytes * 8e-9 / wire_seconds if size > 1 else None,
                    "wire_seconds": wire_seconds if size > 1 else 0.0,
                    "rounds": [],
                }
            )
        for number in range(1 + arguments.rounds):  # the first is not measured
            for row in rows:
                limit(testbed, row["gigabits_per_second"])
                found = worlds[row["num_ranks"]].ask("overlapped")
                row["sent_bytes"] = found["sent_bytes"]
                row["rounds"] += [found["seconds"]] * (number > 0)
        about = worlds[max(worlds)].about
    for row in rows:
        row["step_seconds"] = statistics.median(row["rounds"])
        row["target_tokens_per_second"] = job.num_microbatches * _SHAPE.target_tokens / row["step_seconds"]
    alone = next((row["step_seconds"] for row in rows if row["num_ranks"] == 1), None)
    for row in rows:
        # Without a world of one: against what the pace alone would take.
        ideal = job.num_microbatches * job.pace_seconds if alone is None else alone
        row["efficiency"] = ideal / (row["num_ranks"] * row["step_seconds"])
    return {**conditions(job, about), "wire_share": arguments.wire_share, "worlds": rows}


def show_efficiency(result: dict[str, Any]) -> None:
    show_conditions(result)
    print("ranks  compute s  wire s  Gbit/s  sent MB  step s  target tok/s  efficiency  (step s of each round)")
    for row in result["worlds"]:
        rate = "-" if row["gigabits_per_second"] is None else f"{row['gigabits_per_second']:.2f}"
        print(
            f"{row['num_ranks']:>5}  {row['compute_seconds']:>9.2f}  {row['wire_seconds']:>6.3f}  {rate:>6}  "
            f"{row['sent_bytes'] / 1e6:>7.1f}  {row['step_seconds']:>6.3f}  {row['target_tokens_per_second']:>12.1f}  "
            f"{row['efficiency']:>10.1%}  ({', '.join(f'{seconds:.3f}' for seconds in row['rounds'])})"
        )


def measure_overlap(arguments: argparse.Namespace) -> dict[str, Any]:
    """Every way of making a step has its turn in each round."""
    job = job_of(arguments)
    rounds: dict[Way, list[float]] = {way: [] for way in WAYS}
    sent_bytes: dict[Way, int] = {}
    on_stopwatch: dict[str, list[float]] = {"stopwatch_seconds": [], "named_share": []}
    with Testbed(NAMES[:2]) as testbed, started(testbed, 2, job) as world:
        limit(testbed, arguments.gigabits)
        for number in range(1 + arguments.rounds):  # the first is not measured
            for way in WAYS:
                found = world.ask(way)
                sent_bytes[way] = found["sent_bytes"]
                rounds[way] += [found["seconds"]] * (number > 0)
                for name, values in on_stopwatch.items():
                    values += [found[name]] * (number > 0 and way == "overlapped")
        small_sum_seconds = world.ask("sum")["seconds"]
        about = world.about
    exposed = {
        way: [seconds - least for seconds, least in zip(rounds[way], rounds["silent"], strict=True)]
        for way in ("overlapped", "afterwards")
    }
    exposed_seconds = {way: statistics.median(values) for way, values in exposed.items()}
    return {
        **conditions(job, about),
        "gigabits_per_second": arguments.gigabits,
        "wire_seconds": ring_bytes(about["payload_bytes"], 2) * 8e-9 / arguments.gigabits,
        "sent_bytes": sent_bytes,
        "step_seconds": {way: statistics.median(rounds[way]) for way in WAYS},
        "exposed_seconds": exposed_seconds,
        "ratio": exposed_seconds["overlapped"] / exposed_seconds["afterwards"],
        "small_sum_seconds": small_sum_seconds,
        "stopwatch_seconds": statistics.median(on_stopwatch["stopwatch_seconds"]),
        "named_share": min(on_stopwatch["named_share"]),
        "rounds": rounds,
    }


def show_overlap(result: dict[str, Any]) -> None:
    show_conditions(result)
    print(f"2 ranks at {result['gigabits_per_second']:g} Gbit/s: the wire needs {result['wire_seconds']:.3f} s")
    print("gradients averaged       step s  sent MB  exposed s  of the wire")
    words = {"overlapped": "during backward", "afterwards": "after backward", "silent": "not at all"}
    for way in WAYS:
        exposed = result["exposed_seconds"].get(way, 0.0)
        print(
            f"{words[way]:<23}  {result['step_seconds'][way]:>6.3f}  {result['sent_bytes'][way] / 1e6:>7.1f}  "
            f"{exposed:>9.3f}  "
            f"{exposed / result['wire_seconds']:>11.1%}"
        )
    print(f"with overlap {result['ratio']:.1%} of the communication stays exposed, against {1:.0%} without")
    print(
        f"the stopwatch says that {result['stopwatch_seconds']:.3f} s are exposed during backward, and names at least "
        f"{result['named_share']:.1%} of a step"
    )
    print(f"a step's sum of loss, tokens and tally, alone on the wire: {result['small_sum_seconds'] * 1e3:.2f} ms")


def conditions(job: Job, about: dict[str, Any]) -> dict[str, Any]:
    """What a figure means nothing without."""
    return {"cores": available_cores(), "torch": torch.__version__, **asdict(job), **about}


def show_conditions(result: dict[str, Any]) -> None:
    buckets = ", ".join(f"{size / 1e6:.1f}" for size in result["bucket_bytes"])
    print(
        f"{result['cores']} cores, torch {result['torch']}, Gloo, one rank a host, one thread each\n"
        f"{result['num_parameters'] / 1e6:.1f} M parameters, {result['payload_bytes'] / 1e6:.1f} MB of gradients in "
        f"buckets of {buckets} MB ({'as the program has them' if result['bucket_mb'] is None else 'not its own'})\n"
        f"{result['num_microbatches']} microbatches a step, each paced to {result['pace_seconds']:g} s "
        f"({result['computing_seconds']:.3f} s of them computed)"
    )


def job_of(arguments: argparse.Namespace) -> Job:
    return Job(
        width=arguments.width,
        pace_seconds=arguments.pace,
        num_microbatches=arguments.microbatches,
        bucket_mb=arguments.bucket_mb,
    )


def limit(testbed: Testbed, gigabits_per_second: float | None) -> None:
    for host in testbed.hosts:
        host.limit(None if gigabits_per_second is None else f"{gigabits_per_second * 1e6:.0f}kbit")


class Ranks:
    """A world of one rank a host, which does what its rank 0 is asked to, one JSON line at a time."""

    def __init__(self, connection: socket.socket, logs: Sequence[Path]) -> None:
        self._stream = connection.makefile("rw", encoding="utf-8")
        self._logs = logs
        self.about = self._answer()

    def ask(self, task: str) -> dict[str, Any]:
        """What came of a task."""
        print(task, file=self._stream, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        line = ""
        with contextlib.suppress(OSError):
            line = self._stream.readline()
        if not line:
            raise RuntimeError("the ranks do not answer:\n" + read_logs(self._logs))
        found: dict[str, Any] = json.loads(line)
        return found


@contextlib.contextmanager
def started(testbed: Testbed, size: int, job: Job) -> Iterator[Ranks]:
    """A world on the first hosts of a testbed. It ends when nobody asks any more."""
    hosts = testbed.hosts[:size]
    address = testbed.folder / f"{size}.socket"
    logs = [testbed.folder / f"{size}.{host.name}.log" for host in hosts]
    # A socket in the file system, which the hosts share: they have no cable to us.
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(address))
        server.listen()
        server.settimeout(_START_SECONDS)
        processes = []
        for rank, (host, log) in enumerate(zip(hosts, logs, strict=True)):
            variables = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1}
            meeting = {"MASTER_ADDR": hosts[0].name, "MASTER_PORT": 29500 + size}
            env = {name: str(value) for name, value in {**variables, **meeting, "CUDA_VISIBLE_DEVICES": ""}.items()}
            command = [sys.executable, __file__, str(address), json.dumps(asdict(job))]
            processes.append(host.start(command, output=log, env=env))
        try:
            connection, _ = server.accept()
        except TimeoutError:
            raise RuntimeError("the ranks do not come:\n" + read_logs(logs)) from None
    connection.settimeout(_ANSWER_SECONDS)
    with connection:
        yield Ranks(connection, logs)
        connection.shutdown(socket.SHUT_WR)
        codes = [process.wait(timeout=60) for process in processes]
        if any(codes):
            raise RuntimeError("the ranks did not end well:\n" + read_logs(logs))


def read_logs(paths: Sequence[Path]) -> str:
    return "\n".join(f"{path.stem}: {path.read_text(errors='replace')}" for path in paths)


def run_rank(address: str, job: Job) -> None:
    """The program of one rank: does what rank 0 is asked to, until the other end is closed."""
    torch.set_num_threads(1)
    place = find_place(os.environ)
    with (
        join_world(place, timeout=datetime.timedelta(seconds=_ANSWER_SECONDS)) as (world, _),
        asked(address, world) as stream,
    ):
        training = prepare_training(job, world)
        stopwatch = Stopwatch(world.device)
        announce_arrival(training.objective, lambda: stopwatch.lap("communication"))
        packs = own_microbatches(job, world)
        rehearse(training, packs[0])
        unpaced = measure_step(training, packs[:1], 1, "silent" if world.size > 1 else "overlapped", stopwatch)
        pace(training, job.pace_seconds)
        payload_bytes = sum(parameter.numel() * parameter.element_size() for parameter in training.model.parameters())
        answer: dict[str, Any] = {
            "num_parameters": sum(parameter.numel() for parameter in training.model.parameters()),
            "payload_bytes": payload_bytes,
            "bucket_bytes": [bucket.nbytes for bucket in buckets_of(training)],
            "computing_seconds": unpaced["seconds"],
        }
        step = 1
        while True:
            if stream is not None:
                print(json.dumps(answer), file=stream, flush=True)
            task = world.broadcast(None if stream is None else stream.readline().strip())
            if not task:
                return
            step += 1
            answer = measure_sum(world) if task == "sum" else measure_step(training, packs, step, task, stopwatch)


@contextlib.contextmanager
def asked(address: str, world: World) -> Iterator[Any]:
    """Rank 0's line to the one who asks; the others listen to rank 0."""
    if world.rank != 0:
        yield None
        return
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        with connection.makefile("rw", encoding="utf-8") as stream:
            yield stream


def prepare_training(job: Job, world: World) -> Training:
    """As the program builds it, perhaps with other buckets."""
    sizes = {"width": job.width, "feedforward_width": 4 * job.width, "num_heads": 8}
    config = Config.model_construct(
        model=ModelConfig.model_validate({"preset": "base", **sizes}),
        training=TrainingConfig.model_validate(
            {
                "microbatch_tokens": _SHAPE.target_tokens,
                "tokens_per_step": job.num_microbatches * _SHAPE.target_tokens,
                "precision": "fp32",
                "compile": "off",
            }
        ),
    )
    training = build_training(config, 64 * job.width, _SHAPE.max_length, world)
    if job.bucket_mb is not None and isinstance(training.objective, DistributedDataParallel):
        training.objective = training.forward = DistributedDataParallel(
            training.objective.module,
            process_group=world.group,
            gradient_as_bucket_view=True,
            init_sync=False,
            bucket_cap_mb=job.bucket_mb,
        )
    return training


def own_microbatches(job: Job, world: World) -> list[Microbatch]:
    """This rank's part of the step: packs full of random pieces."""
    random = np.random.default_rng(1)
    lengths = np.full(_SHAPE.max_pairs, _SHAPE.max_length)
    packs = []
    for index in range(job.num_microbatches):
        sides = [
            Sentences(ids=random.integers(4, 64 * job.width, lengths.sum()), offsets=offsets_of(lengths))
            for _ in range(2)
        ]
        packs.append(build_microbatch(sides[0], sides[1], _SHAPE, index))
    return packs[world.rank :: world.size]


def measure_step(
    training: Training, packs: Sequence[Microbatch], step: int, way: Way, stopwatch: Stopwatch
) -> dict[str, Any]:
    """Seconds until the slowest rank is done with it, the bytes that rank 0 sent, and what its stopwatch says."""
    world = training.world
    world.gather(None)  # all begin together
    sent_bytes, begin = bytes_sent(world), time.perf_counter()
    stopwatch.begin_step()
    make_step(training, packs, step, way, stopwatch)
    stopwatch.end_step()
    seconds, sent_bytes = time.perf_counter() - begin, bytes_sent(world) - sent_bytes
    parts = {part: float(values.sum()) for part, values in stopwatch.take().parts.items()}
    return {
        "seconds": max(world.gather(seconds)),
        "sent_bytes": sent_bytes,
        "stopwatch_seconds": parts["communication"],
        "named_share": 1 - parts["rest"] / sum(parts.values()),
    }


def make_step(training: Training, packs: Sequence[Microbatch], step: int, way: Way, stopwatch: Stopwatch) -> None:
    """The program's step, with its gradients averaged in one way or another."""

    def enter(phase: str) -> None:
        if way == "afterwards" and phase == "optimizer":
            average_gradients(training)

    with contextlib.ExitStack() as stack:
        if way != "overlapped":
            assert isinstance(training.objective, DistributedDataParallel)
            stack.enter_context(training.objective.no_sync())
        train_step(training, packs, step, tally=Tally(), enter=enter, lap=stopwatch.lap)


def average_gradients(training: Training) -> None:
    """What DistributedDataParallel does, bucket by bucket, but all at once."""
    world = training.world
    sums = [world.sum(bucket.div_(world.size)) for bucket in buckets_of(training)]
    for adding in sums:
        adding.wait()


def buckets_of(training: Training) -> list[Tensor]:
    """The gradients as they travel: those of a bucket lie in one storage. None in a world of one.

    In the order in which they are complete, which is the reverse of the parameters' own.
    """
    if training.world.size == 1:
        return []
    gradients = [parameter.grad for parameter in training.model.parameters()]
    storages = {g.untyped_storage().data_ptr(): g.untyped_storage() for g in gradients if g is not None}
    return [torch.empty(0).set_(storage) for storage in reversed(storages.values())]


def bytes_sent(world: World) -> int:
    if world.interface is None:
        return 0
    return int(Path(f"/sys/class/net/{world.interface}/statistics/tx_bytes").read_text(encoding="ascii"))


def measure_sum(world: World) -> dict[str, Any]:
    """Seconds of the sum that a step makes beside that of its gradients, when it is waited for."""
    found = []
    for _ in range(_NUM_SUMS):
        world.gather(None)
        begin = time.perf_counter()
        world.sum(torch.zeros(2 + len(Tally()), dtype=torch.float64)).wait()
        found.append(time.perf_counter() - begin)
    return {"seconds": statistics.median(found)}


def pace(training: Training, seconds: float) -> None:
    """Has a microbatch take so long, each part by its number of weights: a third forward, two thirds backward.

    The loss works out its own gradient, so what it takes is all in the forward pass.
    """
    model, clock = training.model, Clock()
    layers = [*model.encoder, *model.decoder]
    weights = {layer: sum(parameter.numel() for parameter in layer.parameters()) for layer in layers}
    unit = seconds / 3 / (sum(weights.values()) + model.embeddings.weight.numel())
    model.register_forward_pre_hook(lambda module, inputs: clock.start())
    for layer in layers:
        share = weights[layer] * unit
        layer.register_forward_hook(_pace_both(clock, share))
    output_share = 3 * model.embeddings.weight.numel() * unit
    model.register_forward_hook(lambda module, inputs, output: clock.spend(output_share))


def _pace_both(clock: "Clock", seconds: float) -> Any:
    def hook(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        paced: Tensor = _Paced.apply(output, clock, seconds)  # type: ignore[no-untyped-call]  # torch does not type it
        return paced

    return hook


class Clock:
    """The time of a device that is never late: what the host really computed is part of what is spent."""

    def __init__(self) -> None:
        self._due = 0.0

    def start(self) -> None:
        self._due = time.perf_counter()

    def spend(self, seconds: float) -> None:
        self._due += seconds
        time.sleep(max(0.0, self._due - time.perf_counter()))


class _Paced(torch.autograd.Function):
    """Hands everything on, after a while: backward twice that of forward."""

    @staticmethod
    def forward(ctx: Any, output: Tensor, clock: Clock, seconds: float) -> Tensor:
        ctx.clock, ctx.seconds = clock, seconds
        clock.spend(seconds)
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        ctx.clock.spend(2 * ctx.seconds)
        return gradient, None, None


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1].endswith(".socket"):
        run_rank(sys.argv[1], Job(**json.loads(sys.argv[2])))
    else:
        main()
