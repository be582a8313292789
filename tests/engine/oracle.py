"""One vLLM V1 instance read step by step: lists and objects, no leaps, no sums kept, nothing compiled.

Follows vLLM 0.32's ``Scheduler.schedule``, ``AsyncScheduler``, ``update_from_output`` and the two loops
of its engine core, request by request. Shares nothing with ``rbx.engine`` but the tier.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass, field

from rbx.config.pool import StepTime, StepTimeA, StepTimeB, Tier

# Decodes, their context, prefill tokens, Σ n² and Σ n·c of prefill chunks of n tokens behind c.
Composition = tuple[int, int, int, int, int]


@dataclass(eq=False)
class Request:
    slot: int
    at_s: float
    prompt: int
    output: int
    predicted: int
    by_length: bool
    computed: int = 0
    generated: int = 0
    placeholders: int = 0  # tokens that formed batches will give
    decoding: bool = False  # no longer in a chunk of its prefill
    aborted: bool = False
    blocks: int = 0
    preemptions: int = 0
    first_scheduled_s: float = math.nan
    first_token_s: float = math.nan
    done_s: float = math.nan

    @property
    def known(self) -> int:
        return self.prompt + self.generated


@dataclass(frozen=True)
class Share:
    """What one request has in a batch."""

    request: Request
    tokens: int
    context: int
    decode: bool
    gives_token: bool


@dataclass(frozen=True)
class Batch:
    shares: list[Share]

    def composition(self) -> Composition:
        decodes = [share for share in self.shares if share.decode]
        chunks = [(share.tokens, share.context) for share in self.shares if not share.decode]
        return (
            len(decodes),
            sum(share.context for share in decodes),
            sum(n for n, _ in chunks),
            sum(n * n for n, _ in chunks),
            sum(n * c for n, c in chunks),
        )

    def seconds(self, tier: Tier) -> float:
        return plain_step_s(tier.step_time, self.composition())


def plain_step_s(model: StepTime, composition: Composition) -> float:
    """The formula of each feature set as the pool file's documentation writes it."""
    decodes, context, prefill_tokens, squared, cross = composition
    if isinstance(model, StepTimeA):
        return (
            model.b0_s
            + model.b1_s_per_token * (decodes + prefill_tokens)
            + model.b2_s_per_context_token * context
            + model.b3_s_per_attention_unit * (cross + (squared + prefill_tokens) // 2)
        )
    seconds = model.b0_s + model.prefill_s_per_token * prefill_tokens + model.decode_s_per_seq * decodes
    if isinstance(model, StepTimeB):
        seconds += model.context_s_per_token * context
        seconds += model.chunk_s_per_squared_token * squared + model.cross_s_per_token_pair * cross
    return seconds


@dataclass(eq=False)
class Instance:
    tier: Tier
    pending: list[Request] = field(default_factory=list)
    waiting: list[Request] = field(default_factory=list)
    running: list[Request] = field(default_factory=list)
    received: int = 0
    steps: int = 0
    busy_s: float = 0.0
    flight: tuple[Batch, float, float] | None = None  # the running step, its start and its end
    ahead: Batch | None = None
    due_s: float = math.inf  # of the next boundary while no step runs; inf when idle

    def __post_init__(self) -> None:
        self.limits = self.tier.limits
        self.free = self.limits.kv_blocks

    # Time

    def submit(self, request: Request) -> None:
        bisect.insort(self.pending, request, key=lambda r: (r.at_s, r.slot))

    def advance(self, until_s: float) -> None:
        while True:
            if self.flight is not None:
                batch, start_s, end_s = self.flight
                if end_s > until_s:
                    break
                self.flight = None
                self.steps += 1
                self.busy_s += end_s - start_s
                self.due_s = end_s
                self.update_from_output(batch, end_s)
            else:
                idle_until_s = self.pending[0].at_s if self.pending else math.inf
                due_s = idle_until_s if self.due_s == math.inf else self.due_s
                if due_s >= until_s:
                    break
                self.cross_boundary(due_s)
        self.receive(until_s)

    def receive(self, now_s: float) -> None:
        while self.pending and self.pending[0].at_s <= now_s:
            request = self.pending.pop(0)
            if self.flight is None and self.due_s == math.inf:
                self.due_s = request.at_s
            self.waiting.append(request)
            self.received += 1

    def cross_boundary(self, now_s: float) -> None:
        self.receive(now_s)
        batch = self.ahead or self.schedule(now_s)
        self.ahead = None
        if not batch.shares:
            assert not self.running, "an idle instance left work behind"
            assert not self.waiting, "an idle instance left work waiting"
            self.due_s = math.inf
            return
        self.flight = (batch, now_s, now_s + batch.seconds(self.tier))
        if self.limits.async_scheduling:
            following = self.schedule(now_s)
            self.ahead = following if following.shares else None

    def busy_until(self, now_s: float) -> float:
        return self.busy_s + (now_s - self.flight[1] if self.flight else 0.0)

    # The scheduler

    def schedule(self, now_s: float) -> Batch:
        shares: list[Share] = []
        budget, preempted = self.schedule_running(shares)
        while not preempted and self.waiting and budget > 0:
            if len(self.running) >= self.limits.max_num_seqs:
                break
            request = self.waiting[0]
            if not self.limits.chunked_prefill and request.known > budget:
                break
            tokens = min(request.known, budget)
            gate = request.known if self.limits.reserve_full_prompt else tokens
            if math.ceil(gate / self.limits.block_size) > self.free:
                break
            self.waiting.pop(0)
            self.running.append(request)
            assert self.allocate(request, tokens)
            if math.isnan(request.first_scheduled_s):
                request.first_scheduled_s = now_s
            shares.append(self.take(request, tokens))
            budget -= tokens
        return Batch(shares)

    def schedule_running(self, shares: list[Share]) -> tuple[int, bool]:
        budget, preempted = self.limits.max_num_batched_tokens, False
        index = 0
        while index < len(self.running) and budget > 0:
            request = self.running[index]
            if self.ends_with_the_running_step(request):
                index += 1
                continue
            tokens = min(request.known + request.placeholders - request.computed, budget)
            while not self.allocate(request, request.computed + tokens):
                victim = self.running.pop()
                self.preempt(victim)
                preempted = True
                if victim is request:
                    return budget, preempted
            shares.append(self.take(request, tokens))
            budget -= tokens
            index += 1
        return budget, preempted

    def ends_with_the_running_step(self, request: Request) -> bool:
        known = request.by_length or request.prompt + request.output == self.limits.max_model_len
        reached = request.computed + 2 - request.placeholders >= request.prompt + request.output
        return self.limits.async_scheduling and request.placeholders > 0 and known and reached

    def take(self, request: Request, tokens: int) -> Share:
        context, was_decoding = request.computed, request.decoding
        request.computed += tokens
        request.decoding = request.computed == request.known + request.placeholders
        request.placeholders += request.decoding
        return Share(request, tokens, context, was_decoding, gives_token=request.decoding)

    def allocate(self, request: Request, tokens: int) -> bool:
        needed = math.ceil(tokens / self.limits.block_size) - request.blocks
        if needed > self.free:
            return False
        self.free -= needed
        request.blocks += needed
        return True

    def preempt(self, request: Request) -> None:
        self.free += request.blocks
        request.blocks = 0
        request.computed = 0
        request.placeholders = 0
        request.decoding = False
        request.preemptions += 1
        self.waiting.insert(0, request)

    def update_from_output(self, batch: Batch, now_s: float) -> None:
        for share in batch.shares:
            request = share.request
            if not share.gives_token or request.generated == request.output or request.aborted:
                continue
            request.generated += 1
            request.placeholders = max(0, request.placeholders - 1)  # 0 if it was preempted meanwhile
            if request.generated == 1:
                request.first_token_s = now_s
            if request.generated == request.output:
                request.done_s = now_s
                self.free += request.blocks
                (self.running if request in self.running else self.waiting).remove(request)

    def abort(self, request: Request) -> bool:
        """Scheduler.finish_requests with FINISHED_ABORTED."""
        if request.aborted or request.generated == request.output:
            return False
        request.aborted = True
        for queue in (self.pending, self.waiting, self.running):
            if request in queue:
                queue.remove(request)
        self.free += request.blocks
        return True

    def next_boundary_s(self) -> float:
        if self.flight is not None:
            return self.flight[2]
        return min(self.due_s, self.pending[0].at_s if self.pending else math.inf)

    # What telemetry should say

    def telemetry(self) -> dict[str, int]:
        unfinished = self.waiting + self.running
        return {
            "running": len(self.running),
            "waiting": len(self.waiting),
            "pending_prefill_tokens": sum(
                request.known - request.computed for request in unfinished if not request.decoding
            ),
            "pending_decode_tokens": sum(max(0, r.predicted - r.generated) for r in unfinished),
            "decode_context_tokens": sum(r.computed for r in self.running if r.decoding),
            "free_blocks": self.free,
            "total_blocks": self.limits.kv_blocks,
            "received": self.received,
        }
