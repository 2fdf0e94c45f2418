"""The Transformer: one encoder-decoder for all presets, over packed batches, and step by step for decoding.

Pre-norm throughout; one embedding matrix serves source, target and output; no bias on the output. `norm = "layer"`
has biases in its linear maps, `"rms"` has none. Attention probabilities are never dropped: no packed kernel does that.

T target tokens, S source tokens, D width, H heads, B sentences, W beams of a sentence, K = D / H.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from septuagint.batch import PackedBatch
from septuagint.config import ModelConfig
from septuagint.model.attention import Layout, Relation, choose_backend, make_relation, packed_attention
from septuagint.model.dropout import Dropout

# Sinusoids are counted as Hugging Face's M2M100 counts them with pad = 1: the first token is at position 2.
FIRST_SINUSOID = 2
NORM_EPSILON = 1e-5
ROTARY_BASE = 10_000.0
# Positions that are computed ahead; longer texts make the tables grow.
_NUM_POSITIONS = 512


class DecoderMemory(Protocol):
    """What a decoder layer looks back at while it reads one more token of each beam."""

    def attend_to_past(self, query_BWHK: Tensor, key_BWHK: Tensor, value_BWHK: Tensor) -> Tensor:
        """What each beam's own tokens say (B, W, D), this one included; keys and values are remembered."""

    def attend_to_source(self, query_BWHK: Tensor) -> Tensor:
        """What the source says (B, W, D)."""


@dataclass(kw_only=True, slots=True)
class LayerCache:
    """What a decoder layer remembers: the keys and values of every beam so far, and those of the source."""

    keys_BHTWK: Tensor
    values_BHTWK: Tensor
    source_keys_BHSK: Tensor
    source_values_BHSK: Tensor


@dataclass(kw_only=True, slots=True)
class DecodingState:
    """Sentences half translated: a cache per layer, which source positions are real, and how far all are.

    Beams split and die, but nothing is moved for that: a key stays where it was written, and each beam knows by
    `ancestors_BWT` which beam of an earlier step is its own past.
    """

    layers: list[LayerCache]
    is_source_B11S: Tensor
    ancestors_BWT: Tensor
    step: Tensor  # tokens that were read before, on the device: compiled code must not depend on it

    @property
    def room(self) -> int:
        """The most tokens that can be read."""
        return self.ancestors_BWT.shape[-1]

    def select(self, rows: Tensor) -> None:
        """Goes on with these sentences only, in this order."""
        for cache in self.layers:
            cache.keys_BHTWK = cache.keys_BHTWK[rows]
            cache.values_BHTWK = cache.values_BHTWK[rows]
            cache.source_keys_BHSK = cache.source_keys_BHSK[rows]
            cache.source_values_BHSK = cache.source_values_BHSK[rows]
        self.is_source_B11S = self.is_source_B11S[rows]
        self.ancestors_BWT = self.ancestors_BWT[rows]

    def follow(self, parents_BW: Tensor) -> None:
        """After a step: each beam goes on from this one of its sentence's beams. In place."""
        follow_parents(self.ancestors_BWT, (self.step - 1).expand(len(parents_BW)), parents_BW)

    def grow(self, room: int) -> None:
        """Makes room for more tokens."""
        more = room - self.room
        for cache in self.layers:
            cache.keys_BHTWK = F.pad(cache.keys_BHTWK, (0, 0, 0, 0, 0, more))
            cache.values_BHTWK = F.pad(cache.values_BHTWK, (0, 0, 0, 0, 0, more))
        self.ancestors_BWT = F.pad(self.ancestors_BWT, (0, more))


@dataclass(frozen=True, kw_only=True, slots=True)
class CachedMemory:
    """A layer's cache at one step, looked at by torch's own attention. All sentences are at the same step."""

    cache: LayerCache
    state: DecodingState
    is_own_B1WX: Tensor

    def attend_to_past(self, query_BWHK: Tensor, key_BWHK: Tensor, value_BWHK: Tensor) -> Tensor:
        cache, place = self.cache, self.state.step.view(1)
        cache.keys_BHTWK.index_copy_(2, place, key_BWHK.transpose(1, 2).unsqueeze(2))
        cache.values_BHTWK.index_copy_(2, place, value_BWHK.transpose(1, 2).unsqueeze(2))
        length = self.is_own_B1WX.shape[-1] // query_BWHK.shape[1]
        attended_BHWK = F.scaled_dot_product_attention(
            query_BWHK.transpose(1, 2),
            cache.keys_BHTWK[:, :, :length].flatten(2, 3),
            cache.values_BHTWK[:, :, :length].flatten(2, 3),
            attn_mask=self.is_own_B1WX,
        )
        return attended_BHWK.transpose(1, 2).flatten(2)

    def attend_to_source(self, query_BWHK: Tensor) -> Tensor:
        """All beams of a sentence look at one copy of its source."""
        attended_BHWK = F.scaled_dot_product_attention(
            query_BWHK.transpose(1, 2),
            self.cache.source_keys_BHSK,
            self.cache.source_values_BHSK,
            attn_mask=self.state.is_source_B11S,
        )
        return attended_BHWK.transpose(1, 2).flatten(2)


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
        self.register_buffer("position_table", position_table(config, _NUM_POSITIONS), persistent=False)
        self.position_table: Tensor
        self._initialise()

    def flops_per_token(self) -> tuple[int, int]:
        """Operations of a training step for a source token and for a target token: 6 for each weight it passes.

        Two in the forward pass (times, plus) and four in the backward pass. Only matrix products count, the output
        over the vocabulary among them: attention within a sentence of 30 tokens adds half a percent.
        """
        weights = {name: weight.numel() for name, weight in self.named_parameters() if weight.dim() == 2}
        source = sum(n for name, n in weights.items() if name.startswith("encoder.") or ".key_value." in name)
        return 6 * source, 6 * (sum(weights.values()) - source)

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
        self,
        source_ids_S: Tensor,
        source_offsets: Tensor,
        relation: Relation,
        drop: Dropout | None = None,
    ) -> Tensor:
        """What the source says (S, D), for the decoder to look at."""
        drop = drop or self._start_dropout()
        rows = self._rows(source_offsets, len(source_ids_S))
        hidden_SD = drop(self._embed(source_ids_S, rows))
        for layer in self.encoder:
            hidden_SD = layer(hidden_SD, rows, relation, drop)
        output_SD: Tensor = self.encoder_norm(hidden_SD)
        return output_SD

    def encode_sentences(self, sources: Sequence[np.ndarray], dtype: torch.dtype) -> Tensor:
        """What these sources say, end to end (S, D), computed in this precision."""
        device = self.embeddings.weight.device
        lengths = np.array([len(source) for source in sources])
        offsets = torch.from_numpy(np.cumsum([0, *lengths])).int().to(device)
        backend = choose_backend(device, dtype, self.config.width // self.config.num_heads)
        ids_S = torch.from_numpy(np.concatenate(sources).astype(np.int64)).to(device)
        relation = make_relation(offsets, offsets, backend, int(lengths.max()))
        return self.encode(ids_S, offsets, relation)

    def logits(self, hidden: Tensor) -> Tensor:
        """A number for each piece of the vocabulary."""
        return F.linear(hidden, self.embeddings.weight)

    def start_decoding(self, memory_SD: Tensor, lengths_B: Tensor, *, num_beams: int, room: int) -> DecodingState:
        """Before the first token. The sources lie in `memory_SD` end to end; there is room for so many tokens."""
        is_source_BS = torch.arange(int(lengths_B.max()), device=memory_SD.device) < lengths_B[:, None]
        memory_BSD = memory_SD.new_zeros(*is_source_BS.shape, memory_SD.shape[-1])
        memory_BSD[is_source_BS] = memory_SD
        layers = []
        for layer in self.decoder:
            assert isinstance(layer, DecoderLayer)
            keys_BHSK, values_BHSK = layer.cross_attention.keys_and_values(memory_BSD)
            num_sentences, num_heads, _, head_width = keys_BHSK.shape
            empty_BHTWK = keys_BHSK.new_zeros(num_sentences, num_heads, room, num_beams, head_width)
            layers.append(
                LayerCache(
                    keys_BHTWK=empty_BHTWK,
                    values_BHTWK=empty_BHTWK.clone(),
                    source_keys_BHSK=keys_BHSK,
                    source_values_BHSK=values_BHSK,
                )
            )
        device = memory_BSD.device
        return DecodingState(
            layers=layers,
            is_source_B11S=is_source_BS[:, None, None, :],
            ancestors_BWT=torch.zeros(len(memory_BSD), num_beams, room, dtype=torch.int64, device=device),
            step=torch.zeros((), dtype=torch.int64, device=device),
        )

    def decode_next(self, ids_BW: Tensor, state: DecodingState, length: int) -> Tensor:
        """Reads one more token of each beam; the hidden states (B, W, D) that say what comes next.

        Attention looks at `length` places of the cache: as many as tokens were read, this one included, or more.
        """
        is_own_B1WX = _own_past(state, length)
        hidden_BWD, rows_B1X = self.embed_next(ids_BW, state.step.view(1))
        for layer, cache in zip(self.decoder, state.layers, strict=True):
            assert isinstance(layer, DecoderLayer)
            memory = CachedMemory(cache=cache, state=state, is_own_B1WX=is_own_B1WX)
            hidden_BWD = layer.decode_next(hidden_BWD, rows_B1X, memory)
        state.step += 1
        output_BWD: Tensor = self.decoder_norm(hidden_BWD)
        return output_BWD

    def embed_next(self, ids_BW: Tensor, steps_B: Tensor) -> tuple[Tensor, Tensor]:
        """One more token of each beam before the first layer, and the rows of the position table, at these steps."""
        rows_B1X = self.position_table.index_select(0, steps_B)[:, None]
        return self._embed(ids_BW, rows_B1X), rows_B1X

    def grow_positions(self, num_positions: int) -> None:
        """Makes sure that sentences of this length can be read. Not for compiled code."""
        if num_positions > len(self.position_table):
            table = position_table(self.config, 2 * num_positions)
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

    def decode_next(self, hidden_BWD: Tensor, rows_B1X: Tensor, memory: DecoderMemory) -> Tensor:
        attended = self.self_attention.decode_next(self.self_attention_norm(hidden_BWD), rows_B1X, memory)
        hidden_BWD = hidden_BWD + attended
        attended = self.cross_attention.decode_next(self.cross_attention_norm(hidden_BWD), memory)
        hidden_BWD = hidden_BWD + attended
        output_BWD: Tensor = hidden_BWD + self.feedforward(self.feedforward_norm(hidden_BWD))
        return output_BWD


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

    def decode_next(self, hidden_BWD: Tensor, rows_B1X: Tensor, memory: DecoderMemory) -> Tensor:
        query_BWHK, key_BWHK, value_BWHK = self._project(hidden_BWD, rows_B1X)
        output: Tensor = self.output(memory.attend_to_past(query_BWHK, key_BWHK, value_BWHK))
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

    def decode_next(self, hidden_BWD: Tensor, memory: DecoderMemory) -> Tensor:
        query_BWHK = self.query(hidden_BWD).unflatten(-1, (self.num_heads, -1))
        output: Tensor = self.output(memory.attend_to_source(query_BWHK))
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


def follow_parents(ancestors_BWT: Tensor, steps_B: Tensor, parents_BW: Tensor) -> None:
    """After these steps: each beam goes on from this one of its sentence's beams, with its ancestors. In place."""
    _, num_beams, room = ancestors_BWT.shape
    steps, beams = (torch.arange(size, device=parents_BW.device) for size in (room, num_beams))
    own_BWT = torch.where(steps == steps_B.view(-1, 1, 1), beams.to(ancestors_BWT.dtype)[:, None], ancestors_BWT)
    ancestors_BWT.copy_(own_BWT.gather(1, parents_BW[..., None].expand_as(own_BWT)))


def _own_past(state: DecodingState, length: int) -> Tensor:
    """Which of the keys of `length` steps and W beams a beam's past consists of: (B, 1, W, length * W)."""
    device = state.step.device
    steps, beams = torch.arange(length, device=device), torch.arange(state.ancestors_BWT.shape[1], device=device)
    ancestors_BWT = torch.where(steps == state.step, beams[:, None], state.ancestors_BWT[..., :length])
    is_own_BWTW = (ancestors_BWT[..., None] == beams) & (steps <= state.step)[:, None]
    return is_own_BWTW.flatten(2)[:, None]


def _linear(config: ModelConfig, num_inputs: int, num_outputs: int) -> nn.Linear:
    return nn.Linear(num_inputs, num_outputs, bias=config.norm == "layer")


def _norm(config: ModelConfig) -> nn.Module:
    kind = nn.LayerNorm if config.norm == "layer" else nn.RMSNorm
    return kind(config.width, eps=NORM_EPSILON)


def position_table(config: ModelConfig, num_positions: int) -> Tensor:
    """One row per position: sines then cosines to add, or cosines then sines to rotate the halves of a head by."""
    if config.positions == "sinusoidal":
        half = config.width // 2
        # In single precision, operation by operation as Hugging Face does it, so that both tables are equal.
        rates = torch.exp(torch.arange(half).float() * -(math.log(10_000) / max(1, half - 1)))
        angles = (torch.arange(num_positions) + FIRST_SINUSOID).float()[:, None] * rates
        return torch.cat([angles.sin(), angles.cos()], dim=1)
    half = config.width // config.num_heads // 2
    rates = ROTARY_BASE ** -(torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(num_positions, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.cos(), angles.sin()], dim=1).float()


def _rotate(x: Tensor, rows: Tensor) -> Tensor:
    """Turns each head's first and second half into each other by the angles of its position."""
    cosine, sine = rows.unsqueeze(-2).chunk(2, dim=-1)
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1).to(x.dtype)
