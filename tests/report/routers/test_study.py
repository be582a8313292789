"""What the report finds, beside the same things worked out another way."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rbx.grid.schema import GridView
from rbx.heads.knn import KnnHead, Labels
from rbx.heads.progress import silent
from rbx.heads.routers.asked import asked_router
from rbx.heads.routers.build import train_router
from rbx.report.interval import Interval, not_estimable
from rbx.report.paired import Resampling
from rbx.report.routers import retraining
from rbx.report.routers.allocation import BEST_SINGLE, ORACLE, PER_SOURCE, RANDOM, best_single
from rbx.report.routers.answers import answers
from rbx.report.routers.contender import all_contenders, plain_contenders, policies_of
from rbx.report.routers.curves import curves
from rbx.report.routers.flips import flip_rows
from rbx.report.routers.held_out_source import source_variants
from rbx.report.routers.hull_area import hull
from rbx.report.routers.label_noise import RATES, falsified
from rbx.report.routers.means import drawn_prompts
from rbx.report.routers.population import Material
from rbx.report.routers.price_vectors import OWN, price_variants
from rbx.report.routers.prompt_noise import Noise
from rbx.report.routers.routed_quality import RoutedRow
from rbx.report.routers.study import RouterStudy, StudyOptions, study_routers
from tests.report.routers.conftest import QUICK
from tests.report.routers.made_up import ROUTERS, bundle_of, material_of, view


def rows_of(study: RouterStudy) -> dict[str, RoutedRow]:
    return {row.label: row for row in study.rows}


def test_every_router_is_there_in_every_setting_beside_every_reference(study: RouterStudy) -> None:
    labels = set(rows_of(study))
    assert {"knn", "linear", "mlp", "knn λ0.1", "matrix-factorisation", "matrix-factorisation t0.5"} <= labels
    assert {f"avengers-pro pw{weight:.2f}" for weight in (0.25, 0.39, 0.53, 0.7, 0.8)} <= labels
    assert {ORACLE, RANDOM, BEST_SINGLE, "always tiny", "always large", "always extra"} <= labels


def test_quality_and_cost_are_means_over_the_chosen_answers(study: RouterStudy, material: Material) -> None:
    people = material.population
    rows = np.arange(people.n)
    picks = material.bundle.routers["linear"].score(people.asked).argmax(axis=1)
    row = rows_of(study)["linear"]
    assert row.quality.value == pytest.approx(people.score[rows, picks].mean())
    assert row.cost_usd.value == pytest.approx(np.nanmean(people.cost_usd[rows, picks]))
    assert row.picks_best.value == pytest.approx(people.is_best[rows, picks].mean())
    differs = people.score.max(axis=1) != people.score.min(axis=1)
    assert row.picks_informative.value == pytest.approx(people.is_best[rows, picks][differs].mean())
    assert row.shares == pytest.approx([(picks == k).mean() for k in range(3)])
    single = people.score[:, best_single(material.task)]
    assert row.against[BEST_SINGLE].value == pytest.approx((people.score[rows, picks] - single).mean())
    for source, interval in row.by_source.items():
        own = people.prompt_sources == source
        assert interval.value == pytest.approx(people.score[rows, picks][own].mean())


def test_the_oracle_bounds_all_and_random_is_the_mean_of_the_models(study: RouterStudy) -> None:
    rows = rows_of(study)
    assert rows[ORACLE].quality.value == max(row.quality.value for row in study.rows)
    assert rows[ORACLE].picks_best.value == 1.0
    singles = [row.quality.value for row in study.rows if row.kind == "single"]
    assert rows[RANDOM].quality.value == pytest.approx(np.mean(singles))


def test_intervals_hold_their_estimates(study: RouterStudy) -> None:
    for row in study.rows:
        assert row.quality.low <= row.quality.value <= row.quality.high
        assert row.against[BEST_SINGLE].low <= row.against[BEST_SINGLE].value <= row.against[BEST_SINGLE].high


def test_the_order_of_the_file_changes_no_number(study: RouterStudy, material: Material, kept: Path) -> None:
    grid = material.view
    order = np.random.default_rng(5).permutation(len(grid.prompts))
    mixed = dataclasses.replace(
        grid,
        prompt_ids=tuple(grid.prompt_ids[k] for k in order),
        prompts=tuple(grid.prompts[k] for k in order),
        sources=tuple(grid.sources[k] for k in order),
        is_harmful=grid.is_harmful[order],
        is_train=grid.is_train[order],
        input_tokens=grid.input_tokens[order],
        output_tokens=grid.output_tokens[order],
        score=grid.score[order],
    )
    options = StudyOptions(0, QUICK, frozenset({"held-out-sources", "label-noise"}))
    again = study_routers(material_of(mixed, material.bundle), options, kept)
    assert again.rows == study.rows
    assert again.concordance == study.concordance
    assert again.flips == study.flips
    assert again.neighbours == study.neighbours


def test_no_noise_no_flip(material: Material) -> None:
    same = (Noise("none", "case", lambda text, rng: text),)
    for row in flip_rows(plain_contenders(material.bundle), material, 0, QUICK, silent, same):
        assert row.flipped.value == 0.0
        assert row.quality_change.value == 0.0


def test_flips_are_those_of_the_texts_encoded_again(study: RouterStudy, material: Material) -> None:
    people, bundle = material.population, material.bundle
    loud = bundle.encoder.encode([text.upper() for text in people.asked.texts])
    head = bundle.knn
    before = head.predict(people.asked.embeddings).quality.argmax(axis=1)
    after = head.predict(loud).quality.argmax(axis=1)
    row = next(row for row in study.flips if row.router == "knn" and row.noise == "upper case")
    assert row.flipped.value == pytest.approx((before != after).mean())
    assert row.flipped.value > 0
    rows = np.arange(people.n)
    assert row.quality_change.value == pytest.approx(
        (people.score[rows, after] - people.score[rows, before]).mean()
    )


def test_a_source_left_out_is_what_training_without_it_gives(study: RouterStudy, material: Material) -> None:
    people, task = material.population, material.task
    assert {row.source for row in study.held_out} == set(people.sources)
    assert {row.router for row in study.held_out} == {*ROUTER_LABELS, BEST_SINGLE}
    keep = np.flatnonzero(np.array(task.sources) != "algebra").astype(np.int64)
    own = people.prompt_sources == "algebra"
    for name in ("linear", "mlp"):
        picks = train_router(name, task.rows(keep), 0).score(people.asked).argmax(axis=1)
        row = next(row for row in study.held_out if (row.source, row.router) == ("algebra", name))
        assert row.without.value == pytest.approx(people.score[own, picks[own]].mean())
        assert row.n == own.sum()
        assert row.difference.value == pytest.approx(row.without.value - row.full.value)
        assert row.full.value == pytest.approx(rows_of(study)[name].by_source["algebra"].value)


ROUTER_LABELS = {"avengers-pro pw0.80", "knn", "linear", "matrix-factorisation", "mlp"}


def test_the_share_of_wrong_labels_is_exact_and_grows(material: Material) -> None:
    task = material.task
    before = np.zeros(task.score.shape, dtype=bool)
    for rate in RATES:
        wrong = ~np.isclose(falsified(task, rate, 3).score, task.score, equal_nan=True)
        known = ~np.isnan(task.score)
        assert wrong.sum(axis=0).tolist() == [round(rate * n) for n in known.sum(axis=0)]
        assert (wrong | ~before).all()
        before = wrong
    assert np.array_equal(np.isnan(falsified(task, 0.2, 3).score), np.isnan(task.score))


def test_graded_labels_are_permuted_so_that_their_values_stay(material: Material) -> None:
    rng = np.random.default_rng(0)
    graded = dataclasses.replace(material.task, score=rng.random(material.task.score.shape))
    noisy = falsified(graded, 0.2, 1).score
    changed = (noisy != graded.score).sum(axis=0)
    assert (changed > 0).all()
    assert (changed <= 0.2 * len(noisy) + 1).all()
    assert np.array_equal(np.sort(noisy, axis=0), np.sort(graded.score, axis=0))


def test_true_labels_are_where_label_noise_starts(study: RouterStudy) -> None:
    rows = rows_of(study)
    start = {row.router: row for row in study.label_noise if row.rate == 0.0}
    assert set(start) == ROUTER_LABELS
    for router, row in start.items():
        assert row.quality.value == pytest.approx(rows[router].quality.value)
        assert row.changed.value == 0.0


def test_each_k_is_a_head_of_its_own(study: RouterStudy, material: Material) -> None:
    people, knn = material.population, material.bundle.knn
    assert [row.k for row in study.neighbours] == [1, 3, 5, 10, 20, 50, 100]
    assert [row.k for row in study.neighbours if row.is_own] == [10]
    labels = Labels(knn.models, knn.labels.score, knn.labels.length_tokens)
    for row in study.neighbours:
        picks = KnnHead(knn.embeddings, labels, row.k).predict(people.asked.embeddings).quality.argmax(axis=1)
        assert row.quality.value == pytest.approx(people.score[np.arange(people.n), picks].mean())


def test_prices_move_only_routers_that_look_at_them(study: RouterStudy, material: Material) -> None:
    assert {"knn", "linear", "mlp", "matrix-factorisation"} <= set(study.price_blind)
    moved = {row.router for row in study.prices}
    assert "avengers-pro pw0.25" in moved
    assert moved.isdisjoint(study.price_blind)
    assert OWN not in {row.prices for row in study.prices}
    people = material.population
    policy = next(each for each in all_contenders(material) if each.label == "avengers-pro pw0.25")
    own, new = (
        policy.choices(material.bundle, chosen, people.asked, people.input_tokens)
        for chosen in (material.pool, price_variants(material)["cheapest and dearest swapped"])
    )
    row = next(
        row
        for row in study.prices
        if (row.router, row.prices) == (policy.label, "cheapest and dearest swapped")
    )
    assert row.changed.value == pytest.approx((own != new).mean())
    assert row.changed.value > 0.0
    variants = price_variants(material)
    swapped = {t.model: t.price_out_usd_per_mtok for t in variants["cheapest and dearest swapped"].tiers}
    assert swapped == {"large": 0.2, "tiny": 1.6, "extra": 0.6}
    double = {t.model: t.price_in_usd_per_mtok for t in variants["dearest × 2"].tiers}
    assert double == pytest.approx({"large": 1.6, "tiny": 0.1, "extra": 0.3})


def test_a_weight_on_cost_buys_cheaper_answers(study: RouterStudy) -> None:
    curve = next(curve for curve in study.curves if curve.label == "knn − λ·cost")
    costs = [cost.value for cost in curve.cost_usd]
    cheapest = rows_of(study)["always tiny"].cost_usd.value
    assert costs[0] == pytest.approx(rows_of(study)["knn"].cost_usd.value)
    assert costs[-1] == pytest.approx(cheapest, rel=0.05)
    assert costs[-1] < costs[0]


def test_no_curve_has_less_area_than_the_cheapest_model_or_more_than_the_oracle(study: RouterStudy) -> None:
    rows = rows_of(study)
    assert [curve.label for curve in study.curves] == [
        "avengers-pro",
        "matrix-factorisation",
        "linear − λ·cost",
        "mlp − λ·cost",
        "knn − λ·cost",
        "single models, mixed at random",
    ]
    for curve in study.curves:
        assert rows["always tiny"].quality.value <= curve.area.value <= rows[ORACLE].quality.value
        assert curve.area.low <= curve.area.value <= curve.area.high


def test_only_scores_that_predict_labels_are_judged_as_such(study: RouterStudy) -> None:
    assert [row.router for row in study.calibration] == ["linear", "mlp", "knn"]
    assert set(study.unjudged) == {"avengers-pro pw0.80", "matrix-factorisation"}


def test_routers_trained_again_are_kept_and_not_trained_twice(
    study: RouterStudy, material: Material, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("trained though it was kept")

    monkeypatch.setattr(retraining, "train_router", refuse)
    again = study_routers(material, StudyOptions(0, QUICK), kept)
    assert again.held_out == study.held_out
    assert again.label_noise == study.label_noise
    with pytest.raises(AssertionError, match="though it was kept"):
        study_routers(material, StudyOptions(1, QUICK), kept)


def test_a_kept_router_that_is_damaged_is_trained_again(material: Material, tmp_path: Path) -> None:
    store = retraining.RouterStore(tmp_path)
    first = store.trained("linear", material.task, 0)
    for path in tmp_path.glob("*.npz"):
        path.write_bytes(b"damaged")
    again = store.trained("linear", material.task, 0)
    assert np.array_equal(first.arrays["weights"], again.arrays["weights"])


def test_a_router_that_can_not_be_trained_again_is_named_with_its_reason(
    material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rbx.errors import BundleError

    def train(name: str, task: object, seed: int) -> object:
        if name == "mlp":
            raise BundleError("needs what is not here")
        return train_router(name, material.task, seed)

    monkeypatch.setattr(retraining, "train_router", train)
    found = study_routers(material, StudyOptions(0, QUICK, frozenset({"flips", "label-noise"})), tmp_path)
    assert {row.router for row in found.held_out} == {*ROUTER_LABELS, BEST_SINGLE} - {"mlp"}
    assert "mlp could not be trained again (algebra): needs what is not here" in found.refused


def test_a_source_without_which_nothing_can_be_learnt_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    """One model was labelled on the training prompts of one source alone."""
    grid = view(200, 6)
    score = grid.score.copy()
    elsewhere = grid.is_train & (np.array(grid.sources) != "algebra")
    score[elsewhere, grid.models.index("extra")] = np.nan
    grid = dataclasses.replace(grid, score=score)
    material = material_of(grid, bundle_of(grid, "linear"))
    found = study_routers(material, StudyOptions(0, QUICK, frozenset({"flips", "label-noise"})), tmp_path)
    assert {row.source for row in found.held_out} == set(material.population.sources) - {"algebra"}
    assert found.refused == (
        "No router could be trained without the source algebra: no training prompt has a score for extra",
    )
    unpriced = material.task.output_tokens.copy()
    unpriced[np.array(material.task.sources) != "poetry", 0] = np.nan
    task = dataclasses.replace(material.task, output_tokens=unpriced)
    _, refused = source_variants(dataclasses.replace(material, task=task))
    assert any("poetry: no training prompt has the length of an answer by large" in line for line in refused)


def test_parts_that_are_skipped_are_empty_and_train_nothing(
    material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retraining, "train_router", lambda *_: pytest.fail("trained"))
    skip = frozenset({"flips", "held-out-sources", "label-noise"})
    found = study_routers(material, StudyOptions(0, QUICK, skip), tmp_path)
    assert (found.flips, found.held_out, found.label_noise) == ((), (), ())
    assert found.rows


def test_a_grid_of_graded_labels_and_one_source(tmp_path: Path) -> None:
    grid: GridView = dataclasses.replace(view(160, 1, graded=True), sources=("one",) * 160)
    found = study_routers(
        material_of(grid, bundle_of(grid, "linear")), StudyOptions(2, Resampling(200, 2)), tmp_path
    )
    assert found.material.population.is_graded
    assert found.held_out == ()
    assert len(found.label_noise) == 2 * len(RATES)
    assert all(0.0 <= row.macro.value <= 1.0 for row in found.concordance)


def test_a_bundle_without_trained_routers_is_judged_by_its_neighbours(tmp_path: Path) -> None:
    grid = view(160, 2)
    found = study_routers(material_of(grid, bundle_of(grid)), StudyOptions(0, QUICK), tmp_path)
    assert [row.label for row in found.rows if row.kind == "router"] == ["knn", "knn λ0.1", "knn λ0.3"]
    assert {row.router for row in found.held_out} == {"knn", BEST_SINGLE}


def test_settings_do_not_repeat(material: Material) -> None:
    labels = [each.label for each in all_contenders(material)]
    assert len(labels) == len(set(labels))
    assert len(plain_contenders(material.bundle)) == len(ROUTERS) + 1


def test_the_answer_is_told_in_whole_sentences(study: RouterStudy) -> None:
    lists = answers(study)
    lines = [line for found in lists for line in found.lines]
    assert len(lines) >= 10
    assert all(line.endswith(".") for line in lines)
    best = max((row for row in study.routers if not row.is_fixed), key=lambda row: row.quality.value)
    alike = sum(row.quality.value == best.quality.value for row in study.routers if not row.is_fixed) - 1
    level = f" (level with {alike} more)" if alike else ""
    assert lines[0].startswith(f"Quality: {best.label}{level}, {best.quality.value:.3f} ")
    ahead = [row.label for row in study.routers if row.against[BEST_SINGLE].low > 0]
    claim = next(line for line in lines if line.startswith("Better than the best single model"))
    assert f"only {len(ahead)} of {len(study.routers)}" in claim if ahead else "none of" in claim


def test_routers_that_send_everything_to_one_model_are_named_and_not_called_best(study: RouterStudy) -> None:
    fixed = dataclasses.replace(study.rows[0], label="stuck", shares=(1.0, 0.0, 0.0))
    best = dataclasses.replace(fixed, quality=dataclasses.replace(fixed.quality, value=2.0))
    found = answers(dataclasses.replace(study, rows=(best, *study.rows[1:])))
    assert "stuck" not in " ".join(found[0].lines)
    assert "stuck" in found[0].note
    assert any("stuck (large)" in line for line in found[1].lines)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> RouterStudy:
    """A bundle with the router that is told each prompt's source."""
    grid = view(160, 4)
    material = material_of(grid, bundle_of(grid, "linear", "source-best"))
    return study_routers(material, StudyOptions(0, QUICK), tmp_path_factory.mktemp("told"))


def test_the_router_that_is_told_the_source_is_the_reference_of_that_name(told: RouterStudy) -> None:
    rows = rows_of(told)
    assert rows["source-best"].kind == "reference"
    assert "source-best" not in {row.label for row in told.routers}
    assert rows["source-best"].quality == rows[PER_SOURCE].quality
    assert rows["source-best"].shares == rows[PER_SOURCE].shares


def test_no_sentence_counts_a_reference_among_routers(told: RouterStudy) -> None:
    """Even where it is the best of all at everything, and moves with every wording."""

    def best(value: float) -> Interval:
        return Interval(value, value - 0.01, value + 0.01, "ok")

    def lifted(rows: tuple[Any, ...], name: str, **fields: Interval) -> tuple[Any, ...]:
        mine = [row for row in rows if getattr(row, name).startswith("source-best")]
        assert mine
        return tuple(dataclasses.replace(row, **fields) if row in mine else row for row in rows)

    turned = dataclasses.replace(
        told,
        concordance=lifted(told.concordance, "router", macro=best(0.99), tied=best(0.9)),
        calibration=lifted(told.calibration, "router", error=best(0.0)),
        curves=lifted(told.curves, "label", area=best(0.99), against_singles=best(0.5)),
        flips=lifted(told.flips, "router", quality_change=best(-0.5)),
        held_out=lifted(told.held_out, "router", difference=best(-0.5), against_single=best(0.5)),
        label_noise=lifted(told.label_noise, "router", difference=best(-0.5)),
    )
    before, after = answers(told), answers(turned)
    assert before == after
    assert not any("source-best" in text for found in after for text in (*found.lines, found.note))


def test_where_no_label_differs_nobody_is_called_best_at_telling_them_apart(told: RouterStudy) -> None:
    people = told.material.population
    level = dataclasses.replace(people, score=np.ones_like(people.score))
    nothing = not_estimable(float("nan"), "no label differs")
    study = dataclasses.replace(
        told,
        material=dataclasses.replace(told.material, population=level),
        concordance=tuple(dataclasses.replace(row, macro=nothing) for row in told.concordance),
    )
    lines = " ".join(answers(study)[0].lines)
    assert "Knows best" not in lines
    assert "Picks a best model most often" not in lines


def test_routers_of_the_very_same_figure_are_not_told_as_one_that_is_best(told: RouterStudy) -> None:
    first = next(row for row in told.routers if not row.is_fixed)
    rows = tuple(
        dataclasses.replace(row, quality=first.quality, shares=first.shares) if row.kind == "router" else row
        for row in told.rows
    )
    line = answers(dataclasses.replace(told, rows=rows))[0].lines[0]
    assert line.startswith(f"Quality: {told.routers[0].label} (level with {len(told.routers) - 1} more), ")


def test_an_interval_without_width_is_sure_of_nothing(told: RouterStudy) -> None:
    """As on the page's colours: what every resample agrees on to the last bit has no uncertainty told."""
    flat = Interval(-0.1, -0.1, -0.1, "degenerate", "every resample gives the same value")
    rows = tuple(
        dataclasses.replace(row, against=dict.fromkeys(row.against, flat)) if row.kind == "router" else row
        for row in told.rows
    )
    lines = " ".join(answers(dataclasses.replace(told, rows=rows))[1].lines)
    assert "worse than a random choice" not in lines


def test_a_claim_that_all_routers_meet_is_not_told_as_met_by_some_only(told: RouterStudy) -> None:
    sure = Interval(0.1, 0.05, 0.15, "ok")
    rows = tuple(dataclasses.replace(row, against=dict.fromkeys(row.against, sure)) for row in told.rows)
    lines = answers(dataclasses.replace(told, rows=rows))[1].lines
    total = len(told.routers)
    assert f"Better than the best single model: holds surely, for all {total}." in lines


def test_areas_and_their_intervals_are_those_of_curves_drawn_anew_in_each_resample(
    material: Material,
) -> None:
    people, resampling = material.population, Resampling(n_resamples=60, seed=9)
    curve = next(each for each in curves(material, (), resampling) if each.label == "avengers-pro")
    rows, known = np.arange(people.n), ~np.isnan(people.cost_usd[:, 0])
    bundle = material.bundle
    points = []
    for weight in np.linspace(0, 1, 21).round(4):
        (policy,) = policies_of(bundle, "avengers-pro", performance_weight=[float(weight)])
        picks = asked_router(bundle, policy, material.pool).score(people.asked).argmax(axis=1)
        points.append((people.cost_usd[rows, picks], people.score[rows, picks]))
    means = people.cost_usd[known].mean(axis=0)
    cheapest, dearest = int(means.argmin()), int(means.argmax())

    def area(drawn: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
        paid = drawn[known[drawn]]
        cost, quality = (np.array(each) for each in zip(
            (people.cost_usd[paid, cheapest].mean(), people.score[drawn, cheapest].mean()),
            *((c[paid].mean(), q[drawn].mean()) for c, q in points),
            strict=True,
        ))  # fmt: skip
        low, high = cost[0], people.cost_usd[paid, dearest].mean()
        fine = np.linspace(low, high, 20_001)
        return float(np.trapezoid(np.interp(fine, *hull(cost, quality)), fine) / (high - low))

    assert curve.area.value == pytest.approx(area(rows), abs=1e-5)
    drawn = [
        area(np.repeat(rows, counts)) for chunk in drawn_prompts(people.n, resampling) for counts in chunk
    ]
    assert [curve.area.low, curve.area.high] == pytest.approx(
        np.quantile(drawn, [0.025, 0.975]).tolist(), abs=1e-5
    )
