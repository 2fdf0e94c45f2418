"""Makes run folders with a record, as a training would leave them: real JSON lines, invented numbers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.report.plans import CORPORA, Life, Plan

PARTS = ("data_wait", "to_device", "compute", "communication", "straggler_wait", "optimizer")
START = 1_760_000_000.0


class _Writer:
    """Writes the record of one rank; its clock moves with what is written."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self.plan, self.rank = plan, rank
        self.host = plan.hosts[rank // plan.ranks_per_host]
        self.is_leader = rank % plan.ranks_per_host == 0
        self.clock, self.attempt = START, 0
        self.lines: list[str] = []
        self.outside: dict[str, float] = {}
        self.random = np.random.default_rng(plan.seed)  # the same on every rank, as the time of a step is

    def emit(self, event: str, **fields: Any) -> None:
        self.lines.append(json.dumps({"time": self.clock, "event": event, "attempt": self.attempt, **fields}))

    def spend(self, part: str, seconds: float) -> None:
        self.clock += seconds
        self.outside[part] = self.outside.get(part, 0.0) + seconds

    def live(self, number: int, life: Life) -> None:
        self.attempt = number
        self.clock += life.pause_seconds
        self._begin(life)
        self.spend("start", self.plan.start_seconds)
        step = life.start_step
        while step < life.last_step:
            until = min(self._next_stop(step), life.last_step)
            self._steps(step + 1, until)
            step = until
            if step % self.plan.log_every == 0 or step == life.last_step:
                self._log(step)
            self._pause_at(step)
        if life.stop is not None:
            self._flush(step)
            self.emit("stop", step=step, reason=life.stop, hours=(self.clock - START) / 3600)

    def _next_stop(self, step: int) -> int:
        plan = self.plan
        pauses = [mark for mark in (*plan.validations, *plan.averages) if mark > step]
        every = [(step // interval + 1) * interval for interval in (plan.log_every, plan.checkpoint_every)]
        return min(pauses + every)

    def _begin(self, life: Life) -> None:
        plan = self.plan
        self.emit(
            "attempt",
            start_step=life.start_step,
            max_steps=1000,
            rank=self.rank,
            world_size=plan.world_size,
            host=self.host,
            hosts=list(plan.hosts),
            launcher="workers",
            interface="eth0" if len(plan.hosts) > 1 else None,
            device=plan.device,
            precision=plan.precision,
            num_parameters=61_000_000,
            num_threads=1,
            learning_rate="2.0 · 512^-0.5 · min(step^-0.5, step · 400^-1.5)",
            settings=plan.settings,
            price_per_hour=plan.price_per_hour,
            currency="USD",
            source_language="en",
            target_language="de",
            peak_flops_per_second=plan.peak_flops_per_second,
            flops_per_source_token=1e6,
            flops_per_target_token=2e6,
            gradient_bytes=plan.gradient_bytes if plan.world_size > 1 else 0,
        )
        if self.is_leader:
            gpus = [{"index": index, "name": plan.device, "memory_bytes": 16e9} for index in range(plan.num_gpus)]
            stated = plan.stated_bits_per_second
            self.emit(
                "hardware",
                host=self.host,
                cpu_model="x86",
                num_cores=8,
                gpus=gpus,
                stated_bits_per_second=stated,
                cpu_has_bf16=plan.cpu_has_bf16,
            )
        if self.rank == 0:
            self.emit("data", fingerprint="f" * 64, vocabulary_size=32_000, corpora=CORPORA)
            if len(plan.hosts) > 1 and plan.link_bytes_per_second:
                self._link()
            for message in plan.warnings:
                self.emit("warning", message=message)

    def _link(self) -> None:
        rate = self.plan.link_bytes_per_second
        self.emit(
            "link",
            bus_bytes_per_second=rate,
            latency_seconds=2e-4,
            sizes_bytes=[1024, 1_048_576],
            seconds=[2e-4, 1_048_576 / (rate or 1)],
            sweep_seconds=5.0,
            stated_bits_per_second=self.plan.stated_bits_per_second,
        )

    def _steps(self, first: int, last: int) -> None:
        plan, count = self.plan, last - first + 1
        means = {**plan.parts, **plan.parts_of_rank.get(self.rank, {})}
        # One draw for all parts of a step, so that it takes all ranks the same time.
        factors = 1 + plan.noise * self.random.standard_normal((len(PARTS), count)).clip(-3, 3)
        columns = {name: means.get(name, 0.0) * factors[0] for name in PARTS}
        if "communication" in means:
            columns["communication"] = means["communication"] * factors[1]
        columns["rest"] = np.full(count, means.get("rest", 1e-3))
        columns["wall"] = sum(columns.values())  # type: ignore[assignment]
        sent = None
        if plan.sent_bytes is not None and self.is_leader:
            sent = plan.sent_bytes(columns["communication"]) if callable(plan.sent_bytes) else plan.sent_bytes
            sent = np.broadcast_to(sent, (count,)).tolist()
        self.clock += float(columns["wall"].sum())
        self._wall = float(columns["wall"].mean())
        if self.is_leader:
            self._machine(last, float(columns["wall"].sum()), sent)
        if plan.has_steps:
            rounded = {name: values.round(6).tolist() for name, values in columns.items()}
            self._flush(last, sent_bytes=sent, received_bytes=sent, **rounded)

    def _flush(self, step: int, **columns: Any) -> None:
        columns = columns or {name: [] for name in ("wall", *PARTS, "rest")}
        if self.plan.has_steps:
            first = step - len(columns["wall"]) + 1
            self.emit("steps", step=step, first_step=first, **columns, outside_seconds=self.outside)
        self.outside = {}

    def _machine(self, step: int, seconds: float, sent: list[float] | None) -> None:
        plan = self.plan
        rate = None if sent is None else sum(sent) / seconds
        defaults = {"utilisation_percent": 99, "energy_joules": 250.0 * seconds, "throttle_reasons": []}
        self.emit(
            "machine",
            host=self.host,
            step=step,
            interval_seconds=seconds,
            cpu_percent=plan.cpu_percent,
            sent_bytes_per_second=rate,
            received_bytes_per_second=rate,
            cpu_energy_joules=None,
            gpus=[{"index": index, **defaults, **plan.gpu} for index in range(plan.num_gpus)],
        )

    def _log(self, step: int) -> None:
        width, warmup = 512, self.plan.settings["training"]["warmup_steps"]
        peak = self.plan.settings["training"]["learning_rate"] or 2 / (width * warmup) ** 0.5
        self.emit(
            "train",
            step=step,
            epochs=step / 500,
            loss_nats_per_token=2 + 5 / step**0.5,
            learning_rate=peak * min(step / warmup, (warmup / step) ** 0.5),
            gradient_norm=0.5,
            seconds_per_step=self._wall,
            target_tokens_per_second=32_000 / self._wall,
            source_tokens_per_second=30_000 / self._wall,
            skipped_steps=0,
            loss_scale=None,
            data_wait_seconds_per_step=self.plan.parts.get("data_wait", 0.0),
        )

    def _pause_at(self, step: int) -> None:
        plan = self.plan
        if step in plan.skipped and self.rank == 0:
            self.emit("skipped", step=step, loss_nats_per_token=None, gradient_norm=None, loss_scale=None, in_a_row=1)
        for weights, looked in (("current", plan.validations), ("average of 5 checkpoints", plan.averages)):
            if step in looked:
                self.spend("validation", plan.validation_seconds)
                self._validation(step, weights, looked[step])
        if step % plan.checkpoint_every == 0:
            self.spend("checkpoint", plan.checkpoint_wait_seconds)
            if self.rank == 0:
                files = {"model.safetensors": 244_000_000, "optimizer.safetensors": 488_000_000, "state.json": 5000}
                size = sum(files.values())
                self.emit(
                    "checkpoint", step=step, seconds=0.5, bytes=size, path=f"checkpoints/step-{step:08}", files=files
                )

    def _validation(self, step: int, weights: str, numbers: tuple[float | None, float | None, float | None]) -> None:
        if self.rank == 0:
            self.emit(
                "validation",
                step=step,
                weights=weights,
                valid_loss_nats_per_token=numbers[0],
                train_sample_loss_nats_per_token=numbers[1],
                bleu=numbers[2],
                chrf=None,
                bleu_signature="nrefs:1",
                num_lines=500,
                seconds=self.plan.validation_seconds,
                is_best=False,
            )


def write_run(run: Path, plan: Plan | None = None) -> Path:
    """The run folder of a plan."""
    plan = plan or Plan()
    (run / "events").mkdir(parents=True, exist_ok=True)
    for rank in range(plan.world_size):
        writer = _Writer(plan, rank)
        for number, life in enumerate(plan.lives, start=1):
            writer.live(number, life)
        (run / "events" / f"rank-{rank}.jsonl").write_text("\n".join(writer.lines) + "\n")
    return run


def edit_events(run: Path, change: Callable[[dict[str, Any]], None], rank: int = 0) -> None:
    """Lets `change` alter each event of a rank's record."""
    path = run / "events" / f"rank-{rank}.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    for event in events:
        change(event)
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
