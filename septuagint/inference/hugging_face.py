"""A folder that the library `transformers` loads as M2M100, tokenizer included.

`AutoTokenizer` and `AutoModelForSeq2SeqLM` read it, and so does CTranslate2's own converter. Neither `transformers` nor
`tokenizers` is needed to write it: all is JSON and safetensors. There are no language tokens: the source ends with EOS,
and the decoder starts with it.

The tokenizer normalises and gives our ids, but for what its library cannot do:
- it adds scores in double precision, SentencePiece in single: of cuts with equal scores (`aa|a` and `a|aa`) it may take
  another, and so may both where scores differ by a rounding error;
- its canonical composition is that of an older Unicode: marks added since may stand in another order;
- bytes that are no UTF-8 are U+FFFD each, with all their neighbours that are bytes; UNK is left out, not " ⁇ ".
A special token's name that a user types, such as </s>, is plain text, as it is to us. This holds in `transformers`,
which reads tokenizer_config.json; whoever opens tokenizer.json alone has to set `encode_special_tokens`.
"""

import json
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from septuagint.config import ModelConfig
from septuagint.data.normaliser import INVISIBLE, STRAY_JOINER
from septuagint.data.vocabulary import BOS, EOS, PAD, UNK
from septuagint.errors import ConfigError, DataError

# Sources may be this long. `transformers` makes its sinusoids longer where needed, CTranslate2's converter does not.
_NUM_POSITIONS = 1024
# What M2M100 calls the parts of our layers; a matrix of several parts is cut into as many.
_PARTS = {
    "self_attention_norm": ["self_attn_layer_norm"],
    "self_attention.query_key_value": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "self_attention.output": ["self_attn.out_proj"],
    "cross_attention_norm": ["encoder_attn_layer_norm"],
    "cross_attention.query": ["encoder_attn.q_proj"],
    "cross_attention.key_value": ["encoder_attn.k_proj", "encoder_attn.v_proj"],
    "cross_attention.output": ["encoder_attn.out_proj"],
    "feedforward_norm": ["final_layer_norm"],
    "feedforward.input": ["fc1"],
    "feedforward.output": ["fc2"],
}
_M2M100 = {"norm": "layer", "positions": "sinusoidal", "feedforward": "relu"}
_SPACE = "\u2581"  # SentencePiece's sign for a space
# White space by the rule of str.split(); the regular expressions of `tokenizers` have another.
_WHITE_SPACE = "[\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
# What str.isprintable() says no to.
_UNPRINTABLE = r"[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Zl}\p{Zp}\p{Zs}&&[^ ]]"
# Numbers of SentencePiece's file format (sentencepiece_model.proto).
_UNIGRAM, _BPE = 1, 2
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6


@dataclass(frozen=True, kw_only=True, slots=True)
class _Pieces:
    """What a SentencePiece model says about its pieces, by id."""

    texts: list[str]
    scores: list[float]
    is_normal: list[bool]  # neither special nor a byte
    is_bpe: bool


def check_is_m2m100(model: ModelConfig) -> None:
    """Refuses a network that M2M100 does not have."""
    if any(getattr(model, field) != value for field, value in _M2M100.items()):
        values = ", ".join(f'{field} = "{getattr(model, field)}"' for field in _M2M100)
        rule = ", ".join(f'{field} = "{value}"' for field, value in _M2M100.items())
        raise ConfigError(
            f"Hugging Face's M2M100 must have {rule} (presets base and big), but this model has {values}; "
            "export it as ctranslate2 instead"
        )


def write_hugging_face(
    folder: Path,
    *,
    weights: Mapping[str, Tensor],
    model: ModelConfig,
    vocabulary: bytes,
    beam_size: int,
    length_penalty: float,
    max_length: int,
) -> None:
    """Fills an existing folder. The weights are in single precision; translations have at most `max_length` pieces."""
    check_is_m2m100(model)
    pieces = _read_pieces(vocabulary)
    num_pieces = len(weights["embeddings.weight"])
    assert num_pieces == len(pieces.texts), "the weights belong to another vocabulary"
    num_positions = max(_NUM_POSITIONS, max_length + 1)
    save_file(_m2m100_weights(weights), folder / "model.safetensors", metadata={"format": "pt"})
    _write_json(folder / "config.json", _model_config(model, num_pieces, num_positions))
    _write_json(folder / "generation_config.json", _generation_config(beam_size, length_penalty, max_length))
    _write_json(folder / "tokenizer.json", _tokenizer(pieces))
    _write_json(folder / "tokenizer_config.json", _tokenizer_config(pieces, num_positions))
    (folder / "sentencepiece.model").write_bytes(vocabulary)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    # Escaped: direction marks and other invisible characters in the normaliser's patterns would confuse a reader.
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="ascii")


def _m2m100_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    written = {}
    for name, tensor in weights.items():
        module, _, kind = name.rpartition(".")  # kind: weight or bias
        if module == "embeddings":
            written["model.shared.weight"] = tensor.contiguous()
        elif module in ("encoder_norm", "decoder_norm"):
            written[f"model.{module.removesuffix('_norm')}.layer_norm.{kind}"] = tensor.contiguous()
        else:
            side, index, part = module.split(".", 2)
            names = _PARTS[part]
            for new_name, rows in zip(names, tensor.chunk(len(names)), strict=True):
                # A copy: safetensors refuses tensors that share their memory.
                written[f"model.{side}.layers.{index}.{new_name}.{kind}"] = rows.clone()
    return written


def _model_config(model: ModelConfig, num_pieces: int, num_positions: int) -> dict[str, Any]:
    return {
        "architectures": ["M2M100ForConditionalGeneration"],
        "model_type": "m2m_100",
        "is_encoder_decoder": True,
        "vocab_size": num_pieces,
        "max_position_embeddings": num_positions,
        "d_model": model.width,
        "encoder_layers": model.num_encoder_layers,
        "encoder_attention_heads": model.num_heads,
        "encoder_ffn_dim": model.feedforward_width,
        "decoder_layers": model.num_decoder_layers,
        "decoder_attention_heads": model.num_heads,
        "decoder_ffn_dim": model.feedforward_width,
        "activation_function": "relu",
        "scale_embedding": True,
        "tie_word_embeddings": True,
        "dropout": model.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "bos_token_id": BOS,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "decoder_start_token_id": EOS,
        "dtype": "float32",
        # The version that these files were tested with. Without one, a tokenizer of more than 100,000 pieces is taken
        # for an old one of Mistral's, with a warning.
        "transformers_version": "5.22.2",
    }


def _generation_config(beam_size: int, length_penalty: float, max_length: int) -> dict[str, Any]:
    """As near to CTranslate2 as `transformers` comes: it counts EOS in the length that a score is divided by."""
    search = {
        "num_beams": beam_size,
        "length_penalty": length_penalty,
        # Enough as soon as `num_beams` translations are finished. Of 800 translations by random models two were not
        # CTranslate2's; with false, which waits for better ones, 75 were not.
        "early_stopping": True,
    }
    return {
        "bos_token_id": BOS,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "decoder_start_token_id": EOS,
        "min_new_tokens": 1,  # a sentence has a translation: EOS does not come first
        "max_length": max_length + 1,  # the EOS that the decoder starts with is counted as well
        # With one beam the others have no meaning, and `transformers` warns of them.
        **(search if beam_size > 1 else {"num_beams": 1}),
    }


def _tokenizer_config(pieces: _Pieces, num_positions: int) -> dict[str, Any]:
    return {
        # By name, or `AutoTokenizer` would take M2M100's own, which adds language tokens.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": pieces.texts[BOS],
        "pad_token": pieces.texts[PAD],
        "eos_token": pieces.texts[EOS],
        "unk_token": pieces.texts[UNK],
        "model_max_length": num_positions,
        "padding_side": "right",
        "model_input_names": ["input_ids", "attention_mask"],
        # Its default for some models takes the space before a punctuation mark away.
        "clean_up_tokenization_spaces": False,
        # The names of special tokens in a text are text.
        "split_special_tokens": True,
    }


def _tokenizer(pieces: _Pieces) -> dict[str, Any]:
    eos = pieces.texts[EOS]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    first, second, end = (
        {"Sequence": {"id": "A", "type_id": 0}},
        {"Sequence": {"id": "B", "type_id": 0}},
        {"SpecialToken": {"id": eos, "type_id": 0}},
    )
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, "content": pieces.texts[i], **flags} for i in (BOS, PAD, EOS, UNK)],
        "normalizer": {"type": "Sequence", "normalizers": _normalizers()},
        "pre_tokenizer": None if pieces.is_bpe else _protection(pieces),
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [first, end],
            "pair": [first, end, second, end],
            "special_tokens": {eos: {"id": eos, "ids": [EOS], "tokens": [eos]}},
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                _replace(_SPACE, " "),
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": _bpe(pieces) if pieces.is_bpe else _unigram(pieces),
    }


def _normalizers() -> list[dict[str, Any]]:
    """What `normalise` does, step by step, and then what SentencePiece does: a space in front, and its own sign."""
    # `normalise` takes some characters of INVISIBLE that Python calls printable, such as U+034F, only from a text that
    # has something unprintable or two spaces in a row. \G goes on where the last match ended, so the text is judged
    # once, at its start.
    is_looked_at = rf"\A(?=(?m:.*)(?:{_UNPRINTABLE}|  ))|\G(?!\A)"
    visible = f"[^{INVISIBLE.pattern[1:]}"
    return [
        _replace(_SPACE, " "),
        _replace_pattern(rf"(?:{is_looked_at}){visible}*\K{INVISIBLE.pattern}", ""),
        {"type": "NFC"},
        _replace_pattern(STRAY_JOINER.pattern, ""),
        _replace_pattern(f"{_WHITE_SPACE}+", " "),
        _replace_pattern(r"\A | \z", ""),
        {"type": "NFC"},
        {"type": "Prepend", "prepend": _SPACE},
        _replace(" ", _SPACE),
    ]


def _replace(text: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": text}, "content": content}


def _replace_pattern(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def _unigram(pieces: _Pieces) -> dict[str, Any]:
    # What has no piece costs ten more than the worst score of all: special ones and bytes must not change that.
    worst = min(score for score, is_normal in zip(pieces.scores, pieces.is_normal, strict=True) if is_normal)
    scores = [score if is_normal else worst for score, is_normal in zip(pieces.scores, pieces.is_normal, strict=True)]
    vocabulary = [list(pair) for pair in zip(pieces.texts, scores, strict=True)]
    return {"type": "Unigram", "unk_id": UNK, "vocab": vocabulary, "byte_fallback": True}


def _protection(pieces: _Pieces) -> dict[str, Any]:
    """Cuts a typed `</s>` or `<0x41>` in two: Unigram would take it for the special piece or byte of that name.

    The cut is where no piece could have gone across, so nothing else changes. Where there is no such place, because the
    vocabulary has learnt such names from its text, the name is safe but may be written in other pieces than ours.
    """
    names = [[re.escape(character) for character in pieces.texts[i]] for i in (BOS, PAD, EOS, UNK)]
    names.append(["<", "0", "x", "[0-9A-F]", "[0-9A-F]", ">"])
    normal = [text for text, is_normal in zip(pieces.texts, pieces.is_normal, strict=True) if is_normal]
    cuts = "|".join(_cut(name, normal) for name in names)
    return {"type": "Split", "pattern": {"Regex": cuts}, "behavior": "Isolated", "invert": False}


def _cut(name: Sequence[str], pieces: Sequence[str]) -> str:
    """A pattern for a place inside a name, which is given as one pattern for each character."""
    places = range(1, len(name))
    crossings = (re.compile(name[place - 1] + name[place]) for place in places)
    free = (
        place
        for place, crossing in zip(places, crossings, strict=True)
        if not any(crossing.search(piece) for piece in pieces)
    )
    place = next(free, 1)
    return f"(?<={''.join(name[:place])})(?={''.join(name[place:])})"


def _bpe(pieces: _Pieces) -> dict[str, Any]:
    normal = {text: i for i, text in enumerate(pieces.texts) if pieces.is_normal[i]}
    # SentencePiece joins any two neighbours that make a piece, the piece with the best score first.
    merges = [
        [text[:place], text[place:]]
        for text, _ in sorted(normal.items(), key=lambda item: -pieces.scores[item[1]])
        for place in range(1, len(text))
        if text[:place] in normal and text[place:] in normal
    ]
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": pieces.texts[UNK],
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": True,
        "ignore_merges": False,
        "vocab": {text: i for i, text in enumerate(pieces.texts)},
        "merges": merges,
    }


def _read_pieces(vocabulary: bytes) -> _Pieces:
    """Reads SentencePiece's protocol buffer, whose type of model and kinds of pieces the library does not tell."""
    message = list(_fields(vocabulary))
    entries = [dict(_fields(value)) for number, value in message if number == 1]
    trainer, normalizer = (
        dict(field for number, value in message if number == wanted for field in _fields(value)) for wanted in (2, 3)
    )
    model_type, has_bytes, has_space_last = trainer.get(3, _UNIGRAM), trainer.get(35, 0), trainer.get(24, 0)
    has_rules, has_space_first, is_escaped = normalizer.get(2, b""), normalizer.get(3, 1), normalizer.get(5, 1)
    kinds = [entry.get(3, _NORMAL) for entry in entries]
    is_ours = (
        model_type in (_UNIGRAM, _BPE)
        and has_bytes
        and has_space_first
        and is_escaped
        and not has_space_last
        and not has_rules
        and set(kinds) <= {_NORMAL, _UNKNOWN, _CONTROL, _BYTE}
    )
    if not is_ours:
        raise DataError(
            "a vocabulary for Hugging Face must be of type unigram or bpe, with byte_fallback, add_dummy_prefix and "
            "the identity normalisation, and without user-defined symbols, but this one is not; export it as "
            "ctranslate2 instead, or let `prepare` train one"
        )
    return _Pieces(
        texts=[entry[1].decode() for entry in entries],
        scores=[entry.get(2, 0.0) for entry in entries],
        is_normal=[kind == _NORMAL for kind in kinds],
        is_bpe=model_type == _BPE,
    )


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The (number, value) pairs of a protocol buffer: integers, floats, or bytes that may be a message again."""
    position = 0

    def read_integer() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = message[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    while position < len(message):
        number, kind = divmod(read_integer(), 8)
        if kind == 0:
            yield number, read_integer()
            continue
        length = {1: 8, 5: 4}[kind] if kind != 2 else read_integer()
        value = message[position : position + length]
        position += length
        yield number, struct.unpack("<f", value)[0] if kind == 5 else value
