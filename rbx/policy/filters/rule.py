"""The protocol of an admission rule, and the rules that compare points."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from rbx.policy.filters.outlook import Candidates, Outlook


class Passing(NamedTuple):
    """Which of the candidates pass, (I,), and after how many relaxations."""

    candidates: Candidates
    relaxed: int = 0


class Rule(Protocol):
    """Pure: looks at one request and remembers nothing."""

    def passing(self, outlook: Outlook) -> Passing:
        """Who passes; possibly nobody."""
        ...


class WithinBudget:
    """input·c_in + min(L, max_tokens)·c_out ≤ budget, L each candidate's own (Eq. 2 of arXiv 2606.17949)."""

    def passing(self, outlook: Outlook) -> Passing:
        """See ``Rule.passing``."""
        return Passing(outlook.affordable)


class Everybody:
    """No rule at all."""

    def passing(self, outlook: Outlook) -> Passing:
        """See ``Rule.passing``."""
        return Passing(outlook.candidates)


class BothWithinTargets:
    """SLOs-Serve: the predictions of TTFT and of TPOT each within their target."""

    def passing(self, outlook: Outlook) -> Passing:
        """See ``Rule.passing``."""
        targets = outlook.targets
        on_time = (outlook.ttft_s <= targets.ttft_s) & (outlook.tpot_s <= targets.tpot_s)
        return Passing(np.asarray(outlook.candidates & on_time))


class WithinJointTarget:
    """PolyServe: TTFT + N·TPOT within target of TTFT + N·target of TPOT; one may make up for the other."""

    def passing(self, outlook: Outlook) -> Passing:
        """See ``Rule.passing``."""
        targets = outlook.targets
        latest_s = targets.ttft_s + outlook.length_tokens * targets.tpot_s
        return Passing(np.asarray(outlook.candidates & (outlook.e2e_s <= latest_s)))


class WithinTimeBudget:
    """TimeBill: TTFT + N·TPOT within the request's time budget."""

    def passing(self, outlook: Outlook) -> Passing:
        """See ``Rule.passing``."""
        return Passing(np.asarray(outlook.candidates & (outlook.e2e_s <= outlook.targets.e2e_s)))
