"""Everything that the report on routers shows, computed once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rbx.heads.progress import Progress, silent
from rbx.report.paired import Resampling
from rbx.report.routers.allocation import references, routed
from rbx.report.routers.calibration import CalibrationRow, calibration_row
from rbx.report.routers.cascades import cascades
from rbx.report.routers.concordance import ConcordanceRow, concordance_rows
from rbx.report.routers.contender import (
    QUALITY_SCORED,
    all_contenders,
    cost_unit_usd,
    plain_contenders,
)
from rbx.report.routers.curves import Curve, curves
from rbx.report.routers.flips import FlipRow, flip_rows
from rbx.report.routers.held_out_source import HeldOutRow, held_out_rows, source_variants
from rbx.report.routers.label_noise import LabelNoiseRow, label_noise_rows, noise_variants
from rbx.report.routers.neighbour_count import NeighbourRow, neighbour_rows
from rbx.report.routers.population import Material
from rbx.report.routers.price_vectors import PriceRow, price_rows
from rbx.report.routers.retraining import Learnt, RouterStore, Variant, learn_again
from rbx.report.routers.routed_quality import RoutedRow, rate_allocations

FLIPS, HELD_OUT, LABEL_NOISE = "flips", "held-out-sources", "label-noise"
PARTS = (FLIPS, HELD_OUT, LABEL_NOISE)


@dataclass(frozen=True)
class StudyOptions:
    """``seed`` of noise, training and resamples; ``skip`` names parts of ``PARTS`` that are left out."""

    seed: int = 0
    resampling: Resampling = field(default_factory=Resampling)
    skip: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RouterStudy:
    """The findings on one bundle's routers; a part that was skipped is empty.

    ``unjudged`` are routers whose scores are no expected labels; ``price_blind`` those whose choices are the
    same at any prices; ``refused`` tells which router could not be trained again, on what, and why.
    """

    material: Material
    options: StudyOptions
    cost_unit_usd: float
    rows: tuple[RoutedRow, ...]
    concordance: tuple[ConcordanceRow, ...]
    calibration: tuple[CalibrationRow, ...]
    unjudged: tuple[str, ...]
    curves: tuple[Curve, ...]
    flips: tuple[FlipRow, ...]
    held_out: tuple[HeldOutRow, ...]
    label_noise: tuple[LabelNoiseRow, ...]
    neighbours: tuple[NeighbourRow, ...]
    prices: tuple[PriceRow, ...]
    price_blind: tuple[str, ...]
    refused: tuple[str, ...]

    @property
    def routers(self) -> tuple[RoutedRow, ...]:
        """Rows of routers, without references and single models."""
        return tuple(row for row in self.rows if row.kind == "router")

    @property
    def synthetic(self) -> bool:
        """Whether prompts and labels are made up."""
        return self.material.view.synthetic


def study_routers(
    material: Material, options: StudyOptions, kept: Path, progress: Progress = silent
) -> RouterStudy:
    """Judge every router of the bundle; routers that are trained again are kept under ``kept``."""
    people, bundle, resampling = material.population, material.bundle, options.resampling
    plain, every = plain_contenders(bundle), all_contenders(material)
    scores = {
        each.label: each.scores(bundle, material.pool, people.asked, people.input_tokens) for each in plain
    }
    judged = {each.label for each in plain if each.name in QUALITY_SCORED}
    asking = cascades(material)
    allocations = [*(routed(each, material) for each in every), *asking, *references(material)]
    prices, price_blind = price_rows(every, material, resampling) if people.n_priced else ((), ())
    held_out, label_noise, refused = _retrained(material, options, kept, progress)
    return RouterStudy(
        material=material,
        options=options,
        cost_unit_usd=cost_unit_usd(material),
        rows=rate_allocations(allocations, people, resampling),
        concordance=concordance_rows(scores, people, resampling),
        calibration=tuple(
            calibration_row(label, score, people, resampling)
            for label, score in scores.items()
            if label in judged
        ),
        unjudged=tuple(label for label in scores if label not in judged),
        curves=curves(material, asking, resampling),
        flips=() if FLIPS in options.skip else flip_rows(plain, material, options.seed, resampling, progress),
        held_out=held_out,
        label_noise=label_noise,
        neighbours=neighbour_rows(material, resampling),
        prices=prices,
        price_blind=price_blind,
        refused=refused,
    )


def _retrained(
    material: Material, options: StudyOptions, kept: Path, progress: Progress
) -> tuple[tuple[HeldOutRow, ...], tuple[LabelNoiseRow, ...], tuple[str, ...]]:
    noisy = noise_variants(material, options.seed)
    noisy = noisy if LABEL_NOISE not in options.skip else noisy[:1]
    sources, too_little = source_variants(material) if HELD_OUT not in options.skip else ((), ())
    if LABEL_NOISE in options.skip and not sources:
        return (), (), too_little
    variants = (*noisy, *sources)
    learnt = learn_again(material.bundle, variants, options.seed, RouterStore(kept), progress)
    plain, full = plain_contenders(material.bundle), learnt[0]
    without = learnt[len(noisy) :]
    return (
        held_out_rows(plain, material, full, sources, without, options.resampling),
        ()
        if LABEL_NOISE in options.skip
        else label_noise_rows(plain, material, learnt[: len(noisy)], options.resampling),
        (*too_little, *_refusals(variants, learnt)),
    )


def _refusals(variants: tuple[Variant, ...], learnt: tuple[Learnt, ...]) -> list[str]:
    return [
        f"{name} could not be trained again ({variant.name}): {reason}"
        for variant, each in zip(variants, learnt, strict=True)
        for name, reason in each.refused.items()
    ]
