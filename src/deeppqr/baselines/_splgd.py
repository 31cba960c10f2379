"""SPL-GD: a linear reward, by regression on the true Q and V or by joint planning."""

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import Float

from .._errors import DataError, NotConvergedWarning
from .._random import check_seed
from .._shapes import PerAction, States
from ..learners._scaling import Scaling
from ..mdp._tabular import check_preferences
from ..panel._panel import Panel, require_panel
from ._baseline import NOTHING, AbstractBaseline, BaselineFit
from ._planning import PlannedPolicy, build_planning_problem, plan_and_learn


@dataclass(frozen=True)
class SPLGD(AbstractBaseline):
    r"""Simultaneous planning and learning by gradient, with a linear reward.

    $$\hat r(s,a) = \theta^\top\psi(s,a), \qquad \psi(s,a) = (1, s, a).$$

    Handed the true Q and V, as the paper's version is, it regresses
    $y = Q(s,a) - \gamma V(s')$ on $\psi$. Without them it plans and learns at once: V moves
    by soft Bellman backups on features of the state, and $\theta$ up the log-likelihood
    of the choices $\mathrm{softmax}\{(r + \gamma E[V(s')|s,a])/\alpha\}$, until both
    converge. The constant is not identified then, unless the process ends somewhere; it is
    set so that the mean reward of the panel is zero. Where each action moves the state by
    an amount that is linear in $\psi$, more of $\theta$ is not identified and is determined
    by the penalty.

    Parameters
    ----------
    discount, temperature
        $\gamma$ and $\alpha$ of the agent.
    q, value
        The true Q and V, both or neither: functions of an array of the state columns, to
        (row, action) and to (row,).
    intercepts
        How "linear in the action" is read: with False the action's label is a number
        and has one coefficient, with True every action has an intercept.
    state_only
        Whether the reward is one of the state alone, $\psi(s,a) = (1, s)$.
    ridge
        Penalty on the squared coefficients of standardised $\psi$, in units of one row's
        log-likelihood. Not used with the truth.
    max_rows
        Rows used for planning and learning where states are not few.
    max_steps, tol
        When to stop: the largest change of $\theta$ and V, relative to the size of V.
    seed
        Draws the features of V and the rows.

    References
    ----------
    [ermon2015spl]; [geng2020pqr], Algorithm "SPL-GD for Continuous States".
    """

    discount: float
    temperature: float = 1.0
    q: Any = None
    value: Any = None
    intercepts: bool = False
    state_only: bool = False
    ridge: float = 1.0
    max_rows: int = 2_000
    max_steps: int = 5_000
    tol: float = 1e-8
    seed: int = 0

    def __post_init__(self):
        check_preferences(self.discount, self.temperature)
        check_seed(self.seed)
        given = [name for name in ("q", "value") if getattr(self, name) is not None]
        for name in given:
            if not callable(getattr(self, name)):
                raise DataError(
                    f"`{name}` must be a function of the states, such as `world.{name}`, "
                    f"but a {type(getattr(self, name)).__name__} arrived."
                )
        if len(given) == 1:
            raise DataError(
                "`q` and `value` must be given together, or neither, but only "
                f"`{given[0]}` was. With neither, SPL-GD plans for itself."
            )

    def fit(self, panel):
        require_panel(panel)
        features = LinearFeatures.of(panel, self)
        if self.q is None:
            return self._learned(panel, features)
        return self._regressed(panel.select(panel.is_transition), features)

    def _regressed(self, panel: Panel, features: "LinearFeatures") -> BaselineFit:
        taken = np.arange(len(panel)), panel.action
        shape = (len(panel), panel.num_actions)
        target = _ask(self.q, "q", panel, panel.state, shape)[taken]
        seen = panel.next_state[panel.has_next]
        ahead = np.zeros(len(panel))
        ahead[panel.has_next] = _ask(self.value, "value", panel, seen, (len(seen),))
        target = target - self.discount * ahead
        # V at the one observed next state stands for its expectation: unbiased, and the
        # noise averages out in the regression.
        root = np.sqrt(panel.weight)
        columns = features(panel.state)[taken]
        theta = np.linalg.lstsq(columns * root[:, None], target * root, rcond=1e-12)[0]
        left = np.average((target - columns @ theta) ** 2, weights=panel.weight)
        note = f"regression on {len(theta)} columns, residual {np.sqrt(left):.3g}"
        return self._fitted(panel, features, theta, "the true Q and V", None, note)

    def _learned(self, panel: Panel, features: "LinearFeatures") -> BaselineFit:
        problem = build_planning_problem(
            panel, features, max_rows=self.max_rows, key=jr.key(self.seed)
        )
        planned = plan_and_learn(problem, self)
        if not planned.change <= self.tol:
            warnings.warn(
                f"SPL-GD stopped after {planned.num_steps:,} steps with a change of "
                f"{planned.change:.2g}, above `tol` = {self.tol:g}. Values move by the "
                f"factor {self.discount:g} per step at best: raise `max_steps`.",
                NotConvergedWarning,
                stacklevel=3,
            )
        note = (
            f"{planned.num_steps:,} steps, log-likelihood {planned.log_likelihood:.4f} per "
            f"decision, V on {problem.here.shape[1]} features"
        )
        ahead = self.discount * (problem.ahead @ planned.value).T
        of_reward, of_value = (features, planned.theta), (problem.features, ahead)
        policy = PlannedPolicy(*of_reward, *of_value, self.temperature)
        return self._fitted(panel, features, planned.theta, NOTHING, policy, note)

    def _fitted(self, panel, features, theta, given, policy, note) -> BaselineFit:
        about = ("SPL-GD", given, panel.actions, panel.encoding)
        return BaselineFit(*about, partial(linear_reward, features, theta), policy, note)


@dataclass(frozen=True, eq=False)
class LinearFeatures:
    """psi(s, a): the constant, the state and the action, standardised over the rows."""

    scaling: Scaling
    action: Float[np.ndarray, "action action_feature"]

    @classmethod
    def of(cls, panel: Panel, settings: SPLGD) -> "LinearFeatures":
        columns = np.eye(panel.num_actions)[:, 1:]
        if settings.state_only:
            columns = columns[:, :0]
        elif not settings.intercepts:
            columns = _numbers(panel)
        taken = Scaling.of(columns[panel.action])
        return cls(Scaling.of(panel.state), taken(columns))

    def __call__(self, state: States) -> Float[np.ndarray, "row action feature"]:
        parts = (np.ones((1, 1, 1)), self.scaling(state)[:, None], self.action[None])
        shape = (len(state), len(self.action))
        filled = [np.broadcast_to(part, (*shape, part.shape[2])) for part in parts]
        return np.concatenate(filled, axis=2)


def linear_reward(features: LinearFeatures, theta: np.ndarray, state: States) -> PerAction:
    """A reward linear in psi."""
    return features(state) @ theta


def _numbers(panel: Panel) -> Float[np.ndarray, "action 1"]:
    for label in panel.actions:
        if not isinstance(label, (int, float, np.number, np.bool_)):
            raise DataError(
                "SPL-GD reads the action as a number, but the label "
                f"{label!r} is {type(label).__name__}. Number the actions, or give each "
                "its own intercept: SPLGD(..., intercepts=True)."
            )
    return np.array([[float(label)] for label in panel.actions])


def _ask(function, name: str, panel: Panel, state, shape) -> np.ndarray:
    """The truth at some states, checked."""
    found = np.asarray(function(panel.encoding.decode(state)), dtype=np.float64)
    if found.shape != shape or not np.isfinite(found).all():
        raise DataError(
            f"`{name}` must return finite numbers of shape {shape}, but {found.shape} "
            f"arrived, {int((~np.isfinite(found)).sum())} of it not finite."
        )
    return found
