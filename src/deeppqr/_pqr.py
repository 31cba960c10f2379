"""PQR: estimate the Policy, then the anchor's Q, then the Reward."""

import time
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import jax.random as jr
import numpy as np

from ._errors import DataError
from ._fit import Fit, with_known
from ._paper import paper_stages
from ._random import check_seed
from ._uncertainty import average_errors, end_shares, uncertainty_or_reason
from .anchor._anchor_reward import resolve_anchor_reward
from .anchor._known import Known as AnchorOnTable
from .anchor._known import KnownLaw as AnchorUnderLaw
from .anchor._known import resolve_transition
from .anchor._problem import AnchorSolution, LogProbBonus
from .anchor._resolve import resolve as resolve_anchor_value
from .anchor._value import AnchoredValue, anchor_problem
from .continuous._anchor import find_anchor, grid_with
from .continuous._cells import CellShares
from .continuous._joint import estimate_amounts
from .continuous._reward import implied_value
from .continuous._shapes import ActionShapes
from .continuous._staged import estimate_staged
from .diagnostics._amounts import diagnose_amounts
from .diagnostics._data_summary import DataSummary
from .diagnostics._diagnostics import diagnose
from .diagnostics._identification import check_identified, warn_of_weak_overlap
from .diagnostics._support import SeenStates
from .learners._row_threads import row_threads
from .mdp._law import Law
from .mdp._tabular import check_preferences
from .panel._amounts import as_label
from .panel._panel import Panel, require_panel
from .panel.scan._rows import AllRows, Run
from .panel.scan._scan import ScannedPanel, facts_of, in_memory
from .policy._policy import PolicyFit, clip
from .policy._resolve import check_policy, resolve_density
from .policy._resolve import resolve as resolve_policy
from .progress import tell
from .provenance import versions
from .report._summary import reward_range
from .reward._auto import Auto
from .reward._joint import Joint
from .reward._resolve import resolve as resolve_reward
from .reward._table import Known as RewardOnTable
from .reward._table import KnownLaw as RewardUnderLaw
from .reward._temperature import Affine


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
        Label of the action whose reward is known, typically doing nothing; where actions
        are amounts, one of them.
    anchor_reward
        That reward: a number, the name of a numeric state column, or a function of the
        states, called with an array of the state columns.
    temperature
        $\alpha$, the scale of the agent's randomness; it scales the reward.
    policy
        P: `"auto"`, `"frequency"`, `"logit"`, `"network"`, `"boosted"`, `"airl"`, an
        estimator from `deeppqr.policy`, or a scikit-learn classifier with `predict_proba`.
        Of amounts, with `reward="regression"`: `"auto"`, `"tensor"`, `"gaussian"`,
        `"mixture"`, `"network"`, an estimator of densities, or a function of states and
        actions that gives log densities.
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
        regression, and `anchor_value` and `reward` cannot be chosen. Probabilities that sum
        to less than one leave the rest to the end of the process, worth zero; so do
        states that are never left and not decided in, if the panel has terminal rows.
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
        check_policy(self.policy)
        resolve_anchor_value(self.anchor_value)
        resolve_reward(self.reward)
        if self.transition is not None:
            self._refuse_unused_stages()

    def _refuse_unused_stages(self) -> None:
        for name in ("anchor_value", "reward"):
            stage = getattr(self, name)
            if not (isinstance(stage, str) and stage == "auto"):
                raise DataError(
                    f"With `transition` given nothing is left for `{name}` to estimate, "
                    f"but {name}={_plain(stage)!r} arrived. Leave out `{name}`, or "
                    "`transition` to learn where actions lead."
                )

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
        progress: float = 1.0,
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
        progress
            The share of the printed steps that each network takes: how the training began.

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
            **paper_stages(study, reading, progress),
        )

    def fit(self, panel: Panel | ScannedPanel, *, executor: Any = None) -> Fit:
        """Estimate the policy, the anchor's value and the reward from a panel.

        Of a panel from `Panel.scan`, and of one of more than 250,000 rows, every so many
        units are worked on in memory, and the last step of the estimate is a sum over all
        rows. That takes the default `anchor_value` and `reward`.

        Parameters
        ----------
        executor
            Where the shards of a scanned panel are summed: by default here, on all cores;
            `"ray"`, `"ray:ADDRESS"` or `"cores:N"` let other processes read them.
        """
        whole, everyone = panel, None
        if isinstance(panel, ScannedPanel):
            self._require_sums()
            if panel.has_few_states:
                whole = panel = panel.collect()
            else:
                everyone = panel.everyone(_run_on(executor))
                panel = panel.core
        elif executor is not None:
            raise DataError(
                "`executor` says where the shards of a scanned panel are summed, but a "
                f"{type(panel).__name__} arrived, which is in memory. Use Panel.scan, or "
                "leave `executor` out."
            )
        else:
            require_panel(panel, amounts=True)
            if self._is_sum and self.policy == "auto":
                panel, everyone = in_memory(panel)
        with row_threads():
            if panel.space is not None:
                return self._fit_amounts(panel)
            return self._fit(panel, whole, everyone)

    @property
    def _is_sum(self) -> bool:
        """Whether the last step of the estimate is a sum over rows."""
        default = isinstance(resolve_reward(self.reward), (Auto, Joint))
        return default and self.transition is None and self.anchor_value == "auto"

    def _require_sums(self) -> None:
        if not self._is_sum:
            raise DataError(
                "A scanned panel is estimated by sums over its shards, which takes "
                'anchor_value="auto", reward="auto" or "joint" and no `transition`. Leave '
                "these out, or read the data into memory with Panel.from_file."
            )

    def _fit(
        self, panel: Panel, whole: Panel | ScannedPanel, everyone: AllRows | None
    ) -> Fit:
        anchor = check_identified(panel, self.anchor)
        anchor_reward = resolve_anchor_reward(self.anchor_reward, panel.encoding)
        anchor_solver, reward_estimator = self._stages(panel, anchor)
        key_policy, key_anchor, key_reward = jr.split(jr.key(self.seed), 3)
        clock = _Clock()

        policy_fit = resolve_policy(self.policy).fit(panel, key=key_policy)
        policy = clip(policy_fit.policy, panel, floor=self.clip)
        clock.lap("policy")
        tell("policy", policy_fit.note)
        if isinstance(reward_estimator, Joint):
            # Reward, value and policy in one: the first policy is where it starts from and
            # what it is checked against.
            reward_fit, solution = reward_estimator.estimate(
                panel,
                policy,
                anchor_reward,
                anchor,
                discount=self.discount,
                temperature=self.temperature,
                everyone=everyone,
            )
            value = reward_fit.value
            assert value is not None
        else:
            solution, value = self._solve(
                anchor_solver, panel, policy, anchor_reward, anchor, key=key_anchor
            )
            clock.lap("anchor_value")
            tell("anchor value", solution.note)
            reward_fit = reward_estimator.fit(panel, value, key=key_reward)
        clock.lap("reward")

        raw = reward_fit.reward(panel.state, value)
        diagnostics = diagnose(panel, policy_fit, solution, value, raw, reward_fit.held_out)
        clock.lap("diagnostics")
        law = getattr(anchor_solver, "transition", None)
        found = reward_fit.value or value
        uncertainty, why = uncertainty_or_reason(panel, found, reward_fit.reward, law)
        clock.lap("errors")
        warn_of_weak_overlap(diagnostics)
        fit = Fit(
            # Estimated by likelihood, a reward comes with the policy and value that follow
            # from it; by regression, those of the first two stages stay.
            found,
            reward_fit.reward,
            panel.encoding,
            panel.actions,
            diagnostics,
            _stage_notes(policy_fit, solution, reward_fit.note),
            self._provenance(
                facts_of(whole) | {"ends": end_shares(panel)},
                clock,
                solution,
                reward_range(with_known(value, panel.state, raw), panel.weight),
            )
            | ({"no_errors": why} if why else {}),
            SeenStates.of(panel),
            uncertainty,
            self,
            DataSummary.of(panel, (reward_fit.value or value).policy),
        )
        if not why:
            errors = average_errors(panel, fit._errors(), found, np.isfinite(raw))
            fit.provenance["reward"]["error"] = errors
        return fit

    def _fit_amounts(self, panel: Panel) -> Fit:
        """Where actions are amounts: all stages in one, or with `"regression"` apart."""
        self._refuse_stages_for_finitely_many()
        assert panel.space is not None
        point = find_anchor(panel, self.anchor)
        anchor_reward = resolve_anchor_reward(self.anchor_reward, panel.encoding)
        grid, anchor = grid_with(panel.space, point)
        clock = _Clock()
        agent = {"discount": self.discount, "temperature": self.temperature}
        given = (ActionShapes.of(panel.space, point), grid)
        if self.reward == "regression":
            key_policy, _, _ = jr.split(jr.key(self.seed), 3)
            density = resolve_density(self.policy).fit(panel, key=key_policy)
            clock.lap("policy")
            found = estimate_staged(panel, density, *given, anchor, anchor_reward, **agent)
            value, policy_note = found.value, density.note
        else:
            found = estimate_amounts(panel, *given, anchor_reward, **agent)
            value = implied_value(found.reward, anchor)
            policy_note = "the density that the reward explains"
        clock.lap("reward")
        diagnostics = diagnose_amounts(panel, found, value)
        clock.lap("diagnostics")
        warn_of_weak_overlap(diagnostics)
        told = value.policy_continuation, found.residual, found.value_note
        facts = facts_of(panel), clock, AnchorSolution(*told)
        raw = with_known(value, panel.state, found.reward(panel.state, value))
        return Fit(
            value,
            found.reward,
            panel.encoding,
            tuple(map(as_label, grid)),
            diagnostics,
            {"policy": policy_note, "anchor_value": found.value_note, "reward": found.note},
            self._provenance(*facts, reward_range(raw, panel.weight)),
            SeenStates.of(panel),
            None,
            self,
            DataSummary.of_amounts(panel, CellShares(found.reward)),
        )

    def _refuse_stages_for_finitely_many(self) -> None:
        staged = isinstance(self.reward, str) and self.reward == "regression"
        usual = {"reward": ("auto", "joint", "regression"), "policy": ("auto",)}
        usual |= {"anchor_value": ("auto",), "transition": (None,), "clip": (None,)}
        if staged:
            del usual["policy"]
        for name, names in usual.items():
            value = getattr(self, name)
            if not (value is None or isinstance(value, str)) or value not in names:
                other = 'pass reward="regression", which has stages apart'
                other = other if name == "policy" else "group the amounts: panel.binned(11)"
                raise DataError(
                    f"Over amounts the reward, its value and its density are estimated "
                    f"together, but {name}={_plain(value)!r} arrived. Leave out `{name}`, "
                    f"or {other}."
                )

    def _solve(self, solver, panel: Panel, policy, anchor_reward, anchor: int, *, key):
        """The anchor's equation, once for the policy's part of the value, once for g's."""
        problem = partial(
            anchor_problem, panel, policy, anchor=anchor, discount=self.discount
        )
        solution = solver.solve(problem(bonus=LogProbBonus(policy, anchor)), key=key)
        known = None
        if not anchor_reward.is_zero:
            known = solver.solve(problem(bonus=anchor_reward), key=key)
        value = AnchoredValue(
            policy,
            solution.continuation,
            known and known.continuation,
            anchor_reward,
            anchor,
            discount=self.discount,
            temperature=self.temperature,
        )
        return solution.combined(known, self.temperature), value

    def _stages(self, panel: Panel, anchor: int):
        if self.transition is None:
            reward = resolve_reward(self.reward).chosen_for(panel)
            solver = resolve_anchor_value(self.anchor_value)
            affine = reward.is_affine and not isinstance(reward, Joint)
            return solver, Affine(reward) if affine else reward
        known = resolve_transition(self.transition, panel)
        if isinstance(known, Law):
            solver = AnchorUnderLaw(known)
            return solver, Affine(RewardUnderLaw(known))
        return AnchorOnTable(known, anchor), Affine(RewardOnTable(known))

    def _provenance(
        self, facts: dict, clock: "_Clock", solution: AnchorSolution, reward: Any
    ) -> dict[str, Any]:
        settings = {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.repr}
        return {
            "settings": settings,
            "panel": facts,
            "reward": reward,
            "rounds": solution.num_steps,
            "seconds": clock.laps,
            "versions": versions(),
        }


def _run_on(executor: Any) -> Run | None:
    """Where shards are summed; None for here, with a thread for each core."""
    if executor is None or executor == "here":
        return None
    from .cluster._resolve import resolve  # needs Ray where that is asked for

    return resolve(executor).run


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
