"""DeepEval without its side effects: no telemetry, no ``.env``, no files, no tracing."""

from __future__ import annotations

import importlib
import os
from functools import cache

from pydantic import ValidationError

from rbx.errors import ConfigError, MissingExtraError

ENVIRONMENT = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    "DEEPEVAL_DISABLE_DOTENV": "1",  # it would take keys from a .env in the working directory
    "DEEPEVAL_DISABLE_LEGACY_KEYFILE": "1",  # and from .deepeval/
    "DEEPEVAL_UPDATE_WARNING_OPT_IN": "0",
    "DEEPEVAL_VERBOSE_MODE": "0",
    "CONFIDENT_TRACING_ENABLED": "NO",
}


@cache
def prepare_deepeval() -> None:
    """Set the environment that keeps DeepEval quiet and import it, once.

    It reads the environment when it is imported, so this comes before any other import of it. Raises
    ``MissingExtraError`` where it is not installed and ``ConfigError`` where its own variables do not hold.
    """
    os.environ.update(ENVIRONMENT)
    try:
        importlib.import_module("deepeval")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"judges need DeepEval, and {error.name} is missing: pip install -e '.[judge]' in rbx's folder"
        ) from None
    except ValidationError as error:
        # Names only: the values of these variables may be keys.
        names = ", ".join(sorted({str(part) for each in error.errors() for part in each["loc"][:1]}))
        raise ConfigError(
            f"DeepEval refuses the environment variables {names}; correct or unset them"
        ) from None
