"""The monitor records what this machine does, names what cannot be read, and is never in the way of training.

Counters that this machine may lack are files in a folder here, as the kernel would show them. The GPU that is lost in
a run is imitated: see `test_gpus`.
"""

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pynvml
import pytest

from septuagint.telemetry import monitor
from septuagint.telemetry.events import EventLog, read_events
from septuagint.telemetry.gpus import Gpus
from septuagint.telemetry.monitor import CpuEnergy, InterfaceCounters, Monitor, sampling_interval_seconds
from tests.telemetry.test_gpus import FIRST, FakeDriver

HARDWARE_FIELDS = set(
    "host cpu_model cpu_has_bf16 num_cores memory_bytes disk_free_bytes disk_total_bytes interface "
    "stated_bits_per_second gpus not_available".split()
)
MACHINE_FIELDS = set(
    "host step interval_seconds cpu_percent process_cpu_percent memory_used_bytes process_memory_bytes "
    "disk_read_bytes_per_second disk_written_bytes_per_second disk_free_bytes sent_bytes_per_second "
    "received_bytes_per_second cpu_energy_joules gpus".split()
)


class Record:
    """What was emitted, with the thread that did."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.threads: set[str] = set()

    def emit(self, event: str, /, **fields: Any) -> None:
        self.threads.add(threading.current_thread().name)
        self.events.append((event, fields))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [fields for event, fields in self.events if event == kind]

    def wait_for(self, kind: str, count: int = 1) -> None:
        deadline = time.monotonic() + 10
        while len(self.of(kind)) < count:
            assert time.monotonic() < deadline
            time.sleep(0.005)


@pytest.fixture
def record() -> Record:
    return Record()


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples follow each other at once."""
    monkeypatch.setattr(monitor, "sampling_interval_seconds", lambda age_seconds: 0.01)
    monkeypatch.setattr(monitor, "_SHORTEST_SECONDS", 0.01)


def start(record: Record, folder: Path, **changes: Any) -> Monitor:
    settings: dict[str, Any] = {
        "emit": record.emit,
        "current_step": lambda: 7,
        "host": "here",
        "run_folder": folder,
        "interface": None,
        "gpu_uuids": [],
    }
    return Monitor(**(settings | changes))


def make_interface(folder: Path, sent: int, received: int) -> None:
    statistics = folder / "eth7" / "statistics"
    statistics.mkdir(parents=True, exist_ok=True)
    for name, value in (("tx_bytes", sent), ("rx_bytes", received)):
        # In place and in one piece: somebody has it open, and may read it at any time.
        with (statistics / name).open("r+b" if (statistics / name).exists() else "wb") as file:
            file.write(b"%020d\n" % value)


def make_package(folder: Path, name: str, kind: str, microjoules: int, most: int = 1_000_000) -> Path:
    package = folder / name
    package.mkdir(parents=True)
    (package / "name").write_text(f"{kind}\n")
    (package / "max_energy_range_uj").write_text(f"{most}\n")
    (package / "energy_uj").write_text(f"{microjoules}\n")
    return package


def test_this_machine_is_recorded(tmp_path: Path):
    with (
        EventLog(tmp_path / "events.jsonl", attempt=1) as log,
        Monitor(
            emit=log.emit,
            current_step=lambda: 7,
            host=socket.gethostname(),
            run_folder=tmp_path,
            interface=None,
            gpu_uuids=[],
        ),
    ):
        begin = time.process_time()
        while time.process_time() < begin + 0.15:  # work, which it shall see
            pass
        (tmp_path / "file").write_bytes(bytes(1000))
        time.sleep(0.5)
    hardware, *machine = read_events(tmp_path / "events.jsonl")
    common = {"time", "event", "attempt"}
    assert (hardware["event"], set(hardware)) == ("hardware", HARDWARE_FIELDS | common)
    assert hardware["num_cores"] == os.cpu_count()
    assert hardware["memory_bytes"] == psutil.virtual_memory().total
    assert hardware["disk_total_bytes"] > hardware["disk_free_bytes"] > 0
    assert hardware["cpu_model"]
    assert hardware["not_available"]["gpu"] == "training uses none"
    assert hardware["not_available"]["network"] == "nothing leaves this host"
    assert len(machine) >= 2
    for sample in machine:
        assert (sample["event"], set(sample)) == ("machine", MACHINE_FIELDS | common)
        assert (sample["host"], sample["step"], sample["gpus"]) == (socket.gethostname(), 7, [])
        assert 0.09 < sample["interval_seconds"] < 5
        assert 0 <= sample["cpu_percent"] <= 100
        assert 0 < sample["process_memory_bytes"] < hardware["memory_bytes"]
        assert 0 < sample["memory_used_bytes"] < hardware["memory_bytes"]
        assert sample["sent_bytes_per_second"] is None
    busy_seconds = sum(sample["process_cpu_percent"] / 100 * sample["interval_seconds"] for sample in machine)
    assert busy_seconds * hardware["num_cores"] > 0.05


@pytest.mark.parametrize(
    "age_seconds, expected", [(0, 0.5), (150, 0.5), (600, 2.0), (3000, 10.0), (1e6, 10.0), (1500, 5.0)]
)
def test_samples_become_rarer_with_the_age_of_the_attempt(age_seconds: float, expected: float):
    assert sampling_interval_seconds(age_seconds) == expected


def test_the_end_is_sampled_at_once_however_long_the_interval(
    tmp_path: Path, record: Record, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(monitor, "sampling_interval_seconds", lambda age_seconds: 10.0)
    step = 1
    with start(record, tmp_path, current_step=lambda: step):
        record.wait_for("machine")
        step = 2
        begin = time.monotonic()
    assert time.monotonic() - begin < 1
    assert [sample["step"] for sample in record.of("machine")] == [1, 2]
    assert record.threads == {"monitor"}
    assert "monitor" not in {thread.name for thread in threading.enumerate()}


def test_an_attempt_that_ends_at_once_is_recorded(tmp_path: Path, record: Record):
    begin = time.monotonic()
    with start(record, tmp_path):
        pass
    assert time.monotonic() - begin < 1
    assert [event for event, _ in record.events] == ["hardware", "machine", "machine"]


def test_traffic_of_the_interface_in_use_is_measured(
    tmp_path: Path, record: Record, monkeypatch: pytest.MonkeyPatch, fast: None
):
    monkeypatch.setattr(monitor, "_NETWORKS", tmp_path)
    make_interface(tmp_path, sent=1000, received=500)
    with start(record, tmp_path, interface="eth7"):
        record.wait_for("machine", 2)
        make_interface(tmp_path, sent=5000, received=500)
        record.wait_for("machine", len(record.of("machine")) + 2)
        make_interface(tmp_path, sent=0, received=600)  # it was made anew, or has wrapped
        record.wait_for("machine", len(record.of("machine")) + 2)
    sent = [sample["sent_bytes_per_second"] for sample in record.of("machine")]
    grown = [
        sample["sent_bytes_per_second"] * sample["interval_seconds"]
        for sample in record.of("machine")
        if sample["sent_bytes_per_second"]
    ]
    assert sum(grown) == pytest.approx(4000, rel=0.1)
    assert sent.count(None) == 1
    assert all(rate is None or rate >= 0 for rate in sent)
    assert sum(sample["received_bytes_per_second"] > 0 for sample in record.of("machine")) == 1


def test_loopback_traffic_is_seen_by_the_kernel_and_by_psutil(
    tmp_path: Path, record: Record, monkeypatch: pytest.MonkeyPatch, fast: None
):
    for networks in (monitor._NETWORKS, tmp_path / "none"):
        monkeypatch.setattr(monitor, "_NETWORKS", networks)
        record.events.clear()
        with start(record, tmp_path, interface="lo"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            record.wait_for("machine")
            for _ in range(10):
                sender.sendto(bytes(1000), ("127.0.0.1", 9))
            record.wait_for("machine", len(record.of("machine")) + 2)
        sent = [sample["sent_bytes_per_second"] * sample["interval_seconds"] for sample in record.of("machine")]
        assert sum(sent) > 9000
        assert "network" not in record.of("hardware")[0]["not_available"]


def test_an_interface_that_is_not_there_has_a_reason(tmp_path: Path, record: Record):
    with start(record, tmp_path, interface="eth77"):
        pass
    assert record.of("machine")[0]["sent_bytes_per_second"] is None
    assert record.of("hardware")[0]["not_available"]["network"] == "eth77 has no counters"
    assert record.of("hardware")[0]["stated_bits_per_second"] is None


def test_the_stated_speed_is_in_bits(tmp_path: Path, record: Record, monkeypatch: pytest.MonkeyPatch):
    stated = {"lo": psutil.net_if_stats()["lo"]._replace(speed=2500)}
    monkeypatch.setattr(monitor.psutil, "net_if_stats", lambda: stated)
    with start(record, tmp_path, interface="lo"):
        pass
    assert record.of("hardware")[0]["stated_bits_per_second"] == 2_500_000_000


def test_a_container_without_counters_of_disks_says_so(tmp_path: Path, record: Record, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(monitor.psutil, "disk_io_counters", lambda perdisk=False, nowrap=True: {} if perdisk else None)
    with start(record, tmp_path):
        pass
    not_available = record.of("hardware")[0]["not_available"]
    assert not_available["disk"] == "this system does not count it"
    assert "all disks are counted" in not_available["disk_of_run_folder"]
    assert record.of("machine")[-1]["disk_written_bytes_per_second"] is None
    assert record.of("machine")[-1]["disk_free_bytes"] > 0


def test_a_run_folder_on_no_disk_of_its_own_counts_all_disks(
    tmp_path: Path, record: Record, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(monitor, "_BLOCK_DEVICES", tmp_path)  # as in memory, over a network, or layered
    if psutil.disk_io_counters(nowrap=False) is None:
        pytest.skip("this machine counts no disks")
    with start(record, tmp_path):
        pass
    assert "disk_of_run_folder" in record.of("hardware")[0]["not_available"]
    assert record.of("machine")[-1]["disk_written_bytes_per_second"] >= 0


def test_energy_of_processors_is_summed_over_packages_and_survives_a_wrap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(monitor, "_POWERCAP", tmp_path)
    first = make_package(tmp_path, "intel-rapl:0", "package-0", 900_000)
    second = make_package(tmp_path, "intel-rapl:1", "package-1", 100_000)
    part = make_package(tmp_path, "intel-rapl:0:0", "core", 0)
    platform = make_package(tmp_path, "intel-rapl:2", "psys", 0)
    energy = CpuEnergy()
    (first / "energy_uj").write_text("100000\n")  # 0.1 J up to its end, and 0.1 J more
    (second / "energy_uj").write_text("600000\n")
    for counted_elsewhere in (part, platform):
        (counted_elsewhere / "energy_uj").write_text("777777\n")
    assert energy.joules() == pytest.approx(0.2 + 0.5)
    assert energy.joules() == 0.0
    (first / "max_energy_range_uj").write_text("50\n")
    smaller = CpuEnergy()
    (first / "energy_uj").write_text("0\n")
    assert smaller.joules() is None


def test_energy_that_only_root_may_read_has_a_reason(tmp_path: Path, record: Record, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(monitor, "_POWERCAP", tmp_path)
    package = make_package(tmp_path, "intel-rapl:0", "package-0", 0)
    (package / "energy_uj").chmod(0)
    if os.access(package / "energy_uj", os.R_OK):  # root may
        refuse_reading(monkeypatch, package / "energy_uj")
    with start(record, tmp_path):
        pass
    assert record.of("hardware")[0]["not_available"]["cpu_energy"] == "only root may read the processor's counters"
    assert record.of("machine")[-1]["cpu_energy_joules"] is None


def refuse_reading(monkeypatch: pytest.MonkeyPatch, refused: Path) -> None:
    read_text = Path.read_text

    def read(path: Path, *arguments: Any, **options: Any) -> str:
        if path == refused:
            raise PermissionError(13, "Permission denied", str(path))
        return read_text(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", read)


def test_a_gpu_that_is_lost_in_a_run_is_one_warning(
    tmp_path: Path, record: Record, monkeypatch: pytest.MonkeyPatch, fast: None
):
    driver = FakeDriver(monkeypatch)
    with start(record, tmp_path, gpu_uuids=[FIRST]):
        record.wait_for("machine", 2)
        driver.failing = {FIRST: pynvml.NVML_ERROR_GPU_IS_LOST}
        record.wait_for("warning")
        record.wait_for("machine", len(record.of("machine")) + 3)
    assert record.of("hardware")[0]["gpus"][0]["name"] == "NVIDIA H200"
    assert "gpu" not in record.of("hardware")[0]["not_available"]
    assert record.of("warning") == [{"message": "the monitor of here could not read gpu.1 (GPU is lost)"}]
    assert record.of("machine")[0]["gpus"][0]["power_watts"] == 612.5
    assert record.of("machine")[-1]["gpus"][0]["power_watts"] is None
    assert record.of("machine")[-1]["cpu_percent"] is not None
    assert driver.num_open == 0


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only Linux shows these")
def test_no_file_stays_open(tmp_path: Path, record: Record):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(2):
        with start(record, tmp_path, interface="lo"):
            pass
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


@pytest.mark.parametrize("part", ["current_step", "emit"])
def test_whatever_fails_in_the_thread_is_one_warning(tmp_path: Path, record: Record, part: str):
    def fail(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("by design")

    def emit(event: str, /, **fields: Any) -> None:
        record.emit(event, **fields)
        if event == "machine":
            fail()

    with start(record, tmp_path, **{part: {"current_step": fail, "emit": emit}[part]}):
        record.wait_for("warning")
    assert record.of("warning") == [{"message": "here is no longer monitored (by design); training goes on"}]


def test_a_system_without_room_for_a_thread_is_a_warning(
    tmp_path: Path, record: Record, monkeypatch: pytest.MonkeyPatch
):
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with start(record, tmp_path):
        pass
    assert record.of("warning") == [
        {"message": "here is no longer monitored (can't start new thread); training goes on"}
    ]


def test_a_driver_that_never_answers_is_left_behind(
    tmp_path: Path, record: Record, monkeypatch: pytest.MonkeyPatch, fast: None
):
    monkeypatch.setattr(monitor, "_PATIENCE_SECONDS", 0.2)
    is_stuck, may_go = threading.Event(), threading.Event()
    sample = Gpus.sample

    def stick(gpus: Gpus) -> list[dict[str, Any]]:
        if len(record.of("machine")) > 1:
            is_stuck.set()
            may_go.wait(10)
        return sample(gpus)

    monkeypatch.setattr(Gpus, "sample", stick)
    with start(record, tmp_path) as watching:
        assert is_stuck.wait(10)
        begin = time.monotonic()
    assert time.monotonic() - begin < 1
    num_events = len(record.events)
    may_go.set()
    watching._thread.join(10)
    assert len(record.events) == num_events  # the record may be closed by then


def test_counters_of_an_interface_are_read_anew_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(monitor, "_NETWORKS", tmp_path)
    missing = InterfaceCounters("eth7")
    assert missing.read() is None
    make_interface(tmp_path, sent=2**63, received=12)
    assert missing.read() is None  # finds it, and has it from the next time on
    assert missing.read() == (2**63, 12)
    make_interface(tmp_path, sent=2**63 + 5, received=13)
    assert missing.read() == (2**63 + 5, 13)
    (tmp_path / "eth7" / "statistics" / "tx_bytes").write_text("")
    assert missing.read() is None
    missing.close()
    missing.close()


def test_reading_the_counters_costs_no_step_anything():
    counters = InterfaceCounters("lo")
    if counters.read() is None:
        pytest.skip("this machine shows no counters")
    seconds = min(elapsed(lambda: [counters.read() for _ in range(100)]) / 100 for _ in range(20))
    counters.close()
    assert seconds < 100e-6  # some 5 µs; other work on this machine may slow it down


def elapsed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
