"""The HTML report: true to the fit, self-contained, and safe with any name."""

import re
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest

import deeppqr
from deeppqr import DataError, StorageError
from deeppqr.page._report import _results, program, report_page
from deeppqr.page._words import Averages, words_of
from deeppqr.plots._style import number_text
from season_panel import decisions, panel_of


class Page(HTMLParser):
    """Tags with their attributes, and the text outside scripts and styles."""

    def __init__(self, text: str):
        super().__init__()
        self.tags, self.words, self._open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag):
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data):
        if not {"script", "style"} & set(self._open):
            self.words.append(data)

    def named(self, name: str) -> list[dict]:
        return [attributes for tag, attributes in self.tags if tag == name]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def page(mixed):
    return report_page(mixed)


@pytest.fixture(scope="module")
def fit_text(fit):
    return Page(report_page(fit)).text


def test_the_page_asks_for_nothing_outside_itself(page):
    parsed = Page(page)
    links = [
        value
        for _, attributes in parsed.tags
        for name, value in attributes.items()
        if name in ("src", "href", "xlink:href", "action")
    ]
    assert links
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert len(parsed.named("script")) == 1
    policy = parsed.named("meta")[2]["content"]
    assert policy.startswith("default-src 'none'")


def test_every_figure_has_words_and_parts_of_its_own(page):
    parsed = Page(page)
    drawn = parsed.named("svg")
    assert len(drawn) >= 6  # three curves, a surface, the policy, the anchor
    assert all(len(each["aria-label"]) > 40 for each in drawn)
    assert all(each["role"] == "img" for each in drawn)
    names = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(names) == len(set(names))
    used = set(re.findall(r'(?:url\(|href=")#([\w.-]+)', page))
    assert used <= set(names)


def test_text_in_figures_can_be_searched_and_takes_the_pages_colours(page):
    assert "<text" in page
    assert "currentColor" in page
    assert "#1b1c1d" not in page.split("</style>", 1)[1]


def test_averages_are_those_of_the_rewards(fit, fit_text):
    averages = Averages(fit)
    states = fit.seen.state
    np.testing.assert_allclose(averages.mean, fit.reward(states).mean(axis=0), atol=1e-12)
    slopes = fit.reward_function.slopes(states, np.full(len(states), 2)).mean(axis=0)
    variance = slopes @ fit.reward_function.covariance @ slopes
    assert averages.error is not None
    np.testing.assert_allclose(averages.error[2], np.sqrt(variance))
    assert number_text(averages.mean[4]) in fit_text


def test_the_first_sentence_counts_the_diagnostics(fit, mixed):
    for one in (fit, mixed):
        said, wrong = words_of(one, Averages(one)).verdict, one.diagnostics.warnings
        number = len(tuple(one.diagnostics))
        assert str(number) in said
        serious = [each for each in wrong if each.verdict not in ("ok", "watch")]
        assert all(figure.name in said for figure in serious or wrong)


def test_trouble_is_said_before_anything_else(light):
    """A trap of an anchor: taken in five of 600 rows."""
    frame = decisions(2, rows=600).with_columns(
        do=pl.when(pl.int_range(600) % 120 == 0).then(pl.lit("rare")).otherwise("do")
    )
    model = deeppqr.PQR(discount=0.5, anchor="rare", **light)
    with pytest.warns(deeppqr.WeakOverlapWarning):
        fit = model.fit(panel_of(frame))
    words = words_of(fit, Averages(fit))
    assert "anchor_share" in words.verdict
    assert "settle these before you use the rewards" in words.verdict
    assert any("take an anchor that is chosen more often" in each for each in words.care)


def test_what_to_believe_comes_before_the_figures(mixed, page):
    text = Page(page).text
    verdict = words_of(mixed, Averages(mixed)).verdict
    assert text.index(verdict) < text.index("Average reward of each action")


@pytest.mark.parametrize("name", ["many", "counted"])
def test_every_kind_of_fit_has_a_report(name, request, tmp_path):
    each = request.getfixturevalue(name)
    found = each.report(tmp_path / "report.html")
    text = Page(found.read_text(encoding="utf-8")).text
    assert text.count("Every diagnostic") >= 1
    assert "nan" not in re.findall(r"[a-z]+", text.lower())


def test_a_loaded_fit_gives_the_same_page(mixed, page, tmp_path):
    mixed.save(tmp_path / "run")
    again = report_page(deeppqr.load(tmp_path / "run"))
    assert again == page


def test_fits_without_errors_say_so(many):
    text = Page(report_page(many)).text
    assert "There are no standard errors in closed form" in text
    assert "no bands" in text


HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    '"><svg onload=alert(1)>',
    "=HYPERLINK(1)",
    "\u202egnp.exe",
    "{{ 7 * 7 }}",
)


def test_hostile_names_and_labels_are_text(light):
    frame = decisions(3, rows=600)
    odd = dict(zip(["act 00", "act 01", "act 02"], HOSTILE[:3], strict=True))
    frame = frame.with_columns(
        pl.col("do").replace(odd),
        pl.col("season").replace({"dry": HOSTILE[5], "wet": "x" * 10_000}),
    ).rename({"size": HOSTILE[1], "busy": HOSTILE[4]})
    panel = panel_of(frame, state=[HOSTILE[1], HOSTILE[4], "season"])
    fit = deeppqr.PQR(discount=0.5, anchor=HOSTILE[0], **light).fit(panel)
    for html in (
        report_page(fit, title=HOSTILE[1]),
        fit._repr_html_(),
        panel._repr_html_(),
    ):
        parsed = Page(html)
        assert not [tag for tag, _ in parsed.tags if tag in ("img", "iframe")]
        assert len(parsed.named("script")) <= 1
        events = [n for _, attributes in parsed.tags for n in attributes if n[:2] == "on"]
        assert events == []
        assert "\u202e" not in html
        assert "x" * 1_000 not in html
    assert "{{ 7 * 7 }}" in Page(report_page(fit)).text


def test_results_are_added_as_sections(fit, paper):
    panel = paper[1].select(paper[1].unit < 10)
    projection = fit.project(["1", "x1"], panel)
    changed = fit.counterfactual(panel, {"x1": [0.0]})
    text = Page(report_page(fit, results=[projection, changed])).text
    assert "Counterfactual: changed states" in text
    assert projection.estimates().title in text
    (one,) = _results(changed)
    assert one.title == "Counterfactual: changed states"
    with pytest.raises(DataError, match="`results` must be tables .* number 1 is a int"):
        _results([changed, 3])


@pytest.mark.slow
def test_a_sensitivity_is_drawn_beside_its_table(light):
    """A real one: bounds on the anchor's reward, a discount, a seed, folds of units."""
    panel = panel_of(decisions(2, rows=600))
    fit = deeppqr.PQR(discount=0.5, anchor="act 00", **light).fit(panel)
    result = fit.sensitivity(panel, anchor_bounds=(-0.5, 0.5), discounts=[0.7], folds=2)
    kinds = list(dict.fromkeys(row.kind for row in result.rows))
    axes = fit.plot.sensitivity(result)
    assert [axis.get_title(loc="left") for axis in axes] == kinds[1:]
    base, at_discount = result.of("discount", "act 01")
    places = [kinds[1:].index("discount")]
    drawn = axes[places[0]].containers[0].lines[0].get_ydata()
    np.testing.assert_array_equal(drawn, [base.estimate, at_discount.estimate])
    (section,) = _results(result)
    cells = [cell for row in section.tables[0].rows for cell in row]
    assert any(cell.startswith(f"{at_discount.estimate:.3f}") for cell in cells)
    assert len(section.figures) == 1


def test_nothing_is_overwritten(fit, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("mine")
    with pytest.raises(StorageError, match="exists already"):
        fit.report(path)
    assert path.read_text() == "mine"


def test_the_program_names_what_is_not_default(fit):
    said = program(fit)
    assert (
        '    discount=0.9,\n    anchor=0,\n    policy="logit",\n    reward="joint",\n)'
        in said
    )
    assert fit.provenance["panel"]["digest"] in said
    compile(said.replace("...", "None"), "report", "exec")


def test_notebooks_show_fits_and_panels_as_tables(mixed, tmp_path):
    html = mixed._repr_html_()
    assert "Average reward of each action" in Page(html).text
    assert all(figure.name in html for figure in mixed.diagnostics)
    panel = panel_of(decisions(3))
    shown = Page(panel._repr_html_()).text
    assert "1,500 decisions by 100 units" in shown
    assert "act 02" in shown


def test_identification_is_the_fits_own_statement(mixed, page):
    text = Page(page).text
    for sentence in mixed.identification().split(". "):
        assert sentence.rstrip(".") in text


def test_averages_and_slopes_are_those_of_the_tables_with_errors(fit, fit_text):
    averages, table = Averages(fit), fit.average()
    assert averages.error is not None
    np.testing.assert_allclose(averages.mean, table.values, atol=1e-12)
    np.testing.assert_allclose(averages.error, table.standard_errors, atol=1e-12)
    assert "Average slope of the reward" in fit_text
    for row in fit.slopes("x2").table():
        shown = f"{number_text(row.estimate)} ({number_text(row.standard_error)})"
        assert shown in fit_text


def test_a_category_has_a_slope_for_each_level(mixed, page):
    text = Page(page).text
    found = mixed.slopes("season").table()
    assert len(found) == 4  # two actions, two levels beside the first
    assert "season: dry less cold" in text
    for row in found:
        assert f"{number_text(row.estimate)} ({number_text(row.standard_error)})" in text


def test_lump_sums_are_set_apart_and_compared_as_payments_per_period(tabular):
    """Action 2 ends the process: 10 once is worth as much as 1 a period at 0.9."""
    _, panel = tabular
    ends = panel.action == 2
    after = np.where(ends[:, None], np.nan, panel.next_state)
    panel = deeppqr.Panel.from_arrays(
        panel.state, panel.action, after, unit=panel.unit, terminal=ends
    )
    stages: dict = {"policy": "frequency", "anchor_value": "exact", "reward": "table"}
    fit = deeppqr.PQR(discount=0.9, anchor=0, **stages).fit(panel)
    averages = Averages(fit)
    text = Page(report_page(fit)).text
    assert "2, once" in text
    assert "2 ends the process: its reward is a lump sum" in text
    assert "lump sums counted as what they are worth a period" in text
    assert "its reward is a lump sum" in str(fit.average())
    assert averages.error is not None
    flow, half = 0.1 * averages.mean[2], 0.1 * 1.96 * averages.error[2]
    verb = "pay more" if flow > half else "pay less" if flow < -half else "cannot be told"
    assert re.search(f"'2'[^;.:]* {verb}", text)
