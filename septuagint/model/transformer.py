"""The Transformer: one encoder-decoder for all presets, over packed batches, and step by step for decoding.

Pre-norm throughout; one embedding matrix serves source, target and output; no bias on the output. `norm = "layer"`
has biases in its linear maps, `"rms"` has none. Attention probabilities are never dropped: no packed kernel does that.

T target tokens, S source tokens, D width, H heads, B sentences, K = D / H.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from septuagint.batch import PackedBatch
from septuagint.config import ModelConfig
from septuagint.model.attention import Layout, Relation, packed_attention
from septuagint.model.dropout import Dropout

# Sinusoids are counted as Hugging Face's M2M100 counts them with pad = 1: the first token is at position 2.
FIRST_SINUSOID = 2
_NORM_EPSILON = 1e-5
_ROTARY_BASE = 10_000.0
# Positions that are computed ahead; longer texts make the tables grow.
_NUM_POSITIONS = 512


@dataclass(kw_only=True, slots=True)
class LayerCache:
    """What a decoder layer remembers: its own keys and values so far, and those of the source."""

    keys_BHTK: Tensor
    values_BHTK: Tensor
    source_keys_BHSK: Tensor
    source_values_BHSK: Tensor


@dataclass(kw_only=True, slots=True)
class DecodingState:
    """Sentences half translated: a cache per layer, which source positions are real, and how many tokens are out."""

    layers: list[LayerCache]
    is_source_B11S: Tensor
    length: int = 0

    def select(self, rows: Tensor) -> None:
        """Goes on with these sentences only, in this order."""
        for cache in self.layers:
            cache.keys_BHTK = cache.keys_BHTK[rows]
            cache.values_BHTK = cache.values_BHTK[rows]
            cache.source_keys_BHSK = cache.source_keys_BHSK[rows]
            cache.source_values_BHSK = cache.source_values_BHSK[rows]
        self.is_source_B11S = self.is_source_B11S[rows]


class Transformer(nn.Module):
    """Packed ids in, hidden states out; `loss.token_loss` and `logits` turn those into numbers over the vocabulary."""

    def __init__(self, config: ModelConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.config = config
        self.embeddings = nn.Embedding(vocabulary_size, config.width)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_encoder_layers))
        self.encoder_norm = _norm(config)
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_decoder_layers))
        self.decoder_norm = _norm(config)
        self.register_buffer("position_table", _position_table(config, _NUM_POSITIONS), persistent=False)
        self.position_table: Tensor
        self._initialise()

    def forward(self, batch: PackedBatch, layout: Layout) -> Tensor:
        """Hidden states of the target tokens (T, D)."""
        drop = self._start_dropout()
        memory_SD = self.encode(batch.source_ids_S, batch.source_offsets, layout.encoder, drop)
        rows = self._rows(batch.target_offsets, len(batch.target_ids_T))
        hidden_TD = drop(self._embed(batch.target_ids_T, rows))
        for layer in self.decoder:
            hidden_TD = layer(hidden_TD, memory_SD, rows, layout, drop)
        output_TD: Tensor = self.decoder_norm(hidden_TD)
        return output_TD

    def encode(
        self, source_ids_S: Tensor, source_offsets: Tensor, relation: Relation, drop: Dropout | None = None
    ) -> Tensor:
        """What the source says (S, D), for the decoder to look at."""
        drop = drop or self._start_dropout()
        rows = self._rows(source_offsets, len(source_ids_S))
        hidden_SD = drop(self._embed(source_ids_S, rows))
        for layer in self.encoder:
            hidden_SD = layer(hidden_SD, rows, relation, drop)
        output_SD: Tensor = self.encoder_norm(hidden_SD)
        return output_SD

    def logits(self, hidden: Tensor) -> Tensor:
        """A number for each piece of the vocabulary."""
        return F.linear(hidden, self.embeddings.weight)

    def start_decoding(self, memory_SD: Tensor, lengths_B: Tensor, max_length: int) -> DecodingState:
        """Makes room for up to `max_length` target tokens. The sources lie in `memory_SD` end to end."""
        self.grow_positions(max_length)
        num_sentences, longest = len(lengths_B), int(lengths_B.max())
        is_source_BS = torch.arange(longest, device=memory_SD.device) < lengths_B[:, None]
        memory_BSD = memory_SD.new_zeros(num_sentences, longest, memory_SD.shape[-1])
        memory_BSD[is_source_BS] = memory_SD
        layers = []
        for layer in self.decoder:
            assert isinstance(layer, DecoderLayer)
            keys_BHSK, values_BHSK = layer.cross_attention.keys_and_values(memory_BSD)
            room = keys_BHSK.new_zeros(*keys_BHSK.shape[:2], max_length, keys_BHSK.shape[-1])
            layers.append(
                LayerCache(
                    keys_BHTK=room,
                    values_BHTK=room.clone(),
                    source_keys_BHSK=keys_BHSK,
                    source_values_BHSK=values_BHSK,
                )
            )
        return DecodingState(layers=layers, is_source_B11S=is_source_BS[:, None, None, :])

    def decode_next(self, ids_B: Tensor, state: DecodingState) -> Tensor:
        """Reads one more token of each sentence; the hidden states (B, D) that say what comes next."""
        row = self.position_table[state.length]
        hidden_BD = self._embed(ids_B, row)
        for layer, cache in zip(self.decoder, state.layers, strict=True):
            assert isinstance(layer, DecoderLayer)
            hidden_BD = layer.decode_next(hidden_BD, row, cache, state)
        state.length += 1
        output_BD: Tensor = self.decoder_norm(hidden_BD)
        return output_BD

    def grow_positions(self, num_positions: int) -> None:
        """Makes sure that sentences of this length can be read. Not for compiled code."""
        if num_positions > len(self.position_table):
            table = _position_table(self.config, 2 * num_positions)
            self.position_table = table.to(self.position_table.device)

    def _rows(self, offsets: Tensor, num_tokens: int) -> Tensor:
        """The row of the position table for each token: sentences count from their own start."""
        tokens = torch.arange(num_tokens, device=offsets.device, dtype=offsets.dtype)
        sentences = torch.searchsorted(offsets, tokens, right=True) - 1
        return self.position_table[tokens - offsets[sentences]]

    def _embed(self, ids: Tensor, rows: Tensor) -> Tensor:
        embedded: Tensor = self.embeddings(ids) * math.sqrt(self.config.width)
        if self.config.positions == "sinusoidal":
            embedded = embedded + rows
        return embedded

    def _start_dropout(self) -> Dropout:
        return Dropout(self.config.dropout, is_training=self.training, device=self.embeddings.weight.device)

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        # Multiplied by the root of the width on the way in, and facing a normalised state on the way out.
        nn.init.normal_(self.embeddings.weight, std=self.config.width**-0.5)


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward block, each normalised before and added after."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention_norm = _norm(config)
        self.self_attention = SelfAttention(config)
        self.feedforward_norm = _norm(config)
        self.feedforward = FeedForward(config)

    def forward(self, hidden_SD: Tensor, rows: Tensor, relation: Relation, drop: Dropout) -> Tensor:
        attended = self.self_attention(self.self_attention_norm(hidden_SD), rows, relation)
        hidden_SD = hidden_SD + drop(attended)
        changed = self.feedforward(self.feedforward_norm(hidden_SD))
        return hidden_SD + drop(changed)


class DecoderLayer(nn.Module):
    """Self-attention, attention to the source and a feed-forward block."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention_norm = _norm(config)
        self.self_attention = SelfAttention(config)
        self.cross_attention_norm = _norm(config)
        self.cross_attention = CrossAttention(config)
        self.feedforward_norm = _norm(config)
        self.feedforward = FeedForward(config)

    def forward(self, hidden_TD: Tensor, memory_SD: Tensor, rows: Tensor, layout: Layout, drop: Dropout) -> Tensor:
        attended = self.self_attention(self.self_attention_norm(hidden_TD), rows, layout.decoder)
        hidden_TD = hidden_TD + drop(attended)
        attended = self.cross_attention(self.cross_attention_norm(hidden_TD), memory_SD, layout.cross)
        hidden_TD = hidden_TD + drop(attended)
        changed = self.feedforward(self.feedforward_norm(hidden_TD))
        return hidden_TD + drop(changed)

    def decode_next(self, hidden_BD: Tensor, row: Tensor, cache: LayerCache, state: DecodingState) -> Tensor:
        hidden_BD = hidden_BD + self.self_attention.decode_next(
            self.self_attention_norm(hidden_BD), row, cache, state.length
        )
        hidden_BD = hidden_BD + self.cross_attention.decode_next(
            self.cross_attention_norm(hidden_BD), cache, state.is_source_B11S
        )
        output_BD: Tensor = hidden_BD + self.feedforward(self.feedforward_norm(hidden_BD))
        return output_BD


class SelfAttention(nn.Module):
    """Queries, keys and values of one text, from one matrix."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.is_rotary = config.positions == "rotary"
        self.query_key_value = _linear(config, config.width, 3 * config.width)
        self.output = _linear(config, config.width, config.width)

    def forward(self, hidden_TD: Tensor, rows: Tensor, relation: Relation) -> Tensor:
        query, key, value = self._project(hidden_TD, rows)
        output: Tensor = self.output(packed_attention(query, key, value, relation).flatten(1))
        return output

    def decode_next(self, hidden_BD: Tensor, row: Tensor, cache: LayerCache, position: int) -> Tensor:
        query_BHK, key_BHK, value_BHK = self._project(hidden_BD, row)
        cache.keys_BHTK[:, :, position] = key_BHK
        cache.values_BHTK[:, :, position] = value_BHK
        attended_BH1K = F.scaled_dot_product_attention(
            query_BHK.unsqueeze(2), cache.keys_BHTK[:, :, : position + 1], cache.values_BHTK[:, :, : position + 1]
        )
        output: Tensor = self.output(attended_BH1K.flatten(1))
        return output

    def _project(self, hidden: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = self.query_key_value(hidden).unflatten(-1, (3, self.num_heads, -1)).unbind(-3)
        if self.is_rotary:
            query, key = _rotate(query, rows), _rotate(key, rows)
        return query, key, value


class CrossAttention(nn.Module):
    """Queries of the target; keys and values of the source."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.query = _linear(config, config.width, config.width)
        self.key_value = _linear(config, config.width, 2 * config.width)
        self.output = _linear(config, config.width, config.width)

    def forward(self, hidden_TD: Tensor, memory_SD: Tensor, relation: Relation) -> Tensor:
        query_THK = self.query(hidden_TD).unflatten(-1, (self.num_heads, -1))
        key_SHK, value_SHK = self.key_value(memory_SD).unflatten(-1, (2, self.num_heads, -1)).unbind(-3)
        output: Tensor = self.output(packed_attention(query_THK, key_SHK, value_SHK, relation).flatten(1))
        return output

    def keys_and_values(self, memory_BSD: Tensor) -> tuple[Tensor, Tensor]:
        both = self.key_value(memory_BSD).unflatten(-1, (2, self.num_heads, -1))
        keys_BHSK, values_BHSK = both.permute(2, 0, 3, 1, 4).contiguous().unbind(0)
        return keys_BHSK, values_BHSK

    def decode_next(self, hidden_BD: Tensor, cache: LayerCache, is_source_B11S: Tensor) -> Tensor:
        query_BHK = self.query(hidden_BD).unflatten(-1, (self.num_heads, -1))
        attended_BH1K = F.scaled_dot_product_attention(
            query_BHK.unsqueeze(2), cache.source_keys_BHSK, cache.source_values_BHSK, attn_mask=is_source_B11S
        )
        output: Tensor = self.output(attended_BH1K.flatten(1))
        return output


class FeedForward(nn.Module):
    """Two maps with a ReLU between them, or SwiGLU: the first map doubled, one half gating the other."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.is_gated = config.feedforward == "swiglu"
        self.input = _linear(config, config.width, config.feedforward_width * (2 if self.is_gated else 1))
        self.output = _linear(config, config.feedforward_width, config.width)

    def forward(self, hidden: Tensor) -> Tensor:
        inner = self.input(hidden)
        if self.is_gated:
            gate, inner = inner.chunk(2, dim=-1)
            inner = F.silu(gate) * inner
        else:
            inner = F.relu(inner)
        output: Tensor = self.output(inner)
        return output


def _linear(config: ModelConfig, num_inputs: int, num_outputs: int) -> nn.Linear:
    return nn.Linear(num_inputs, num_outputs, bias=config.norm == "layer")


def _norm(config: ModelConfig) -> nn.Module:
    kind = nn.LayerNorm if config.norm == "layer" else nn.RMSNorm
    return kind(config.width, eps=_NORM_EPSILON)


def _position_table(config: ModelConfig, num_positions: int) -> Tensor:
    """One row per position: sines then cosines to add, or cosines then sines to rotate the halves of a head by."""
    if config.positions == "sinusoidal":
        half = config.width // 2
        # In single precision, operation by operation as Hugging Face does it, so that both tables are equal.
        rates = torch.exp(torch.arange(half).float() * -(math.log(10_000) / max(1, half - 1)))
        angles = (torch.arange(num_positions) + FIRST_SINUSOID).float()[:, None] * rates
        return torch.cat([angles.sin(), angles.cos()], dim=1)
    half = config.width // config.num_heads // 2
    rates = _ROTARY_BASE ** -(torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(num_positions, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.cos(), angles.sin()], dim=1).float()


def _rotate(x: Tensor, rows: Tensor) -> Tensor:
    """Turns each head's first and second half into each other by the angles of its position."""
    cosine, sine = rows.unsqueeze(-2).chunk(2, dim=-1)
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1).to(x.dtype)
