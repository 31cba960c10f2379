"""Changed problems: exact answers, exact gradients, and what the anchor cannot move."""

from typing import Any

import numpy as np
import pytest

import deeppqr
from deeppqr import DataError
from deeppqr.counterfactual import Edited, NewAction, counterfactual
from deeppqr.mdp import TabularMDP, solve_soft
from deeppqr.worlds import random_tabular

PERIODS = 6
WORLD = random_tabular(7, 3, discount=0.9, temperature=1.3, seed=11)
MDP = WORLD.mdp
RATE = 0.4  # paid to action 2, more in higher states


def paid(states):
    return RATE * states[:, 0]


def other_law():
    return random_tabular(7, 3, seed=99).mdp.transition


@pytest.fixture(scope="module")
def panel():
    return WORLD.simulate(steps=600, units=20, seed=2)


def exact_fit(panel, error: float | np.ndarray = 0.0):
    """The true policy and law, and an anchor whose reward is wrong by `error`."""
    given = MDP.reward[:, 0] + error
    known = lambda states: given[states[:, 0].astype(int)]
    model = deeppqr.PQR(
        discount=0.9,
        temperature=1.3,
        anchor=0,
        anchor_reward=known,
        policy=deeppqr.policy.Given(WORLD.log_policy),
        transition=MDP.transition,
    )
    return model.fit(panel)


def changed(**changes):
    """The true problem after a change, as a TabularMDP."""
    told = {"reward": MDP.reward, "transition": MDP.transition, "discount": 0.9}
    return TabularMDP(**(told | changes), temperature=1.3)


def with_column(extra, law):
    reward = np.column_stack([MDP.reward, extra])
    return changed(reward=reward, transition=np.concatenate([MDP.transition, law], axis=1))


def transferred():
    reward = MDP.reward.copy()
    reward[:, 2] += RATE * np.arange(7)
    return changed(reward=reward)


def one_scaled():
    reward = MDP.reward.copy()
    reward[:, 1] *= 0.5
    return changed(reward=reward)


# The arguments, the true problem, and whether the anchor's reward matters to choices.
CASES = {
    "transfer": (dict(transfer={2: paid}), transferred(), False),
    "tax on the anchor": (
        dict(transfer={0: -0.7}),
        changed(reward=MDP.reward - 0.7 * np.eye(3)[0]),
        False,
    ),
    "removed": (
        dict(remove=1),
        changed(reward=MDP.reward[:, [0, 2]], transition=MDP.transition[:, [0, 2]]),
        False,
    ),
    "anchor removed": (
        dict(remove=[0]),
        changed(reward=MDP.reward[:, 1:], transition=MDP.transition[:, 1:]),
        False,
    ),
    "added like 1": (
        dict(add={"new": NewAction(like=1, plus=0.3)}),
        with_column(MDP.reward[:, 1] + 0.3, MDP.transition[:, 1:2]),
        False,
    ),
    "all scaled": (dict(scale=0.6), changed(reward=0.6 * MDP.reward), False),
    "one scaled": (dict(scale={1: 0.5}), one_scaled(), True),
    "other law": (dict(transition=other_law()), changed(transition=other_law()), True),
    "edited law": (
        dict(transition=Edited(lambda after, action: np.minimum(after, 4))),
        changed(
            transition=np.concatenate(
                [
                    MDP.transition[:, :, :4],
                    MDP.transition[:, :, 4:].sum(axis=2, keepdims=True),
                    np.zeros((7, 3, 2)),
                ],
                axis=2,
            )
        ),
        True,
    ),
    "discount": (dict(discount=0.5), changed(discount=0.5), True),
    "added with a reward": (
        dict(add={"new": NewAction(like=1, reward=0.3)}),
        with_column(np.full(7, 0.3), MDP.transition[:, 1:2]),
        True,
    ),
}


def truth(mdp, start):
    """Figures of a problem by loops over periods."""
    solution = solve_soft(mdp)
    policy = np.exp(solution.log_policy)
    moves = np.einsum("sa,sat->st", policy, mdp.transition)
    mass, total = start, np.zeros(7)
    for _ in range(PERIODS):
        total, mass = total + mass, mass @ moves
    for _ in range(2_000):
        mass = mass @ moves
    found: dict = {("now", "value"): start @ solution.value}
    for name, weight in (
        ("now", start),
        ("6 periods", total / PERIODS),
        ("long run", mass),
    ):
        found[name, "reward"] = weight @ (policy * mdp.reward).sum(axis=1)
        for action in range(policy.shape[1]):
            found[name, "probability", action] = weight @ policy[:, action]
    return found


@pytest.mark.parametrize("case", CASES)
def test_every_change_is_exact_on_a_known_world(panel, case):
    arguments, after, _ = CASES[case]
    answer = counterfactual(exact_fit(panel), panel, periods=PERIODS, **arguments)
    start = np.bincount(panel.state[:, 0].astype(int), minlength=7) / len(panel)
    old, new = truth(changed(), start), truth(after, start)
    labels = answer.after.actions
    for key, value in new.items():
        mine = (*key[:2], labels[key[2]]) if len(key) == 3 else key
        np.testing.assert_allclose(answer[mine].after, value, atol=1e-8, err_msg=str(key))
    for key, value in old.items():
        np.testing.assert_allclose(answer[key].before, value, atol=1e-8, err_msg=str(key))


@pytest.mark.parametrize("case", CASES)
def test_what_the_anchors_reward_can_move_is_said_in_advance(panel, rng, case):
    """Figures that are said not to depend on g are exact with a wrong one, to 1e-8; of
    those said to depend on it one is off by 1e-3 at least."""
    arguments, _, matters = CASES[case]
    told = dict(periods=PERIODS, **arguments)
    right = counterfactual(exact_fit(panel), panel, **told)
    wrong = counterfactual(exact_fit(panel, rng.normal(size=7)), panel, **told)
    gap = {
        a.name: abs(a.change - b.change)
        for a, b in zip(right.figures, wrong.figures, strict=True)
    }
    for each in right.figures:
        if not each.depends_on_anchor:
            assert gap[each.name] < 1e-8, each.name
    choices = [each for each in right.figures if each.quantity == "probability"]
    assert all(each.depends_on_anchor == matters for each in choices)
    if matters:
        assert max(gap[each.name] for each in choices) > 1e-3
    assert ("can move the prob" in right.identification) == matters


@pytest.mark.parametrize("case", ["other law", "discount", "edited law"])
def test_a_constant_error_of_g_moves_no_choice(panel, case):
    arguments, _, _ = CASES[case]
    right = counterfactual(exact_fit(panel), panel, **arguments)
    wrong = counterfactual(exact_fit(panel, 0.8), panel, **arguments)
    for a, b in zip(right.figures, wrong.figures, strict=True):
        if a.quantity == "probability":
            np.testing.assert_allclose(a.change, b.change, atol=1e-8)


@pytest.mark.parametrize(
    "case", ["one scaled", "other law", "discount", "added with a reward"]
)
def test_bounds_over_the_anchors_reward_hold_the_truth(panel, rng, case):
    """The truth is the answer at a g inside the bounds; so are draws between them."""
    arguments, _, _ = CASES[case]
    error = rng.uniform(-0.3, 0.3, size=7)
    true_g = lambda states: MDP.reward[states[:, 0].astype(int), 0]
    wrong = counterfactual(
        exact_fit(panel, error),
        panel,
        anchor_bounds=(lambda s: true_g(s) - 0.3, lambda s: true_g(s) + 0.3),
        **arguments,
    )
    for draw in range(4):
        inside = rng.uniform(-0.3, 0.3, size=7) if draw else np.zeros(7)
        other = counterfactual(exact_fit(panel, inside), panel, **arguments)
        for found, each in zip(wrong.figures, other.figures, strict=True):
            if found.depends_on_anchor and found.quantity != "reward":
                assert found.anchor_low - 1e-9 <= each.change <= found.anchor_high + 1e-9
            else:
                assert np.isnan(found.anchor_low)


@pytest.fixture(scope="module")
def joint(panel):
    big = WORLD.simulate(steps=12_000, units=60, seed=3)
    g = lambda states: MDP.reward[states[:, 0].astype(int), 0]
    model = deeppqr.PQR(
        discount=0.9, temperature=1.3, anchor=0, anchor_reward=g, reward="joint"
    )
    return model.fit(big), big


SLOW = [pytest.param(case, marks=pytest.mark.slow) for case in ("removed", "one scaled")]


@pytest.mark.parametrize("case", ["transfer", "other law", *SLOW])
def test_standard_errors_are_those_of_finite_differences(joint, case):
    """Moving the coefficients of the reward moves the re-solved answer as the delta method
    says: the standard errors of all figures agree to 1e-5 of themselves."""
    from dataclasses import replace

    fit, big = joint
    arguments, _, _ = CASES[case]
    # Without the panel's sequels: errors are then those of the coefficients alone.
    told: dict[str, Any] = dict(periods=PERIODS, states=big.state, **arguments)
    answer = counterfactual(fit, **told)
    reward = fit.reward_function
    root = np.linalg.cholesky(
        reward.covariance + 1e-14 * np.trace(reward.covariance) * np.eye(len(reward.theta))
    )
    step, moved = 1e-4, []
    for direction in root.T:
        ends = []
        for sign in (1, -1):
            at = replace(reward, theta=reward.theta + sign * step * direction)
            ends.append(
                counterfactual(replace(fit, reward_function=at), big, **told).changes
            )
        moved.append((ends[0] - ends[1]) / (2 * step))
    expected = np.sqrt((np.array(moved) ** 2).sum(axis=0))
    found = np.array([each.standard_error for each in answer.figures])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-9)
    assert (found > 0).sum() > len(found) / 2


def test_nothing_changed_changes_nothing(joint):
    fit, big = joint
    answer = fit.counterfactual(big)
    np.testing.assert_allclose(answer.changes, 0, atol=1e-12)
    np.testing.assert_allclose(
        answer.before.probability, np.exp(fit.log_policy(answer.states)), atol=1e-4
    )


def test_the_heading_says_what_changed(joint):
    fit, big = joint
    column = fit.encoding.names[0]
    answer = fit.counterfactual(big, transfer={1: 0.5, 2: column}, discount=0.8)
    assert "to 1 of 0.5, " in answer.title
    assert f"to 2 of '{column}', discount 0.8" in answer.title


def test_what_the_errors_leave_out_is_said(joint):
    """A learned law has errors of its own, which take its panel; a given one has none."""
    left_out = "errors of the learned law are left out"
    fit, big = joint
    assert left_out in fit.counterfactual(big.state).text()
    assert left_out not in fit.counterfactual(big).text()
    known = deeppqr.PQR(
        discount=0.9, anchor=0, policy="frequency", transition=MDP.transition
    )
    answer = known.fit(big).counterfactual(big).text()
    assert "delta method" in answer
    assert left_out not in answer


def test_all_renderings_hold_the_same_figures(joint):
    fit, big = joint
    answer = fit.counterfactual(big, transfer={2: 0.5})
    cell = f"{answer['now', 'probability', 2].change:.4f}"
    for text in (answer.text(), answer.markdown(), answer.latex(), answer.html()):
        assert cell in text
    assert answer.frame()["change"].to_list() == answer.changes.tolist()
    assert "now: value" in answer.estimates().text()
    assert answer.at_states().height == len(big)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(transfer=0.5), "`transfer` must say who is paid"),
        (dict(transfer={9: 0.5}), "`transfer` must be one of the actions"),
        (dict(remove=[0, 1, 2]), "takes away all actions"),
        (dict(add={"new": 3}), "NewAction"),
        (dict(add={1: NewAction(like=0)}), "is an action already"),
        (dict(periods=0), "`periods` must be a whole number"),
        (dict(discount=1.0), "`discount` must lie in"),
        (dict(transition=np.ones((2, 2))), "`transition` must have the shape"),
        (dict(scale={1: "half"}), "`scale` must be"),
        (dict(discount=0.5, anchor_bounds=3.0), "must be a pair"),
        (dict(discount=0.5, anchor_bounds=(1.0, 0.0)), "low end first"),
        (dict(transfer={2: lambda states: np.nan * states[:, 0]}), "must be finite"),
    ],
)
def test_messages(panel, arguments, words):
    with pytest.raises(DataError, match=words):
        counterfactual(exact_fit(panel), panel, **arguments)
