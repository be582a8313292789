"""Points of several sweeps together: their prompts numbered alike, and whether two of them are paired."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rbx.report.load import Sweep
from rbx.report.point import Point, to_points
from rbx.report.requests import Floats, Ints, Requests
from rbx.sweep.store import CellSpec


@dataclass(frozen=True)
class Site:
    """One sweep by its short name; ``number`` (P,) maps its prompts to those of all sweeps together."""

    name: str
    sweep: Sweep
    points: tuple[Point, ...]
    number: Ints

    @cached_property
    def planned(self) -> tuple[CellSpec, ...]:
        """Every cell of the manifest, run or not; policies keep its order."""
        sweep = self.sweep
        known = {spec.cell_id: spec for spec in sweep.missing}
        known |= {cell.spec.cell_id: cell.spec for cell in sweep.invalid}
        known |= {cell.spec.cell_id: cell.spec for cell in sweep.cells}
        return tuple(known[cell["cell_id"]] for cell in sweep.manifest["cells"])

    @cached_property
    def gaps(self) -> dict[str, str]:
        """Why each cell is not there that is not, by cell id."""
        lines = {spec.cell_id: f"{self._words(spec)} was not run" for spec in self.sweep.missing}
        for cell in self.sweep.invalid:
            reasons = "; ".join(cell.reasons)
            lines[cell.spec.cell_id] = f"{self._words(cell.spec)} is invalid: {reasons}"
        return lines

    def _words(self, spec: CellSpec) -> str:
        return f"{self.name}: {spec.label} at {spec.rate_per_s:g} req/s, seed {spec.seed},"


@dataclass(frozen=True)
class SitePoint:
    """A point of one of the sweeps; ``gaps`` says in words which of its cells are not there."""

    site: Site
    point: Point
    gaps: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, float, tuple[int, ...]]:
        """Sweep, policy, rate and seeds: what tells it from other points."""
        point = self.point
        return self.site.name, point.label, point.rate_per_s, tuple(c.spec.seed for c in point.cells)

    @property
    def runs(self) -> list[Requests]:
        """Requests of its cells, in the order of seeds."""
        return [cell.requests for cell in self.point.cells]

    @cached_property
    def prompts(self) -> Ints:
        """Prompt of each request, numbered over all sweeps, (N,)."""
        return self.site.number[self.point.prompts]

    @cached_property
    def universe(self) -> Ints:
        """The prompts that it was asked, each once, ascending: what a resample draws from."""
        return np.unique(self.prompts)

    @cached_property
    def asked(self) -> bytes:
        """What it faced: two points are paired when and only when these agree.

        A workload hash numbers the prompts of its own grid, so the prompts themselves must agree too.
        """
        return repr(self.point.workloads).encode() + self.prompts.tobytes()

    @property
    def scores(self) -> Floats:
        """Label of each request's prompt and each model, (N, M)."""
        return self.site.sweep.labels.score[self.point.prompts]

    @property
    def words(self) -> str:
        """Sweep, policy and rate."""
        return f"{self.site.name}: {self.point.label} at {self.point.rate_per_s:g} req/s"


def sites(sweeps: dict[str, Sweep]) -> dict[str, Site]:
    """Number the prompts of all sweeps together."""
    every = sorted({each for sweep in sweeps.values() for each in sweep.prompt_ids})
    number = {each: index for index, each in enumerate(every)}
    return {
        name: Site(
            name,
            sweep,
            tuple(to_points(sweep.cells)),
            np.array([number[each] for each in sweep.prompt_ids], dtype=np.int64),
        )
        for name, sweep in sweeps.items()
    }
