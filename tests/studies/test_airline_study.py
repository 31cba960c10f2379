"""The airline study end to end with few markets, its numbers against naive ones."""

import os
from collections import defaultdict

import numpy as np
import polars as pl
import pytest

from deeppqr import PQR, DataError, bootstrap, datasets
from deeppqr.inference import rank
from deeppqr.policy import Logit
from deeppqr.reward import Joint
from deeppqr_studies import complete_settings, find_study, run_study
from deeppqr_studies._claims import AGREES, DISAGREES, UNDECIDED
from deeppqr_studies.airline import _fits
from deeppqr_studies.airline._findings import IDENTIFIED, Findings, interval
from deeppqr_studies.airline._fits import COMPETITORS, POOLED, TOP, sample_of
from deeppqr_studies.airline._report import _at_dallas, _competition_claims, report

needs_files = pytest.mark.skipif(
    not os.environ.get("DEEPPQR_DATA"),
    reason="set DEEPPQR_DATA to the folder that holds airline/*.csv",
)
MARKETS = 80
SETTINGS = {
    "carriers": ["AA", "OTHER"],
    "methods": ["default", "same", "logit", "splgd"],
    "pooled": ["same", "logit"],
    "replicates": 4,
    "markets": MARKETS,
}
FIGURES = (
    "top-markets-default",
    "map",
    "competition-reward",
    "competition-probability",
    "likelihood",
)


def lines(states) -> np.ndarray:
    """Serving pays a line in the state, in units of some ten."""
    out = np.zeros((len(states), 2, 1 + states.shape[1]))
    out[:, 1, 0], out[:, 1, 1:] = 1.0, np.asarray(states, float) / 10
    return out


def quick(**told) -> PQR:
    """A reward of few coefficients, with errors of its own."""
    reward = Joint(features=lines)
    return PQR(**{"policy": Logit(ridge=20.0), **told, "reward": reward})


@pytest.fixture(scope="module")
def linear():
    """Lines in place of the default's terms, which take seconds to choose."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deeppqr.PQR", quick)
        yield


@pytest.fixture(scope="module")
def outcome(linear, tmp_path_factory):
    folder = tmp_path_factory.mktemp("airline") / "run"
    return run_study(find_study("airline"), folder, SETTINGS)


@pytest.fixture(scope="module")
def found(outcome):
    return Findings(pl.read_csv(outcome.folder / "table.csv", infer_schema_length=None))


def rows_of(found: Findings, **about) -> list[dict]:
    return list(found.markets.filter(**about).iter_rows(named=True))


@needs_files
def test_the_study_writes_tables_and_figures(outcome):
    assert outcome.failures == {}
    assert outcome.num_tasks == 2 + 2 + 2 * 4 + 2
    for name in FIGURES:
        assert (outcome.folder / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert (outcome.folder / f"{name}.pdf").read_bytes()[:4] == b"%PDF"
    text = (outcome.folder / "summary.txt").read_text()
    assert outcome.text in text
    for words in (
        "TWA (TW): The action 'serve' is never taken in this panel",
        "rows of periods 13 and 14 linked to the next                                 42,480",
        "The five most rewarding markets of each carrier, default",
        "Standard errors of the rewards by the fit, over those of the bootstrap",
        "American's five most rewarding markets are all at Dallas (default)",
        "with more competitors most carriers serve less",
        "American is the only exception",
        "default predicts better than same",
    ):
        assert words in text
    markdown = (outcome.folder / "summary.md").read_text()
    assert "| all carriers, a fit each |" in markdown


@needs_files
def test_log_likelihoods_are_those_of_the_chances(found):
    """Of what period 15 decided, for every method."""
    assert set(found.markets["method"]) == set(SETTINGS["methods"])
    chance, served = found.markets["probability"], found.markets["served"].to_numpy()
    taken = np.where(served, chance, 1 - chance)
    # 1 - p is right to a rounding error of 1, whatever it is.
    likelihood = np.exp(found.markets["loglik"].to_numpy())
    np.testing.assert_allclose(likelihood, taken, rtol=1e-13, atol=2e-16)
    decided = datasets.airline_frame().filter(period=15)
    truth = {
        (row["carrier"], row["Segid"]): (row["seg_entry_t"], row["seg_entry_tplus1"])
        for row in decided.iter_rows(named=True)
    }
    for row in found.markets.iter_rows(named=True):
        assert truth[row["carrier"], row["market"]] == (row["present"], row["served"])


@needs_files
@pytest.mark.parametrize("sample", ["AA", POOLED])
def test_the_same_as_last_period_is_a_rate(found, sample):
    markets = {row["market"] for row in rows_of(found, sample="AA", method="same")}
    frame = datasets.airline_frame().filter(
        pl.col("period") < 15, pl.col("Segid").is_in(markets), pl.col("carrier") != "TW"
    )
    if sample != POOLED:
        frame = frame.filter(carrier=sample)
    rows = rows_of(found, sample=sample, method="same")
    assert len(rows) == MARKETS * (11 if sample == POOLED else 1)
    for present in (0, 1):
        then = frame.filter(seg_entry_t=present)["seg_entry_tplus1"].to_list()
        rate = (sum(then) + 0.5) / (len(then) + 1)
        said = {row["probability"] for row in rows if row["present"] == present}
        np.testing.assert_allclose(list(said), rate, rtol=1e-14)


def clustered(total: dict[int, list[float]]) -> tuple[float, float]:
    """A mean over all entries, and its error if those of a market go together."""
    count = sum(map(len, total.values()))
    mean = sum(map(sum, total.values())) / count
    left = [sum(value - mean for value in values) for values in total.values()]
    number = len(left)
    return mean, (number / (number - 1) * sum(x**2 for x in left)) ** 0.5 / count


@needs_files
@pytest.mark.parametrize("present", [None, 0, 1])
@pytest.mark.parametrize("sample", ["each", POOLED, "AA"])
@pytest.mark.parametrize("over", [None, "same"])
def test_errors_are_clustered_by_market(found, sample, over, present):
    def by_market(method: str) -> dict[int, list[float]]:
        rows = rows_of(found, method=method)
        values = defaultdict(list)
        for row in rows:
            own = row["sample"] == sample or (sample == "each" and row["sample"] != POOLED)
            if own and present in (None, row["present"]):
                values[row["market"]].append(row["loglik"])
        return values

    values = by_market("logit")
    if over is not None:
        other = by_market(over)
        values = {
            market: [a - b for a, b in zip(values[market], other[market], strict=True)]
            for market in values
        }
    gain = found.gain(sample, "logit", over=over, present=present)
    assert gain is not None
    np.testing.assert_allclose(gain, clustered(values), rtol=1e-11)
    if sample == "AA":
        # One row a market: the textbook's error of a mean.
        plain = np.concatenate(list(values.values()))
        error = plain.std(ddof=1) / len(plain) ** 0.5
        np.testing.assert_allclose(gain.error, error, rtol=1e-11)


@needs_files
def test_the_best_markets_come_in_order(found):
    names = dict(datasets.airline_frame().select("Segid", "market").iter_rows())
    for carrier in ("AA", "OTHER"):
        rows = rows_of(found, sample=carrier, method="default")
        rows.sort(key=lambda row: -row["reward"])
        best = found.best(carrier, "default")
        assert [market.reward for market in best] == [row["reward"] for row in rows[:5]]
        assert [market.name for market in best] == [
            names[row["market"]] for row in rows[:5]
        ]
        for market in best:
            codes = [datasets.PLACES[code - 1].name for code in market.places]
            assert codes == market.name.split(" - ")
            assert market.at(codes[1])
            assert not market.at("Nowhere")


def worth_and_means(fit) -> np.ndarray:
    """Of serving each market of period 15, then by the number of competitors."""
    test = sample_of("AA", MARKETS).test
    states = [test, *(test.with_columns(nonstop_comps=pl.lit(n)) for n in COMPETITORS)]
    means = [fit.reward(state)[:, 1].mean() for state in states]
    chances = [np.exp(fit.log_policy(state)[:, 1]).mean() for state in states]
    return np.concatenate([fit.reward(test)[:, 1], means, chances])


@pytest.fixture(scope="module")
def draws(linear):
    panel = sample_of("AA", MARKETS).panel
    model = quick(discount=0.95, anchor="out")
    return bootstrap(model, panel, worth_and_means, replicates=4, seed=0).draws


@needs_files
def test_errors_and_ranks_are_those_of_the_fit(found):
    """Of the estimate itself, not of another model."""
    sample = sample_of("AA", MARKETS)
    fit = quick(discount=0.95, anchor="out").fit(sample.panel)
    low, high = fit.interval(sample.test)
    order = rank(fit, sample.test, "serve", top=TOP)
    shares = []
    for place, market in enumerate(found.best("AA", "default"), start=1):
        row = sample.test["Segid"].to_list().index(market.number)
        ends = interval(market)
        assert ends is not None
        np.testing.assert_allclose(ends, (low[row, 1], high[row, 1]))
        assert market.top_share == order.top_share[row]
        assert market.ranks == (order.low[place - 1], order.high[place - 1])
        assert market.ranks[0] <= place <= market.ranks[1]
        shares.append(market.top_share)
    assert max(shares) > TOP / MARKETS
    ends = [set(name.split(" - ")) for name in sample.test["market"]]
    hubs = [set.intersection(*(ends[at] for at in best)) for best in order.highest]
    shared = found.hubs("AA")
    assert sum(shared.values()) == pytest.approx(1)
    for hub, share in shared.items():
        wanted = [min(hub_, default="none") == hub for hub_ in hubs]
        assert share == pytest.approx(np.mean(wanted))


@needs_files
def test_the_bootstraps_errors_are_moments_of_its_draws(found, draws):
    """Sums and squares in the table against the draws themselves."""
    worth = draws[:, :MARKETS]
    error = worth.std(axis=0, ddof=1)
    spread = found.spread("AA")
    assert len(spread) == MARKETS
    # Squares less the square of sums lose about mean^2 / variance units of rounding.
    lost = 1e-15 * (1 + (worth.mean(axis=0) / error) ** 2).max()
    assert lost < 1e-6
    for row, market in enumerate(sample_of("AA", MARKETS).test["Segid"]):
        np.testing.assert_allclose(spread[market], error[row], rtol=lost)


@needs_files
def test_competition_is_drawn_likewise(found, draws):
    """A fit's own averages, with the spread of the draws around them."""
    curve = found.competition("AA", "default")
    sample = sample_of("AA", MARKETS)
    fit = quick(discount=0.95, anchor="out").fit(sample.panel)
    own = worth_and_means(fit)[MARKETS:].reshape(2, -1)[:, 1:]
    means = draws[:, MARKETS:].reshape(4, 2, -1)[:, :, 1:]
    assert np.abs(own - means[0]).max() > 1e-3
    for place, quantity in enumerate(("reward", "probability")):
        np.testing.assert_allclose(getattr(curve, quantity), own[place], rtol=1e-9)
        drawn = getattr(curve, f"drawn_{quantity}")
        np.testing.assert_allclose(drawn, means[:, place], rtol=1e-9)
        change, error = curve.change(quantity)
        assert change == pytest.approx(own[place, -1] - own[place, 0], rel=1e-7)
        apart = means[:, place, -1] - means[:, place, 0]
        assert error == pytest.approx(apart.std(ddof=1), rel=1e-6)
        low, high = curve.band(quantity)
        assert ((low < own[place]) & (own[place] < high)).all()
    near = [int((sample.panel.state[:, 5] == number).sum()) for number in COMPETITORS]
    assert list(curve.near) == near


@needs_files
def test_a_finished_study_is_not_run_again(outcome, monkeypatch):
    def run(self, task):
        raise AssertionError(f"{task.name} ran again")

    monkeypatch.setattr(type(find_study("airline")), "run", run)
    before = (outcome.folder / "table.csv").read_bytes()
    said = []
    again = run_study(find_study("airline"), outcome.folder, SETTINGS, said.append)
    assert len(said) == 1
    assert "14 tasks, 14 finished already" in said[0]
    assert again.text == outcome.text
    assert (outcome.folder / "table.csv").read_bytes() == before


@needs_files
def test_a_study_of_methods_without_rewards(tmp_path):
    """Nothing to rank and no competition: likelihoods alone."""
    settings = {"carriers": ["AA"], "methods": ["same", "logit"], "pooled": []}
    settings |= {"replicates": 0, "markets": 60}
    outcome = run_study(find_study("airline"), tmp_path / "run", settings)
    assert outcome.failures == {}
    assert "Mean log-likelihood of period 15" in outcome.text
    assert "most rewarding" not in outcome.text
    assert "competitors" not in outcome.text.split("TWA")[1]


@needs_files
@pytest.mark.slow
def test_replicates_that_fail_are_told(linear, tmp_path):
    """JetBlue serves few of these markets, and some draws hold none of them."""
    rows = _fits.replicates("B6", 60, [0, 8])
    failed = [row for row in rows if row["kind"] == "failure"]
    assert 0 < len(failed) < 8
    assert all("ActionNeverTaken" in row["note"] for row in failed)
    assert {row["draws"] for row in rows if row["kind"] == "spread"} == {8 - len(failed)}
    rows += _fits.fit("B6", "default", 60, 0)
    frame = pl.from_dicts(rows, infer_schema_length=None, strict=False)
    assert f"{len(failed)} replicates of the bootstrap failed" in report(frame, tmp_path)


@needs_files
def test_no_step_pays_for_a_penalty_with_likelihood():
    """US Airways: with curved terms new penalties were so large that steps which obeyed
    them were taken although they explained the decisions worse than no reward at all."""
    panel = sample_of("US", 1770).panel
    fit = PQR(discount=0.95, anchor="out").fit(panel)
    assert "not converged" not in fit.stages["reward"]
    taken = fit.estimate.policy.log_prob(panel.state)[np.arange(len(panel)), panel.action]
    # Switching at a common rate explains the decisions by -0.12 on average; the fit that
    # went astray had -3, and -0.98 once it was shrunk to nothing.
    assert taken.mean() > -0.12


@needs_files
@pytest.mark.slow
def test_the_default_has_no_seed_and_predicts_better_than_rates():
    """As the study runs it, on a third of the markets."""
    rows = _fits.fit("AA", "default", 600, 0)
    for seed in (1, 9):
        again = _fits.fit("AA", "default", 600, seed)
        assert [{**row, "seed": 0} for row in again] == rows
    rows += _fits.fit("AA", "same", 600, 0)
    frame = pl.from_dicts(rows, infer_schema_length=None, strict=False)
    gain = Findings(frame).gain("AA", "default", over="same")
    assert gain is not None
    assert gain.clear
    drawn = _fits.replicates("AA", 150, [0, 2])
    again = _fits.replicates("AA", 150, [1, 2])
    last = [[r for r in each if r.get("replicate") == 1] for each in (drawn, again)]
    assert last[0] == last[1]


def test_tasks():
    study = find_study("airline")
    tasks = study.tasks(complete_settings(study, {}))
    assert len(tasks) == 2 + 6 + len(IDENTIFIED) * (7 + 2)
    assert "TW" not in IDENTIFIED
    spans = [
        task.parameters["replicates"]
        for task in study.tasks(
            complete_settings(study, {"replicates": 45, "carriers": ["AA"]})
        )
        if "replicates" in task.parameters
    ]
    assert spans == [[0, 20], [20, 40], [40, 45]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"carriers": ["TW"]}, r"`carriers` must be among \['AA', .*, not 'TW'"),
        ({"methods": ["guess"]}, r"`methods` must be among .*, not 'guess'"),
        ({"pooled": ["guess"]}, r"`pooled` must be among .*, not 'guess'"),
    ],
)
def test_settings_that_are_not_known(settings, message):
    study = find_study("airline")
    with pytest.raises(DataError, match=message):
        study.tasks(complete_settings(study, settings))


def example(rows: list[dict], names: dict[int, str] | None = None) -> Findings:
    """Findings of made-up rows, and markets that need no files."""
    about = {"seed": 0, "method": "default"}
    found = Findings(pl.from_dicts([{**about, **row} for row in rows], strict=False))
    found.__dict__["names"] = {n: (name, (1, 2)) for n, name in (names or {}).items()}
    return found


def american(markets: list[str], hubs: list[tuple[str, int]]) -> Findings:
    """Rewards that fall from market to market."""
    about = {"kind": "market", "sample": "AA", "carrier": "AA"}
    rows: list[dict] = [
        {**about, "market": n, "reward": -float(n), "hub": None}
        for n in range(len(markets))
    ]
    rows += [{"kind": "hub", "sample": "AA", "hub": h, "draws": n} for h, n in hubs]
    return example(rows, dict(enumerate(markets)))


DALLAS = [f"Dallas - {place}" for place in ("Denver", "Miami", "Reno", "Tulsa", "Boise")]


@pytest.mark.parametrize(
    ("markets", "hubs", "verdict"),
    [
        (DALLAS, [], AGREES),
        ([*DALLAS, "Reno - Tulsa"], [("Dallas", 20)], AGREES),
        (["Dallas Love - Denver", *DALLAS], [], DISAGREES),
        (["Reno - Tulsa", *DALLAS], [("none", 20)], DISAGREES),
        (DALLAS, [("Dallas", 10), ("Chicago", 10)], UNDECIDED),
        (["Reno - Tulsa", *DALLAS], [("Dallas", 10), ("none", 10)], UNDECIDED),
    ],
)
def test_whether_the_best_are_all_at_dallas(markets, hubs, verdict):
    claim = _at_dallas(american(markets, hubs), "default")
    assert claim.verdict == verdict
    assert (
        f"{sum(name.startswith('Dallas -') for name in markets[:5])} of 5" in claim.numbers
    )
    assert ("of the draws all five are" in claim.numbers) == bool(hubs)


def competing(changes: dict[str, float], error: float | None) -> Findings:
    """Chances that change by so much from 5 to 9 competitors; draws with this error."""
    rows: list[dict] = []
    for carrier, change in changes.items():
        rows.append({"kind": "market", "sample": carrier})
        step = change / (len(COMPETITORS) - 1)
        for place, number in enumerate(COMPETITORS):
            about = {"sample": carrier, "competitors": number, "reward": 0.0}
            chance = 0.5 + step * place
            found = {"mark": "ok", "outside": 0.0, "near": 9, "probability": chance}
            rows.append({"kind": "competition", **about, **found})
            if error is None:
                continue
            for replicate in (0, 1):
                # Two draws that are so far apart have this standard deviation.
                away = (1 - 2 * replicate) * error / 2**0.5 * (number == COMPETITORS[-1])
                drawn = {"replicate": replicate, "probability": chance + away}
                rows.append({"kind": "drawn", **about, **drawn})
    return example(rows)


@pytest.mark.parametrize(
    ("changes", "error", "verdicts"),
    [
        # American alone serves more, the others clearly less.
        ({"AA": 0.1, "CO": -0.1, "DL": -0.1}, 0.01, [AGREES, AGREES]),
        # The same without draws, or with wide ones: nobody knows.
        ({"AA": 0.1, "CO": -0.1, "DL": -0.1}, None, [UNDECIDED, UNDECIDED]),
        ({"AA": 0.1, "CO": -0.1, "DL": -0.1}, 0.06, [UNDECIDED, UNDECIDED]),
        # Another one serves more too; or American less.
        ({"AA": 0.1, "CO": 0.1, "DL": -0.1}, 0.01, [DISAGREES, DISAGREES]),
        ({"AA": -0.1, "CO": -0.1, "DL": -0.1}, 0.01, [AGREES, DISAGREES]),
        # Half of them is not most; without American there is no exception.
        ({"CO": -0.1, "DL": 0.1}, 0.01, [UNDECIDED]),
    ],
)
def test_what_competition_does(changes, error, verdicts):
    claims = _competition_claims(competing(changes, error))
    assert [claim.verdict for claim in claims] == verdicts
    less = sum(change < 0 for change in changes.values())
    assert f"less: {less} of {len(changes)}" in claims[0].numbers


def test_without_a_default_nothing_is_claimed_of_competition():
    rows = [{"kind": "market", "sample": "AA", "competitors": None}]
    assert _competition_claims(example(rows)) == []
