"""How a model is asked: the body of a request, and the digest of all in it that can change an answer."""

from __future__ import annotations

from typing import Any

from rbx.config.base import digest
from rbx.config.labelling import Candidate, Generation, LabelSource

# Keyword arguments of vLLM's engine that decide where and how fast it computes, not what.
RESOURCES = frozenset(
    {
        "cpu_offload_gb",
        "disable_log_stats",
        "gpu_memory_utilization",
        "max_num_batched_tokens",
        "max_num_seqs",
        "pipeline_parallel_size",
        "tensor_parallel_size",
    }
)


def served_name(candidate: Candidate) -> str:
    """What the model is called in requests to its endpoint."""
    endpoint = candidate.endpoint
    return (endpoint.served_name if endpoint else None) or candidate.name


def messages(generation: Generation, prompt: str) -> list[dict[str, str]]:
    """The prompt as a chat, after the system's message where there is one; no template is applied."""
    system = [{"role": "system", "content": generation.system}] if generation.system is not None else []
    return [*system, {"role": "user", "content": prompt}]


def sampling(generation: Generation) -> dict[str, Any]:
    """Those sampling parameters that are set; what is not set is left to the server."""
    fields = generation.model_dump(mode="json", exclude={"api", "system", "extra"}, exclude_none=True)
    return {name: value for name, value in fields.items() if value != []}


def request_body(generation: Generation, candidate: Candidate, prompt: str) -> dict[str, Any]:
    """The JSON body that asks ``candidate``'s endpoint for one whole answer."""
    return {"model": served_name(candidate), "stream": False, **_asked(generation, prompt)}


def generation_digest(generation: Generation, candidate: Candidate) -> str:
    """SHA-256 of everything in a request but its prompt; not of where and how hard a server is asked."""
    return digest({"endpoint": request_body(generation, candidate, "")})


def offline_digest(generation: Generation, candidate: Candidate) -> str:
    """The same for vLLM's batch API: the weights and the engine's arguments in place of the served name."""
    engine = {name: value for name, value in candidate.engine.items() if name not in RESOURCES}
    return digest({"weights": candidate.weights, "engine": engine, "asked": _asked(generation, "")})


def digests(source: LabelSource, *, offline: bool) -> dict[str, str]:
    """The digest of each model's generation, by the model's name."""
    made_by = offline_digest if offline else generation_digest
    return {candidate.name: made_by(source.generation, candidate) for candidate in source.models}


def _asked(generation: Generation, prompt: str) -> dict[str, Any]:
    chat = generation.api == "chat"
    text = {"messages": messages(generation, prompt)} if chat else {"prompt": prompt}
    return {**text, **sampling(generation), **generation.extra}
