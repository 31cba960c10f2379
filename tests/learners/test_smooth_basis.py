"""Smooth functions of state and action: what the columns say, and that all agree."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deeppqr.learners._action_shapes import action_shapes
from deeppqr.learners._build_basis import MAX_BENT_ACTIONS, NUM_RIDGES, smooth_basis
from deeppqr.learners._ridges import quasi_normal

few = settings(max_examples=12, deadline=None)
seeds = st.integers(0, 10_000)
NAMES = ("stay", "left", "right", "jump", "swim")


@pytest.fixture(scope="module")
def bases(paper):
    """The panel, lines alone, and everything: bends, products, a direction, a surface."""
    _, panel = paper
    lines = smooth_basis(panel.state, panel.actions, 0, panel.encoding)
    direction = np.eye(3)[:, :1] / panel.state[:, 0].std()
    everything = smooth_basis(
        panel.state,
        panel.actions,
        0,
        panel.encoding,
        curved=True,
        direction=direction,
        slope=np.linspace(-1, 1, 9),
        surface=None,
    )
    return panel, lines, everything


def test_two_constants_have_no_penalty(bases):
    """Fewer than three tell nothing about their size: there is nothing to gain."""
    panel, _, _ = bases
    for actions, free in ((("a", "b", "c"), True), (("a", "b", "c", "d"), False)):
        basis = smooth_basis(panel.state, actions, 0, panel.encoding)
        constants = np.isin(
            basis.term_of, [n for n, t in enumerate(basis.terms) if t.kind == "constants"]
        )
        assert constants.any()
        assert ((basis.group[constants] == -1) == free).all()


@pytest.mark.parametrize(("actions", "width"), [((0, 1, 2, 3, 4), 2), (NAMES, 1)])
def test_constants_may_have_a_part_that_actions_share(bases, actions, width):
    """Penalised apart from what each action adds, so that these can be shrunk to it."""
    panel, _, _ = bases
    basis = smooth_basis(panel.state, actions, 0, panel.encoding, shared=True)
    first, second = basis.terms[:2]
    assert (first.kind, second.kind) == ("constants", "constants")
    assert (first.width, second.width) == (width, 4)
    groups = [set(basis.group[basis.term_of == number]) for number in (0, 1)]
    assert [len(group) for group in groups] == [1, 1]
    assert groups[0].isdisjoint(groups[1])


@few
@given(seed=seeds)
def test_every_function_is_zero_at_the_anchor(bases, seed):
    panel, _, basis = bases
    rng = np.random.default_rng(seed)
    state = rng.normal(size=(5, 3))
    assert (basis.design(state)[:, 0] == 0).all()
    assert (basis(state, rng.normal(size=len(basis)))[:, 0] == 0).all()
    for actions in (panel.actions, NAMES):
        for anchor in range(1, 5):
            other = smooth_basis(panel.state[:100], actions, anchor, curved=True)
            assert (other.design(state)[:, anchor] == 0).all()


def test_curves_say_nothing_that_lines_can_say(bases):
    panel, lines, basis = bases
    columns = basis.columns(panel.state)
    simple, curves = columns[:, : basis.linear], columns[:, basis.linear :]
    np.testing.assert_allclose(simple, lines.columns(panel.state), atol=1e-12)
    # Normal equations of 6,000 rows whose entries are of the order of one.
    np.testing.assert_allclose(simple.T @ curves / len(panel), 0.0, atol=1e-10)


def test_curves_of_a_kind_have_unit_size_on_average(bases):
    panel, _, basis = bases
    columns = basis.columns(panel.state)
    for term in basis.terms:
        if term.first >= basis.linear:
            size = (columns[:, term.first : term.last] ** 2).mean()
            assert size == pytest.approx(1.0, abs=1e-9), term.kind


@few
@given(seed=seeds, unit=st.floats(0.01, 100.0), shift=st.floats(-10, 10))
def test_the_units_of_the_state_do_not_matter(seed, unit, shift):
    """Columns are those of the standardised state."""
    state = np.random.default_rng(seed).normal(size=(60, 2))
    moved = unit * state + shift
    basis, other = (smooth_basis(s, NAMES[:3], 0, curved=True) for s in (state, moved))
    # A shift of 10 beside a unit of 0.01 costs three digits; knots are rounded to nine.
    np.testing.assert_allclose(other.columns(moved), basis.columns(state), atol=1e-6)


@few
@given(seed=seeds)
def test_the_steepest_direction_of_a_ridge_is_its_own(bases, seed):
    """r = a f(x'w): every gradient is a multiple of w."""
    panel, lines, _ = bases
    direction = np.random.default_rng(seed).normal(size=3)
    theta = np.zeros(len(lines))
    at = 0
    for term in lines.terms:
        if term.kind == "lines" and term.shape.tolist() == [0]:
            theta[at : at + term.width] = direction
        at += term.width
    found = lines.steepest(panel.state, theta)[:, 0]
    along = found @ direction / np.linalg.norm(found) / np.linalg.norm(direction)
    # Finite differences with steps of 1e-3 of a function that is linear: rounding only.
    assert abs(along) == pytest.approx(1.0, abs=1e-9)
    assert (lines.scaling(panel.state) @ found).std() == pytest.approx(1.0)
    np.testing.assert_array_equal(found, lines.steepest(panel.state, -theta)[:, 0])


@pytest.mark.parametrize("number", [2, 3, 4, 5])
def test_named_actions_have_a_shape_each_and_from_four_on_one_in_common(number):
    shapes, kinds = action_shapes(NAMES[:number], 0)
    np.testing.assert_array_equal(shapes[kinds["apart"]], np.eye(number)[1:])
    assert set(kinds) == ({"common", "apart"} if number >= 4 else {"apart"})
    if number >= 4:
        everyone = np.append(0.0, np.ones(number - 1))
        np.testing.assert_array_equal(shapes[kinds["common"]], everyone[None])


@pytest.mark.parametrize("anchor", range(5))
def test_numbered_actions_are_smooth_first(anchor):
    actions = (-2, -1, 0, 1, 4)
    shapes, kinds = action_shapes(actions, anchor)
    assert list(kinds) == ["smooth", "smooth curve", "apart"]
    line, parabola, *apart = shapes
    distance = np.array(actions) - actions[anchor]
    np.testing.assert_allclose(line, distance / np.abs(distance).max())
    assert line @ parabola == pytest.approx(0.0, abs=1e-12)
    assert np.abs(parabola).max() == pytest.approx(1.0)
    # A parabola with its root at the anchor: a combination of the line and its square.
    square = np.stack([line, line**2], axis=1)
    rest = np.linalg.lstsq(square, parabola, rcond=None)[0]
    np.testing.assert_allclose(square @ rest, parabola, atol=1e-12)
    np.testing.assert_array_equal(np.array(apart), np.delete(np.eye(5), anchor, axis=0))


def test_answers_of_yes_and_no_are_not_numbers():
    _, kinds = action_shapes((True, False, "other", 3.0), 0)
    assert set(kinds) == {"common", "apart"}


@pytest.mark.parametrize("number", [MAX_BENT_ACTIONS, MAX_BENT_ACTIONS + 1])
def test_with_many_named_actions_curves_are_in_common(number):
    """The anchor does not count: the other actions are compared with the limit."""
    names = tuple(f"action {i}" for i in range(number))
    state = np.random.default_rng(0).normal(size=(50, 2))
    basis = smooth_basis(state, names, 0, curved=True)
    widths = {len(term.shape) for term in basis.terms if term.first >= basis.linear}
    assert widths == ({1} if number > MAX_BENT_ACTIONS else {1, number - 1})


@few
@given(seed=seeds)
def test_design_weights_average_and_actions_agree(bases, seed):
    """Four ways to the same function, which is linear in its coefficients."""
    panel, _, basis = bases
    rng = np.random.default_rng(seed)
    state, theta = panel.state[:40], rng.normal(size=len(basis))
    prob = rng.dirichlet(np.ones(5), size=40)
    columns, design, found = basis.columns(state), basis.design(state), basis(state, theta)
    # Sums of a few hundred products of the order of one, up to ten.
    tol = {"atol": 1e-10, "rtol": 0}
    np.testing.assert_allclose(design @ theta, found, **tol)
    np.testing.assert_allclose(columns @ basis.weights(theta), found, **tol)
    mixed = basis.average(columns, prob)
    np.testing.assert_allclose(mixed @ theta, (prob * found).sum(axis=1), **tol)
    for action in range(5):
        slopes, used = basis.slopes(columns, action)
        np.testing.assert_allclose(slopes, design[:, action, used], **tol)
        assert (np.delete(design[:, action], used, axis=1) == 0).all()


def test_coefficients_of_a_term_share_a_penalty(bases):
    _, _, basis = bases
    assert len(basis) == sum(term.width for term in basis.terms)
    np.testing.assert_array_equal(basis.term_of, basis.group)
    assert basis.terms[0].kind == "constants"
    own = basis.with_own_penalties("lines")
    np.testing.assert_array_equal(np.unique(own.group), np.arange(own.group.max() + 1))
    for number, term in enumerate(basis.terms):
        inside = own.group[basis.term_of == number]
        columns = term.last - term.first if term.kind == "lines" else 1
        assert len(np.unique(inside)) == columns
        assert not np.isin(inside, own.group[basis.term_of != number]).any()


@few
@given(seed=seeds)
def test_narrowing_drops_the_coefficients_of_the_terms_dropped(bases, seed):
    panel, _, basis = bases
    rng = np.random.default_rng(seed)
    kept = rng.random(len(basis.terms)) < 0.5
    kept[0] = True
    narrow = basis.narrowed(kept)
    stays = kept[basis.term_of]
    state = panel.state[:9]
    np.testing.assert_array_equal(narrow.design(state), basis.design(state)[:, :, stays])
    theta = np.where(stays, rng.normal(size=len(basis)), 0.0)
    # The same products; zeros are added in between.
    np.testing.assert_allclose(narrow(state, theta[stays]), basis(state, theta), atol=1e-10)
    np.testing.assert_array_equal(narrow.group, narrow.term_of)


def test_bends_of_all_variables_may_share_a_penalty(bases):
    """One for each kind of shape; other terms keep theirs, and nothing else changes."""
    _, _, basis = bases
    tied = basis.tied("bends of")
    group = {
        (t.kind, *t.shape): tied.group[basis.term_of == n]
        for n, t in enumerate(basis.terms)
    }
    bent = {key: found for key, found in group.items() if key[0].startswith("bends of")}
    assert all(len(np.unique(found)) == 1 for found in group.values())
    assert len({found[0] for found in bent.values()}) == len({key[1:] for key in bent}) == 2
    others = [found[0] for key, found in group.items() if key not in bent]
    assert len(set(others)) == len(others)
    assert tied.tied("bends of") is tied


def test_states_that_are_few_have_effects_of_their_own():
    """Indicators, lines taken out: any function of the states can be said exactly."""
    state = np.repeat(np.arange(6.0), 20)[:, None]
    basis = smooth_basis(state, NAMES[:2], 0, curved=True)
    assert "states" in [term.kind for term in basis.terms]
    target = np.random.default_rng(0).normal(size=6)
    design = basis.design(np.arange(6.0)[:, None])[:, 1]
    theta = np.linalg.lstsq(design, target, rcond=None)[0]
    np.testing.assert_allclose(design @ theta, target, atol=1e-9)


def test_a_variable_of_three_values_has_lines_only():
    rng = np.random.default_rng(0)
    state = np.column_stack([rng.normal(size=90), np.arange(90) % 3]).astype(float)
    basis = smooth_basis(state, NAMES[:2], 0, curved=True)
    kinds = [term.kind for term in basis.terms]
    assert "bends of 0" in kinds
    assert "bends of 1" not in kinds
    assert "products" not in kinds


def test_slopes_along_a_direction_are_those_of_the_function(bases):
    """A function linear along it has a constant slope, of unit size once scaled."""
    panel, lines, _ = bases
    direction = np.array([[1.0], [0.0], [0.0]])
    theta = np.zeros(len(lines))
    first = np.flatnonzero([t.kind == "lines" for t in lines.terms])[0]
    theta[np.flatnonzero(lines.term_of == first)[0]] = 1.0
    slope = lines.slope_along(panel.state, theta, direction)
    told = replace(lines, direction=direction, slope=slope)
    standard = lines.scaling(panel.state)
    tilts = told._curved(panel.state, standard)[:, -3:]
    inner = np.abs(standard[:, 0]) < 2
    # Bumps 0.6 wide every 0.625 add up to a constant within 2 %, and the ridge of a
    # thousandth takes about as much.
    np.testing.assert_allclose(tilts[inner], standard[inner], atol=0.1)


@pytest.mark.parametrize("dim", [1, 2, 5, 20])
def test_quasi_normal_draws_are_the_same_every_time(dim):
    points = quasi_normal(NUM_RIDGES, dim)
    assert points.shape == (NUM_RIDGES, dim)
    np.testing.assert_array_equal(points, quasi_normal(NUM_RIDGES, dim))
    # A longer sequence begins with the shorter one.
    np.testing.assert_array_equal(points, quasi_normal(500, dim)[:NUM_RIDGES])
    assert len(np.unique(points, axis=0)) == NUM_RIDGES


def test_quasi_normal_draws_are_normal():
    points = quasi_normal(1_023, 3)
    # Balanced points: errors are of the order of the logarithm over the number, where
    # draws would have 1 / sqrt(1,023) = 0.03.
    np.testing.assert_allclose(points.mean(axis=0), 0.0, atol=0.01)
    np.testing.assert_allclose(np.cov(points.T), np.eye(3), atol=0.03)


@pytest.mark.parametrize("number", [0, 1])
def test_quasi_normal_draws_may_be_few(number):
    assert quasi_normal(number, 2).shape == (number, 2)
