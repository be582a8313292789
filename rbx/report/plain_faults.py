"""What pydantic found wrong, in lines of ours."""

from __future__ import annotations

from pydantic import ValidationError


def plain_faults(error: ValidationError) -> list[str]:
    """One line for each fault: the dotted key and what is wrong with it."""
    return [
        f"{'.'.join(map(str, fault['loc'])) or '(top)'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_input=False)
    ]
