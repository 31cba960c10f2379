"""The structural model of dynamic discrete choice, and the fits of its estimators."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import log_softmax, logsumexp

from .._errors import DataError
from .._shapes import Codes, PerAction, PerRow, States, TableActions
from ..mdp._tabular import check_preferences, solve_bellman
from ..panel._cells import Cells
from ..panel._encoding import Encoding
from ..panel._panel import Panel
from ..report._estimates import Estimates
from ..report._layout import WIDTH, listed
from ..reward._given_basis import checked_features
from ._baseline import NOTHING
from ._law import AbstractLaw, AbstractLawFit, CountedLaw, MileageFit

StateFunction = Callable[[np.ndarray], np.ndarray]
"""Encoded states to an array with one row per state."""


@dataclass(frozen=True, eq=False)
class LinearReward:
    r"""A reward linear in parameters, $r(s,a) = \phi(s,a)^\top \theta$.

    Parameters
    ----------
    names
        Of the parameters.
    features
        Encoded states to $\phi$, shape (row, action, parameter).
    fixed
        Parameters that are known and not estimated, by name.
    """

    names: tuple[str, ...]
    features: StateFunction
    fixed: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self):
        unknown = [name for name in self.fixed if name not in self.names]
        if unknown:
            raise DataError(
                f"`fixed` may name the parameters {list(self.names)}, but it names "
                f"{unknown[0]!r}."
            )
        if len(self.fixed) == len(self.names):
            raise DataError(
                f"Every parameter, {list(self.names)}, is fixed: there is nothing to "
                "estimate."
            )

    @property
    def free(self) -> Int[np.ndarray, " free"]:
        """The places of the parameters that are estimated."""
        return np.array([i for i, name in enumerate(self.names) if name not in self.fixed])

    @property
    def start(self) -> Float[np.ndarray, " parameter"]:
        """The known values, and zero elsewhere."""
        return np.array([float(self.fixed.get(name, 0.0)) for name in self.names])

    @property
    def free_names(self) -> list[str]:
        """The names of the parameters that are estimated."""
        return [self.names[place] for place in self.free]

    def design(
        self, state: States, num_actions: int
    ) -> Float[np.ndarray, "row action parameter"]:
        """The features, their shape and values checked."""
        phi = checked_features(self.features(state.copy()), state, num_actions)
        if phi.shape[2] != len(self.names):
            raise DataError(
                f"`features` must return a feature for each of the {len(self.names)} "
                f"parameters {list(self.names)}, but the function returned {phi.shape[2]}."
            )
        return phi

    def split(self, state: States, num_actions: int) -> tuple[np.ndarray, PerAction]:
        """The features of the parameters that are estimated, and the known reward."""
        phi = self.design(state, num_actions)
        return phi[:, :, self.free], phi @ self.start


@dataclass(frozen=True, eq=False)
class Problem:
    """A panel's decisions by state and action, and the transition law between states."""

    cells: Cells
    law: AbstractLawFit
    design: Float[np.ndarray, "state action free"]
    """phi(s, a) of the parameters that are estimated."""
    known: TableActions
    """The part of the reward that is known."""
    cell: Codes
    action: Codes
    unit: Codes
    weight: PerRow
    discount: float
    temperature: float

    @property
    def counts(self) -> TableActions:
        """Weight of the decisions by state and action."""
        table = np.zeros(self.known.shape)
        np.add.at(table, (self.cell, self.action), self.weight)
        return table

    def accumulate(
        self, flow: Float[np.ndarray, "state action k"], policy: np.ndarray
    ) -> Float[np.ndarray, "state action k"]:
        r"""The discounted sum of a flow from each state and action on, under a policy.

        $$f_a + \gamma P_a (I - \gamma P_\pi)^{-1} \sum_b \pi_b f_b.$$
        """
        mean = np.einsum("sa,sak->sk", policy, flow)
        moves = np.einsum("sa,sat->st", policy, self.law.transition)
        stock = solve_bellman(moves, mean, discount=self.discount)
        return flow + self.discount * self.law.transition @ stock


@dataclass(frozen=True)
class AbstractStructural(ABC):
    """An estimator of a structural model: its fields are its settings."""

    discount: float
    reward: LinearReward

    @abstractmethod
    def fit(self, panel: Panel) -> "StructuralFit":
        """Estimate the reward's parameters from a panel."""


@dataclass(frozen=True)
class AbstractTabular(AbstractStructural):
    """An estimator that needs an estimated law of the next state."""

    law: AbstractLaw = field(default_factory=CountedLaw)
    temperature: float = 1.0

    def __post_init__(self):
        check_preferences(self.discount, self.temperature)

    def problem(self, panel: Panel) -> Problem:
        """The problem that a panel poses."""
        cells, law = self.law.fit(panel)
        design, known = self.reward.split(cells.states, panel.num_actions)
        rows = (cells.require(panel.state), panel.action, panel.unit, panel.weight)
        return Problem(cells, law, design, known, *rows, self.discount, self.temperature)


@dataclass(frozen=True, eq=False, repr=False)
class StructuralFit:
    """Estimated parameters of a structural model, and the choices that go with them."""

    method: str
    given: str
    """Which truth the method was handed; "nothing" if none."""
    actions: tuple[Any, ...]
    encoding: Encoding
    reward_form: LinearReward
    theta: Float[np.ndarray, " parameter"]
    shares: Float[np.ndarray, " share"]
    """Of the transition law, where it has few parameters."""
    share_names: tuple[str, ...]
    joint_covariance: Float[np.ndarray, "both both"]
    """Of theta and the shares, in this order."""
    joint_clustered: Float[np.ndarray, "both both"]
    """The same, allowing for dependence within a unit."""
    log_likelihood: float
    """Of the decisions."""
    transition_log_likelihood: float | None
    """Of the moves; None where no law was estimated."""
    discount: float
    temperature: float
    num_decisions: int
    num_units: int
    q_function: StateFunction
    note: str

    @property
    def names(self) -> tuple[str, ...]:
        return self.reward_form.names

    @property
    def covariance(self) -> Float[np.ndarray, "parameter parameter"]:
        """Of theta: inverse information and the error of the estimated law."""
        return self.joint_covariance[: len(self.theta), : len(self.theta)]

    @property
    def clustered_covariance(self) -> Float[np.ndarray, "parameter parameter"]:
        """Of theta, robust to dependence within a unit."""
        return self.joint_clustered[: len(self.theta), : len(self.theta)]

    @property
    def standard_errors(self) -> Float[np.ndarray, " parameter"]:
        return np.sqrt(np.diag(self.covariance))

    @property
    def full_log_likelihood(self) -> float:
        """Of the decisions and the moves."""
        return self.log_likelihood + (self.transition_log_likelihood or 0.0)

    def reward(self, states: Any) -> PerAction:
        """r(s, a) for every action."""
        state = self.encoding.encode_any(states)
        return self.reward_form.design(state, len(self.actions)) @ self.theta

    def q(self, states: Any) -> PerAction:
        """Q(s, a), the choice-specific value."""
        return self.q_function(self.encoding.encode_any(states))

    def value(self, states: Any) -> PerRow:
        """V(s), before the shocks are seen."""
        return self.temperature * logsumexp(self.q(states) / self.temperature, axis=1)

    def log_policy(self, states: Any) -> PerAction:
        """log pi(a | s)."""
        return log_softmax(self.q(states) / self.temperature, axis=1)

    def estimates(self, *, clustered: bool = False) -> Estimates:
        """The table of theta and of the shares."""
        facts = {
            "discount": f"{self.discount:g}",
            "decisions": f"{self.num_decisions:,}",
            "units": f"{self.num_units:,}",
            "log-likelihood of decisions": f"{self.log_likelihood:.3f}",
        }
        if self.transition_log_likelihood is not None:
            facts["with moves"] = f"{self.full_log_likelihood:.3f}"
        errors = "clustered by unit" if clustered else "from the information"
        return Estimates(
            self.method,
            (*self.names, *self.share_names),
            np.concatenate([self.theta, self.shares]),
            self.joint_clustered if clustered else self.joint_covariance,
            facts,
            f"Standard errors {errors}. Given: {self.given}.",
        )

    def summary(self) -> str:
        """A printable table: the estimates, what was given, and how it went."""
        fixed = ", ".join(f"{k} = {v:g}" for k, v in self.reward_form.fixed.items())
        lines = [
            str(self.estimates()),
            f"given     {self.given}",
            f"fixed     {fixed or 'no parameter'}",
            f"actions   {listed(self.actions)}",
            f"how       {self.note}",
            "=" * WIDTH,
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        pairs = zip(self.names, self.theta, strict=True)
        theta = ", ".join(f"{name}={value:.4g}" for name, value in pairs)
        return f"StructuralFit(method={self.method!r}, {theta}, given={self.given!r})"


def assemble(
    method: str,
    settings: Any,
    panel: Panel,
    theta: Float[np.ndarray, " free"],
    covariances: tuple[np.ndarray, np.ndarray],
    log_likelihood: float,
    q_function: StateFunction,
    note: str,
    *,
    law: AbstractLawFit | None = None,
) -> StructuralFit:
    """The fit of an estimator, with fixed parameters put back among the estimated ones."""
    reward: LinearReward = settings.reward
    given = [f"{name} = {value:g}" for name, value in reward.fixed.items()]
    if law is not None and law.given != NOTHING:
        given.append(law.given)
    full = reward.start
    full[reward.free] = theta
    mileage = law if isinstance(law, MileageFit) else None
    covariance, by_unit = (with_fixed(reward, matrix) for matrix in covariances)
    return StructuralFit(
        method=method,
        given=", ".join(["the form of the reward", *given]),
        actions=panel.actions,
        encoding=panel.encoding,
        reward_form=reward,
        theta=full,
        shares=mileage.shares if mileage else np.zeros(0),
        share_names=mileage.names if mileage else (),
        joint_covariance=covariance,
        joint_clustered=by_unit,
        log_likelihood=log_likelihood,
        transition_log_likelihood=law.log_likelihood if law else None,
        discount=settings.discount,
        temperature=settings.temperature,
        num_decisions=len(panel),
        num_units=panel.num_units,
        q_function=q_function,
        note=note,
    )


def with_fixed(reward: LinearReward, matrix) -> Float[np.ndarray, "both both"]:
    """A covariance with zeros for the parameters that are known."""
    rest = np.arange(len(matrix) - len(reward.free)) + len(reward.names)
    place = np.concatenate([reward.free, rest])
    full = np.zeros((len(matrix) + len(reward.fixed),) * 2)
    full[np.ix_(place, place)] = matrix
    return full
