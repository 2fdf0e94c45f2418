"""The GPUs of this host, as NVIDIA's management library (NVML) sees them. It may be missing, or fail at any call.

What cannot be read is None, and `not_available` says why.
"""

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

_T = TypeVar("_T")
_ACTIVITIES = ("sm_activity", "tensor_activity", "memory_activity")


def ask(read: Callable[[], _T], what: str, reasons: dict[str, str]) -> _T | None:
    """What `read` returns. None where it fails: `reasons` then has the first reason that was found for `what`."""
    try:
        return read()
    except Exception as error:  # drivers, and libraries of other versions, fail in ways of their own
        reasons.setdefault(what, str(error) or type(error).__name__)
        return None


def growth(before: int | None, now: int | None) -> int | None:
    """By how much a counter grew. None where it is missing, or went back: it wrapped, or what it counts is new."""
    return None if before is None or now is None or now < before else now - before


@dataclass(kw_only=True, slots=True)
class _Gpu:
    handle: Any
    index: int  # as nvidia-smi counts
    activity: "_Activity | None" = None
    energy_millijoules: int | None = None  # at the sample before, since the driver was loaded


class Gpus:
    """Some GPUs, by uuid (with or without "GPU-" before it), or all where None is given. For one thread.

    Used in a `with` statement. `not_available` grows when something fails later on.
    """

    def __init__(self, uuids: Sequence[str] | None) -> None:
        self._uuids = uuids
        self._nvml: Any = None
        self._gpus: list[_Gpu] = []
        self.not_available: dict[str, str] = {}

    def __enter__(self) -> Self:
        if self._uuids is not None and not self._uuids:
            self.not_available["gpu"] = "training uses none"
        elif ask(self._open, "gpu", self.not_available) is not None:
            handles = [handle for handle in self._find() if handle is not None]
            self._gpus = [self._prepare(handle, position) for position, handle in enumerate(handles)]
            if not handles:
                self.not_available.setdefault("gpu", "none was found")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._nvml is None:
            return
        for gpu in self._gpus:
            if gpu.activity is not None:
                gpu.activity.close()
        with contextlib.suppress(Exception):
            self._nvml.nvmlShutdown()

    def properties(self) -> list[dict[str, Any]]:
        """What stays the same: for the `hardware` event."""
        return [self._properties(gpu) for gpu in self._gpus]

    def sample(self) -> list[dict[str, Any]]:
        """For the `machine` event. Energy and activity are since the sample before: the first has none."""
        return [self._sample(gpu) for gpu in self._gpus]

    def _open(self) -> bool:
        try:
            import pynvml as nvml  # type: ignore[import-untyped]  # it has no types
        except ImportError:
            raise RuntimeError("the package nvidia-ml-py is not installed") from None
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            if error.value in (nvml.NVML_ERROR_LIBRARY_NOT_FOUND, nvml.NVML_ERROR_DRIVER_NOT_LOADED):
                raise RuntimeError("no NVIDIA driver") from None
            raise
        self._nvml = nvml
        return True

    def _find(self) -> list[Any]:
        """Handles; None for a GPU that is not on this host."""
        nvml, reasons = self._nvml, self.not_available

        def by_index(index: int) -> Any:
            return nvml.nvmlDeviceGetHandleByIndex(index)

        def by_uuid(uuid: str) -> Any:
            return nvml.nvmlDeviceGetHandleByUUID(uuid)

        if self._uuids is None:
            num_gpus = ask(lambda: int(nvml.nvmlDeviceGetCount()), "gpu", reasons) or 0
            return [ask(partial(by_index, index), f"gpu.{index}", reasons) for index in range(num_gpus)]
        # Several ranks may share a GPU. torch gives the uuids without their prefix.
        names = dict.fromkeys(uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}" for uuid in self._uuids)
        return [ask(partial(by_uuid, name), f"gpu.{name}", reasons) for name in names]

    def _prepare(self, handle: Any, position: int) -> _Gpu:
        index = ask(lambda: int(self._nvml.nvmlDeviceGetIndex(handle)), "gpu.index", self.not_available)
        failure: dict[str, str] = {}
        activity = ask(partial(_Activity, self._nvml, handle), "gpu", failure)
        if activity is None:
            self._explain({f"gpu.{what}": failure["gpu"] for what in _ACTIVITIES})
        return _Gpu(handle=handle, index=position if index is None else index, activity=activity)

    def _explain(self, reasons: dict[str, str]) -> None:
        self.not_available = reasons | self.not_available

    def _properties(self, gpu: _Gpu) -> dict[str, Any]:
        nvml, handle = self._nvml, gpu.handle

        def get(what: str, read: Callable[[], _T]) -> _T | None:
            return ask(read, f"gpu.{what}", self.not_available)

        return {
            "index": gpu.index,
            "uuid": get("uuid", lambda: _text(nvml.nvmlDeviceGetUUID(handle))),
            "name": get("name", lambda: _text(nvml.nvmlDeviceGetName(handle))),
            "memory_bytes": get("memory", lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total)),
            "power_limit_watts": get("power_limit", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000),
        }

    def _sample(self, gpu: _Gpu) -> dict[str, Any]:
        nvml, handle, reasons = self._nvml, gpu.handle, dict[str, str]()

        def get(what: str, read: Callable[[], _T]) -> _T | None:
            return ask(read, f"gpu.{what}", reasons)

        energy = get("energy", lambda: int(nvml.nvmlDeviceGetTotalEnergyConsumption(handle)))
        millijoules = growth(gpu.energy_millijoules, energy)
        if energy is not None:  # what is missed now is in the next one: sums are whole
            gpu.energy_millijoules = energy
        values = {
            "utilisation_percent": get("utilisation", lambda: int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)),
            "memory_used_bytes": get("memory_used", lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).used)),
            "power_watts": get("power", lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000),
            "energy_joules": None if millijoules is None else millijoules / 1000,
            "sm_clock_mhz": get("sm_clock", lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            "memory_clock_mhz": get("memory_clock", lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
            "temperature_celsius": get("temperature", lambda: _temperature(nvml, handle)),
            "throttle_reasons": get("throttle_reasons", lambda: _throttle_reasons(nvml, handle)),
            **self._activities(gpu, reasons),
        }
        if all(value is None for value in values.values()):  # the GPU is gone, which one reason says better than ten
            reasons = {f"gpu.{gpu.index}": next(iter(reasons.values()), "nothing can be read")}
        self._explain(reasons)
        return {"index": gpu.index, **values}

    def _activities(self, gpu: _Gpu, reasons: dict[str, str]) -> dict[str, float | None]:
        failure: dict[str, str] = {}
        answers = None if gpu.activity is None else ask(gpu.activity.read, "gpu", failure)
        if failure:
            reasons |= {f"gpu.{what}": failure["gpu"] for what in _ACTIVITIES}
        if not answers:
            return {f"{what}_percent": None for what in _ACTIVITIES}
        return {
            f"{what}_percent": ask(partial(_percent, self._nvml, answer), f"gpu.{what}", reasons)
            for what, answer in zip(_ACTIVITIES, answers, strict=True)
        }


class _Activity:
    """How busy the units of a GPU were between two samples of its counters (GPM). Not every GPU has them."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        if not nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            raise RuntimeError("needs Hopper or newer")
        self._nvml, self._handle = nvml, handle
        self._metrics = (  # in the order of _ACTIVITIES
            nvml.NVML_GPM_METRIC_SM_UTIL,
            nvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
            nvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
        )
        self._samples = [nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()]  # the one before, and the latest
        self._has_sample = False

    def read(self) -> list[Any]:
        """What NVML says of each metric since the call before. Empty at the first."""
        nvml = self._nvml
        has_before, self._has_sample = self._has_sample, False
        nvml.nvmlGpmSampleGet(self._handle, self._samples[0])
        self._samples.reverse()
        self._has_sample = True
        if not has_before:
            return []
        request = nvml.c_nvmlGpmMetricsGet_t()
        request.version = nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(self._metrics)
        request.sample1, request.sample2 = self._samples
        for index, metric in enumerate(self._metrics):
            request.metrics[index].metricId = metric
        nvml.nvmlGpmMetricsGet(request)
        return [request.metrics[index] for index in range(len(self._metrics))]

    def close(self) -> None:
        for sample in self._samples:
            with contextlib.suppress(Exception):
                self._nvml.nvmlGpmSampleFree(sample)


def _percent(nvml: Any, answer: Any) -> float | None:
    """None for NaN, which an H200 says of its memory where nothing was counted since the sample before."""
    if answer.nvmlReturn != nvml.NVML_SUCCESS:
        raise nvml.NVMLError(answer.nvmlReturn)
    return round(float(answer.value), 2) if math.isfinite(answer.value) else None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _temperature(nvml: Any, handle: Any) -> int:
    """Old drivers lack the one call; the other is to be removed."""
    try:
        return int(nvml.nvmlDeviceGetTemperatureV(handle, nvml.NVML_TEMPERATURE_GPU))
    except Exception:
        return int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))


def _throttle_reasons(nvml: Any, handle: Any) -> list[str]:
    """Why the clock is lower than it could be. Being idle, and clocks that somebody has set, do not count."""
    try:
        bits = nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    except Exception:
        bits = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    thermal = nvml.nvmlClocksEventReasonSwThermalSlowdown | nvml.nvmlClocksEventReasonHwThermalSlowdown
    names = {
        "power cap": nvml.nvmlClocksEventReasonSwPowerCap,
        "thermal": thermal,
        "hardware slowdown": nvml.nvmlClocksEventReasonHwSlowdown,
        "power brake": nvml.nvmlClocksEventReasonHwPowerBrakeSlowdown,
        "sync boost": nvml.nvmlClocksEventReasonSyncBoost,
    }
    return [name for name, bit in names.items() if bits & bit]
