"""The monitor: a thread that writes down what this host does while it trains. Training never waits for it.

What cannot be read is null; `not_available` of the `hardware` event says why.
"""

import contextlib
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own

from septuagint.machine import cpu_model, has_bf16_products
from septuagint.telemetry.gpus import Gpus, ask, growth

_T = TypeVar("_T")
_RATES = ("disk_read", "disk_written", "sent", "received")
_NETWORKS = Path("/sys/class/net")
_POWERCAP = Path("/sys/class/powercap")
_BLOCK_DEVICES = Path("/sys/dev/block")
# Counters of CPUs and GPUs are brought up to date now and then: an H200's of its energy, every 0.1 s.
_SHORTEST_SECONDS = 0.1
# A driver may never answer: training does not wait for it at its end, either.
_PATIENCE_SECONDS = 2.0


def sampling_interval_seconds(age_seconds: float) -> float:
    """Often at first, seldom in runs of days: about 1,260 samples in the first hour, and 360 in each after it."""
    return min(max(age_seconds / 300, 0.5), 10.0)


class InterfaceCounters:
    """The bytes that a network interface has sent and received. Cheap enough for every step: files stay open."""

    def __init__(self, interface: str) -> None:
        self._folder = _NETWORKS / interface / "statistics"
        self._descriptors: list[int] = []
        self._open()

    def read(self) -> tuple[int, int] | None:
        """(sent, received) since the interface was made. None where that is not known."""
        try:
            sent, received = [int(os.pread(descriptor, 32, 0)) for descriptor in self._descriptors]
        except (OSError, ValueError):
            # The interface is gone. One of the same name may take its place.
            self.close()
            self._open()
            return None
        return sent, received

    def close(self) -> None:
        """Nothing is known from now on."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []

    def _open(self) -> None:
        with contextlib.suppress(OSError):
            for name in ("tx_bytes", "rx_bytes"):
                self._descriptors.append(os.open(self._folder / name, os.O_RDONLY))


class Monitor:
    """Emits `hardware` once, and then `machine` again and again, from a thread. Used in a `with` statement.

    `emit` and `current_step` are called from that thread. `interface` is None where nothing leaves the host.
    """

    def __init__(
        self,
        *,
        emit: Callable[..., None],
        current_step: Callable[[], int],
        host: str,
        run_folder: Path,
        interface: str | None,
        gpu_uuids: Sequence[str],
    ) -> None:
        self._emit_event, self._current_step, self._host = emit, current_step, host
        self._run_folder, self._interface, self._gpu_uuids = run_folder, interface, gpu_uuids
        self._began = time.monotonic()
        self._is_over = threading.Event()
        self._is_abandoned = False
        self._thread = threading.Thread(target=self._watch, name="monitor", daemon=True)

    def __enter__(self) -> Self:
        try:
            self._thread.start()
        except RuntimeError as error:  # the system lets us have no more threads
            self._give_up(error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join(_PATIENCE_SECONDS)
        self._is_abandoned = True  # the record may be closed

    def _watch(self) -> None:
        try:
            with Gpus(self._gpu_uuids) as gpus, _Machine(self._run_folder, self._interface, gpus) as machine:
                self._sample_until_over(machine)
        except Exception as error:
            self._give_up(error)

    def _sample_until_over(self, machine: "_Machine") -> None:
        sample = machine.sample()  # comes first, so that `hardware` knows what fails in it
        self._emit("hardware", host=self._host, **machine.hardware())
        known = set(machine.not_available)
        self._emit("machine", host=self._host, step=self._current_step(), **sample)
        is_over = False
        while not is_over:
            is_over = self._is_over.wait(sampling_interval_seconds(time.monotonic() - self._began))
            self._emit("machine", host=self._host, step=self._current_step(), **machine.sample())
            lost = {what: reason for what, reason in machine.not_available.items() if what not in known}
            known |= set(lost)
            if lost:
                named = ", ".join(f"{what} ({reason})" for what, reason in lost.items())
                self._emit("warning", message=f"the monitor of {self._host} could not read {named}")

    def _emit(self, event: str, **fields: Any) -> None:
        if not self._is_abandoned:
            self._emit_event(event, **fields)

    def _give_up(self, error: Exception) -> None:
        message = f"{self._host} is no longer monitored ({str(error) or type(error).__name__}); training goes on"
        with contextlib.suppress(Exception):
            self._emit("warning", message=message)


class _Machine:
    """Readings of this host. Rates and energy are since the sample before."""

    def __init__(self, run_folder: Path, interface: str | None, gpus: Gpus) -> None:
        self._run_folder, self._interface, self._gpus = run_folder, interface, gpus
        self._reasons = {} if interface is not None else {"network": "nothing leaves this host"}
        self._process, self._num_cores = psutil.Process(), os.cpu_count() or 1
        self._disk = self._ask("disk_of_run_folder", lambda: _disk_of(run_folder))
        self._network = None if interface is None else InterfaceCounters(interface)
        self._cpu_energy = self._ask("cpu_energy", CpuEnergy)
        self._cpu_percents()
        gpus.sample()
        self._seconds, self._bytes = time.monotonic(), self._count_bytes()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._network is not None:
            self._network.close()

    @property
    def not_available(self) -> dict[str, str]:
        """What cannot be read, and why."""
        return self._reasons | self._gpus.not_available

    def hardware(self) -> dict[str, Any]:
        """What stays the same."""
        disk = self._ask("disk_space", lambda: shutil.disk_usage(self._run_folder))
        return {
            "cpu_model": self._ask("cpu_model", cpu_model),
            "cpu_has_bf16": self._ask("cpu_has_bf16", has_bf16_products),
            "num_cores": self._num_cores,
            "memory_bytes": self._ask("memory", lambda: psutil.virtual_memory().total),
            "disk_free_bytes": None if disk is None else disk.free,
            "disk_total_bytes": None if disk is None else disk.total,
            "interface": self._interface,
            "stated_bits_per_second": self._ask("stated_speed", self._stated_bits_per_second),
            "gpus": self._gpus.properties(),
            "not_available": self.not_available,
        }

    def sample(self) -> dict[str, Any]:
        """What changes."""
        time.sleep(max(0.0, self._seconds + _SHORTEST_SECONDS - time.monotonic()))
        now, counted, gpus = time.monotonic(), self._count_bytes(), self._gpus.sample()
        cpu_percent, process_cpu_percent = self._cpu_percents()
        seconds, self._seconds = now - self._seconds, now
        grown = {name: growth(self._bytes.get(name), counted.get(name)) for name in _RATES}
        self._bytes = counted
        return {
            "interval_seconds": round(seconds, 3),
            "cpu_percent": cpu_percent,
            "process_cpu_percent": process_cpu_percent,
            "memory_used_bytes": self._ask("memory", lambda: psutil.virtual_memory().used),
            "process_memory_bytes": self._ask("process_memory", lambda: self._process.memory_info().rss),
            **{f"{name}_bytes_per_second": size and round(size / seconds) for name, size in grown.items()},
            "disk_free_bytes": self._ask("disk_space", lambda: shutil.disk_usage(self._run_folder).free),
            "cpu_energy_joules": self._cpu_energy and self._ask("cpu_energy", self._cpu_energy.joules),
            "gpus": gpus,
        }

    def _ask(self, what: str, read: Callable[[], _T]) -> _T | None:
        return ask(read, what, self._reasons)

    def _cpu_percents(self) -> tuple[float | None, float | None]:
        """(of the host, of this process), both of all cores. psutil remembers this thread's call before."""
        host = self._ask("cpu", psutil.cpu_percent)
        own = self._ask("process_cpu", self._process.cpu_percent)
        return host, own and round(own / self._num_cores, 2)

    def _count_bytes(self) -> dict[str, int]:
        """So far, by name. A name that is missing is not known."""
        disk = self._ask("disk", self._disk_bytes) or {}
        return disk | (self._ask("network", self._network_bytes) or {})

    def _disk_bytes(self) -> dict[str, int]:
        if self._disk is None:
            counters = psutil.disk_io_counters(nowrap=False)
        else:
            counters = psutil.disk_io_counters(perdisk=True, nowrap=False).get(self._disk)
        if counters is None:
            raise RuntimeError("this system does not count it")
        return {"disk_read": counters.read_bytes, "disk_written": counters.write_bytes}

    def _network_bytes(self) -> dict[str, int]:
        if self._network is None:
            return {}
        if (counted := self._network.read()) is None:
            counters = psutil.net_io_counters(pernic=True, nowrap=False).get(self._interface)
            if counters is None:
                raise RuntimeError(f"{self._interface} has no counters")
            counted = counters.bytes_sent, counters.bytes_recv
        return {"sent": counted[0], "received": counted[1]}

    def _stated_bits_per_second(self) -> int | None:
        if self._interface is None:
            return None
        megabits: int = psutil.net_if_stats()[self._interface].speed
        if megabits <= 0:
            raise RuntimeError(f"{self._interface} does not say")
        return megabits * 1_000_000


class CpuEnergy:
    """The energy that the processors took, by their own counters (RAPL)."""

    def __init__(self) -> None:
        # Parts of a package, and the platform as a whole, would be counted twice.
        found = [path for path in sorted(_POWERCAP.glob("intel-rapl:*")) if re.fullmatch(r"intel-rapl:\d+", path.name)]
        self._packages = [path for path in found if (path / "name").read_text().startswith("package")]
        if not self._packages:
            raise RuntimeError("the processor's counters are not to be seen here")
        self._ranges = [int((path / "max_energy_range_uj").read_text()) for path in self._packages]
        self._before = self._read()

    def joules(self) -> float | None:
        """Since the call before. The counters begin anew every few minutes, at a known value."""
        before, self._before = self._before, self._read()
        grown = [
            now - old + (size if now < old else 0)
            for old, now, size in zip(before, self._before, self._ranges, strict=True)
        ]
        return None if min(grown) < 0 else sum(grown) / 1e6

    def _read(self) -> list[int]:
        try:
            return [int((path / "energy_uj").read_text()) for path in self._packages]
        except PermissionError:
            raise RuntimeError("only root may read the processor's counters") from None


def _disk_of(folder: Path) -> str:
    device = folder.stat().st_dev
    name = (_BLOCK_DEVICES / f"{os.major(device)}:{os.minor(device)}").resolve().name
    if name not in psutil.disk_io_counters(perdisk=True, nowrap=False):
        raise RuntimeError("the disk of the run folder has no counters of its own: all disks are counted")
    return name
