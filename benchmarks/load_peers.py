"""Other load clients, as their commands: what each claims of a run against a server of completions.

Each is found by an environment variable or on PATH; vLLM's also in the environment of ``make test-vllm``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

INPUT_TOKENS = 50
MODEL = "scripted"
RUN_S = 300.0
ROOT = Path(__file__).resolve().parents[1]
# The CPU build's command fails where no distribution is called vllm; what it would run does not.
_VLLM = """
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""


class Run(NamedTuple):
    """A schedule at a constant rate, sent to the API at ``url``."""

    url: str
    per_s: float
    tokens: int
    requests: int


class Claim(NamedTuple):
    """What a client says it measured, in ms."""

    ttft_ms: float
    ttft_p99_ms: float
    gap_ms: float


class NotInstalled(Exception):
    """A client is not there; the message says how it is found."""


def vllm_bench(run: Run) -> Claim:
    """``vllm bench serve``: TTFT and ITL from the real send."""
    python = os.environ.get("RBX_VLLM_PYTHON", str(ROOT / ".venv-vllm" / "bin" / "python"))
    if shutil.which(python) is None:
        raise NotInstalled("not installed: make test-vllm, or RBX_VLLM_PYTHON=/path/to/python")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [python, "-c", _VLLM, "--backend", "openai", "--endpoint", "/v1/completions"]
        command += ["--base-url", run.url.removesuffix("/v1"), "--model", MODEL]
        command += ["--tokenizer", str(_tokenizer(folder)), "--dataset-name", "random", "--ignore-eos"]
        command += ["--random-input-len", str(INPUT_TOKENS), "--random-output-len", str(run.tokens)]
        command += ["--num-prompts", str(run.requests), "--request-rate", str(run.per_s)]
        command += ["--burstiness", "1000000", "--disable-tqdm", "--percentile-metrics", "ttft,itl"]
        command += ["--save-result", "--result-dir", name, "--result-filename", "result.json"]
        _run(command, folder)
        told = json.loads((folder / "result.json").read_text())
        return Claim(told["mean_ttft_ms"], told["p99_ttft_ms"], told["mean_itl_ms"])


def guidellm(run: Run) -> Claim:
    """``guidellm run`` at a constant rate; its figure of gaps that leaves the first token out."""
    program = _found("guidellm", "RBX_GUIDELLM")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target = f"target={run.url.removesuffix('/v1')},model={MODEL},request_format=/v1/completions"
        command = [program, "run", "--disable-console", "--backend", f"kind=openai_http,{target}"]
        command += ["--profile", f"kind=constant,rate={run.per_s:g}"]
        command += ["--constraint", f"kind=max_requests,count={run.requests}"]
        command += ["--tokenizer", f"kind=hf_auto,model={_tokenizer(folder)}"]
        command += ["--data", f"kind=synthetic_text,prompt_tokens={INPUT_TOKENS},output_tokens={run.tokens}"]
        command += ["--output", f"kind=json,path={folder / 'result.json'}"]
        _run(command, folder)
        told = json.loads((folder / "result.json").read_text())["benchmarks"][0]["metrics"]
        ttft = told["time_to_first_token_ms"]["successful"]
        gap = told["inter_token_latency_ms"]["successful"]
        return Claim(ttft["mean"], ttft["percentiles"]["p99"], gap["mean"])


def aiperf(run: Run) -> Claim:
    """``aiperf profile`` at a constant rate."""
    program = _found("aiperf", "RBX_AIPERF")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [program, "profile", "--model", MODEL, "--url", run.url.removesuffix("/v1")]
        command += ["--endpoint-type", "completions", "--streaming", "--ui", "none"]
        command += ["--request-rate", f"{run.per_s:g}", "--request-rate-mode", "constant"]
        command += ["--request-count", str(run.requests), "--tokenizer", str(_tokenizer(folder))]
        command += ["--synthetic-input-tokens-mean", str(INPUT_TOKENS)]
        command += ["--output-tokens-mean", str(run.tokens), "--artifact-dir", name]
        command += ["--extra-inputs", "ignore_eos:true", "--use-server-token-count"]
        _run(command, folder, HF_HUB_OFFLINE="")  # offline it takes a folder for the name of a repository
        told = json.loads(next(folder.rglob("profile_export_aiperf.json")).read_text())
        ttft, gap = told["time_to_first_token"], told["inter_token_latency"]
        return Claim(ttft["avg"], ttft["p99"], gap["avg"])


PEERS: dict[str, Callable[[Run], Claim]] = {
    "vllm bench serve": vllm_bench,
    "GuideLLM": guidellm,
    "AIPerf": aiperf,
}


def _found(name: str, variable: str) -> str:
    command = shutil.which(os.environ.get(variable, name))
    if command is None:
        raise NotInstalled(f"not installed: {name} on PATH, or {variable}=/path/to/{name}")
    return command


def _run(command: Sequence[str], folder: Path, **variables: str) -> None:
    quiet = {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "VLLM_NO_USAGE_STATS": "1", "NO_COLOR": "1"}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **quiet, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_S,
    )
    if done.returncode:
        raise RuntimeError(f"{Path(command[0]).name} ended with {done.returncode}:\n{done.stdout[-2000:]}")


def _tokenizer(folder: Path) -> Path:
    """A tokenizer whose tokens are bytes, in the layout of the hub: clients want one for their prompts."""
    place = folder / "tokenizer"
    place.mkdir()
    alphabet = sorted(ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevelDecoder()
    tokenizer.save(str(place / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 8192}
    (place / "tokenizer_config.json").write_text(json.dumps(config))
    return place
