"""A judge behind any server that speaks the OpenAI API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rbx.config.labelling import EndpointJudge
from rbx.label.completion import CompletionClient, CompletionError
from rbx.label.judge.reply import HIGHEST, LOWEST, JudgeFault, Reply

_SCHEMA = {
    "type": "object",
    "properties": {
        "reason": {"type": "string"},
        "score": {"type": "number", "minimum": LOWEST, "maximum": HIGHEST},
    },
    "required": ["reason", "score"],
    "additionalProperties": False,
}
_FORMATS: dict[str, dict[str, Any]] = {
    "none": {},
    "json_object": {"response_format": {"type": "json_object"}},
    "json_schema": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "judgement", "strict": True, "schema": _SCHEMA},
        }
    },
}


class EndpointAsker:
    """Sends each prompt as one user message; deadline and retries are the endpoint's."""

    def __init__(self, spec: EndpointJudge) -> None:
        """Raises ``ConfigError`` where the endpoint's key is not in the environment."""
        self._client = CompletionClient(spec.endpoint)
        self._open = False
        self._parameters: dict[str, Any] = {
            "model": spec.endpoint.served_name or spec.model,
            "temperature": spec.temperature,
            "max_tokens": spec.max_tokens,
            **_FORMATS[spec.response_format],
        }
        self._judge_model = spec.model

    @property
    def identity(self) -> Mapping[str, Any]:
        """The model, and every parameter of the requests, the served name among them."""
        return {"kind": "endpoint", "model": self._judge_model, "parameters": self._parameters}

    async def ask(self, prompt: str) -> Reply:
        """The reply; raises ``JudgeFault`` without a text where the server gave none."""
        await self._opened()
        try:
            found = await self._client.complete(
                {**self._parameters, "messages": [{"role": "user", "content": prompt}]}
            )
        except CompletionError as error:
            raise JudgeFault(str(error), unreached=not error.blames_request) from None
        return Reply(found.text, found.finish_reason)

    async def alive(self) -> bool:
        """Whether the server lists its models."""
        await self._opened()
        try:
            await self._client.served_models()
        except CompletionError:
            return False
        return True

    async def _opened(self) -> None:
        if not self._open:
            self._open = True
            await self._client.__aenter__()  # opens without waiting

    async def close(self) -> None:
        """Close the connections; another question opens them again."""
        self._open = False
        await self._client.close()
