"""The API's description, ``/openapi.json``: what is read of a request, and every answer there is."""

from __future__ import annotations

from typing import Any

from rbx import __version__
from rbx.config.gateway import GatewayConfig
from rbx.serve.gateway.knobs import HEADERS
from rbx.serve.gateway.request import MAX_BODY_BYTES

_JSON = "application/json"
_KNOBS = {
    "budget_usd": {"type": "number", "exclusiveMinimum": 0},
    "slo_ttft_ms": {"type": "number", "exclusiveMinimum": 0},
    "slo_e2e_ms": {"type": "number", "exclusiveMinimum": 0},
    "weights": {
        "type": "array",
        "items": {"type": "number", "minimum": 0, "maximum": 1},
        "minItems": 3,
        "maxItems": 3,
        "description": "quality, latency, cost; they sum to 1",
    },
}
_CAP = {"type": ["integer", "null"], "minimum": 1, "maximum": 2**31 - 1}
_COMMON: dict[str, Any] = {
    "model": {"type": ["string", "null"], "description": "auto, rbx, or a model of the pool"},
    "stream": {"type": ["boolean", "null"]},
    "stream_options": {
        "type": ["object", "null"],
        "properties": {"include_usage": {"type": ["boolean", "null"]}},
    },
    "max_tokens": _CAP,
    "n": {"enum": [1, None], "description": "one answer a request"},
    "rbx": {
        "type": ["object", "null"],
        "description": "for the gateway alone; a header of the same meaning goes first",
        "properties": _KNOBS,
        "additionalProperties": False,
    },
}
_PART = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
}
_MESSAGE = {
    "type": "object",
    "required": ["role"],
    "properties": {
        "role": {"type": "string"},
        "content": {
            "anyOf": [{"type": "string"}, {"type": "array", "items": _PART}, {"type": "null"}],
        },
    },
}
_CHAT = {
    "type": "object",
    "required": ["messages"],
    "properties": {
        **_COMMON,
        "max_completion_tokens": _CAP,
        "messages": {"type": "array", "minItems": 1, "items": _MESSAGE},
    },
    "additionalProperties": True,
}
_COMPLETION = {
    "type": "object",
    "required": ["prompt"],
    "properties": {
        **_COMMON,
        "prompt": {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "minItems": 1, "items": {"type": "integer"}},
            ]
        },
    },
    "additionalProperties": True,
}
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
_OF_STATUS = {
    400: "A field that does not hold; its path is error.param",
    401: "No valid bearer token",
    403: "Not from this machine",
    404: "No such model",
    408: "The request came too slowly",
    412: "The version in If-Match is not in force any more",
    413: f"A body beyond {MAX_BODY_BYTES >> 20} MiB",
    429: "Too much at once; see Retry-After",
    431: "A head beyond 64 KiB",
    502: "The instances that were tried failed",
    503: "No instance is up, or the gateway drains; see Retry-After",
    504: "The instances that were tried gave no token in time",
}
_IF_MATCH = {
    "name": "if-match",
    "in": "header",
    "schema": {"type": "string"},
    "description": "entity tags of which one must be in force, or *",
}
_SERVED = (400, 404, 408, 413, 429, 431, 502, 503, 504)


def openapi() -> dict[str, Any]:
    """The document, OpenAPI 3.1."""
    stream: dict[str, Any] = {"text/event-stream": {}}  # one event a chunk, then [DONE]
    answer = {_JSON: {"schema": {"type": "object"}}}
    knobs = [
        {"name": header, "in": "header", "schema": _KNOBS[name] if name != "weights" else {"type": "string"}}
        for name, header in HEADERS.items()
    ]
    both = {"anyOf": [_CHAT, _COMPLETION]}
    config = GatewayConfig.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas = config.pop("$defs")
    return {
        "openapi": "3.1.0",
        "components": {"schemas": schemas},
        "info": {"title": "rbx gateway", "version": __version__},
        "paths": {
            "/v1/chat/completions": {"post": _post(_CHAT, {**answer, **stream}, _SERVED, knobs)},
            "/v1/completions": {"post": _post(_COMPLETION, {**answer, **stream}, _SERVED, knobs)},
            "/v1/estimate": {"post": _post(both, answer, (400, 408, 413, 429, 431, 503), knobs)},
            "/v1/models": {"get": {"responses": _responses(answer, ())}},
            "/v1/config": {
                "get": {"responses": _responses(answer, (401, 403))},
                "put": _post(config, answer, (400, 401, 403, 408, 412, 413, 431), [_IF_MATCH]),
            },
            "/healthz": {"get": {"responses": _responses(answer, ())}},
            "/readyz": {
                "get": {
                    "responses": {
                        **_responses(answer, ()),
                        "503": {"description": "No instance is up, or the gateway drains", "content": answer},
                    }
                }
            },
            "/metrics": {
                "get": {"responses": _responses({"text/plain": {"schema": {"type": "string"}}}, ())}
            },
        },
    }


def _post(
    body: dict[str, Any], answer: dict[str, Any], refusals: tuple[int, ...], parameters: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "parameters": parameters,
        "requestBody": {"required": True, "content": {_JSON: {"schema": body}}},
        "responses": _responses(answer, refusals),
    }


def _responses(answer: dict[str, Any], refusals: tuple[int, ...]) -> dict[str, Any]:
    told = {
        str(status): {"description": _OF_STATUS[status], "content": {_JSON: {"schema": _ERROR}}}
        for status in refusals
    }
    return {"200": {"description": "OK", "content": answer}, **told}
