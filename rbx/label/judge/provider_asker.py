"""A judge behind one of DeepEval's own model classes: hosted models, Ollama, gateways."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from rbx.config.labelling import ProviderJudge
from rbx.errors import ConfigError, MissingExtraError
from rbx.label.completion import CompletionError
from rbx.label.judge.quiet import prepare_deepeval
from rbx.label.judge.reply import JudgeFault, Reply, encodable
from rbx.label.open_files import refuse_exhaustion
from rbx.label.redaction import Redaction

CLASSES = {
    "openai": "OpenAIModel",
    "azure": "AzureOpenAIModel",
    "anthropic": "AnthropicModel",
    "gemini": "GeminiModel",
    "ollama": "OllamaModel",
    "litellm": "LiteLLMModel",
    "openrouter": "OpenRouterModel",
}
# What a class imports, some of them not before they are asked, and the package that has it.
LIBRARIES = {
    "openai": ("openai", "openai"),
    "azure": ("openai", "openai"),
    "anthropic": ("anthropic", "anthropic"),
    "gemini": ("google.genai", "google-genai"),
    "ollama": ("ollama", "ollama"),
    "litellm": ("litellm", "litellm"),
    "openrouter": ("openai", "openai"),
}
SHOWN_CHARACTERS = 300
ADDRESSES = frozenset({"base_url"})  # where a model answers says nothing of what it answers

# What providers' libraries raise, by the package that defines it; DeepEval's retries wrap them in tenacity's.
_LIBRARIES = frozenset(
    {"anthropic", "deepeval", "google", "grpc", "httpcore", "httpx", "litellm", "ollama", "openai"}
    | {"aiohttp", "pydantic", "pydantic_core", "requests", "tenacity"}
)
_NETWORK = (OSError, TimeoutError, asyncio.TimeoutError)  # two timeouts before Python 3.11
_UNREADABLE = (AttributeError, LookupError, ValueError)  # a response without what DeepEval looks for in it


class ProviderAsker:
    """Sends each prompt through DeepEval's class, with DeepEval's retries, and takes the bare text back.

    The text is read by this package, not by the class's own schema handling, which completes cut JSON: a
    score of 10 cut after its first digit would be a 1.
    """

    def __init__(self, spec: ProviderJudge) -> None:
        """Raises ``ConfigError`` for what the class refuses, ``MissingExtraError`` without its library."""
        prepare_deepeval()
        library, package = LIBRARIES[spec.provider]
        if not _is_installed(library):
            raise MissingExtraError(
                f"judge {spec.name}: provider {spec.provider} needs {library}, which is not installed: "
                f"pip install {package}"
            )
        from deepeval import models
        from deepeval.errors import DeepEvalError

        try:
            self._model: Any = getattr(models, CLASSES[spec.provider])(model=spec.model, **spec.options)
        except (DeepEvalError, TypeError, ValueError) as error:
            raise ConfigError(f"judge {spec.name}: DeepEval's {CLASSES[spec.provider]}: {error}") from None
        self._spec = spec
        self._redaction = Redaction(
            value.get_secret_value() for value in vars(self._model).values() if isinstance(value, SecretStr)
        )

    @property
    def identity(self) -> Mapping[str, Any]:
        """Provider, model, options; the temperature may come from DeepEval's settings."""
        return {
            "kind": "deepeval",
            "provider": self._spec.provider,
            "model": self._spec.model,
            "options": {key: value for key, value in self._spec.options.items() if key not in ADDRESSES},
            "temperature": getattr(self._model, "temperature", None),
        }

    async def ask(self, prompt: str) -> Reply:
        """The reply; raises ``JudgeFault`` without a text where there is none within the deadline."""
        # A task hands over whatever the class raises, of any library, installed or not.
        task = asyncio.ensure_future(self._model.a_generate(prompt))
        try:
            await asyncio.wait({task}, timeout=self._spec.deadline_s)
            if not task.done():
                raise JudgeFault(f"timeout: no answer within {self._spec.deadline_s:g} s", unreached=True)
        finally:
            task.cancel()
            await asyncio.wait({task})
        error = _unwrapped(task.exception())
        if error is not None:
            raise self._fault(error)
        text, _ = task.result()
        return Reply(self._redaction.data(encodable(text)) if isinstance(text, str) else "")

    async def alive(self) -> bool:
        """Not to be told without a question, which costs: taken for granted."""
        return True

    async def close(self) -> None:
        """Nothing: DeepEval's classes open a client for each call."""

    def _fault(self, error: BaseException) -> BaseException:
        refuse_exhaustion(error, f"judge {self._spec.name}")
        detail = self._redaction.message(f"{type(error).__name__}: {error}")
        detail = encodable(detail[:SHOWN_CHARACTERS])
        if isinstance(error, _UNREADABLE):
            return JudgeFault(f"unreadable response: {detail}")
        library = type(error).__module__.partition(".")[0]
        # A TypeError is a response without choices or an option that no call can take: both meet every
        # question alike. DeepEval has plain Exceptions of its own.
        if library in _LIBRARIES or isinstance(error, (TypeError, *_NETWORK)) or type(error) is Exception:
            return JudgeFault(f"{self._spec.provider}: {detail}", unreached=_unreached(error))
        return error


def _unwrapped(error: BaseException | None) -> BaseException | None:
    last = getattr(error, "last_attempt", None)
    return last.exception() or error if last is not None else error


def _is_installed(library: str) -> bool:
    try:
        return importlib.util.find_spec(library) is not None
    except ModuleNotFoundError:  # not even the package around it
        return False


def _unreached(error: BaseException) -> bool:
    # Google's library calls the HTTP status a code; for OpenAI's that is a word.
    found = [getattr(error, name, None) for name in ("status_code", "code")]
    status = next((each for each in found if isinstance(each, int)), None)
    return not CompletionError("status", str(error), status).blames_request
