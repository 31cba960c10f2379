"""What is drawn: lines are the numbers, labels are text, axes are the caller's."""

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import deeppqr
from deeppqr import DataError
from deeppqr.plots import reward_curves
from deeppqr.plots._style import MAX_TOGETHER, PALETTE, number_text, quiet_fonts, text_of
from season_panel import decisions, panel_of


def legend_of(axis) -> list[str]:
    return [text.get_text() for text in axis.get_legend().get_texts()]


def test_lines_are_the_curves(fit):
    axis = fit.plot.reward("x1")
    curves = reward_curves(fit, "x1")
    assert isinstance(axis, Axes)
    assert legend_of(axis) == ["0 (anchor, known)", "1", "2", "3", "4"]
    for action, line in zip([0, 1, 2, 3, 4], axis.lines[:5], strict=True):
        np.testing.assert_array_equal(line.get_xdata(), curves.values)
        np.testing.assert_array_equal(line.get_ydata(), curves.reward[:, action])
    assert axis.get_xlabel() == "x1"
    assert "averaged over 200 states" in axis.get_title(loc="left")


def test_bands_are_the_intervals(fit):
    curves = reward_curves(fit, "x1")
    (band,) = fit.plot.reward("x1", actions=[2], level=0.9).collections
    path = band.get_paths()[0].vertices
    margin = curves.margin(0.9)
    assert margin is not None
    low, high = curves.reward[:, 2] - margin[:, 2], curves.reward[:, 2] + margin[:, 2]
    assert np.isclose(path[:, 1].min(), low.min())
    assert np.isclose(path[:, 1].max(), high.max())


def test_a_callers_axes_are_drawn_into_and_returned(fit):
    figure = Figure()
    axis = figure.subplots()
    assert fit.plot.reward("x1", ax=axis) is axis
    assert fit.plot.policy(ax=figure.subplots()) is figure.axes[-1]
    assert len(axis.lines) >= 5


def test_wrong_axes_are_refused(fit):
    with pytest.raises(
        DataError, match=r"`ax` must be matplotlib Axes, 1 of them .* a str arrived"
    ):
        fit.plot.reward("x1", ax="here")
    with pytest.raises(DataError, match="4 of them for this figure, but 1 arrived"):
        fit.plot.reward("x1", "x2", ax=Figure().subplots())


def test_no_global_state_is_touched_with_axes_given(fit):
    from matplotlib import pyplot, rcParams

    before = dict(rcParams)
    fit.plot.anchor(ax=Figure().subplots())
    fit.plot.diagnostics()
    assert dict(rcParams) == before
    assert len(pyplot.get_fignums()) == 1


def test_of_many_actions_the_most_chosen_are_shown(many):
    axis = many.plot.reward("size")
    shown = legend_of(axis)
    assert len(shown) == 1 + MAX_TOGETHER
    share = many.data.share.copy()
    share[0] = 0.0
    most = sorted(np.argsort(-share)[:MAX_TOGETHER])
    assert shown[1:] == [many.actions[index] for index in most]
    assert "no bands" in axis.get_title(loc="left")
    assert "the 7 most chosen of 9 actions" in axis.get_title(loc="left")


def test_many_actions_asked_for_get_axes_each(many):
    axes = many.plot.reward("size", actions=many.actions)
    assert len(axes) == 8
    titles = [axis.get_title(loc="left") for axis in axes]
    assert titles == [f"action {label}" for label in many.actions[1:]]


def test_levels_are_ticks_and_every_action_has_its_points(mixed):
    axis = mixed.plot.reward("season")
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ["cold", "dry", "wet"]
    assert len(axis.containers) == 3
    flags = mixed.plot.reward("busy")
    assert [tick.get_text() for tick in flags.get_xticklabels()] == ["False", "True"]


def test_surfaces_share_a_scale_and_name_their_columns(mixed):
    axes = mixed.plot.reward("size", "season")
    meshes = [axis.collections[0] for axis in axes]
    assert len({mesh.get_clim() for mesh in meshes}) == 1
    assert [axis.get_ylabel() for axis in axes] == ["season", "season"]


def test_calibration_points_are_the_stored_ones(fit):
    axis = fit.plot.policy()
    points = axis.containers[1].lines[0]
    np.testing.assert_array_equal(points.get_xdata(), fit.data.expected[:, 1])
    np.testing.assert_array_equal(points.get_ydata(), fit.data.observed[:, 1])


def test_the_anchors_bars_add_up_to_its_share(fit):
    axis = fit.plot.anchor()
    heights = [sum(bar.get_height() for bar in bars) for bars in axis.containers]
    taken = np.average(fit.data.action == 0, weights=fit.data.weight)
    np.testing.assert_allclose(heights, [1.0, taken])


def test_diagnostics_show_every_figure_the_worst_first(fit):
    axis = fit.plot.diagnostics()
    names = [tick.get_text() for tick in axis.get_yticklabels()]
    assert sorted(names) == sorted(figure.name for figure in fit.diagnostics)
    verdicts = [fit.diagnostics[name].verdict == "ok" for name in names]
    assert verdicts == sorted(verdicts)


def test_counterfactuals_are_drawn_with_their_means(fit, paper):
    result = fit.counterfactual(paper[1], {"x1": [0.0, 1e6]})
    axes = fit.plot.counterfactual(result)
    values = axes[1].containers[2].lines[0].get_ydata()
    np.testing.assert_array_equal(values, result.mean("probability", 2))
    single = fit.plot.counterfactual(result, quantity="reward", actions=[4])
    assert legend_of(single) == ["4"]
    # The last scenario lies far outside the data: hollow.
    faces = [line.get_markerfacecolor() for line in single.lines]
    assert faces.count("white") == 1
    with pytest.raises(DataError, match="must be what `fit.counterfactual"):
        fit.plot.counterfactual(fit)
    with pytest.raises(DataError, match="`quantity` must be one of"):
        fit.plot.counterfactual(result, quantity="value")


def test_a_loaded_fit_draws_the_same(mixed, tmp_path):
    mixed.save(tmp_path / "run")
    again = deeppqr.load(tmp_path / "run")
    for draw in (lambda fit: fit.plot.reward("size"), lambda fit: fit.plot.policy()):
        ours, theirs = draw(mixed), draw(again)
        for one, other in zip(ours.lines, theirs.lines, strict=True):
            np.testing.assert_array_equal(one.get_xydata(), other.get_xydata())


HOSTILE = ["$\\frac{1}{0}$", "<script>alert(1)</script>", "\u202eabc", "x" * 10_000, "שלום"]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_are_drawn_as_text(name, light):
    frame = decisions(2, rows=300).rename({"size": name})
    panel = panel_of(frame, state=[name])
    fit = deeppqr.PQR(discount=0.5, anchor="act 00", **light).fit(panel)
    axis = fit.plot.reward(name)
    assert len(axis.get_xlabel()) <= 40
    assert "\u202e" not in axis.get_xlabel()
    with quiet_fonts():
        axis.figure.canvas.draw()


def test_text_is_one_short_line_without_formulas():
    assert text_of("a\nb\tc") == "a b c"
    assert text_of("$x$") == r"\$x\$"
    assert text_of("y" * 50) == "y" * 31 + "…"
    assert text_of("\x00\u202e") == "\ufffd\ufffd"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (-0.25, "-0.250"), (1234.5, "1,234"), (1e-9, "1e-09"), (np.nan, "unknown"), (-0.0, "0"), (2.5e7, "2.5e+07")],
)  # fmt: skip
def test_numbers_have_three_digits(value, text):
    assert number_text(value) == text


def test_colours_differ_in_lightness_from_white():
    """Contrast of at least 2 to 1 with white, by the formula of WCAG, for every line."""
    from matplotlib.colors import to_rgb

    for colour in PALETTE:
        linear = [
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
            for c in to_rgb(colour)
        ]
        luminance = np.dot([0.2126, 0.7152, 0.0722], linear)
        assert 1.05 / (luminance + 0.05) > 2.0, colour


def test_recovery_shows_the_truth_as_it_is(fit, paper):
    """Dashed lines are the world's rewards averaged at the same states as the fit's."""
    world, _ = paper
    left, right = fit.plot.recovery("x1", world.reward)
    curves = reward_curves(fit, "x1")
    dashed, solid = left.lines[0].get_ydata(), left.lines[1].get_ydata()
    rng = np.random.default_rng(0)
    states = fit.seen.state[rng.choice(len(fit.seen.state), 200, replace=False)].copy()
    states[:, 0] = curves.values[7]
    np.testing.assert_allclose(dashed[7], world.reward(states)[:, 1].mean(), atol=1e-12)
    np.testing.assert_array_equal(solid, curves.reward[:, 1])
    np.testing.assert_array_equal(right.lines[0].get_ydata(), dashed)
    odds = fit.log_policy(states)[:, 1] - fit.log_policy(states)[:, 0]
    np.testing.assert_allclose(right.lines[1].get_ydata()[7], odds.mean(), atol=1e-12)


def test_changed_problems_show_before_and_after(mixed):
    answer = mixed.counterfactual(transfer={"act 02": 0.5})
    axes = np.ravel(mixed.plot.counterfactual(answer))
    wanted = [each for each in answer.figures if each.quantity == "probability"]
    first = [each for each in wanted if each.horizon == wanted[0].horizon]
    before, after = axes[0].containers
    np.testing.assert_array_equal(
        before.lines[0].get_xdata(), [each.before for each in first]
    )
    np.testing.assert_array_equal(
        after.lines[0].get_xdata(), [each.after for each in first]
    )
    assert len(axes) == len({each.horizon for each in wanted})


def test_sensitivity_shows_every_assumption_beside_the_fit(fit):
    from deeppqr.counterfactual._sensitivity_table import BASE, Sensitivity, SensitivityRow

    def row(kind, value, action, estimate, error=0.1):
        ends = estimate - 1.96 * error, estimate + 1.96 * error
        return SensitivityRow(kind, value, action, estimate, error, *ends)

    rows = [row(BASE, "", a, e) for a, e in (("go", 1.0), ("stay", 0.0))]
    for value, moved in (("0.8", 0.7), ("0.95", 1.4)):
        rows += [row("discount", value, "go", moved), row("discount", value, "stay", 0.0)]
    rows += [row("seed", "1", "go", 1.1, np.nan), row("seed", "1", "stay", 0.0)]
    empty = np.zeros((0, 2))
    result = Sensitivity(
        tuple(rows), ("go", "stay"), "stay", 0.95, empty, empty[:, 0], empty
    )
    plots = fit.plot
    axes = plots.sensitivity(result)
    assert [axis.get_title(loc="left") for axis in axes] == ["discount", "seed"]
    np.testing.assert_array_equal(axes[0].containers[0].lines[0].get_ydata(), [1, 0.7, 1.4])
    ticks = [tick.get_text() for tick in axes[0].get_xticklabels()]
    assert ticks == ["as fitted", "0.8", "0.95"]
    with pytest.raises(DataError, match="must be what `fit.sensitivity"):
        plots.sensitivity(3)
