"""A sentence-transformers model in a folder: which files it has, and how it is to be used."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from loomflow.errors import EmbedderError

ONNX_NAMES = ("model.onnx", "model_quantized.onnx", "model_int8.onnx")
"""Tried in this order, each in the folder itself and then in its folder `onnx`."""

DEFAULT_MAX_TOKENS = 512
PLAUSIBLE_MAX_TOKENS = 1_000_000
"""Tokenizers without a limit write a number that is far above this one."""

_POOLINGS = {
    "cls": "cls",
    "mean": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean",  # the same direction, another length
}
_LIMITS = (
    ("sentence_bert_config.json", "max_seq_length"),
    ("tokenizer_config.json", "model_max_length"),
    ("config.json", "max_position_embeddings"),
)
_MODULES = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True, slots=True)
class ModelDirectory:
    """What a folder says about its model.

    Attributes:
        model: the ONNX file.
        tokenizer: its tokenizer.json.
        pooling: how token vectors become one: "mean", "cls", or one that is not known here.
        modules: what the model does beyond that and is not known here.
        max_tokens: its limit.
        pad_token: what shorter texts of a batch are filled up with; None if the folder does not say.
        query_prompt, document_prompt: put before questions and before stored texts.
    """

    model: Path
    tokenizer: Path
    pooling: str
    modules: tuple[str, ...]
    max_tokens: int
    pad_token: str | None
    query_prompt: str
    document_prompt: str


def read_directory(path: Path) -> ModelDirectory:
    """Read what is in a folder.

    Args:
        path: the folder, or the ONNX file to take of it.

    Raises:
        EmbedderError: a file is missing or cannot be read, or it is not clear which ONNX file is meant.
    """
    if not path.exists():
        raise EmbedderError(f"no model at {path}: there is no such folder")
    model = path if path.is_file() else _onnx_file(path)
    folder = path if path.is_dir() else path.parent
    if not (folder / "tokenizer.json").is_file() and (folder.parent / "tokenizer.json").is_file():
        folder = folder.parent  # the file lies in the folder `onnx` of the model
    tokenizer = folder / "tokenizer.json"
    if not tokenizer.is_file():
        raise EmbedderError(f"the model in {folder} has no tokenizer.json")
    modules = _modules(folder)
    prompts = _prompts(folder)
    return ModelDirectory(
        model=model,
        tokenizer=tokenizer,
        pooling=_pooling(folder, modules),
        modules=tuple(kind for kind in modules if kind not in _MODULES),
        max_tokens=_max_tokens(folder),
        pad_token=_pad_token(folder),
        query_prompt=_first_of(prompts, "query"),
        document_prompt=_first_of(prompts, "document", "passage"),
    )


def fingerprint(directory: ModelDirectory, document_prompt: str) -> str:
    """16 characters that identify the space of the vectors: the same wherever the folder lies.

    They change with the weights, the tokenizer, the pooling and what is put before stored texts.

    Raises:
        EmbedderError: a file cannot be read.
    """
    model = directory.model
    apart = [
        model.with_name(f"{model.name}{ending}") for ending in ("_data", ".data")
    ]  # weights in a file of their own
    whole = hashlib.sha256(f"{directory.pooling}\0{document_prompt}".encode())
    for file in (model, *(file for file in apart if file.is_file()), directory.tokenizer):
        try:
            status = file.stat()
            whole.update(_digest(file, status.st_size, status.st_mtime_ns))
        except OSError as error:
            raise EmbedderError(f"the model file {file} cannot be read: {error.strerror}") from error
    return whole.hexdigest()[:16]


@lru_cache(maxsize=64)
def _digest(file: Path, _size: int, _changed_at: int) -> bytes:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").digest()


def _onnx_file(folder: Path) -> Path:
    for name in ONNX_NAMES:
        for place in (folder, folder / "onnx"):
            if (place / name).is_file():
                return place / name
    found = sorted(file for place in (folder, folder / "onnx") for file in place.glob("*.onnx"))
    if not found:
        raise EmbedderError(f"the folder {folder} has no .onnx file")
    if len(found) > 1:
        names = ", ".join(str(file.relative_to(folder)) for file in found)
        raise EmbedderError(f"the folder {folder} has several .onnx files ({names}); give the path of one of them")
    return found[0]


def _modules(folder: Path) -> dict[str, str]:
    """The kinds of the modules, in their order, each with its folder."""
    listed = _json(folder / "modules.json")
    modules = cast("list[dict[str, Any]]", listed if isinstance(listed, list) else [])
    return {str(module.get("type", "")).rpartition(".")[2]: str(module.get("path", "")) for module in modules}


def _pooling(folder: Path, modules: Mapping[str, str]) -> str:
    config = _object(folder / modules.get("Pooling", "1_Pooling") / "config.json")
    if config.get("include_prompt") is False:
        return "that leaves out the prompt"
    modes = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
    if isinstance(named := config.get("pooling_mode"), str):
        modes = [named]
    if not modes:
        return "mean"
    return _POOLINGS.get(modes[0], modes[0]) if len(modes) == 1 else " and ".join(modes)


def _prompts(folder: Path) -> dict[str, str]:
    config = _object(folder / "config_sentence_transformers.json")
    prompts = cast("dict[str, Any]", config.get("prompts") or {})
    default = prompts.get(str(config.get("default_prompt_name")))
    return {name: str(text) for name, text in {"": default, **prompts}.items() if text}


def _first_of(prompts: Mapping[str, str], *names: str) -> str:
    return next((prompts[name] for name in (*names, "") if name in prompts), "")


def _max_tokens(folder: Path) -> int:
    for file, key in _LIMITS:
        limit = _object(folder / file).get(key)
        if isinstance(limit, int) and 2 < limit < PLAUSIBLE_MAX_TOKENS:
            return limit
    return DEFAULT_MAX_TOKENS


def _pad_token(folder: Path) -> str | None:
    said: Any = _object(folder / "tokenizer_config.json").get("pad_token")
    token = cast("dict[str, Any]", said).get("content") if isinstance(said, dict) else said
    return token if isinstance(token, str) else None


def _object(file: Path) -> dict[str, Any]:
    content = _json(file)
    return cast("dict[str, Any]", content) if isinstance(content, dict) else {}


def _json(file: Path) -> object:
    try:
        return json.loads(file.read_bytes()) if file.is_file() else None
    except (OSError, ValueError) as error:
        raise EmbedderError(f"the model file {file} cannot be read: {error}") from error
