"""What GPUs tell is recorded, and whatever is missing has a reason and stops nothing.

Most machines that run these tests have no GPU: a driver is imitated beneath the real `pynvml`, whose constants,
structures and errors are used. One test asks a real GPU, where there is one.
"""

import ast
import ctypes
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pynvml
import pytest

from septuagint.telemetry import gpus
from septuagint.telemetry.gpus import Gpus, growth

FIRST, SECOND = "GPU-11111111-2222-3333-4444-555555555555", "GPU-66666666-7777-8888-9999-000000000000"
ACTIVITIES = {"gpu.sm_activity", "gpu.tensor_activity", "gpu.memory_activity"}


def has_driver() -> bool:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return False
    pynvml.nvmlShutdown()
    return True


class FakeDriver:
    """Two GPUs that do as a test says. Handles are uuids; methods have the names of the real functions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.uuids = [SECOND, FIRST]
        self.failing: dict[str, int] = {}  # functions, and GPUs, with the error that they give
        self.millijoules = 5_000_000
        self.busy_percent_seconds = 0.0  # what the counters of activity show
        self.metric_error, self.has_gpm, self.num_open, self.reasons = pynvml.NVML_SUCCESS, True, 0, 0
        self.allocated: dict[int, float] = {}  # samples of activity, by address
        self.module = ModuleType("pynvml")
        vars(self.module).update(vars(pynvml))
        for name in [name for name in dir(self) if name.startswith("nvml")]:
            assert hasattr(pynvml, name)
            setattr(self.module, name, self._with_failures(name, getattr(self, name)))
        monkeypatch.setitem(sys.modules, "pynvml", self.module)

    def _with_failures(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            for failing in (name, *arguments):
                if isinstance(failing, str) and failing in self.failing:
                    raise pynvml.NVMLError(self.failing[failing])
            return function(*arguments)

        return call

    def nvmlInit(self) -> None:
        self.num_open += 1

    def nvmlShutdown(self) -> None:
        self.num_open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.uuids)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return self.uuids[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in self.uuids:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return uuid

    def nvmlDeviceGetIndex(self, handle: str) -> int:
        return self.uuids.index(handle)

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return handle

    def nvmlDeviceGetName(self, handle: str) -> str:
        return "NVIDIA H200"

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        return pynvml.c_nvmlMemory_t(total=150_000, used=70_000, free=80_000)

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: str) -> int:
        return 700_000

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:
        return self.millijoules

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> Any:
        return pynvml.c_nvmlUtilization_t(gpu=97, memory=40)

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        return 612_500

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:
        return {pynvml.NVML_CLOCK_SM: 1980, pynvml.NVML_CLOCK_MEM: 3201}[kind]

    def nvmlDeviceGetTemperatureV(self, handle: str, sensor: int) -> int:
        return 64

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> int:
        return 65

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:
        return self.reasons

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:
        return self.reasons

    def nvmlGpmQueryDeviceSupport(self, handle: str) -> Any:
        return pynvml.c_nvmlGpmSupport_t(isSupportedDevice=int(self.has_gpm))

    def nvmlGpmSampleAlloc(self) -> Any:
        address = 0x1000 + len(self.allocated)
        self.allocated[address] = math.nan
        return ctypes.cast(address, pynvml.c_nvmlGpmSample_t)

    def nvmlGpmSampleFree(self, sample: Any) -> None:
        del self.allocated[address_of(sample)]

    def nvmlGpmSampleGet(self, handle: str, sample: Any) -> Any:
        self.allocated[address_of(sample)] = self.busy_percent_seconds
        return sample

    def nvmlGpmMetricsGet(self, request: Any) -> Any:
        assert request.version == pynvml.NVML_GPM_METRICS_GET_VERSION
        scales = {
            pynvml.NVML_GPM_METRIC_SM_UTIL: 1.0,
            pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL: 0.5,
            pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: 0.25,
        }
        before, now = (self.allocated[address_of(sample)] for sample in (request.sample1, request.sample2))
        for metric in request.metrics[: request.numMetrics]:
            metric.nvmlReturn = self.metric_error
            metric.value = (now - before) * scales[metric.metricId]
        return request


def address_of(sample: Any) -> int:
    address = ctypes.cast(sample, ctypes.c_void_p).value
    assert address is not None
    return address


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    return FakeDriver(monkeypatch)


def test_every_name_of_the_library_that_is_used_exists():
    tree = ast.parse(Path(gpus.__file__).read_text(encoding="utf-8"))
    # `nvml` is the library in every function; `self._nvml` is kept between them.
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("nvml", "self._nvml")
    }
    assert len(used) > 30
    assert {name for name in used if not hasattr(pynvml, name)} == set()


def test_gpus_are_described_as_training_names_them(driver: FakeDriver):
    with Gpus([FIRST.removeprefix("GPU-"), FIRST]) as found:  # as torch says it, and twice: ranks may share one
        properties = found.properties()
    assert properties == [
        {"index": 1, "uuid": FIRST, "name": "NVIDIA H200", "memory_bytes": 150_000, "power_limit_watts": 700.0}
    ]
    assert found.not_available == {}


def test_without_uuids_all_gpus_are_watched(driver: FakeDriver):
    with Gpus(None) as found:
        assert [gpu["uuid"] for gpu in found.properties()] == [SECOND, FIRST]


def test_a_sample_has_what_happened_since_the_one_before(driver: FakeDriver):
    with Gpus([SECOND]) as found:
        (first,) = found.sample()
        driver.millijoules, driver.busy_percent_seconds = 5_100_500, 80.0
        (second,) = found.sample()
        driver.busy_percent_seconds = 120.0
        (third,) = found.sample()
    assert second == {
        "index": 0,
        "utilisation_percent": 97,
        "memory_used_bytes": 70_000,
        "power_watts": 612.5,
        "energy_joules": 100.5,
        "sm_clock_mhz": 1980,
        "memory_clock_mhz": 3201,
        "temperature_celsius": 64,
        "throttle_reasons": [],
        "sm_activity_percent": 80.0,
        "tensor_activity_percent": 40.0,
        "memory_activity_percent": 20.0,
    }
    since_before = ("energy_joules", "sm_activity_percent", "tensor_activity_percent", "memory_activity_percent")
    assert [first[name] for name in since_before] == [None] * 4
    assert [third[name] for name in since_before] == [0.0, 40.0, 20.0, 10.0]
    assert found.not_available == {}


def test_a_counter_of_energy_that_goes_back_is_not_known_once(driver: FakeDriver):
    with Gpus([FIRST]) as found:
        found.sample()
        driver.millijoules = 1000  # the driver was loaded again
        assert found.sample()[0]["energy_joules"] is None
        driver.millijoules = 3000
        assert found.sample()[0]["energy_joules"] == 2.0


def test_energy_that_could_not_be_read_once_is_in_the_next_sample(driver: FakeDriver):
    with Gpus([FIRST]) as found:
        found.sample()
        driver.failing = {"nvmlDeviceGetTotalEnergyConsumption": pynvml.NVML_ERROR_TIMEOUT}
        assert found.sample()[0]["energy_joules"] is None
        driver.failing, driver.millijoules = {}, 5_009_000
        assert found.sample()[0]["energy_joules"] == 9.0


@pytest.mark.parametrize(
    "bits, names",
    [
        (pynvml.nvmlClocksEventReasonGpuIdle | pynvml.nvmlClocksEventReasonApplicationsClocksSetting, []),
        (pynvml.nvmlClocksEventReasonSwPowerCap, ["power cap"]),
        (pynvml.nvmlClocksEventReasonSwThermalSlowdown, ["thermal"]),
        (
            pynvml.nvmlClocksEventReasonHwSlowdown | pynvml.nvmlClocksEventReasonHwThermalSlowdown,
            ["thermal", "hardware slowdown"],
        ),
        (pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown, ["power brake"]),
    ],
)
def test_reasons_for_a_low_clock_have_names(driver: FakeDriver, bits: int, names: list[str]):
    driver.reasons = bits
    with Gpus([FIRST]) as found:
        assert found.sample()[0]["throttle_reasons"] == names


def test_everything_is_given_back(driver: FakeDriver):
    with Gpus(None) as found:
        found.sample()
        assert (driver.num_open, len(driver.allocated)) == (1, 4)
    assert (driver.num_open, driver.allocated) == (0, {})


def test_gpus_before_hopper_have_no_activity(driver: FakeDriver):
    driver.has_gpm = False
    with Gpus([FIRST]) as found:
        found.sample()
        assert found.sample()[0]["sm_activity_percent"] is None
    assert found.not_available == dict.fromkeys(ACTIVITIES, "needs Hopper or newer")


def test_old_drivers_are_asked_in_the_old_way(driver: FakeDriver):
    newer = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetCurrentClocksEventReasons", "nvmlGpmQueryDeviceSupport")
    driver.failing = dict.fromkeys(newer, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    driver.reasons = pynvml.nvmlClocksEventReasonSwPowerCap
    with Gpus([FIRST]) as found:
        sample = found.sample()[0]
    assert (sample["temperature_celsius"], sample["throttle_reasons"]) == (65, ["power cap"])
    assert found.not_available == dict.fromkeys(ACTIVITIES, "Function Not Found")


def test_any_call_may_fail_or_be_missing(driver: FakeDriver):
    calls = [name for name in dir(driver) if name.startswith("nvml")]
    unneeded = {"nvmlShutdown", "nvmlGpmSampleFree", "nvmlDeviceGetHandleByUUID"}
    in_two_ways = {name for name in calls if "Temperature" in name or "CurrentClocks" in name}
    for name in calls:
        driver.failing = {name: pynvml.NVML_ERROR_NOT_SUPPORTED}
        with Gpus(None) as found:
            _ = found.properties(), found.sample(), found.sample()
        assert bool(found.not_available) == (name not in unneeded | in_two_ways), name
    driver.failing = {}
    for name in [*calls, "c_nvmlGpmMetricsGet_t", "NVML_CLOCK_SM", "nvmlClocksEventReasonSyncBoost"]:
        removed = vars(driver.module).pop(name)
        with Gpus([FIRST]) as found:
            _ = found.properties(), found.sample(), found.sample()
        setattr(driver.module, name, removed)


def test_a_metric_without_a_value_is_told(driver: FakeDriver):
    with Gpus([FIRST]) as found:
        found.sample()
        driver.busy_percent_seconds = math.nan  # as real ones do between two samples that follow each other at once
        assert found.sample()[0]["tensor_activity_percent"] is None
        assert found.not_available == {}
        driver.metric_error = pynvml.NVML_ERROR_NOT_SUPPORTED
        assert found.sample()[0]["tensor_activity_percent"] is None
    assert found.not_available == dict.fromkeys(ACTIVITIES, "Not Supported")


def test_a_gpu_that_is_lost_in_a_run_has_one_reason_and_the_others_go_on(driver: FakeDriver):
    with Gpus(None) as found:
        found.sample()
        driver.failing = {FIRST: pynvml.NVML_ERROR_GPU_IS_LOST}
        whole, lost = found.sample()
        driver.failing = {}
        found.sample()
        again = found.sample()[1]
    assert whole["power_watts"] == 612.5
    assert lost == {"index": 1} | dict.fromkeys(set(lost) - {"index"})
    assert found.not_available == {"gpu.1": "GPU is lost"}
    assert None not in again.values()


def test_a_gpu_of_another_host_is_named(driver: FakeDriver):
    with Gpus(["abc", FIRST]) as found:
        assert [gpu["index"] for gpu in found.sample()] == [1]
    assert found.not_available == {"gpu.GPU-abc": "Not Found"}


@pytest.mark.skipif(has_driver(), reason="this machine has a driver")
def test_a_machine_without_a_driver_says_so():
    with Gpus(None) as found:
        assert (found.properties(), found.sample()) == ([], [])
    assert found.not_available == {"gpu": "no NVIDIA driver"}


def test_a_driver_that_does_not_fit_says_so(driver: FakeDriver):
    driver.failing = {"nvmlInit": pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH}
    with Gpus([FIRST]) as found:
        assert found.sample() == []
    assert found.not_available == {"gpu": "RM has detected an NVML/RM version mismatch."}


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with Gpus([FIRST]) as found:
        assert found.sample() == []
    assert found.not_available == {"gpu": "the package nvidia-ml-py is not installed"}


def test_who_trains_without_gpus_does_not_load_the_library(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with Gpus([]) as found:
        assert found.sample() == []
    assert found.not_available == {"gpu": "training uses none"}


@pytest.mark.parametrize(
    "before, now, expected", [(3, 5, 2), (5, 5, 0), (5, 3, None), (None, 3, None), (3, None, None)]
)
def test_a_counter_never_grows_by_less_than_nothing(before: int | None, now: int | None, expected: int | None):
    assert growth(before, now) == expected


@pytest.mark.skipif(not has_driver(), reason="no GPU")
def test_a_real_gpu_answers():
    with Gpus(None) as found:
        found.sample()
        time.sleep(0.2)
        sample = found.sample()[0]
        properties = found.properties()[0]
    assert properties["uuid"].startswith("GPU-")
    assert properties["memory_bytes"] > sample["memory_used_bytes"] >= 0
    assert {what for what in found.not_available if what not in ACTIVITIES} == set()
    assert 0 <= sample["utilisation_percent"] <= 100
    assert sample["energy_joules"] >= 0
    if not found.not_available:
        assert all(0 <= sample[f"{what}_activity_percent"] <= 100 for what in ("sm", "tensor", "memory"))
