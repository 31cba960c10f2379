r"""One-step estimators: averages of rewards with the error of every stage corrected.

A plug-in average of $\hat r$ inherits the bias of flexible stages. For
$\psi = E[w(S,A)\,r(S,A)]$ the efficient influence function, with $\nu$ the normalisation
(one at the anchor) and $c = w - h\,\nu/\pi$, is
$$w r - \psi + \alpha\{c - \textstyle\sum_a \pi c\}
+ c\,\{\alpha\log\pi + V(S) - \gamma V(S') - r\},$$
where h solves, for all f,
$E[h(S)\{f(S) - \gamma E_\nu[f(S')|S]\}] = E[w\{f(S) - \gamma f(S')\}]$. Its mean, with the
stages fitted on other units, corrects the plug-in: what is left of their errors is of
second order, for any policy and law. h is also how far psi moves with the anchor's reward:
$\psi(g) = \psi(0) + E[h g]$.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

from .._errors import DataError
from .._messages import counted
from .._random import check_seed
from .._shapes import Codes, PerAction, PerRow
from ..law._choice import learn_transition
from ..law._table import Table
from ..panel._clusters import Clusters, clustered_covariance, unit_folds
from ..panel._panel import Panel
from ..report._estimates import Estimates
from ..reward._value_function import value_features
from ._bootstrap import require_model, require_own_panel
from ._features import resolve_features

if TYPE_CHECKING:
    from .._fit import Fit

# Pseudo-rows that keep the system for h regular with ridges as features; none with
# indicators of states. Standardised features have one per row.
RIDGE = 1e-4

Weights = Float[np.ndarray, "row action functional"]


@dataclass(frozen=True, eq=False)
class OneStep:
    """One-step estimates with the plug-in ones beside them; print it."""

    names: tuple[str, ...]
    values: Float[np.ndarray, " functional"]
    plug_in: Float[np.ndarray, " functional"]
    covariance: Float[np.ndarray, "functional functional"]
    note: str
    df: float = np.inf
    """Clusters less one: with few, intervals are Student's t's."""

    def estimates(self, level: float = 0.95) -> "Estimates":
        """The table; `frame` has the plug-in estimates beside."""
        beside = ", ".join(
            f"{name} {value:.4g}"
            for name, value in zip(self.names, self.plug_in, strict=True)
        )
        return Estimates(
            "One-step estimates",
            self.names,
            self.values,
            self.covariance,
            {"plug-in": beside},
            self.note,
            df=self.df,
            level=level,
            labels={"name": list(self.names), "plug_in": self.plug_in.tolist()},
        )

    def __str__(self) -> str:
        return self.estimates().text()


def one_step(
    fit: "Fit",
    panel: Panel,
    *,
    features: Any = None,
    names: Any = None,
    taken: bool = False,
    folds: int = 5,
    seed: int = 0,
) -> OneStep:
    """One-step estimates of average rewards, or of the best linear predictor.

    The model is fitted again on all folds of units but one, for each fold; its stages may
    be any: networks and boosted trees, too. Errors count that the states were drawn.

    Parameters
    ----------
    panel
        The panel that the fit was made from.
    features
        Without it, the average reward of each action over all states. With it the
        coefficients of the best linear predictor of the rewards of the decisions taken,
        on features as in `Fit.project`.
    names
        Of the features.
    taken
        Averages over the decisions that took each action.
    folds, seed
        Of the units.
    """
    model = require_model(fit)
    require_own_panel(fit, panel)
    check_seed(seed)
    if isinstance(folds, bool) or not isinstance(folds, int) or folds < 2:
        raise DataError(f"`folds` must be a whole number, 2 or more, but it is {folds!r}.")
    anchor, rows = fit.estimate.anchor, panel.is_transition
    others = [index for index in range(panel.num_actions) if index != anchor]
    linear = None
    if features is not None:
        about = (panel.encoding, fit.actions, anchor, panel.state)
        linear = resolve_features(features, names, *about)
    weigh = _weights(linear, others, panel.num_actions)
    fold = unit_folds(panel, folds, rng=np.random.default_rng([seed, folds]))
    count = len(others) if linear is None else len(linear.names)
    scores, plug_in = np.zeros((len(panel), count)), np.zeros((len(panel), count))
    by_state, filled = linear is None and not taken, 0
    for number in np.unique(fold):
        held = rows & (fold == number)
        part = _Fold.of(fit, model.fit(panel.select(fold != number)), panel, fold != number)
        scores[held], plug_in[held], unseen = part.scores(panel, held, weigh, by_state)
        filled += unseen
    weight, clusters = panel.weight[rows], Clusters.of(panel)
    share = (weight / weight.sum())[:, None]
    scores, plug_in = scores[rows], plug_in[rows]
    if by_state:
        value, plain, left = _mean(scores, share), _mean(plug_in, share), scores
        influence = share * (left - value)
        labels = tuple(str(fit.actions[index]) for index in others)
    else:
        # A ratio, or regression: E[b b'] theta = E[b r], indicators being the ratio's b.
        own = weigh(panel.state[rows])[np.arange(rows.sum()), panel.action[rows]]
        gram = own.T @ (own * share)
        inverse = np.linalg.pinv(gram, rcond=1e-12, hermitian=True)
        value, plain = inverse @ _mean(scores, share), inverse @ _mean(plug_in, share)
        influence = share * (scores - own * (own @ value)[:, None]) @ inverse
        labels = tuple(str(fit.actions[index]) for index in others)
        labels = labels if linear is None else linear.names
    note = (
        f"Stages fitted on {len(np.unique(fold)) - 1} of {len(np.unique(fold))} folds of "
        f"units at a time; errors {clusters.note}, the states as drawn from a population."
    )
    if filled:
        note += (
            f" {counted(filled, 'decision')} in states with an action that the other folds "
            "never saw there: its reward is the whole fit's, uncorrected."
        )
    covariance = clustered_covariance(clusters.sum(influence, at=rows))
    return OneStep(labels, value, plain, covariance, note, max(clusters.count - 1, 1))


def _mean(values: np.ndarray, share: np.ndarray) -> np.ndarray:
    return (values * share).sum(axis=0)


def _weights(linear, others: list[int], count: int) -> Callable[[np.ndarray], np.ndarray]:
    """w(s, a) of every functional: an indicator of each action, or the features."""
    if linear is not None:
        return linear.columns
    own = np.zeros((count, len(others)))
    own[others, np.arange(len(others))] = 1.0
    return lambda state: np.tile(own, (len(state), 1, 1))


@dataclass(frozen=True, eq=False)
class _Fold:
    """A fit without some units, with the features and the law for h."""

    whole: "Fit"
    fit: "Fit"
    features: Callable[[np.ndarray], np.ndarray]
    ahead: Any
    train: np.ndarray
    ridge: float

    @classmethod
    def of(cls, whole: "Fit", fit: "Fit", panel: Panel, train: np.ndarray) -> "_Fold":
        chosen = panel.select(train)
        law = learn_transition(chosen).law
        cells = law.cells if isinstance(law, Table) else None
        features = value_features(chosen.state, cells=cells, precise=True)
        ahead = law.ahead(lambda state: features(state))
        return cls(whole, fit, features, ahead, train, 0.0 if cells is not None else RIDGE)

    def scores(self, panel: Panel, held: np.ndarray, weigh, by_state: bool):
        """Uncentred influence functions and plug-in terms of the rows held out.

        With them the number of these rows in which a reward was never seen.
        """
        value, action = self.fit.estimate, panel.action[held]
        state, known = panel.state[held], value(panel.state[held])
        reward, unseen = self._rewards(state)
        after = np.zeros(len(state))
        goes = ~panel.terminal[held]
        after[goes] = value(panel.next_state[held][goes]).value
        nu = np.zeros((len(state), panel.num_actions))
        nu[:, value.anchor] = 1.0
        weight = weigh(state)
        scores = uncentred_influence(
            known.log_prob,
            action,
            reward,
            known.value - value.discount * after,
            weight,
            self._sensitivity(panel, state, weigh, by_state),
            nu,
            temperature=value.temperature,
            by_state=by_state,
            uncorrected=unseen,
        )
        _require_finite(scores, self.fit.actions, action)
        return (
            scores,
            _plug_in(reward, action, weight, by_state),
            int(unseen.any(axis=1).sum()),
        )

    def _rewards(self, state: np.ndarray) -> tuple[PerAction, np.ndarray]:
        """Rewards at some states, and the pairs that only the whole fit has seen.

        To correct these would divide by the probability of what was never seen, which is
        all smoothing: one decision would outweigh a thousand.
        """
        reward = self.fit._reward_of(state)
        unseen = np.isnan(reward)
        if unseen.any():
            reward = np.where(unseen, self.whole._reward_of(state), reward)
        return reward, unseen

    def _sensitivity(self, panel: Panel, state, weigh, by_state: bool) -> np.ndarray:
        """h at some states, its equation solved on the rows that were trained on."""
        rows = self.train & panel.is_transition
        at, action, discount = panel.state[rows], panel.action[rows], self.fit.discount
        here, ahead = self.features(at), self.ahead(at)
        moved = here[:, None, :] - discount * ahead
        mass, weight = panel.weight[rows], weigh(at)
        if by_state:
            target = np.einsum("r,rak,raf->fk", mass, weight, moved)
        else:
            taken = np.arange(len(at)), action
            target = (moved[taken] * mass[:, None]).T @ weight[taken]
        system = (moved[:, self.fit.estimate.anchor] * mass[:, None]).T @ here
        system += self.ridge * mass.sum() * np.eye(len(system))
        solved = np.linalg.lstsq(system, target, rcond=1e-12)[0]
        return self.features(state) @ solved


def _require_finite(scores: np.ndarray, actions: tuple[Any, ...], taken: Codes) -> None:
    """Refuse rewards and corrections that are no numbers."""
    wrong = np.flatnonzero(~np.isfinite(scores).all(axis=1))
    if len(wrong):
        raise DataError(
            f"The estimate is not finite in {len(wrong)} of {len(scores)} decisions of a "
            f"fold, of which the first took {actions[taken[wrong[0]]]!r}: some action was "
            "never taken in their states, and has no reward there. Average over the "
            "decisions that took each action, taken=True, or fit a smoother policy and "
            "reward."
        )


def uncentred_influence(
    log_prob: PerAction,
    action: Codes,
    reward: PerAction,
    gain: PerRow,
    weight: Weights,
    sensitivity: Float[np.ndarray, "row functional"],
    normalisation: PerAction,
    *,
    temperature: float,
    by_state: bool,
    uncorrected: Bool[np.ndarray, "row action"] | None = None,
) -> Float[np.ndarray, "row functional"]:
    """The efficient influence function of each row plus psi.

    Parameters
    ----------
    gain
        V(s) - discount V(s').
    weight
        w(s, a); with `by_state` the functional is the mean of sum_a w(s, a) r(s, a).
    sensitivity
        h(s).
    normalisation
        nu(a|s), of which sum_a nu r = g is known; one at the anchor.
    uncorrected
        Pairs whose rewards are taken as they are.
    """
    prob = np.exp(log_prob)
    over = prob[:, :, None] if by_state else 1.0
    pull = weight / over - sensitivity[:, None] * (normalisation / prob)[:, :, None]
    if uncorrected is not None:
        pull = np.where(uncorrected[:, :, None], 0.0, pull)
    taken = np.arange(len(action)), action
    direct = _plug_in(reward, action, weight, by_state)
    entropy = temperature * (pull[taken] - np.einsum("ra,rak->rk", prob, pull))
    surprise = temperature * log_prob[taken] + gain - reward[taken]
    return direct + entropy + pull[taken] * surprise[:, None]


def _plug_in(reward, action, weight, by_state: bool) -> np.ndarray:
    if by_state:
        return np.einsum("rak,ra->rk", weight, reward)
    taken = np.arange(len(action)), action
    return weight[taken] * reward[taken][:, None]
