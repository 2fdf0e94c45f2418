"""The training pass as a GPU does it fastest: the same network as `transformer`, with 16-bit numbers between layers.

Products are cuBLAS's; all that stands between them is in `kernels`. The weights are rounded to 16 bits once for a pass,
and their gradients come out of the products in 32 bits. Nothing here reads anything back to the host, so that a pass
can be recorded and replayed. It needs Triton: `attention.has_kernels` says whether this can be imported.

T target tokens, S source tokens, D width, F numbers in the middle of a feed-forward block, V vocabulary;
C copies of N target tokens.
"""

import math
from typing import Any, cast

import torch
from torch import Tensor, nn

from septuagint.batch import IGNORE, PackedBatch
from septuagint.model.attention import Layout, Relation
from septuagint.model.kernels.activation import relu_back, swiglu, swiglu_back
from septuagint.model.kernels.attention import attend_across, attend_within
from septuagint.model.kernels.embedding import Words, embed
from septuagint.model.kernels.loss import cross_entropy_in_place
from septuagint.model.kernels.residual import Drops, add_and_normalise
from septuagint.model.transformer import NORM_EPSILON, DecoderLayer, EncoderLayer, FeedForward, Transformer

# What logits may take of the GPU's memory: beyond it, they are made for a part of the tokens at a time.
_LOGITS_SHARE = 1 / 32


class HalfWeights:
    """The weights that products read, rounded to 16 bits."""

    def __init__(self, model: Transformer, dtype: torch.dtype) -> None:
        maps = [module for module in model.modules() if isinstance(module, nn.Linear)]
        self._weights = [model.embeddings.weight, *(parameter for linear in maps for parameter in linear.parameters())]
        self._halves = [torch.empty_like(weight, dtype=dtype, requires_grad=False) for weight in self._weights]
        self._half_of = {id(weight): half for weight, half in zip(self._weights, self._halves, strict=True)}

    def refresh(self) -> None:
        """Rounds the weights as they are now."""
        with torch.no_grad():
            torch._foreach_copy_(self._halves, self._weights)

    def of(self, weight: Tensor) -> Tensor:
        """A weight, rounded."""
        return self._half_of[id(weight)]


class FastPass:
    """One forward pass over a batch."""

    def __init__(self, model: Transformer, halves: HalfWeights, layout: Layout) -> None:
        self._model = model
        self._halves = halves
        self._layout = layout
        share = model.config.dropout if model.training else 0.0
        seed = torch.randint(1 << 30, (), dtype=torch.int32, device=model.embeddings.weight.device) if share else None
        self._drops = Drops(share=share, seed=seed)
        halves.refresh()

    def hidden_states(self, batch: PackedBatch) -> Tensor:
        """Hidden states of the target tokens (T, D)."""
        model = self._model
        stream_SD, stream_TD = self._embed(batch)
        stream_SD, normed_SD = self._add(stream_SD, None, None, _first_norm(model.encoder))
        for layer, next_norm in _with_next_norm(model.encoder, model.encoder_norm):
            assert isinstance(layer, EncoderLayer)
            attended_SD = self._attend_within(normed_SD, layer, self._layout.encoder)
            output = layer.self_attention.output
            stream_SD, normed_SD = self._add(stream_SD, attended_SD, output.bias, layer.feedforward_norm)
            changed_SD = self._feed_forward(normed_SD, layer.feedforward)
            stream_SD, normed_SD = self._add(stream_SD, changed_SD, layer.feedforward.output.bias, next_norm)
        memory_SD = normed_SD
        stream_TD, normed_TD = self._add(stream_TD, None, None, _first_norm(model.decoder))
        for layer, next_norm in _with_next_norm(model.decoder, model.decoder_norm):
            assert isinstance(layer, DecoderLayer)
            attended_TD = self._attend_within(normed_TD, layer, self._layout.decoder)
            output = layer.self_attention.output
            stream_TD, normed_TD = self._add(stream_TD, attended_TD, output.bias, layer.cross_attention_norm)
            attended_TD = self._attend_across(normed_TD, memory_SD, layer)
            output = layer.cross_attention.output
            stream_TD, normed_TD = self._add(stream_TD, attended_TD, output.bias, layer.feedforward_norm)
            changed_TD = self._feed_forward(normed_TD, layer.feedforward)
            stream_TD, normed_TD = self._add(stream_TD, changed_TD, layer.feedforward.output.bias, next_norm)
        return normed_TD

    def loss(
        self,
        hidden_TD: Tensor,
        labels_T: Tensor,
        *,
        label_smoothing: float,
        consistency: float = 0.0,
        gradient_scale: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """(sum of the losses in nats, number of tokens that have a label): as `loss.token_loss`."""
        weight = self._model.embeddings.weight
        loss: Tensor = _Loss.apply(  # type: ignore[no-untyped-call]  # torch does not type it, here and below
            hidden_TD, weight, self._halves.of(weight), labels_T, label_smoothing, consistency, gradient_scale
        )
        return loss, (labels_T != IGNORE).sum()

    def _embed(self, batch: PackedBatch) -> tuple[Tensor, Tensor]:
        model, weight = self._model, self._model.embeddings.weight
        tiles = self._layout.cross.tiles
        assert tiles is not None
        source = Words(ids=batch.source_ids_S, positions=tiles.keys.positions)
        target = Words(ids=batch.target_ids_T, positions=tiles.queries.positions)
        sinusoids = model.position_table if model.config.positions == "sinusoidal" else None
        scale = math.sqrt(model.config.width)
        return embed(source, target, weight, self._halves.of(weight), sinusoids, scale, self._drops)

    def _add(
        self, stream: Tensor, branch: Tensor | None, bias: Tensor | None, norm: nn.Module
    ) -> tuple[Tensor, Tensor]:
        """(the stream with what a block says added, that normalised for the next block)."""
        assert isinstance(norm, nn.LayerNorm | nn.RMSNorm)
        shift = norm.bias if isinstance(norm, nn.LayerNorm) else None
        return add_and_normalise(stream, branch, bias, norm.weight, shift, self._drops, NORM_EPSILON)

    def _attend_within(self, normed: Tensor, layer: EncoderLayer | DecoderLayer, relation: Relation) -> Tensor:
        block = layer.self_attention
        assert relation.tiles is not None
        rotations = self._model.position_table if block.is_rotary else None
        projected = self._linear(normed, block.query_key_value)
        attended = attend_within(projected, relation.tiles, rotations, block.num_heads, relation.is_causal)
        return self._linear(attended, block.output, with_bias=False)

    def _attend_across(self, normed_TD: Tensor, memory_SD: Tensor, layer: DecoderLayer) -> Tensor:
        block, tiles = layer.cross_attention, self._layout.cross.tiles
        assert tiles is not None
        query_TD, key_value_SX = self._linear(normed_TD, block.query), self._linear(memory_SD, block.key_value)
        attended_TD = attend_across(query_TD, key_value_SX, tiles, block.num_heads)
        return self._linear(attended_TD, block.output, with_bias=False)

    def _linear(self, x: Tensor, linear: nn.Linear, *, with_bias: bool = True) -> Tensor:
        bias = linear.bias if with_bias else None
        half_bias = None if bias is None else self._halves.of(bias)
        result: Tensor = _Linear.apply(x, linear.weight, self._halves.of(linear.weight), bias, half_bias)  # type: ignore[no-untyped-call]
        return result

    def _feed_forward(self, x: Tensor, block: FeedForward) -> Tensor:
        """Without the bias of the output."""
        first, second, bias = block.input.weight, block.output.weight, block.input.bias
        half_bias = None if bias is None else self._halves.of(bias)
        halves = self._halves.of(first), self._halves.of(second)
        result: Tensor = _FeedForward.apply(x, first, second, bias, *halves, half_bias, block.is_gated)  # type: ignore[no-untyped-call]
        return result


def _first_norm(layers: nn.ModuleList) -> nn.Module:
    return cast(EncoderLayer | DecoderLayer, layers[0]).self_attention_norm


def _with_next_norm(layers: nn.ModuleList, last: nn.Module) -> list[tuple[nn.Module, nn.Module]]:
    """Each layer with the norm that what it says goes through next: that of the next layer, or the last."""
    norms = [cast(EncoderLayer | DecoderLayer, layer).self_attention_norm for layer in layers]
    return list(zip(layers, [*norms[1:], last], strict=True))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, half: Tensor, bias: Tensor | None, half_bias: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(x, half)
        ctx.dtype, ctx.has_bias = weight.dtype, bias is not None
        return _affine(x, half, half_bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, half = ctx.saved_tensors
        weight_gradient = _product(gradient.T, x, ctx.dtype)
        bias_gradient = _column_sums(gradient, ctx.dtype) if ctx.has_bias else None
        return gradient @ half, weight_gradient, None, bias_gradient, None


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        first: Tensor,
        second: Tensor,
        bias: Tensor | None,
        half_first: Tensor,
        half_second: Tensor,
        half_bias: Tensor | None,
        is_gated: bool,
    ) -> Tensor:
        both: Tensor | None = None
        if is_gated:
            both = _affine(x, half_first, half_bias)
            inner = swiglu(both)
        elif half_bias is None:
            inner = (x @ half_first.T).relu_()
        else:
            inner = torch._addmm_activation(half_bias, x, half_first.T)  # ReLU as part of the product
        ctx.save_for_backward(x, half_first, half_second, both, inner)
        ctx.dtype, ctx.has_bias = first.dtype, bias is not None
        return inner @ half_second.T

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, half_first, half_second, both, inner = ctx.saved_tensors
        second_gradient = _product(gradient.T, inner, ctx.dtype)
        inner_gradient = gradient @ half_second
        if both is None:
            sums = relu_back(inner_gradient, inner)
            bias_gradient = sums if ctx.has_bias else None
        else:
            inner_gradient = swiglu_back(inner_gradient, both)
            bias_gradient = _column_sums(inner_gradient, ctx.dtype) if ctx.has_bias else None
        first_gradient = _product(inner_gradient.T, x, ctx.dtype)
        return inner_gradient @ half_first, first_gradient, second_gradient, bias_gradient, None, None, None, None


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden_TD: Tensor,
        weight_VD: Tensor,
        half_VD: Tensor,
        labels_T: Tensor,
        label_smoothing: float,
        consistency: float,
        gradient_scale: Tensor | None,
    ) -> Tensor:
        with_gradient = any(ctx.needs_input_grad[:2])
        total = torch.zeros((), dtype=torch.float32, device=hidden_TD.device)
        num_copies = 2 if consistency else 1
        hidden_CND = hidden_TD.reshape(num_copies, -1, hidden_TD.shape[1])
        labels_CN = labels_T.reshape(num_copies, -1)
        hidden_gradient_CND = torch.empty_like(hidden_CND) if with_gradient else None
        weight_gradient_VD: Tensor | None = None
        for tokens in _parts(labels_CN, half_VD):
            hidden, labels = (whole[:, tokens].flatten(0, 1) for whole in (hidden_CND, labels_CN))
            logits = hidden @ half_VD.T
            losses = cross_entropy_in_place(
                logits, labels, label_smoothing, consistency, gradient_scale, with_gradient=with_gradient
            )
            total += losses.sum()
            if hidden_gradient_CND is None:
                continue
            for copy, gradient in zip(logits.chunk(num_copies), hidden_gradient_CND[:, tokens], strict=True):
                torch.mm(copy, half_VD, out=gradient)
            product = _product(logits.T, hidden, weight_VD.dtype)
            weight_gradient_VD = product if weight_gradient_VD is None else weight_gradient_VD.add_(product)
        if hidden_gradient_CND is not None:
            ctx.save_for_backward(hidden_gradient_CND.flatten(0, 1), weight_gradient_VD)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        hidden_gradient_TD, weight_gradient_VD = ctx.saved_tensors
        factor = gradient.to(hidden_gradient_TD.dtype)
        return hidden_gradient_TD * factor, weight_gradient_VD * gradient, None, None, None, None, None


def _parts(labels_CN: Tensor, half_VD: Tensor) -> list[slice]:
    """Tokens whose logits exist at a time, in all copies."""
    num_copies, num_tokens = labels_CN.shape
    if half_VD.device.type != "cuda":
        return [slice(0, num_tokens)]
    room = torch.cuda.get_device_properties(half_VD.device).total_memory * _LOGITS_SHARE
    size = max(1024, int(room / (num_copies * len(half_VD) * half_VD.element_size())))
    return [slice(first, min(first + size, num_tokens)) for first in range(0, num_tokens, size)]


def _affine(x: Tensor, half: Tensor, half_bias: Tensor | None) -> Tensor:
    return x @ half.T if half_bias is None else torch.addmm(half_bias, x, half.T)


def _product(left: Tensor, right: Tensor, dtype: torch.dtype) -> Tensor:
    """A product of 16-bit matrices as it was added up, in 32 bits."""
    return left @ right if left.dtype == dtype else torch.mm(left, right, out_dtype=dtype)


def _column_sums(matrix: Tensor, dtype: torch.dtype) -> Tensor:
    """The sum of the rows, as a product: torch's own sum over the first dimension takes longer."""
    return _product(matrix.new_ones(8, len(matrix)), matrix, dtype)[0]
