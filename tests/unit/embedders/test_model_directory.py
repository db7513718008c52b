"""A model's folder: which files are taken, and what it says about pooling, prompts and limits."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from loomflow import ConfigError, EmbedderError
from loomflow.embedders import OnnxEmbedder
from tests.tiny_onnx import INT32, lay_tiny

TEXT = "one two three"
PROMPTS = {"query": "ask: ", "document": "tell: "}


async def embedded(embedder: OnnxEmbedder, text: str = TEXT, *, query: bool = False) -> list[float]:
    (vector,) = await embedder.embed([text], query=query)
    return [float(number) for number in vector]


# What the folder says


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 12),
        ({"1_Pooling/config.json": {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}}, 12),
        ({"1_Pooling/config.json": {"pooling_mode_mean_sqrt_len_tokens": True}}, 12),
        ({"1_Pooling/config.json": {"pooling_mode_cls_token": True}}, 11),
        ({"1_Pooling/config.json": {"pooling_mode": "cls"}}, 11),
        (
            {
                "modules.json": [{"path": "pool", "type": "sentence_transformers.models.Pooling"}],
                "pool/config.json": {"pooling_mode_cls_token": True},
            },
            11,
        ),
    ],
)
async def test_pooling_is_as_the_folder_says(tmp_path: Path, files: dict[str, Any], expected: float) -> None:
    assert await embedded(OnnxEmbedder(lay_tiny(tmp_path, files=files))) == [expected]


@pytest.mark.parametrize(
    ("files", "kept"),
    [
        ({"sentence_bert_config.json": {"max_seq_length": 3}, "tokenizer_config.json": {"model_max_length": 9}}, 3),
        ({"sentence_bert_config.json": {"max_seq_length": None}, "tokenizer_config.json": {"model_max_length": 4}}, 4),
        ({"tokenizer_config.json": {"model_max_length": 10**30}, "config.json": {"max_position_embeddings": 5}}, 5),
        ({"config.json": {"max_position_embeddings": 8192}}, 512),
        ({}, 512),
    ],
)
async def test_texts_are_cut_where_the_model_ends(tmp_path: Path, files: dict[str, Any], kept: int) -> None:
    embedder = OnnxEmbedder(lay_tiny(tmp_path, files=files))
    text = " ".join(["two"] * (kept - 1) + ["zero", "three"] * 500)
    assert await embedded(embedder, text) == pytest.approx([(12 * (kept - 1) + 10) / kept], rel=1e-6)  # pyright: ignore[reportUnknownMemberType]


async def test_the_cut_can_be_set_below_the_limit_and_not_above(tmp_path: Path) -> None:
    folder = lay_tiny(tmp_path, files={"config.json": {"max_position_embeddings": 4}})
    assert await embedded(OnnxEmbedder(folder, max_tokens=3), "two two zero three zero") != [12]
    assert await embedded(OnnxEmbedder(folder, max_tokens=2), "two two zero") == [12]
    assert await embedded(OnnxEmbedder(folder, max_tokens=100), "two two two two zero") == [12]


async def test_prompts_are_put_before_questions_and_stored_texts(tmp_path: Path) -> None:
    folder = lay_tiny(tmp_path, files={"config_sentence_transformers.json": {"prompts": PROMPTS}})
    embedder = OnnxEmbedder(folder)
    assert await embedded(embedder, "zero") == [(30 + 10) / 2]
    assert await embedded(embedder, "zero", query=True) == [(20 + 10) / 2]
    other = OnnxEmbedder(folder, query_prompt="", document_prompt="ask: ")
    assert await embedded(other, "zero") == [(20 + 10) / 2]
    assert await embedded(other, "zero", query=True) == [10]


@pytest.mark.parametrize(
    ("config", "query", "document"),
    [
        ({"prompts": {"query": "ask: ", "passage": "tell: "}}, 15, 20),
        ({"prompts": {"tell": "tell: "}, "default_prompt_name": "tell"}, 20, 20),
        ({"prompts": {"tell": "tell: "}, "default_prompt_name": None}, 10, 10),
        ({"prompts": {"query": "ask: ", "document": ""}}, 15, 10),
        ({"prompts": None}, 10, 10),
    ],
)
async def test_prompts_have_several_names(tmp_path: Path, config: Any, query: float, document: float) -> None:
    embedder = OnnxEmbedder(lay_tiny(tmp_path, files={"config_sentence_transformers.json": config}))
    assert await embedded(embedder, "zero", query=True) == [query]
    assert await embedded(embedder, "zero") == [document]


async def test_an_output_that_is_pooled_already_is_taken_as_it_is(tmp_path: Path) -> None:
    dense = {"modules.json": [{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]}
    outputs = "last_hidden_state", "sentence_embedding"
    assert await embedded(OnnxEmbedder(lay_tiny(tmp_path / "a", outputs=outputs, files=dense))) == [11, 12, 13]
    assert await embedded(OnnxEmbedder(lay_tiny(tmp_path / "b", outputs=["vector"]))) == [11, 12, 13]


async def test_models_of_narrow_numbers_and_with_token_types_run(tmp_path: Path) -> None:
    inputs = "input_ids", "attention_mask", "token_type_ids"
    embedder = OnnxEmbedder(lay_tiny(tmp_path, inputs=inputs, kind=INT32))
    assert await embedded(embedder) == [12]
    assert await embedded(embedder, "unheard words") == [1]


async def test_a_text_without_tokens_is_no_failure(tmp_path: Path) -> None:
    assert await embedded(OnnxEmbedder(lay_tiny(tmp_path)), " ") == [0]


# Which file


@pytest.mark.parametrize(
    ("files", "taken"),
    [
        (["model.onnx", "onnx/model.onnx", "model_int8.onnx"], "model.onnx"),
        (["onnx/model.onnx", "onnx/model_quantized.onnx", "onnx/model_fp16.onnx"], "onnx/model.onnx"),
        (["onnx/model_int8.onnx", "onnx/model_quantized.onnx"], "onnx/model_quantized.onnx"),
        (["onnx/model_int8.onnx", "model_O3.onnx"], "onnx/model_int8.onnx"),
        (["weights.onnx"], "weights.onnx"),
        (["onnx/model_qint8_avx512.onnx"], "onnx/model_qint8_avx512.onnx"),
    ],
)
async def test_of_several_model_files_the_usual_one_is_taken(tmp_path: Path, files: list[str], taken: str) -> None:
    for file in files:
        lay_tiny(tmp_path, model=file)
        (tmp_path / file).write_bytes(b"not this one")
    lay_tiny(tmp_path, model=taken)
    assert await embedded(OnnxEmbedder(tmp_path)) == [12]


async def test_a_model_file_can_be_named(tmp_path: Path) -> None:
    for file in ("onnx/model_O2.onnx", "onnx/model_O3.onnx"):
        lay_tiny(tmp_path, model=file)
    with pytest.raises(EmbedderError, match=r"several .*\(onnx/model_O2.onnx, onnx/model_O3.onnx\)"):
        OnnxEmbedder(tmp_path)
    assert await embedded(OnnxEmbedder(tmp_path / "onnx" / "model_O3.onnx")) == [12]


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("folder", "there is no such folder"),
        ("model.onnx", r"has no \.onnx file"),
        ("tokenizer.json", r"has no tokenizer\.json"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, missing: str, said: str) -> None:
    folder = lay_tiny(tmp_path / "folder")
    if missing == "folder":
        shutil.rmtree(folder)
    else:
        (folder / missing).unlink()
    with pytest.raises(EmbedderError, match=said) as caught:
        OnnxEmbedder(folder)
    assert str(folder) in str(caught.value)


def test_a_broken_setting_of_the_folder_is_named(tmp_path: Path) -> None:
    (lay_tiny(tmp_path) / "modules.json").write_text("{")
    with pytest.raises(EmbedderError, match=r"modules\.json cannot be read"):
        OnnxEmbedder(tmp_path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"inputs": ["input_ids", "attention_mask", "position_ids"]}, "takes input_ids, attention_mask, position_ids"),
        ({"inputs": ["pixel_values"]}, "takes pixel_values"),
        ({"inputs": ["input_ids"]}, "takes input_ids; OnnxEmbedder gives it"),
        ({"kind": 1}, "takes input_ids"),
        ({"outputs": ["first", "second"]}, "returns first, second"),
        ({"files": {"modules.json": [{"type": "sentence_transformers.models.Dense", "path": "2"}]}}, "needs Dense"),
        ({"files": {"1_Pooling/config.json": {"pooling_mode_max_tokens": True}}}, "pooling pooling_mode_max_tokens"),
        (
            {"files": {"1_Pooling/config.json": {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True}}},
            "pooling_mode_cls_token and pooling_mode_max_tokens",
        ),
        ({"files": {"1_Pooling/config.json": {"include_prompt": False}}}, "leaves out the prompt"),
        ({"files": {"tokenizer.json": {}}}, r"tokenizer\.json cannot be read"),
    ],
)
async def test_a_model_that_cannot_be_used_is_refused(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    embedder = OnnxEmbedder(lay_tiny(tmp_path, **options))
    with pytest.raises(EmbedderError, match=said):
        await embedder.embed([TEXT])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"threads": 0}, "threads must be a positive int"),
        ({"max_tokens": -1}, "max_tokens must be a positive int"),
    ],
)
def test_arguments_are_checked(tmp_path: Path, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        OnnxEmbedder(lay_tiny(tmp_path), **arguments)


# The name


def test_the_name_comes_from_the_content_and_not_from_the_place(tmp_path: Path) -> None:
    one = OnnxEmbedder(lay_tiny(tmp_path / "one", files={"1_Pooling/config.json": {"pooling_mode": "mean"}}))
    shutil.copytree(tmp_path / "one", tmp_path / "moved")
    assert one.name.startswith("onnx:")
    assert len(one.name) < 30
    assert OnnxEmbedder(tmp_path / "moved").name == one.name
    assert OnnxEmbedder(tmp_path / "moved", query_prompt="ask: ", max_tokens=9, threads=2).name == one.name
    assert OnnxEmbedder(lay_tiny(tmp_path / "two", model="onnx/model.onnx")).name == one.name


def test_the_name_tells_spaces_apart(tmp_path: Path) -> None:
    lay_tiny(tmp_path / "same")
    lay_tiny(tmp_path / "weights", outputs=["sentence_embedding"])
    lay_tiny(tmp_path / "apart").joinpath("model.onnx_data").write_bytes(b"weights in a file of their own")
    lay_tiny(tmp_path / "pooling", files={"1_Pooling/config.json": {"pooling_mode": "cls"}})
    lay_tiny(tmp_path / "prompt", files={"config_sentence_transformers.json": {"prompts": PROMPTS}})
    tokenizer = lay_tiny(tmp_path / "tokenizer") / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace("three", "drei"))
    names = {OnnxEmbedder(folder).name for folder in tmp_path.iterdir()}
    assert len(names) == 6
