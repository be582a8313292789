"""``python -m rbx.label.offline_worker``: vLLM's batch API on one model, in a process of its own.

JSON lines in and out. First in: ``weights``, ``engine`` (keyword arguments of ``vllm.LLM``), ``api``,
``system``, ``sampling`` and ``chat_template_kwargs``; first out: ``{"ready": true}`` or ``{"fault": …}``.
Then a list of prompts in, a list of replies out: ``text``, ``finish_reason``, ``input_tokens`` and
``output_tokens``, or ``refused`` where the engine takes no such prompt. When its input ends so does the
process, and with it all of the model's memory.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

Reply = dict[str, Any]


def main() -> None:
    """Serve the process that started this one until it has gone."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the engine writes its log to both

    def tell(document: Any) -> None:
        out.write(json.dumps(document) + "\n")
        out.flush()

    asked: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    try:
        answer = _engine(asked.get())
    except (ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
        tell({"fault": f"{type(error).__name__}: {error}"})
        return
    tell({"ready": True})
    while True:
        tell(answer(asked.get()))


def _listen(asked: SimpleQueue[Any]) -> None:
    for line in sys.stdin:
        asked.put(json.loads(line))
    os._exit(0)  # in the middle of a batch too: nobody is left to take it


def _engine(setup: dict[str, Any]) -> Callable[[list[str]], list[Reply]]:
    from vllm import LLM, SamplingParams

    refusals = _refusals()
    llm = LLM(model=setup["weights"], **setup["engine"])
    # As vLLM's server does: what is not set is as the model's own generation_config says.
    wanted = {**llm.model_config.get_diff_sampling_param(), **setup["sampling"]}
    sampling = SamplingParams.from_optional(**wanted)

    def generate(prompts: list[str]) -> list[Any]:
        if setup["api"] == "completions":
            return list(llm.generate(prompts, sampling, use_tqdm=False))
        system = [] if setup["system"] is None else [{"role": "system", "content": setup["system"]}]
        chats = [[*system, {"role": "user", "content": prompt}] for prompt in prompts]
        own = setup["chat_template_kwargs"]
        return list(llm.chat(chats, sampling, use_tqdm=False, chat_template_kwargs=own))

    def answer(prompts: list[str]) -> list[Reply]:
        try:
            return [_reply(output) for output in generate(prompts)]
        except refusals as error:
            # One prompt that is too long makes the engine refuse all of a batch before it begins.
            if len(prompts) == 1:
                return [{"refused": str(error)}]
        half = len(prompts) // 2
        return answer(prompts[:half]) + answer(prompts[half:])

    return answer


def _refusals() -> tuple[type[Exception], ...]:
    """What the engine raises for a prompt that it does not take; releases differ."""
    try:
        from vllm.exceptions import VLLMClientError
    except ImportError:
        return (ValueError,)
    return (ValueError, VLLMClientError)


def _reply(output: Any) -> Reply:
    best = output.outputs[0]
    return {
        "text": best.text,
        "finish_reason": best.finish_reason,
        "input_tokens": len(output.prompt_token_ids),
        "output_tokens": len(best.token_ids),
    }


if __name__ == "__main__":
    main()
