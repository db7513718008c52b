"""A model that a test can reckon with: its vector of a token is the token's id. Written as ONNX by hand.

The wire format of protocol buffers is a list of fields: a number with a type, then a varint or a length and bytes.
Field numbers are those of onnx.proto.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.minilm import write_json

INPUTS = ("input_ids", "attention_mask")
VOCABULARY = {"[PAD]": 0, "[UNK]": 1, "zero": 10, "one": 11, "two": 12, "three": 13, "ask:": 20, "tell:": 30}
INT32, INT64 = 6, 7


def lay_tiny(
    folder: Path,
    *,
    model: str = "model.onnx",
    files: Mapping[str, object] | None = None,
    inputs: Sequence[str] = INPUTS,
    kind: int = INT64,
    outputs: Sequence[str] = ("last_hidden_state",),
) -> Path:
    """Make a folder with the model. Its tokens are words.

    Args:
        folder: where.
        model: name of the ONNX file.
        files: more JSON files by name.
        inputs: names of the model's inputs; the first one is used.
        kind: of the numbers of the inputs.
        outputs: "sentence_embedding" and other outputs of one vector a text are one row: the ids.
    """
    file = folder / model
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(_model(inputs, kind, outputs))
    tokenizer: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": VOCABULARY, "unk_token": "[UNK]"},
    }
    for name, content in {"tokenizer.json": tokenizer, **(files or {})}.items():
        write_json(folder / name, content)
    return folder


def _model(inputs: Sequence[str], kind: int, outputs: Sequence[str]) -> bytes:
    nodes = [_node("Cast", [inputs[0]], "numbers", _attribute("to", 1, 2))]
    infos: list[bytes] = []
    for output in outputs:
        if output == "last_hidden_state":
            nodes.append(_node("Unsqueeze", ["numbers"], output, _attribute("axes", 2, 7, in_list=True)))
        else:
            nodes.append(_node("Identity", ["numbers"], output))
        shape = ["batch", "tokens", "1"] if output == "last_hidden_state" else ["batch", "tokens"]
        infos.append(_field(12, _info(output, 1, shape)))
    given = [_field(11, _info(name, kind, ["batch", "tokens"])) for name in inputs]
    graph = b"".join([*(_field(1, node) for node in nodes), _field(2, b"tiny"), *given, *infos])
    return _field(1, 7) + _field(7, graph) + _field(8, _field(2, 11))


def _node(operation: str, inputs: Sequence[str], output: str, attribute: bytes = b"") -> bytes:
    fields = [*(_field(1, name.encode()) for name in inputs), _field(2, output.encode()), _field(4, operation.encode())]
    return b"".join(fields) + (_field(5, attribute) if attribute else b"")


def _attribute(name: str, value: int, type_: int, *, in_list: bool = False) -> bytes:
    return _field(1, name.encode()) + _field(8 if in_list else 3, value) + _field(20, type_)


def _info(name: str, kind: int, shape: Sequence[str]) -> bytes:
    sizes = b"".join(_field(1, _field(1, int(size)) if size.isdigit() else _field(2, size.encode())) for size in shape)
    return _field(1, name.encode()) + _field(2, _field(1, _field(1, kind) + _field(2, sizes)))


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    return bytes([*written, number])
