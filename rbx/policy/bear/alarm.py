"""An alarm on the share of requests that no instance can serve in time.

A TTFT model that is wrong by a factor finds nothing feasible and turns its router silently into
"smallest of meaningless numbers"; so does true saturation. Either way somebody must look.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_WINDOW = 100  # decisions
_LEAST_SHARE = 0.2
_JUMP = 0.2  # above the share of everything before the window


@dataclass
class InfeasibleAlarm:
    """Rings once when the share of the last 100 decisions passes both 20 % and its past by 20 points.

    It is ready to ring again once the share has fallen below both. Before 100 decisions it is silent.
    """

    rang: int = 0
    ringing: bool = False
    decisions: int = 0
    infeasible: int = 0
    _window: list[bool] = field(default_factory=list)

    def note(self, infeasible: bool) -> bool:
        """Count one decision; true if the alarm rings at it."""
        self.decisions += 1
        self.infeasible += infeasible
        self._window.append(infeasible)
        if len(self._window) > _WINDOW:
            self._window.pop(0)
        if len(self._window) < _WINDOW:
            return False
        before = self.decisions - _WINDOW
        recent = sum(self._window)
        past_share = (self.infeasible - recent) / before if before else 0.0
        high = recent / _WINDOW >= max(_LEAST_SHARE, past_share + _JUMP)
        rings = high and not self.ringing
        if rings:
            self.rang += 1
        if high or recent / _WINDOW < _LEAST_SHARE:
            self.ringing = high
        return rings

    @property
    def share(self) -> float:
        """Infeasible share of all decisions so far; 0 before the first."""
        return self.infeasible / self.decisions if self.decisions else 0.0
