"""The embedders that peers are given: MiniLM from a folder, and random vectors for when only the search is timed.

Needs numpy, onnxruntime and tokenizers, and nothing of a peer.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # else the import writes the id of a device, and tries to send it

import onnxruntime

CACHE = "PEERS_VECTOR_CACHE"
"""The environment variable that names a folder: peers that embed the same text share its vector there."""
DIMENSIONS = 384


class MiniLM:
    """all-MiniLM-L6-v2 of a folder with `model.onnx` and the usual files of sentence-transformers.

    Mean of the token vectors, length 1. Every text is run on its own, so that its vector never depends on which others
    were not in the cache.
    """

    dimensions = DIMENSIONS

    def __init__(self, folder: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        model = (folder / "model.onnx").read_bytes()
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        settings = json.loads((folder / "sentence_bert_config.json").read_text(encoding="utf-8"))
        self._tokenizer.enable_truncation(settings["max_seq_length"])
        self._cache = VectorCache(hashlib.sha256(model).hexdigest())
        self._lock = threading.Lock()
        self.cpu_seconds = 0.0

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        with self._lock:
            before = time.process_time()
            vectors = [self._vector(text).tolist() for text in texts]
            self.cpu_seconds += time.process_time() - before
            return vectors

    def _vector(self, text: str) -> NDArray[np.float32]:
        found = self._cache.get(text)
        if found is None:
            found = self._run(text)
            self._cache.put(text, found)
        return found

    def _run(self, text: str) -> NDArray[np.float32]:
        ids = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        tokens = np.asarray(self._session.run(None, inputs)[0], dtype=np.float32)[0]
        mean = tokens.mean(axis=0)
        return mean / np.linalg.norm(mean)


class VectorCache:
    """Vectors by text, in a file that several processes may use; nothing is kept if no folder is named."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._file: sqlite3.Connection | None = None
        if folder := os.environ.get(CACHE):
            Path(folder).mkdir(parents=True, exist_ok=True)
            file = sqlite3.connect(
                Path(folder) / "vectors.db", timeout=60, isolation_level=None, check_same_thread=False
            )
            file.execute("PRAGMA journal_mode = wal")
            file.execute("PRAGMA synchronous = off")
            file.execute("CREATE TABLE IF NOT EXISTS vectors (text BLOB PRIMARY KEY, vector BLOB NOT NULL)")
            self._file = file

    def get(self, text: str) -> NDArray[np.float32] | None:
        if self._file is None:
            return None
        row = self._file.execute("SELECT vector FROM vectors WHERE text = ?", [self._key(text)]).fetchone()
        return np.frombuffer(row[0], dtype=np.float32) if row else None

    def put(self, text: str, vector: NDArray[np.float32]) -> None:
        if self._file is not None:
            row = self._key(text), vector.tobytes()
            self._file.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?)", row)

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(f"{self._model}\0{text}".encode()).digest()


class RandomVectors:
    """A random direction for every text, the same one each time."""

    dimensions = DIMENSIONS

    def __init__(self) -> None:
        self.cpu_seconds = 0.0

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        before = time.process_time()
        vectors: list[list[float]] = []
        for text in texts:
            seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
            vector = np.random.default_rng(seed).standard_normal(DIMENSIONS)
            vectors.append((vector / np.linalg.norm(vector)).tolist())
        self.cpu_seconds += time.process_time() - before
        return vectors
