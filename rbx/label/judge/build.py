"""From a judge in a spec to a signal."""

from __future__ import annotations

from rbx.config.labelling import EndpointJudge, JudgeSpec
from rbx.label.judge.endpoint_asker import EndpointAsker
from rbx.label.judge.judge import Judge
from rbx.label.judge.provider_asker import ProviderAsker


def build_judge(spec: JudgeSpec, metric: str) -> Judge:
    """The judge as the signal of ``metric``; call ``close`` when done.

    Raises ``MissingExtraError`` without DeepEval and ``ConfigError`` where a key is not in the environment
    or a provider refuses its options.
    """
    if isinstance(spec, EndpointJudge):
        asker: EndpointAsker | ProviderAsker = EndpointAsker(spec)
        concurrency = spec.endpoint.concurrency
    else:
        asker = ProviderAsker(spec)
        concurrency = spec.concurrency
    return Judge(
        metric,
        asker,
        concurrency=concurrency,
        cut_characters=spec.cut_characters,
        reply_attempts=spec.reply_attempts,
    )
