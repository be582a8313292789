"""A licence as the header of a card on the hub has it."""

from __future__ import annotations

import re

# Identifiers that the hub knows; what is none of them is "other" with its own name.
HUB_LICENCES = frozenset(
    (
        "afl-3.0",
        "agpl-3.0",
        "apache-2.0",
        "bsd",
        "bsd-2-clause",
        "bsd-3-clause",
        "cc",
        "cc-by-2.0",
        "cc-by-2.5",
        "cc-by-3.0",
        "cc-by-4.0",
        "cc-by-nc-2.0",
        "cc-by-nc-3.0",
        "cc-by-nc-4.0",
        "cc-by-nc-nd-4.0",
        "cc-by-nc-sa-2.0",
        "cc-by-nc-sa-3.0",
        "cc-by-nc-sa-4.0",
        "cc-by-nd-4.0",
        "cc-by-sa-3.0",
        "cc-by-sa-4.0",
        "cc0-1.0",
        "cdla-permissive-1.0",
        "cdla-permissive-2.0",
        "cdla-sharing-1.0",
        "gpl",
        "gpl-2.0",
        "gpl-3.0",
        "lgpl",
        "lgpl-2.1",
        "lgpl-3.0",
        "mit",
        "mpl-2.0",
        "odbl",
        "odc-by",
        "openrail",
        "other",
        "pddl",
        "unknown",
        "unlicense",
    )
)


def hub_licence(licence: str) -> dict[str, str]:
    """The header's keys: an identifier that the hub knows, or ``other`` with the licence's own name."""
    name = licence.strip().lower()
    if name == "unstated":
        return {"license": "unknown"}
    if name in HUB_LICENCES:
        return {"license": name}
    return {"license": "other", "license_name": re.sub(r"[^a-z0-9.]+", "-", name).strip("-") or "other"}
