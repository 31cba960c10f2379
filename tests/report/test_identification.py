"""The identification statement is true of the algebra, and lump sums are set apart."""

import numpy as np
import pytest

import deeppqr
from deeppqr.worlds import random_tabular

STATES = np.arange(7.0)[:, None]


def ended(share):
    """A panel whose last action ends the process in a share of its decisions."""
    panel = random_tabular(seed=4).simulate(steps=3_000, units=100, seed=5)
    lucky = np.random.default_rng(0).random(len(panel)) < share
    terminal = (panel.action == 2) & lucky
    after = np.where(terminal[:, None], np.nan, panel.next_state)
    return deeppqr.Panel.from_arrays(
        panel.state, panel.action, after, unit=panel.unit, terminal=terminal
    )


def pqr(**settings):
    return deeppqr.PQR(
        **{
            "discount": 0.9,
            "anchor": 0,
            "policy": "frequency",
            "anchor_value": "exact",
            "reward": "table",
            **settings,
        }
    )


@pytest.mark.parametrize("anchor", [0, 2])
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_constant_error_of_g_does_what_the_statement_says(anchor, share):
    """c on all; beside ends c / (1 - discount), or (1 - discount) c where the anchor is one."""
    panel = ended(share)
    stage = "exit" if anchor == 2 and share else "exact"
    true, wrong = (
        pqr(anchor=anchor, anchor_value=stage, anchor_reward=g).fit(panel)
        for g in (0.0, 1.0)
    )
    moved = wrong.reward(STATES) - true.reward(STATES)
    expected = np.ones(3)
    if share:
        expected = np.array([0.1, 0.1, 1.0]) if anchor == 2 else np.array([1.0, 1.0, 10.0])
    np.testing.assert_allclose(moved, np.tile(expected, (7, 1)), atol=1e-9)
    np.testing.assert_allclose(wrong.log_policy(STATES), true.log_policy(STATES))
    said = true.identification()
    if not share:
        assert "all rewards move by the same constant" in said
    elif anchor == 2:
        assert "adds c to the rewards of 2, which end the process, and 0.1 c" in said
    else:
        assert "adds c / 0.1 to the rewards of 2, which end the process, and c to" in said


def test_three_sentences_with_what_was_set_and_what_was_seen():
    panel = ended(0.5)
    fit = pqr(anchor_reward=0.5, temperature=2.0).fit(panel)
    said = fit.identification()
    assert said.count(". ") == 2
    assert "0 earns 0.5, the future is discounted by 0.9 a period" in said
    share = 100 * np.mean(panel.action == 0)
    assert f"{share:.3g} % were 0" in said
    assert "actions that end the process equally often" in said
    assert " ".join(fit.summary().split()).count(said.split(". ")[0][:60]) == 1


def test_a_lump_sum_is_set_apart_with_its_flow():
    fit = pqr().fit(ended(1.0))
    lines = fit.summary().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("reward over"))
    assert [line.split()[0] for line in lines[first + 1 : first + 4]] == ["0", "1", "2,"]
    assert lines[first + 3].startswith("2, once")
    text = " ".join(" ".join(lines).split())
    flow = 0.1 * fit.provenance["reward"]["mean"][2]
    assert (
        f"its reward is a lump sum beside the others' flows, worth as much as {flow:.4g} a"
        in text
    )
    assert "lump sum" not in pqr().fit(ended(0.5)).summary()
