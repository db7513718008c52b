"""A real model on this machine: what its vectors say, and that they are the right texts' vectors."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import numpy as np
import onnxruntime  # pyright: ignore[reportMissingTypeStubs]
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer

from loomflow import EmbedderError, Episode, Memory
from loomflow.embedders import OnnxEmbedder
from loomflow.embedders.onnx import BATCH_TEXTS, BATCH_TOKENS, batches

Vectors = NDArray[np.float32]

PARAPHRASES = [
    ("How do I cancel my subscription?", "I want to stop paying for this service"),
    ("The cat sleeps on the sofa.", "A kitten is napping on the couch."),
    ("She is allergic to peanuts.", "Nuts make her ill."),
    ("Our flight leaves at dawn.", "The plane takes off early in the morning."),
    ("He was promoted to head of sales.", "His boss gave him a better job in the company."),
    ("The database ran out of disk space.", "No storage was left on the server."),
]
TEXTS = [
    "tea",
    "We had dinner at the harbour and it was full. " * 12,
    "会议纪要，下一步计划。",
    "👩‍👩‍👧 party 🎉",
    "café naïve Straße",
    "no",
    "a\nb\tc",
    "The quick brown fox jumps over the lazy dog.",
    "x" * 3000,
    "مرحبا بالعالم",
    "e\u0301\u0301\u0301",
]


def cosines(left: Vectors, right: Vectors) -> Vectors:
    lengths = np.linalg.norm(left, axis=-1), np.linalg.norm(right, axis=-1)
    return np.einsum("...d,...d->...", left, right) / (lengths[0] * lengths[1])


async def test_a_paraphrase_is_the_nearest_neighbour(minilm: OnnxEmbedder) -> None:
    questions = await minilm.embed([question for question, _ in PARAPHRASES], query=True)
    answers = await minilm.embed([answer for _, answer in PARAPHRASES])
    assert questions.shape == answers.shape == (len(PARAPHRASES), 384)
    assert questions.dtype == np.float32
    nearest = [int(np.argmax(cosines(question, answers))) for question in questions]
    assert nearest == list(range(len(PARAPHRASES)))


async def test_similarities_are_those_that_the_model_is_known_for(minilm: OnnxEmbedder) -> None:
    happy, *others = await minilm.embed(
        ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
    )
    found = [float(cosines(happy, other)) for other in others]
    assert found == pytest.approx([0.695, 0.943, 0.257], abs=0.02)  # pyright: ignore[reportUnknownMemberType]


async def test_a_vector_is_the_mean_over_the_tokens_of_the_text_alone(
    minilm: OnnxEmbedder, minilm_folder: Path
) -> None:
    tokenizer = Tokenizer.from_file(str(minilm_folder / "tokenizer.json"))
    tokenizer.no_padding()
    session = onnxruntime.InferenceSession(str(minilm_folder / "model.onnx"), providers=["CPUExecutionProvider"])
    short, long = "Where do we eat?", "A text that makes the other one need padding, which must not count."
    ids = np.array([tokenizer.encode(short).ids])
    feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    (tokens,) = session.run(None, feed)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    vectors = await minilm.embed([short, long])
    np.testing.assert_allclose(vectors[0], np.asarray(tokens)[0].mean(axis=0), atol=1e-3)


async def test_vectors_come_in_the_order_of_the_texts(minilm: OnnxEmbedder) -> None:
    together = await minilm.embed(TEXTS * 5)
    alone = np.concatenate([await minilm.embed([text]) for text in TEXTS])
    assert np.isfinite(alone).all()
    assert cosines(together, np.tile(alone, (5, 1))).min() > 0.9999
    assert len({row.tobytes() for row in alone}) == len(TEXTS)


async def test_no_texts_make_no_vectors(minilm: OnnxEmbedder) -> None:
    assert len(await minilm.embed([])) == 0


async def test_of_a_long_text_the_beginning_is_embedded(minilm: OnnxEmbedder) -> None:
    words = "The meeting about the new harbour was moved to Thursday. " * 100
    short, longer, longest = await minilm.embed([words[:200], words, words * 100])
    np.testing.assert_allclose(longer, longest, atol=1e-3)
    assert cosines(short, longer) > 0.8


@pytest.mark.parametrize("lengths", [[], [1], [3] * 100, [700, 2, 700, 1], [16] * 33, list(range(1, 300))])
def test_batches_hold_each_text_once_and_little_padding(lengths: list[int]) -> None:
    made = list(batches(lengths))
    assert sorted(place for batch in made for place in batch) == list(range(len(lengths)))
    for batch in made:
        assert len(batch) <= BATCH_TEXTS
        assert len(batch) == 1 or len(batch) * max(lengths[place] for place in batch) <= BATCH_TOKENS


async def test_a_memory_is_found_that_shares_no_word_with_the_question(tmp_path: Path, minilm: OnnxEmbedder) -> None:
    async with Memory.open(tmp_path / "memory.db", embedder=minilm) as memory:
        told = [answer for _, answer in PARAPHRASES]
        await memory.remember([Episode(answer, "Noted.", session_id="s") for answer in told])
        for question, answer in PARAPHRASES:
            best = min(await memory.recall_scored(question), key=lambda match: match.vector_rank or 0)
            assert best.episode.input == answer
        assert (await memory.stats()).embedder == minilm.name


def test_one_embedder_serves_several_event_loops(minilm_folder: Path) -> None:
    embedder = OnnxEmbedder(minilm_folder)
    vectors: list[Vectors] = []

    def ask() -> None:
        vectors.append(asyncio.run(embedder.embed(["Where do we eat?"])))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ask()
    assert len(vectors) == 5
    assert all(np.array_equal(vectors[0], one) for one in vectors)


async def test_the_event_loop_goes_on_while_texts_are_embedded(minilm: OnnxEmbedder) -> None:
    await minilm.embed(["warm up"])
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.001)
            turns += 1

    counting = asyncio.create_task(count())
    await minilm.embed(["The meeting about the harbour was moved. " * 40] * 8)
    counting.cancel()
    assert turns > 10


async def test_work_that_nobody_waits_for_is_dropped(minilm: OnnxEmbedder) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await minilm.embed(["The meeting about the harbour was moved to Thursday. " * 40] * 2000)
    async with asyncio.timeout(10):  # the whole of it would take minutes
        await asyncio.get_running_loop().shutdown_default_executor()


async def test_what_is_not_a_model_is_said(tmp_path: Path, minilm_folder: Path) -> None:
    (tmp_path / "tokenizer.json").symlink_to((minilm_folder / "tokenizer.json").resolve())
    (tmp_path / "model.onnx").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    embedder = OnnxEmbedder(tmp_path)
    for _ in range(2):
        with pytest.raises(EmbedderError, match=r"model\.onnx is not a model that onnxruntime can load"):
            await embedder.embed(["a"])
