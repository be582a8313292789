"""Errors as vLLM's API server words them."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import JSONResponse

_TYPES = {400: "BadRequestError", 404: "NotFoundError", 405: "MethodNotAllowedError"}


def error_object(status: int, message: str, param: str | None = None) -> dict[str, object]:
    """The body of an error."""
    kind = _TYPES.get(status, "InternalServerError")
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


@dataclass
class Refusal(Exception):
    """A request that gets no answer."""

    status: int
    message: str
    param: str | None = None

    def response(self) -> JSONResponse:
        """What the client is told."""
        return JSONResponse(error_object(self.status, self.message, self.param), self.status)
