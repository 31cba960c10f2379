"""What reports conclude, on tables made by hand."""

from itertools import product

import polars as pl
import pytest

from deeppqr import DataError
from deeppqr_studies import complete_settings, find_study

SEEDS = (1, 2, 3)


def verdicts(claims):
    return {claim.text: claim.verdict for claim in claims}


def table(errors, *, score="nmse", **common):
    """A row per entry and seed: `errors` has columns as pairs, and a size that all seeds
    nearly share."""
    rows = [
        {**common, **dict(columns), "seed": seed, score: size * (1 + 0.01 * seed)}
        for columns, size in errors.items()
        for seed in SEEDS
    ]
    return pl.from_dicts(rows, infer_schema_length=None)


def of(**columns):
    return tuple(columns.items())


def test_q_recovery_judges_at_every_p():
    from deeppqr_studies.paper._q_recovery import _claims

    # The paper's Q beats MaxEnt-IRL's at p = 5 and loses at p = 10, by more: pooled, the
    # two would cancel.
    found = {
        **{of(method="paper", p=5, progress=s): size for s, size in ((0.1, 9), (1.0, 1))},
        **{of(method="paper", p=10, progress=s): size for s, size in ((0.1, 9), (1.0, 8))},
        **{of(method="default", p=p, progress=None): 0.5 for p in (5, 10)},
        **{of(method="maxent", p=p, progress=None): 4.0 for p in (5, 10)},
    }
    claims = _claims(table(found, score="q_nmse"), 1.0).claims
    better = "is more accurate than by maxent, at every p"
    assert verdicts(claims) == {
        f"With sufficient training, Q by default {better}": "agrees",
        f"With sufficient training, Q by paper {better}": "disagrees",
        "Not well trained (at 10 % of its training), Q by paper is poorer than by maxent, "
        "at every p": "agrees",
        "Q by paper is less accurate at 10 % of its training than at 100 %, at every p": (
            "agrees"
        ),
    }
    assert "p = 10: 8.16 against 4.08, disagrees" in claims[1].numbers


def test_half_of_the_training_is_not_sufficient():
    from deeppqr_studies.paper._q_recovery import _claims

    found = {
        **{of(method="paper", p=5, progress=s): size for s, size in ((0.1, 9), (0.5, 1))},
        of(method="maxent", p=5, progress=None): 4.0,
    }
    texts = verdicts(_claims(table(found, score="q_nmse"), 1.0).claims)
    assert len(texts) == 2
    assert not any("sufficient" in text for text in texts)


def test_methods_without_training_are_drawn_and_not_judged_alone(tmp_path):
    about = {"scale": 1.0, "given": "nothing", "seconds": 1.0, "note": ""}
    found = table({of(method="maxent", p=5, progress=None): 4.0}, score="q_nmse", **about)
    found = found.with_columns(q_mse="q_nmse", q_centred_nmse="q_nmse")
    text = find_study("q-recovery").report(found, tmp_path)
    assert text.endswith("over its variance\n- nothing to compare")
    assert len(list(tmp_path.glob("q-*-scale-1.png"))) == 3


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5])
def test_shares_of_the_training_are_checked(share):
    study = find_study("q-recovery")
    with pytest.raises(DataError, match=f"`progress` must be shares .* but {share:g} is"):
        study.tasks(complete_settings(study, {"progress": [0.5, share]}))


def test_training_errors_of_all_sizes_count_alike():
    from deeppqr_studies.paper._training_error import _claims

    # At p = 40 losses are a millionth of those at p = 5, and the claim is false there.
    sizes = {5: (1.0, 2.0), 40: (3e-6, 2e-6)}
    both = [
        table(
            {of(method="paper", network=network, p=p): sizes[p][side] for p in sizes},
            score=score,
        )
        for side, score in enumerate(("fresh_loss", "fresh_constant"))
        for network in ("q",)
    ]
    claims = _claims(both[0].join(both[1], on=["method", "network", "p", "seed"]), 1.0)
    text = "On fresh decisions paper predicts better than a constant (q), at every p"
    assert verdicts(claims.claims)[text] == "disagrees"


def test_sensitivity_by_hand():
    from deeppqr_studies.paper._sensitivity import _claims

    agents = {(0.0, 1.0): 0, (0.5, 1.0): 1, (0.9, 1.0): 2, (0.9, 0.5): 3, (0.9, 0.1): 4}
    sizes = {"paper": [0.6, 0.4, 0.1, 0.3, 0.2], "maxent": [0.2, 0.3, 0.5, 0.5, 0.5]}
    found = {
        of(method=method, discount=agent[0], temperature=agent[1]): sizes[method][place]
        for method, (agent, place) in product(sizes, agents.items())
    }
    (block,) = _claims(table(found), "here")
    assert block.title == "What the paper claims, PQR being paper, here"
    assert verdicts(block.claims) == {
        "at discount 0 MaxEnt-IRL is better than PQR": "agrees",
        "at discount 0.9 PQR is better than MaxEnt-IRL": "agrees",
        "MaxEnt-IRL is better at discount 0 than at 0.9": "agrees",
        "PQR is better at discount 0.5 than at 0": "agrees",
        "PQR is better at discount 0.9 than at 0.5": "agrees",
        "PQR does not blow up: wrong by 0.9 in the discount, it is better than "
        "MaxEnt-IRL at 0.9": "disagrees",
        "PQR is better at temperature 1 than at 0.5": "agrees",
        "PQR is better at temperature 0.5 than at 0.1": "disagrees",
        "PQR is more sensitive to the temperature: better at discount 0 than at "
        "temperature 0.1": "disagrees",
    }


def test_robustness_by_hand():
    from deeppqr_studies.paper._robustness import _claims

    sizes = {"limit": 3.0, "regression": 0.5, "splgd": 0.1, "dairl": 0.2, "zero": 1.0}
    found = table({of(method=method): size for method, size in sizes.items()})
    # Up to a constant the regression is far, and as it is near.
    worse = pl.when(pl.col("method") == "regression").then(8.0).otherwise(1.0)
    claims = _claims(found.with_columns(centred_nmse=pl.col("nmse") * worse), "here")
    closer = "D-AIRL is closer to the reward than {}, up to a constant".format
    hopeless = "PQR has no guarantee: zero is closer to the reward than {}".format
    assert verdicts(claims.claims) == {
        closer("regression"): "agrees",
        closer("splgd"): "disagrees",
        hopeless("limit"): "agrees",
        hopeless("regression"): "disagrees",
    }


@pytest.mark.parametrize(
    ("fits", "verdict", "numbers"),
    [
        ([(0.2, "ok"), (3.0, "watch"), (None, "refused")], "agrees", "2 of 3 fits failed"),
        ([(3.0, "ok"), (3.0, "trouble")], "disagrees", "1 of them without a warning"),
        ([(0.2, "ok"), (0.9, "watch")], "cannot tell", "1 of the others were warned of"),
    ],
)
def test_failures_are_to_be_warned_of(fits, verdict, numbers):
    from deeppqr_studies.paper._anchor_support import _warned

    claim = _warned(pl.DataFrame(fits, schema=["nmse", "overlap"], orient="row"), "paper")
    assert claim.verdict == verdict
    assert numbers in claim.numbers


def test_anchor_support_by_hand():
    from deeppqr_studies.paper._anchor_support import _claims

    sizes = {("paper", 0.0): 0.1, ("paper", 3.0): 2.0, ("joint", 0.0): 0.3}
    sizes |= {("joint", 3.0): 0.2, ("oracle", 0.0): 0.1, ("oracle", 3.0): 0.1}
    found = {of(method=m, premium=premium): size for (m, premium), size in sizes.items()}
    frame = table(found).with_columns(overlap=pl.lit("ok"))
    grows = "the error of {} grows as the anchor becomes rare".format
    warned = "the library warns or refuses before {} fails (NMSE above 1)".format
    assert verdicts(_claims(frame, "here").claims) == {
        grows("paper"): "agrees",
        warned("paper"): "disagrees",
        grows("joint"): "disagrees",
        warned("joint"): "cannot tell",
    }
    # One premium is not a comparison.
    alone = verdicts(_claims(frame.filter(premium=3.0), "here").claims)
    assert list(alone) == [warned("paper"), warned("joint")]


@pytest.mark.parametrize(
    ("errors", "verdict"),
    [
        ({0.5: [0.01, 0.02, 0.03], 1.0: [0.01, 0.02, 0.03]}, "agrees"),
        # Near at one temperature and far at the other.
        ({0.5: [0.01, 0.02, 0.03], 1.0: [0.5, 0.52, 0.51]}, "disagrees"),
        # Two fits are near and one finds none: that is not as good as two.
        ({0.5: [0.01, 0.02, None]}, "cannot tell"),
        ({0.5: [None, None, None]}, "disagrees"),
    ],
)
def test_temperatures_that_are_not_found_miss_the_goal(errors, verdict):
    from deeppqr_studies.paper._alpha_selection import _claims

    rows = [
        {"method": "joint", "temperature": temperature, "seed": seed, "error": error}
        for temperature, found in errors.items()
        for seed, error in zip(SEEDS, found, strict=True)
    ]
    (claim,) = _claims(pl.from_dicts(rows, infer_schema_length=None), "here").claims
    assert claim.verdict == verdict
    missing = sum(found.count(None) for found in errors.values())
    assert f"{missing} found none" in claim.text
