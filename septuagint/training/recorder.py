"""Recording: forward and backward pass as one CUDA graph.

A host needs longer to launch the thousand small kernels of a pass than a GPU to run them, when packs are small. Every
pack has the same shape, so a pass is recorded once, and then replayed on whatever lies in the same place.
"""

from collections.abc import Callable
from dataclasses import fields

import torch
from torch import Tensor, nn

from septuagint.batch import PackedBatch

# (batch, gradient scale) -> (loss sum, tokens), with gradients added to the parameters'.
Pass = Callable[[PackedBatch, Tensor | None], tuple[Tensor, Tensor]]


class Recorder:
    """Passes of one training on one GPU.

    There are two recordings: that of a step's first pack leaves new gradients, that of the others adds to them.
    """

    def __init__(self, run: Pass, model: nn.Module, device: torch.device) -> None:
        self._run = run
        self._model = model
        self._parameters = list(model.parameters())
        self._device = device
        self._batch: PackedBatch | None = None
        self._scale: Tensor | None = None
        self._graphs: dict[bool, tuple[torch.cuda.CUDAGraph, Tensor, Tensor]] = {}
        self._gradients: list[Tensor | None] = []
        self._buffers: list[Tensor] = []  # as they were: a table that grows is another, and the recording has the old
        self._is_warm = False

    def load(self, batch: PackedBatch, scale: Tensor | None) -> None:
        """Puts a pack where the recording reads it; from pinned memory the copy runs beside other work."""
        if self._batch is None:
            self._batch = batch.to(self._device)
            self._scale = None if scale is None else scale.clone()
            return
        for field in fields(batch):
            getattr(self._batch, field.name).copy_(getattr(batch, field.name), non_blocking=True)
        if self._scale is not None and scale is not None:
            self._scale.copy_(scale)

    def replay(self, *, is_first: bool) -> tuple[Tensor, Tensor]:
        """(loss sum, tokens) of the pack that was loaded, the first of a step or another."""
        if is_first not in self._graphs:
            self._record(is_first)
        graph, loss, count = self._graphs[is_first]
        graph.replay()
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient
        return loss, count

    def release(self) -> None:
        """Gives the memory of the recordings back. The next pass is recorded anew, which takes half a second."""
        self._graphs.clear()
        self._gradients.clear()

    def make_room(self) -> None:
        """Before other work on the GPU: what is recorded keeps its memory, so much only where there is plenty."""
        reserved = torch.cuda.memory_reserved(self._device)
        if reserved > torch.cuda.get_device_properties(self._device).total_memory / 2:
            self.release()
            torch.cuda.empty_cache()

    def _record(self, is_first: bool) -> None:
        assert self._batch is not None
        if not self._is_warm:  # kernels are compiled and loaded now: that cannot be recorded
            with torch.random.fork_rng(devices=[self._device]):  # the replay drops what a first pass would drop
                self._run(self._batch, self._scale)
            self._is_warm = True
        if is_first:  # without gradients there is nothing to add to
            for parameter in self._parameters:
                parameter.grad = None
        graph = torch.cuda.CUDAGraph()
        pool = None if is_first else self._graphs[True][0].pool()
        # The loader's thread may ask for pinned memory meanwhile.
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            loss, count = self._run(self._batch, self._scale)
        self._graphs[is_first] = graph, loss, count
        if is_first:
            self._buffers = list(self._model.buffers())
            self._gradients = [parameter.grad for parameter in self._parameters]
