"""A mirror of the record for TensorBoard. It may be missing or fail: the record is elsewhere, and the run goes on."""

import re
import threading
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from septuagint.telemetry.events import STEP_PARTS, Event, Warn, escape_controls, number

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

# More than one event has; the writer's own 10 would have training wait for its thread.
_QUEUE_LENGTH = 1000
_TRAIN_FIELDS = (
    "loss_nats_per_token",
    "learning_rate",
    "gradient_norm",
    "target_tokens_per_second",
    "seconds_per_step",
    "loss_scale",
    "epochs",
)


_PERFORMANCE_FIELDS = (
    *(f"{part}_seconds_per_step" for part in STEP_PARTS),
    "model_flop_utilisation",
)
_NETWORK_FIELDS = ("sent_bytes_per_second", "received_bytes_per_second")
_HOST_FIELDS = ("cpu_percent", "memory_used_bytes")
_GPU_FIELDS = (
    "utilisation_percent",
    "memory_used_bytes",
    "power_watts",
    "temperature_celsius",
    "sm_activity_percent",
    "tensor_activity_percent",
)


class TensorBoardMirror:
    """Draws events at their step and time; `write` is a sink of the record.

    Points beyond `start_step` that an earlier attempt left are hidden: that stretch is done again.
    """

    def __init__(self, folder: Path, start_step: int, warn: Warn) -> None:
        self._warn = warn
        self._writer: SummaryWriter | None = None
        self._excepthook = threading.excepthook
        threading.excepthook = self._pass_over_writer
        try:
            from torch.utils import tensorboard

            self._writer = tensorboard.SummaryWriter(folder, purge_step=start_step + 1, max_queue=_QUEUE_LENGTH)
        except Exception as error:  # whatever is wrong with the library, training does not need it
            self._give_up(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if self._writer is not None:
                self._writer.close()
        except Exception as error:
            self._give_up(error)
        finally:
            threading.excepthook = self._excepthook

    def write(self, event: Event) -> None:
        """The sink."""
        if self._writer is None:
            return
        try:
            for tag, value in scalars(event).items():
                self._writer.add_scalar(tag, value, event["step"], event["time"])
            if event["event"] == "sample":
                self._writer.add_text("valid/sample", sample_text(event), event["step"], event["time"])
            elif event["event"] == "checkpoint":
                # A resumed run draws only what comes after the checkpoint: what came before has to be there.
                self._writer.flush()
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._writer = None
        self._warn(f"nothing more is written for TensorBoard ({error}); the record and the log are not concerned")

    def _pass_over_writer(self, args: threading.ExceptHookArgs) -> None:
        """The writer's thread dies with a traceback on a full disk; the next call says so in a sentence."""
        if not type(args.thread).__module__.startswith("tensorboard."):
            self._excepthook(args)


def scalars(event: Event) -> dict[str, float]:
    """The points that an event gives, by tag. A value that is not finite is a point too: TensorBoard marks it."""
    points: dict[str, float | None] = {}
    if event["event"] == "train":
        points = {f"train/{field}": number(event, field) for field in _TRAIN_FIELDS}
        points |= {f"perf/{field}": number(event, field) for field in _PERFORMANCE_FIELDS}
    elif event["event"] == "machine":
        points = _machine_scalars(event)
    elif event["event"] == "validation":
        # Averaged weights are scored beside the current ones at the same step.
        group = "valid_average" if event.get("weights", "").startswith("average") else "valid"
        points = {
            f"{group}/loss_nats_per_token": number(event, "valid_loss_nats_per_token"),
            f"{group}/bleu": number(event, "bleu"),
            f"{group}/chrf": number(event, "chrf"),
        }
        if group == "valid":
            points["train_sample/loss_nats_per_token"] = number(event, "train_sample_loss_nats_per_token")
    return {tag: value for tag, value in points.items() if value is not None}


def _machine_scalars(event: Event) -> dict[str, float | None]:
    host = event.get("host")
    points = {f"net/{host}/{field}": number(event, field) for field in _NETWORK_FIELDS}
    points |= {f"host/{host}/{field}": number(event, field) for field in _HOST_FIELDS}
    for gpu in event.get("gpus") or ():
        points |= {f"gpu/{host}.{gpu.get('index')}/{field}": number(gpu, field) for field in _GPU_FIELDS}
    return points


def sample_text(event: Event) -> str:
    """Markdown that shows the three texts as they are: what could be markup is written as HTML entities."""
    fields = ("source", "reference", "translation")
    return "\n\n".join(f"**{field}:** {_entities(escape_controls(event[field]))}" for field in fields)


def _entities(text: str) -> str:
    return re.sub(r"[!-/:-@\[-`{-~]", lambda found: f"&#{ord(found[0])};", text)
