"""Claims of the paper: the rule by example, and how a verdict is printed."""

import polars as pl
import pytest

from deeppqr_studies._claims import (
    Claim,
    Claims,
    claim_at_every,
    claim_below,
    claim_everywhere,
    scores_by,
    scores_over,
)


@pytest.mark.parametrize(
    ("lower", "upper", "verdict"),
    [
        ([1.0, 1.1, 0.9], [2.0, 2.2, 1.9], "agrees"),
        ([2.0, 2.2, 1.9], [1.0, 1.1, 0.9], "disagrees"),
        ([1.0, 3.0, 0.5], [2.0, 2.0, 2.0], "cannot tell"),
        # Far apart over seeds, but always by the same: pairs decide, not means.
        ([1.0, 100.0, 1000.0], [2.0, 101.0, 1001.0], "agrees"),
        # 3.5 standard errors, which is little on three pairs: t is 4.3 there.
        ([1.0, 1.0, 1.0], [2.0, 3.0, 4.0], "cannot tell"),
        ([1.0] * 6, [2.0, 3.0, 4.0] * 2, "agrees"),
        ([1.0, 2.0], [1.0, 2.0], "cannot tell"),
        ([1.0], [2.0], "cannot tell"),
        ([], [2.0], "cannot tell"),
    ],
)
def test_the_rule_by_example(lower, upper, verdict):
    claim = claim_below("a is below b", dict(enumerate(lower)), dict(enumerate(upper)))
    assert claim.verdict == verdict


def test_sizes_that_differ_are_compared_in_logarithms():
    """Half as large in every pair; the largest pair hides it in the differences."""
    lower, upper = {1: 1.0, 2: 10.0, 3: 500.0}, {1: 2.0, 2: 21.0, 3: 1000.0}
    assert claim_below("a < b", lower, upper).verdict == "cannot tell"
    claim = claim_below("a < b", lower, upper, relative=True)
    assert claim.verdict == "agrees"
    assert claim.numbers.startswith("17.1 against 34.8; difference of logarithms -0.71")


def test_zero_has_no_logarithm():
    lower, upper = {1: 0.0, 2: 0.0, 3: 0.0}, {1: 2.0, 2: 2.1, 3: 2.2}
    claim = claim_below("a < b", lower, upper, relative=True)
    assert claim.verdict == "agrees"
    assert claim.numbers.startswith("0 against 2.1; difference -2.1")


def test_only_pairs_are_compared():
    """Seed 3 has one score only: its 100 must not enter a mean."""
    claim = claim_below("a < b", {1: 1.0, 2: 1.5, 3: 100.0}, {1: 2.0, 2: 2.6})
    assert claim.verdict == "agrees"
    assert (
        claim.numbers == "1.25 against 2.3; difference -1.1, standard error 0.05, 2 pairs"
    )


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        (["agrees", "agrees"], "agrees"),
        (["agrees", "cannot tell"], "cannot tell"),
        (["cannot tell", "disagrees"], "disagrees"),
        ([], "cannot tell"),
    ],
)
def test_everywhere_is_as_good_as_its_worst_place(verdicts, verdict):
    places = {
        f"p = {p}": Claim("a < b", found, "1 against 2; difference -1")
        for p, found in enumerate(verdicts)
    }
    assert claim_everywhere("a < b at every p", places).verdict == verdict


def test_everywhere_names_the_places_that_do_not_agree():
    places = {
        "p = 5": Claim("a < b", "agrees", "1 against 2; difference -1"),
        "p = 10": Claim("a < b", "cannot tell", "1 against 3; difference -2"),
    }
    numbers = claim_everywhere("a < b at every p", places).numbers
    assert numbers == "p = 5: 1 against 2; p = 10: 1 against 3, cannot tell"


def test_seeds_are_the_pairs_at_every_size():
    """Six pairs would agree; at p = 10 the claim is false."""
    lower = {5: {1: 1.0, 2: 1.1, 3: 0.9}, 10: {1: 2.0, 2: 2.1, 3: 2.2}}
    upper = {5: {1: 9.0, 2: 9.2, 3: 8.9}, 10: {1: 1.0, 2: 1.2, 3: 1.1}}
    claim = claim_at_every("p", "a < b", lower, upper)
    assert claim.verdict == "disagrees"
    assert claim.numbers == "p = 5: 1 against 9.03; p = 10: 2.1 against 1.1, disagrees"
    del upper[10]
    assert claim_at_every("p", "a < b", lower, upper).verdict == "cannot tell"


def test_scores_are_read_from_a_table():
    frame = pl.DataFrame(
        {"method": ["a", "a", "b", "a"], "seed": [1, 2, 1, 3], "mse": [0.5, 0.6, 0.7, None]}
    )
    assert scores_by(frame, "mse", method="a") == {1: 0.5, 2: 0.6}
    assert scores_over(frame, "method", "mse", seed=1) == {"a": {1: 0.5}, "b": {1: 0.7}}


def test_claims_print_like_tables():
    claims = Claims("Claims", [Claim("a < b", "agrees", "1 against 2")])
    assert claims.text() == "Claims\n- agrees: a < b [1 against 2]"
    assert claims.markdown() == "**Claims**\n\n- *agrees*: a < b (1 against 2)"
    assert Claims("Claims", []).text() == "Claims\n- nothing to compare"
