"""Sentence-transformers models on this machine, run by onnxruntime: no PyTorch, no network, no key."""

from __future__ import annotations

import asyncio
import importlib
import os
import threading
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from loomflow.checks import check_limit
from loomflow.errors import ConfigError, EmbedderError
from loomflow.ports import NOISE

from .loading import Loading, check_noise, need_package
from .model_directory import DEFAULT_MAX_TOKENS, ModelDirectory, fingerprint, read_directory

CHARS_PER_TOKEN = 16
"""A text is cut to so many characters for each token that the model takes, before it is tokenized."""

BATCH_TEXTS = 32
BATCH_TOKENS = 512
"""Padding included. Larger batches fall out of the processor's cache: measured, they cost more for each text."""

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
NUMBERS: dict[str, Any] = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}

Vectors = NDArray[np.float32]


class OnnxEmbedder:
    """A model in a folder, as sentence-transformers and optimum write it.

    The folder has `tokenizer.json` and an ONNX file: `model.onnx`, `model_quantized.onnx` or `model_int8.onnx`, there
    or in its folder `onnx`, or the only one there is. What else is there is followed: the pooling (`modules.json`,
    `1_Pooling/config.json`; mean if it is not said), the limit (`sentence_bert_config.json`, `tokenizer_config.json`,
    `config.json`) and the prompts (`config_sentence_transformers.json`).

    The model is loaded once, on first use, and run in a thread. Its `name` comes from the content of the files, so a
    folder may be moved and renamed.

    Args:
        directory: the folder, or one ONNX file in it.
        query_prompt: put before questions, such as "query: " for E5; what the folder says if None.
        document_prompt: put before stored texts, such as "passage: "; what the folder says if None.
        max_tokens: where texts are cut; the limit of the model, but at most 512, if None. Time grows with the square.
        threads: how many share the work on one text. More than one answers sooner and costs more in all.
        noise: the cosine that unrelated texts reach with this model, as far as it is known.

    Raises:
        EmbedderError: onnxruntime is not installed, or the folder or a file is missing or unclear.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        max_tokens: int | None = None,
        threads: int = 1,
        noise: float = NOISE,
    ) -> None:
        need_package("onnxruntime", "onnx", "OnnxEmbedder")
        if not isinstance(directory, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError.of("directory", "a path", directory)
        self._directory = read_directory(Path(directory).expanduser())
        self._threads = check_limit("threads", threads)
        self.noise = check_noise(noise)
        wanted = DEFAULT_MAX_TOKENS if max_tokens is None else check_limit("max_tokens", max_tokens)
        self._max_tokens = min(wanted, self._directory.max_tokens)
        self._query_prompt = self._directory.query_prompt if query_prompt is None else query_prompt
        self._document_prompt = self._directory.document_prompt if document_prompt is None else document_prompt
        self._loading = Loading(self._load, f"the model in {directory}")

    @cached_property
    def name(self) -> str:
        """Identifies the space of the vectors, by the content of the files. Reading them takes 10 ms for 20 MB, once.

        The thread that loads the model has it done already, so a use before this costs the caller nothing.
        """
        return f"onnx:{fingerprint(self._directory, self._document_prompt)}"

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Embed texts, each cut to what the model takes; shape [n, d].

        Raises:
            EmbedderError: the model cannot be loaded or run.
        """
        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        session = await self._loading.get()
        prompt = self._query_prompt if query else self._document_prompt
        longest = CHARS_PER_TOKEN * self._max_tokens
        given_up = threading.Event()
        try:
            return await asyncio.to_thread(session.embed, [f"{prompt}{text[:longest]}" for text in texts], given_up)
        finally:
            given_up.set()  # a caller who stops waiting has no use for the batches that are left

    def _load(self) -> _Session:
        _ = self.name
        return _Session(self._directory, self._max_tokens, self._threads)


class _Session:
    """The loaded model with its tokenizer. Several threads may use it at once."""

    def __init__(self, directory: ModelDirectory, max_tokens: int, threads: int) -> None:
        self._file = directory.model
        self._tokenizer, self._pad_id = _tokenizer(directory, max_tokens)
        self._session = _onnx_session(directory.model, threads)
        self._inputs: dict[str, Any] = {
            one.name: NUMBERS.get(one.type) for one in self._session.get_inputs() if one.name in INPUTS
        }
        names = [one.name for one in self._session.get_inputs()]
        if not {"input_ids", "attention_mask"} <= set(names) <= set(INPUTS) or None in self._inputs.values():
            raise EmbedderError(f"{self._file} takes {', '.join(names)}; OnnxEmbedder gives it {', '.join(INPUTS)}")
        self._output, self._pooling = self._choose_output(directory)

    def _choose_output(self, directory: ModelDirectory) -> tuple[str, str]:
        """Which output to ask for, and how its tokens become one vector; "none" where the model has done that."""
        outputs = {one.name: len(one.shape) for one in self._session.get_outputs()}
        if "sentence_embedding" in outputs:
            return "sentence_embedding", "none"
        if directory.modules:
            raise EmbedderError(f"the model {self._file} needs {', '.join(directory.modules)}, which is not done here")
        tokens = [name for name, rank in outputs.items() if rank == 3]
        if not tokens:
            if len(outputs) == 1:
                return next(iter(outputs)), "none"
            raise EmbedderError(f"{self._file} returns {', '.join(outputs)}: none of them is known")
        if directory.pooling not in ("mean", "cls"):
            raise EmbedderError(f"the model {self._file} needs the pooling {directory.pooling}; mean and cls are known")
        return tokens[0], directory.pooling

    def embed(self, texts: Sequence[str], given_up: threading.Event) -> Vectors:
        if len(texts) == 1:  # not as a batch of one, which starts threads
            ids = [self._tokenizer.encode(texts[0]).ids]
        else:
            ids = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        rows: Vectors | None = None
        for batch in batches([len(one) for one in ids]):
            if given_up.is_set():
                raise EmbedderError("nobody waits for these vectors any more")
            vectors = self._run([ids[place] for place in batch])
            if rows is None:
                rows = np.zeros((len(texts), vectors.shape[1]), dtype=np.float32)
            rows[batch] = vectors
        assert rows is not None
        return rows

    def _run(self, ids: Sequence[Sequence[int]]) -> Vectors:
        shape = len(ids), max(1, *map(len, ids))
        tokens = np.full(shape, self._pad_id, dtype=np.int64)
        mask = np.zeros(shape, dtype=np.int64)
        for row, one in enumerate(ids):
            tokens[row, : len(one)] = one
            mask[row, : len(one)] = 1
        given: dict[str, Any] = dict(zip(INPUTS, (tokens, mask, np.zeros_like(tokens)), strict=True))
        feed = {name: given[name].astype(kind, copy=False) for name, kind in self._inputs.items()}
        try:
            output = np.asarray(self._session.run([self._output], feed)[0])
        except Exception as error:
            raise EmbedderError(f"the model {self._file} failed: {error}") from error
        if self._pooling == "cls":
            output = output[:, 0]
        elif self._pooling == "mean":
            weights = mask.astype(np.float32)
            output = np.einsum("ntd,nt->nd", output, weights) / np.maximum(weights.sum(axis=1, keepdims=True), 1)
        return output.astype(np.float32, copy=False)


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """The places of texts with these lengths, in batches of similar length: little of them is padding.

    A batch has at most `BATCH_TEXTS` texts and, unless it is a single one, `BATCH_TOKENS` tokens.
    """
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) == BATCH_TEXTS or (len(batch) + 1) * lengths[place] > BATCH_TOKENS):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def _tokenizer(directory: ModelDirectory, max_tokens: int) -> tuple[Tokenizer, int]:
    """The tokenizer, cutting at `max_tokens`, and the id of its padding token."""
    try:
        tokenizer = Tokenizer.from_file(str(directory.tokenizer))
    except Exception as error:  # the library raises no class of its own
        raise EmbedderError(f"{directory.tokenizer} cannot be read: {error}") from error
    said = cast("dict[str, Any]", tokenizer.padding or {}).get("pad_id")
    named = (tokenizer.token_to_id(token) for token in (directory.pad_token, "[PAD]", "<pad>") if token)
    pad_id = said if isinstance(said, int) else next((number for number in named if number is not None), 0)
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)  # pyright: ignore[reportUnknownMemberType]
    return tokenizer, pad_id


def _onnx_session(file: Path, threads: int) -> Any:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # else its import leaves an id of the machine
    runtime: Any = importlib.import_module("onnxruntime")  # of an extra
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting must not burn CPU
    try:
        return runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its classes differ between versions
        raise EmbedderError(f"{file} is not a model that onnxruntime can load: {error}") from error
