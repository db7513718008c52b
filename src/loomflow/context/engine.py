"""The pydantic-ai side of a run, as one module to load: building models, and what stands between them and a run.

This module imports pydantic-ai, which takes long; the agent loads it with the first run.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import AsyncIterator
from typing import Any, cast

from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import capture_run_messages
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models import Model, infer_model
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class

from loomflow.errors import ModelError
from loomflow.models import EchoModel, EchoRequest, ModelName, parse_model_name

from .definitions import budgeted
from .limits import Limits, limits_of
from .paging import paging_toolset
from .requests import RequestPlan, RunModel
from .serving import ModelPerLoop
from .sessions import texts_of

EXTRAS = {"anthropic": "anthropic", "google": "google", "google-cloud": "google"}
KEYLESS = "no-key-needed"
_KEY = re.compile(r"`([A-Z][A-Z0-9_]*_KEY)`")

__all__ = [
    "Limits", "PydanticAgent", "RequestPlan", "RunModel", "budgeted", "build_model", "capture_run_messages",
    "limits_of", "models_of", "paging_toolset",
]  # fmt: skip


def models_of(model: Any, base_url: str | None, api_key: str | None) -> ModelPerLoop:
    """Where the agent's model comes from, see `build_model`. A model that is built already serves every loop."""
    return ModelPerLoop(lambda: build_model(model, base_url, api_key))


def build_model(model: Any, base_url: str | None, api_key: str | None) -> Model[Any]:
    """A pydantic-ai model from a name, an `EchoModel`, or one that is built already.

    Raises:
        ModelError: the name is unknown, or its key or package is missing; the message says what to set or install.
    """
    if isinstance(model, Model):
        return cast("Model[Any]", model)
    if isinstance(model, EchoModel):
        return _echo(model)
    if not isinstance(model, str):
        raise ModelError(f"model must be a name, a pydantic-ai model or EchoModel(), got {type(model).__name__}")
    name = _on_the_server(parse_model_name(model, base_url))

    def provider(kind: str) -> Provider[Any]:
        return _provider(kind, name, api_key)

    try:
        return infer_model(f"{name.provider}:{name.name}", provider_factory=provider)
    except ImportError as error:
        extra = EXTRAS.get(name.provider, name.provider)
        package = f"loomflow[{extra}]" if extra in EXTRAS.values() else f"pydantic-ai-slim[{extra}]"
        raise ModelError(f"model {model!r} needs a package that is not installed: pip install '{package}'") from error
    except UserError as error:
        key = _KEY.search(str(error))
        reason = f"needs a key: set {key[1]}, or pass api_key=" if key else _first_sentence(error)
        raise ModelError(f"model {model!r}: {reason}") from error
    except ValueError as error:
        raise ModelError(f"unknown model {model!r}: {_first_sentence(error)}") from error


def _on_the_server(name: ModelName) -> ModelName:
    """With OPENAI_BASE_URL set, `qwen3:8b` is a model of that server and not one of a provider `qwen3`."""
    if os.environ.get("OPENAI_BASE_URL") and name.base_url is None:
        try:
            infer_provider_class(name.provider)
        except ValueError:
            return ModelName(name.given, "openai-chat", name.given)
        except ImportError:  # a provider whose package is missing is a provider
            pass
    return name


def _provider(kind: str, name: ModelName, api_key: str | None) -> Provider[Any]:
    # `openai-chat` and the like are kinds of model; their provider is `openai`.
    if name.base_url is None and api_key is None:
        return infer_provider(kind)
    provider_class = infer_provider_class(kind)
    known = inspect.signature(provider_class).parameters
    options: dict[str, Any] = {}
    if name.base_url is not None:
        if "base_url" not in known:
            raise ModelError(f"model {name.given!r} does not take a base_url")
        variable = "ANTHROPIC_API_KEY" if kind == "anthropic" else "OPENAI_API_KEY"  # no key goes to another provider
        options = {"base_url": name.base_url, "api_key": api_key or os.environ.get(variable) or KEYLESS}
    elif api_key is not None:
        options = {"api_key": api_key}
    return provider_class(**options)


def _first_sentence(error: Exception) -> str:
    return str(error).split(". ")[0].split("\n")[0]


def _echo(echo: EchoModel) -> Model[Any]:
    def request(messages: list[ModelMessage], info: AgentInfo) -> str:
        parts = info.model_request_parameters.instruction_parts or []
        system = "\n\n".join(part.content for part in parts)
        return echo.answer(EchoRequest(system, tuple(texts_of(messages))))

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart(request(messages, info))])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        for piece in re.findall(r"\S+\s*|\s+", request(messages, info)):
            yield piece

    return FunctionModel(answer, stream_function=stream, model_name="echo")
