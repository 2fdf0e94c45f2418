"""Where sentences end, as a network for MiniSBD, the sentence splitter of Argos Translate and LibreTranslate.

Without one in the package they fetch a trained model from the network when they first translate, and fail where there
is none. This one is a few rules: two convolutions over kinds of characters, written as an ONNX file (protobuf) by hand.
"""

import json
import struct
from collections.abc import Sequence
from typing import Any

# Kinds of characters; the first two are MiniSBD's.
_PAD, _OTHER, _SPACE, _STOP, _PLAIN_STOP, _CLOSER, _SMALL = range(7)
_NUM_KINDS = 7
_WINDOW = range(-2, 3)  # characters that are seen around one
# Two characters before a stop: there must be one. Before the line there is none, of no kind.
_IN_A_WORD = {(-2, kind): 1 for kind in (_OTHER, _STOP, _PLAIN_STOP, _CLOSER, _SMALL)}
# A rule is met where its numbers add up to more than 0: the first, and one for each kind at each place that fits.
_RULES: list[tuple[float, dict[tuple[int, int], int]]] = [
    # A stop, a space, then no small letter; but not after a single letter, as in "J. Smith".
    (-2.5, {(0, _STOP): 1, (1, _SPACE): 1, (2, _SMALL): -1, (2, _PAD): -1, **_IN_A_WORD}),
    (-2.5, {(-1, _STOP): 1, (0, _CLOSER): 1, (1, _SPACE): 1, (2, _SMALL): -1, (2, _PAD): -1}),
    # Stops that mean nothing else need no space after them.
    (-0.5, {(0, _PLAIN_STOP): 1, (1, _CLOSER): -1, (1, _PLAIN_STOP): -1, (1, _STOP): -1}),
    (-1.5, {(-1, _PLAIN_STOP): 1, (0, _CLOSER): 1, (1, _CLOSER): -1}),
]
_FLOAT, _INT64, _INTS = 1, 7, 7  # types of ONNX: of tensors, and of an attribute


def sentence_model() -> bytes:
    """Takes the kinds of a line's characters (B, L); gives three numbers for each, the third largest where one ends."""
    num_rules = len(_RULES)
    rules = [weights.get((place, kind), 0) for _, weights in _RULES for kind in range(_NUM_KINDS) for place in _WINDOW]
    one_hot = [float(row == column) for row in range(_NUM_KINDS) for column in range(_NUM_KINDS)]
    tensors = [
        _tensor("kinds", [_NUM_KINDS, _NUM_KINDS], one_hot),
        _tensor("rules", [num_rules, _NUM_KINDS, len(_WINDOW)], rules),
        _tensor("thresholds", [num_rules], [threshold for threshold, _ in _RULES]),
        _tensor("classes", [3, num_rules, 1], [0.0] * 2 * num_rules + [1.0] * num_rules),
        _tensor("priors", [3], [0.25, -1.0, 0.0]),
    ]
    nodes = [
        _node("Gather", ["kinds", "units"], "seen"),
        _node("Transpose", ["seen"], "channels", perm=[0, 2, 1]),
        _node("Conv", ["channels", "rules", "thresholds"], "met", pads=[2, 2], kernel_shape=[len(_WINDOW)]),
        _node("Relu", ["met"], "kept"),
        _node("Conv", ["kept", "classes", "priors"], "outputs", kernel_shape=[1]),
        _node("Transpose", ["outputs"], "logits", perm=[0, 2, 1]),
    ]
    graph = [
        *(_message(1, node) for node in nodes),
        _message(2, b"sentences"),
        *(_message(5, tensor) for tensor in tensors),
        _message(11, _value("units", _INT64, ["batch", "length"])),
        _message(11, _value("features", _FLOAT, ["batch", "length", "features"])),  # MiniSBD gives them; we use none
        _message(12, _value("logits", _FLOAT, ["batch", "length", 3])),
    ]
    kinds = _kinds_of_characters()
    notes = {
        "lang_code": "mul",
        "config": json.dumps({"max_seqlen": 1000, "batch_size": 1, "feat_funcs": [], "skip_newline": False}),
        "vocab": json.dumps({"lang": "mul", "lower": False, "_unit2id": kinds, "_id2unit": list(kinds)}),
    }
    return b"".join(
        [
            _integer(1, 8),  # version of the format
            _message(2, b"septuagint"),
            _message(7, b"".join(graph)),
            _message(8, _message(1, b"") + _integer(2, 13)),  # version of the operators
            *(_message(14, _message(1, key.encode()) + _message(2, text.encode())) for key, text in notes.items()),
        ]
    )


def _kinds_of_characters() -> dict[str, int]:
    """Every stop, closer and small letter. Whatever else there is can begin a sentence."""
    small = [chr(code) for code in range(0x61, 0x530) if chr(code).islower() and chr(code).title() != chr(code)]
    return {
        "<PAD>": _PAD,
        "<UNK>": _OTHER,
        " ": _SPACE,
        **dict.fromkeys(".!?…۔։", _STOP),
        **dict.fromkeys("。！？｡؟।॥።។៕။", _PLAIN_STOP),
        **dict.fromkeys("\"'”’»›“‘)]}）」』》〉】〕", _CLOSER),
        **dict.fromkeys(small, _SMALL),
    }


def _tensor(name: str, shape: list[int], numbers: Sequence[float]) -> bytes:
    sizes = b"".join(_integer(1, size) for size in shape)
    content = struct.pack(f"<{len(numbers)}f", *numbers)
    return sizes + _integer(2, _FLOAT) + _message(8, name.encode()) + _message(9, content)


def _node(operator: str, inputs: list[str], output: str, **attributes: list[int]) -> bytes:
    parts = [_message(1, name.encode()) for name in inputs]
    parts += [_message(2, output.encode()), _message(4, operator.encode())]
    for name, numbers in attributes.items():
        values = b"".join(_integer(8, number) for number in numbers)
        parts.append(_message(5, _message(1, name.encode()) + values + _integer(20, _INTS)))
    return b"".join(parts)


def _value(name: str, kind: int, shape: list[Any]) -> bytes:
    sizes = [_integer(1, size) if isinstance(size, int) else _message(2, size.encode()) for size in shape]
    tensor_type = _integer(1, kind) + _message(2, b"".join(_message(1, size) for size in sizes))
    return _message(1, name.encode()) + _message(2, _message(1, tensor_type))


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _integer(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    written.append(number)
    return bytes(written)
