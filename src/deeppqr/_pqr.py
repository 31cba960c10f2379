"""PQR and its Fit: estimate the Policy, then the anchor's Q, then the Reward."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax.random as jr
import numpy as np
from jaxtyping import Float

from . import anchor as anchor_stage
from . import policy as policy_stage
from . import reward as reward_stage
from ._errors import DataError
from ._identified import check_identified, warn_of_weak_overlap
from ._paper import paper_stages
from ._random import check_seed
from .anchor import (
    AnchoredValue,
    AnchorSolution,
    Surprise,
    anchor_problem,
    resolve_anchor_reward,
)
from .inference import Diagnostics, diagnose
from .mdp import Law, check_preferences
from .panel import Encoding, Panel, require_panel
from .policy import PolicyFit, clip
from .reward import (
    AbstractReward,
    Affine,
    AffineReward,
    BasisReward,
    select_temperature,
)

if TYPE_CHECKING:
    from .counterfactual import ChangedStates
    from .inference import Bootstrap, Projection


@dataclass(frozen=True)
class PQR:
    r"""Policy-Q-Reward estimation of the reward behind observed decisions.

    Agents choose softly, $\pi(a|s) \propto \exp\{Q(s,a)/\alpha\}$, and the reward $g(s)$
    of one action, the anchor, is known. Then the reward of every action is identified.

    Parameters
    ----------
    discount
        $\gamma$, the agent's discount factor per period, in [0, 1).
    anchor
        Label of the action whose reward is known, typically doing nothing.
    anchor_reward
        That reward: a number, the name of a numeric state column, or a function of the
        states, called with an array of the state columns.
    temperature
        $\alpha$, the scale of the agent's randomness; it scales the reward.
    policy
        P: `"auto"`, `"frequency"`, `"logit"`, `"network"`, `"boosted"`, `"airl"`, an
        estimator from `deeppqr.policy`, or a scikit-learn classifier with `predict_proba`.
    anchor_value
        Q: `"auto"`, `"exact"`, `"linear"`, `"averager"`, `"fitted"`; `"exit"`, `"renewal"`
        or `"self-loop"` where that is what the anchor does; a solver from
        `deeppqr.anchor`, or a scikit-learn regressor for FQI-I.
    reward
        R: `"auto"`, `"joint"`, `"likelihood"`, `"regression"` (the paper's RE), `"table"`,
        `"linear"`, `"network"`, an estimator from `deeppqr.reward`, or a scikit-learn
        regressor.
    transition
        The law of the next state, where it is known: an array (state, action,
        next_state) over the states 0, 1, 2, ..., a pair (states, array), a function of
        states and an action, or a `deeppqr.mdp.Law`. Expectations then need no
        regression, and `anchor_value` and `reward` are not used.
    clip
        Smallest probability of an action. By default nothing is clipped unless a
        probability is zero, and then at 1e-6; the clipped share is reported.
    seed
        Everything random follows from it: the same seed gives the same fit.

    References
    ----------
    [geng2020pqr], Algorithm PQR.
    """

    discount: float
    anchor: Any
    anchor_reward: Any = 0.0
    temperature: float = 1.0
    policy: Any = "auto"
    anchor_value: Any = "auto"
    reward: Any = "auto"
    transition: Any = field(default=None, repr=False)
    clip: float | None = None
    seed: int = 0

    def __post_init__(self):
        check_preferences(self.discount, self.temperature)
        check_seed(self.seed)
        number = isinstance(self.clip, (int, float))
        if self.clip is not None and not (number and 0 < self.clip < 0.5):
            raise DataError(
                f"`clip` must be a small probability between 0 and 0.5, or None, but it "
                f"is {self.clip!r}."
            )
        policy_stage.resolve(self.policy)
        anchor_stage.resolve(self.anchor_value)
        reward_stage.resolve(self.reward)

    @classmethod
    def paper(
        cls,
        *,
        discount: float,
        anchor: Any,
        anchor_reward: Any = 0.0,
        temperature: float = 1.0,
        study: str = "synthetic",
        reading: str = "steps",
        seed: int = 0,
    ) -> "PQR":
        """The paper as written: AIRL, FQI-I and RE with its optimiser, rates and steps.

        The text leaves three things open, and these are our readings. A "step" is one
        gradient step on 1,024 rows, or with `reading="epochs"` one pass over the rows.
        FQI-I renews its targets every ten steps, or every pass. The networks, whose sizes
        are not given, have two hidden layers of 64 units. At the printed rates Adagrad
        hardly moves in so few gradient steps: the policy stays close to uniform, and a
        reward that is small for that reason can look good where the truth is small.

        Parameters
        ----------
        study
            Which table of hyperparameters: `"synthetic"` or `"airline"`.
        reading
            `"steps"` or `"epochs"`.

        References
        ----------
        [geng2020pqr], Supplements, both tables "Hyperparameters for PQR".
        """
        return cls(
            discount=discount,
            anchor=anchor,
            anchor_reward=anchor_reward,
            temperature=temperature,
            seed=seed,
            **paper_stages(study, reading),
        )

    def fit(self, panel: Panel) -> "Fit":
        """Estimate the policy, the anchor's value and the reward from a panel."""
        require_panel(panel)
        anchor = check_identified(panel, self.anchor)
        known_reward = resolve_anchor_reward(self.anchor_reward, panel.encoding)
        anchor_solver, reward_estimator = self._stages(panel, anchor)
        key_policy, key_anchor, key_reward = jr.split(jr.key(self.seed), 3)
        clock = _Clock()

        policy = policy_stage.resolve(self.policy).fit(panel, key=key_policy)
        estimate = clip(policy.policy, panel, floor=self.clip)
        clock.lap("policy")
        solution, value = self._solve(
            anchor_solver, panel, estimate, known_reward, anchor, key=key_anchor
        )
        clock.lap("anchor_value")
        reward_estimator = reward_estimator.judged_against(policy.held_out)
        reward = reward_estimator.fit(panel, value, key=key_reward)
        clock.lap("reward")

        raw = reward.reward(panel.state, value)
        diagnostics = diagnose(panel, policy, solution, value, raw, reward.held_out)
        clock.lap("diagnostics")
        warn_of_weak_overlap(diagnostics)
        return Fit(
            reward.value or value,
            reward.reward,
            panel.encoding,
            panel.actions,
            diagnostics,
            _stage_notes(policy, solution, reward.note),
            self._provenance(panel, clock, solution, _with_known(value, panel.state, raw)),
            self,
        )

    def _solve(self, solver, panel: Panel, policy, known_reward, anchor: int, *, key):
        """The anchor's equation, once for the policy's part of the value, once for g's."""
        pose = partial(anchor_problem, panel, policy, anchor=anchor, discount=self.discount)
        solution = solver.solve(pose(bonus=Surprise(policy, anchor)), key=key)
        known = None
        if not known_reward.is_zero:
            known = solver.solve(pose(bonus=known_reward), key=key)
        value = AnchoredValue(
            policy,
            solution.continuation,
            known and known.continuation,
            known_reward,
            anchor,
            discount=self.discount,
            temperature=self.temperature,
        )
        return solution.combined(known, self.temperature), value

    def _stages(self, panel: Panel, anchor: int):
        if self.transition is None:
            reward = reward_stage.resolve(self.reward)
            solver = anchor_stage.resolve(self.anchor_value)
            return solver, Affine(reward) if reward.is_affine else reward
        known = anchor_stage.resolve_transition(self.transition, panel)
        if isinstance(known, Law):
            solver = anchor_stage.KnownLaw(known)
            return solver, Affine(reward_stage.KnownLaw(known))
        return anchor_stage.Known(known, anchor), Affine(reward_stage.Known(known))

    def _provenance(
        self, panel: Panel, clock: "_Clock", solution: AnchorSolution, reward: np.ndarray
    ) -> dict[str, Any]:
        from .report import reward_range

        settings = {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.repr}
        packages = ("deeppqr", "jax", "numpy", "scipy", "scikit-learn")
        return {
            "settings": settings,
            "panel": {
                "rows": len(panel),
                "units": panel.num_units,
                "next_states": int(panel.has_next.sum()),
                "terminal": int(panel.terminal.sum()),
            },
            "reward": reward_range(reward, panel.weight),
            "rounds": solution.num_steps,
            "seconds": clock.laps,
            "versions": {name: version(name) for name in packages},
        }


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """An identified reward with its policy and values: functions of any state."""

    estimate: AnchoredValue
    reward_function: AbstractReward
    encoding: Encoding
    actions: tuple[Any, ...]
    """Labels, in the order of the columns of `reward`, `q` and `log_policy`."""
    diagnostics: Diagnostics
    """Named figures with verdicts; print it."""
    stages: dict[str, str]
    """What each stage did and, where it was chosen, why."""
    provenance: dict[str, Any]
    """Settings, data, times and versions behind this fit. `reward` has each action's mean
    and 5 % and 95 % quantiles over the panel's states, where they are known; `rounds` is
    the number of iterations of the anchor's equation, None where it was solved directly."""
    model: PQR | None = field(default=None, metadata={"stored": False})
    """What it was fitted with; None once read from a folder."""

    @property
    def discount(self) -> float:
        return self.estimate.discount

    @property
    def temperature(self) -> float:
        return self.estimate.temperature

    @property
    def anchor(self) -> Any:
        return self.actions[self.estimate.anchor]

    def reward(self, states: Any) -> Float[np.ndarray, "row action"]:
        """r(s, a) for every action; the anchor's column is its known reward."""
        state = self.encoding.encode_any(states)
        return _with_known(self.estimate, state, self.reward_function(state, self.estimate))

    def q(self, states: Any) -> Float[np.ndarray, "row action"]:
        """Q(s, a), the value of each action."""
        return self.estimate(self.encoding.encode_any(states)).q

    def value(self, states: Any) -> Float[np.ndarray, " row"]:
        """V(s), the value of each state."""
        return self.estimate(self.encoding.encode_any(states)).value

    def log_policy(self, states: Any) -> Float[np.ndarray, "row action"]:
        """log pi(a | s)."""
        return self.estimate.policy.log_prob(self.encoding.encode_any(states))

    def at_temperature(self, temperature: float) -> "Fit":
        """This fit at another temperature: the reward is affine in it, nothing is refit.

        Where the anchor earns nothing the reward is proportional to it, whichever way it
        was estimated. Diagnostics and provenance stay those of the fit it came from, but
        for the summary's rewards: they are scaled, or left out where g keeps them from it.
        """
        from .report import rescaled_range

        check_preferences(self.discount, temperature)
        self._require_affine()
        provenance = dict(self.provenance)
        found = provenance.pop("reward", None)
        if found is not None and self.estimate.anchor_reward.is_zero:
            factor = temperature / self.temperature
            provenance["reward"] = rescaled_range(found, factor)
        return replace(
            self,
            estimate=replace(self.estimate, temperature=temperature),
            provenance=provenance,
            model=self.model and replace(self.model, temperature=temperature),
        )

    def select_temperature(
        self,
        panel: Panel,
        *,
        average: float | None = None,
        maximum: float | None = None,
        minimum: float | None = None,
    ) -> float:
        """The temperature at which the panel's decisions earn what is known of them.

        Give one of the `average`, `maximum` or `minimum` reward of the decisions taken,
        in the units the reward should have. `fit.at_temperature` then applies it.
        """
        taken = np.arange(len(panel)), panel.action
        bare, known = self._parts(panel.state)
        anchor = self.estimate.anchor
        # The anchor earns g whatever the temperature.
        bare[:, anchor], known[:, anchor] = 0.0, self.estimate.anchor_reward(panel.state)
        return select_temperature(
            bare[taken],
            known[taken],
            panel.weight,
            average=average,
            maximum=maximum,
            minimum=minimum,
        )

    def _parts(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the temperature scales in the reward, and what it leaves as it is."""
        self._require_affine()
        if isinstance(self.reward_function, AffineReward):
            return self.reward_function.parts(state, self.estimate)
        bare = self.reward_function(state, replace(self.estimate, temperature=1.0))
        return bare, np.zeros_like(bare)

    def _require_affine(self) -> None:
        """Refuse rewards in which the temperature and the anchor's reward are entangled."""
        nothing_earned = self.estimate.anchor_reward.is_zero
        scales = isinstance(self.reward_function, BasisReward) and nothing_earned
        if not (isinstance(self.reward_function, AffineReward) or scales):
            raise DataError(
                "This reward was estimated in one part, at one temperature: the known "
                "reward of the anchor does not scale with it, and the rest does. Fit again "
                "with the temperature you want, as in PQR(..., temperature=2.0), or "
                'without features of your own, as with reward="joint".'
            )

    def project(self, features: Any, panel: Panel, **options: Any) -> "Projection":
        """The reward's best linear form, with errors clustered by unit and a test.

        `features` are terms such as `["1", "mileage", "mileage^2"]` for each action but
        the anchor, a dict of such lists by action, or a function of the states. Options
        are those of `deeppqr.inference.project`.
        """
        from .inference import project

        return project(self, features, panel, **options)

    def bootstrap(
        self, panel: Panel, statistic: Callable[["Fit"], Any], **options: Any
    ) -> "Bootstrap":
        """Draws of a statistic of this fit over resampled units.

        Options are those of `deeppqr.bootstrap`.
        """
        from .inference import bootstrap, require_model

        model = require_model(self)
        return bootstrap(model, panel, statistic, estimate=statistic(self), **options)

    def counterfactual(self, panel: Panel, change: Any, **options: Any) -> "ChangedStates":
        """Average rewards and choices if the states had been others.

        `change` holds new values by column, such as `{"competitors": [5, 6, 7]}`, or is a
        function of the states. Options are those of
        `deeppqr.counterfactual.changed_states`: `states`, `replicates` and more.
        """
        from .counterfactual import changed_states

        return changed_states(self, panel, change, **options)

    def summary(self) -> str:
        """A printable table: what was fitted, how, and how far to trust it."""
        from .report import summarise

        return summarise(self)

    def save(self, folder: str | Path) -> Path:
        """Write the fit to a new folder; `deeppqr.load` reads it back."""
        from ._storage import save

        return save(self, folder)

    def __repr__(self) -> str:
        return (
            f"Fit(anchor={self.anchor!r}, discount={self.discount}, "
            f"temperature={self.temperature}, actions={list(self.actions)}, "
            f"warnings={[figure.name for figure in self.diagnostics.warnings]})"
        )


def _with_known(value: AnchoredValue, state: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """The third stage's rewards with g in the anchor's column.

    g is known, not estimated; what the third stage makes of it is a diagnostic.
    """
    reward[:, value.anchor] = value.anchor_reward(state)
    return reward


class _Clock:
    """Seconds spent in each stage."""

    def __init__(self):
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = round(now - self._last, 3)
        self._last = now


def _stage_notes(policy: PolicyFit, solution: AnchorSolution, reward_note: str):
    policy_note, solution_note = policy.note, solution.note
    if policy.evidence:
        compared = ", ".join(f"{name} {score:.4f}" for name, score in policy.evidence)
        policy_note += f" (held-out log-likelihood: {compared})"
    if solution.evidence:
        reasons = "; ".join(f"{name}: {why}" for name, why in solution.evidence)
        solution_note += f" ({reasons})"
    return {"policy": policy_note, "anchor_value": solution_note, "reward": reward_note}


def _plain(value: Any) -> Any:
    """A setting as JSON can hold it: itself if plain, its printed form otherwise."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return getattr(value, "__qualname__", None) or repr(value)
