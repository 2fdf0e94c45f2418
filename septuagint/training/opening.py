"""The opening of an attempt: the machines are measured, clocks compared, and the record says what all is made of."""

from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import torch

from septuagint.cluster.probe import measure_link, measure_peak
from septuagint.data.manifest import Corpus
from septuagint.telemetry.events import EventLog
from septuagint.telemetry.monitor import InterfaceCounters, Monitor
from septuagint.training.optimizer import describe_learning_rate
from septuagint.training.precision import DTYPES, device_name
from septuagint.training.rendezvous import boot_id
from septuagint.training.setting import Setting
from septuagint.training.state import Progress
from septuagint.training.step import Training
from septuagint.training.timekeeper import Power, Timekeeper
from septuagint.training.validation import best_of
from septuagint.world import World


def open_timekeeper(stack: ExitStack, setting: Setting, training: Training) -> tuple[Timekeeper, float | None]:
    """(from now on time counts, the peak of this rank's device). The stack closes what was opened."""
    world = setting.world
    setting.watch.enter("measuring the machines")
    world.gather(None)  # ranks that share processors share their peak: they are measured at the same time
    peak = measure_peak(world.device, DTYPES[training.precision])
    peaks = world.gather(peak)
    source, target = training.model.flops_per_token()
    power = Power(
        peak_flops_per_second=None if None in peaks else sum(peaks),
        flops_per_source_token=source * training.settings.num_looks,
        flops_per_target_token=target * training.settings.num_looks,
    )
    clock_name = f"{world.hosts[world.rank]} {boot_id()}"
    if not world.is_leader or (interface := _outer_interface(world)) is None:
        return Timekeeper(world, clock_name, power), peak
    counters = InterfaceCounters(interface)
    stack.callback(counters.close)
    return Timekeeper(world, clock_name, power, counters.read), peak


def _outer_interface(world: World) -> str | None:
    """Through which data leaves the host; None where all ranks are on one."""
    return world.interface if len(set(world.hosts)) > 1 else None


def attempt_fields(
    setting: Setting, training: Training, progress: Progress, timekeeper: Timekeeper, peak: float | None
) -> dict[str, Any]:
    """What the record says first."""
    config, world, shape = setting.config, setting.world, setting.shape
    best = best_of(progress.validations, "bleu")
    settings = config.model_dump(mode="json")
    return {
        "start_step": progress.step,
        "max_steps": config.training.max_steps,
        "rank": world.rank,
        "world_size": world.size,
        "host": world.hosts[world.rank],
        "hosts": list(dict.fromkeys(world.hosts)),
        "launcher": world.launcher,
        "interface": world.interface,
        "num_disks": len(setting.disks.owners),
        "device": device_name(world.device),
        "precision": training.precision,
        "attention": training.backend,
        "is_compiled": training.is_compiled,
        "num_parameters": sum(parameter.numel() for parameter in training.model.parameters()),
        "num_threads": setting.num_threads,
        "learning_rate": describe_learning_rate(config.training, config.model.width),
        "source_budget": shape.source_tokens,
        "target_budget": shape.target_tokens,
        "num_microbatches": config.training.num_microbatches,
        "num_train_pairs": setting.dataset.totals().num_pairs,
        "best_bleu": None if best is None else best.scores.bleu,
        "source_language": config.data.source_language,
        "target_language": config.data.target_language,
        "settings": {"training": settings["training"], "model": settings["model"]},
        "price_per_hour": config.cost.price_per_hour,
        "currency": config.cost.currency,
        "peak_flops_per_second": peak,
        "flops_per_source_token": timekeeper.power.flops_per_source_token,
        "flops_per_target_token": timekeeper.power.flops_per_target_token,
        "gradient_bytes": sum(p.nbytes for p in training.model.parameters()) if world.size > 1 else 0,
        "clock_offset_seconds": timekeeper.offset.seconds if world.size > 1 else None,
        "clock_error_seconds": timekeeper.offset.error_seconds if world.size > 1 else None,
    }


def data_fields(setting: Setting) -> dict[str, Any]:
    """What is trained on, as `prepare` counted it."""
    manifest = setting.dataset.manifest
    weights = dict(zip([corpus.name for corpus in manifest.train], setting.dataset.weights, strict=True))
    return {
        "fingerprint": manifest.fingerprint,
        "vocabulary_sha256": manifest.vocabulary.file.sha256,
        "vocabulary_size": manifest.vocabulary.size,
        "corpora": [
            {"split": split, "weight": weights[corpus.name] if split == "train" else None, **_corpus_fields(corpus)}
            for split, corpora in manifest.splits.items()
            for corpus in corpora
        ],
    }


def _corpus_fields(corpus: Corpus) -> dict[str, Any]:
    return {
        "name": corpus.name,
        "lines": corpus.lines,
        "pairs": corpus.pairs,
        "dropped": corpus.dropped,
        "source_bytes": corpus.source.bytes,
        "target_bytes": corpus.target.bytes,
        "source_tokens": corpus.source.tokens,
        "target_tokens": corpus.target.tokens,
        "files": [file.model_dump() for file in corpus.inputs],
    }


def record_link(setting: Setting, events: EventLog) -> None:
    """Measures what the hosts can send each other, where there are several; rank 0 takes it down."""
    world = setting.world
    if (interface := _outer_interface(world)) is None:
        return
    setting.watch.enter("measuring the link")
    link = measure_link(world)
    if world.rank == 0:
        stated = psutil.net_if_stats()[interface].speed * 1_000_000 or None
        events.emit(
            "link",
            bus_bytes_per_second=link.bus_bytes_per_second,
            latency_seconds=link.latency_seconds,
            sizes_bytes=link.sizes_bytes,
            seconds=link.seconds,
            sweep_seconds=link.sweep_seconds,
            stated_bits_per_second=stated,
        )


def open_monitor(setting: Setting, progress: Progress, events: EventLog) -> AbstractContextManager[object]:
    """The first rank of each host keeps an eye on it, as long as the block lasts."""
    world = setting.world
    own = torch.cuda.get_device_properties(world.device).uuid if world.device.type == "cuda" else None
    uuids = world.gather([world.hosts[world.rank], None if own is None else str(own)])
    host = world.hosts[world.rank]
    if not world.is_leader:
        return nullcontext()
    return Monitor(
        emit=events.emit,
        current_step=lambda: progress.step,
        host=host,
        run_folder=setting.run_path,
        interface=_outer_interface(world),
        gpu_uuids=sorted({uuid for name, uuid in uuids if name == host and uuid is not None}),
    )
