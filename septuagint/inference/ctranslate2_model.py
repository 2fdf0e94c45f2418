"""Our weights as a CTranslate2 model: every preset, built from CTranslate2's own specification, no converter between.

Queries, keys and values lie in one matrix in both, so most tensors go over as they are. Sinusoids are written out as a
table, since CTranslate2 would count positions from 1 and we count from 2; rotary positions are computed there as here.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from ctranslate2.specs import common_spec, transformer_spec
from torch import Tensor

from septuagint.config import ModelConfig
from septuagint.data.vocabulary import BOS, EOS, UNK, Vocabulary
from septuagint.model.transformer import NORM_EPSILON, ROTARY_BASE, position_table

Quantization = Literal[
    "float32", "float16", "bfloat16", "int16", "int8", "int8_float32", "int8_float16", "int8_bfloat16"
]
QUANTIZATIONS: tuple[str, ...] = get_args(Quantization)
# Longer texts than this are never given to a model in one piece, nor written by it.
NUM_POSITIONS = 1026


def write_ctranslate2(
    folder: Path, *, weights: Mapping[str, Tensor], model: ModelConfig, vocabulary: Vocabulary, quantization: str
) -> None:
    """Fills an existing folder with what `ctranslate2.Translator` loads."""
    assert quantization in QUANTIZATIONS
    spec = transformer_spec.TransformerSpec(_encoder(weights, model), _decoder(weights, model))
    pieces = vocabulary.pieces
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.bos_token = pieces[BOS]
    spec.config.eos_token = pieces[EOS]
    spec.config.unk_token = pieces[UNK]
    spec.config.decoder_start_token = pieces[EOS]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = NORM_EPSILON
    spec.validate()
    spec.optimize(quantization=None if quantization == "float32" else quantization)
    spec.save(str(folder))


def _options(model: ModelConfig) -> dict[str, Any]:
    is_gated = model.feedforward == "swiglu"
    options: dict[str, Any] = {
        "num_heads": model.num_heads,
        "pre_norm": True,
        "activation": common_spec.Activation.SWISH if is_gated else common_spec.Activation.RELU,
        "ffn_glu": is_gated,
        "rms_norm": model.norm == "rms",
    }
    if model.positions == "rotary":
        options |= {"rotary_dim": 0, "rotary_interleave": False, "rotary_base": ROTARY_BASE}
    return options


def _encoder(weights: Mapping[str, Tensor], model: ModelConfig) -> transformer_spec.TransformerEncoderSpec:
    spec = transformer_spec.TransformerEncoderSpec(model.num_encoder_layers, **_options(model))
    spec.embeddings[0].weight = weights["embeddings.weight"]
    _set_positions(spec, weights, model)
    _set_norm(spec.layer_norm, weights, "encoder_norm")
    for index, layer in enumerate(spec.layer):
        name = f"encoder.{index}"
        _set_self_attention(layer.self_attention, weights, name)
        _set_feedforward(layer.ffn, weights, name, model)
    return spec


def _decoder(weights: Mapping[str, Tensor], model: ModelConfig) -> transformer_spec.TransformerDecoderSpec:
    spec = transformer_spec.TransformerDecoderSpec(model.num_decoder_layers, **_options(model))
    spec.embeddings.weight = weights["embeddings.weight"]
    spec.projection.weight = weights["embeddings.weight"]
    _set_positions(spec, weights, model)
    _set_norm(spec.layer_norm, weights, "decoder_norm")
    for index, layer in enumerate(spec.layer):
        name = f"decoder.{index}"
        _set_self_attention(layer.self_attention, weights, name)
        _set_norm(layer.attention.layer_norm, weights, f"{name}.cross_attention_norm")
        for place, part in enumerate(("query", "key_value", "output")):
            _set_linear(layer.attention.linear[place], weights, f"{name}.cross_attention.{part}")
        _set_feedforward(layer.ffn, weights, name, model)
    return spec


def _set_positions(spec: Any, weights: Mapping[str, Tensor], model: ModelConfig) -> None:
    spec.scale_embeddings = True
    if model.positions == "sinusoidal":
        spec.position_encodings.encodings = position_table(model, NUM_POSITIONS)


def _set_self_attention(spec: Any, weights: Mapping[str, Tensor], name: str) -> None:
    _set_norm(spec.layer_norm, weights, f"{name}.self_attention_norm")
    _set_linear(spec.linear[0], weights, f"{name}.self_attention.query_key_value")
    _set_linear(spec.linear[1], weights, f"{name}.self_attention.output")


def _set_feedforward(spec: Any, weights: Mapping[str, Tensor], name: str, model: ModelConfig) -> None:
    _set_norm(spec.layer_norm, weights, f"{name}.feedforward_norm")
    _set_linear(spec.linear_1, weights, f"{name}.feedforward.output")
    if model.feedforward == "relu":
        _set_linear(spec.linear_0, weights, f"{name}.feedforward.input")
        return
    # One matrix here, two there: the first half gates the second.
    halves = (spec.linear_0, spec.linear_0_noact)
    for half, part in zip(halves, weights[f"{name}.feedforward.input.weight"].chunk(2), strict=True):
        half.weight = part.contiguous()
    if (bias := weights.get(f"{name}.feedforward.input.bias")) is not None:
        for half, part in zip(halves, bias.chunk(2), strict=True):
            half.bias = part.contiguous()


def _set_linear(spec: Any, weights: Mapping[str, Tensor], name: str) -> None:
    spec.weight = weights[f"{name}.weight"]
    if (bias := weights.get(f"{name}.bias")) is not None:
        spec.bias = bias


def _set_norm(spec: Any, weights: Mapping[str, Tensor], name: str) -> None:
    spec.gamma = weights[f"{name}.weight"]
    if (bias := weights.get(f"{name}.bias")) is not None:
        spec.beta = bias
