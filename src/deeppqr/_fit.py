"""A fit: the reward, Q, V and policy that were found, at any state, and what follows."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ._errors import DataError, NoInfluenceFunction
from ._shapes import PerAction, PerRow, States
from ._stored import TRANSIENT, stored
from ._uncertainty import AbstractUncertainty, CoefficientUncertainty
from .actions._space import ActionSpace
from .anchor._value import AnchoredValue
from .anchor._value import with_known as with_known
from .continuous._anchor import actions_at
from .continuous._reward import AbstractAmountReward, AmountReward
from .continuous._uncertainty import AmountUncertainty
from .diagnostics._data_summary import DataSummary
from .diagnostics._diagnostics import Diagnostics
from .diagnostics._questions import Questions
from .diagnostics._support import SeenStates
from .mdp._tabular import as_floats, check_preferences
from .panel._encoding import Encoding
from .panel._panel import Panel
from .prediction._file import predict_any
from .report._summary import rescaled_range
from .reward._joint_reward import JointReward
from .reward._likelihood import BasisReward
from .reward._reward import AbstractReward
from .reward._temperature import AffineReward, select_temperature

if TYPE_CHECKING:
    from ._pqr import PQR
    from .counterfactual._answer import Counterfactual
    from .counterfactual._changed import ChangedStates
    from .counterfactual._sensitivity_table import Sensitivity
    from .plots._plots import Plots


_AFFINE = (AffineReward, JointReward, AbstractAmountReward)  # in known parts


@stored
@dataclass(frozen=True, eq=False, repr=False)
class Fit(Questions):
    """An identified reward with its policy and values: functions of any state."""

    estimate: AnchoredValue
    reward_function: AbstractReward
    encoding: Encoding
    actions: tuple[Any, ...]
    """Labels, in the order of the columns of `reward`, `q` and `log_policy`; where actions
    are amounts, the grid of them that these take if no actions are given."""
    diagnostics: Diagnostics
    """Named figures with verdicts; print it."""
    stages: dict[str, str]
    """What each stage did and, where it was chosen, why."""
    provenance: dict[str, Any]
    """Settings, data, times and versions behind this fit. `reward` has each action's mean
    and 5 % and 95 % quantiles over the panel's states, where they are known; `rounds` is
    the number of iterations of the anchor's equation, None where it was solved directly."""
    seen: SeenStates
    """A sample of the states in the data, which `predict` compares others with."""
    uncertainty: AbstractUncertainty | None = None
    """What moves the reward's estimate; None where it comes with the reward, or where it
    has no closed form: `provenance["no_errors"]` then says why."""
    model: "PQR | None" = field(default=None, metadata={TRANSIENT: True})
    """What it was fitted with; None once read from a folder."""
    data: DataSummary | None = None
    """What plots and the report need to know of the panel."""

    @property
    def discount(self) -> float:
        return self.estimate.discount

    @property
    def temperature(self) -> float:
        return self.estimate.temperature

    @property
    def anchor(self) -> Any:
        return self.actions[self.estimate.anchor]

    @property
    def space(self) -> ActionSpace | None:
        """The Box or Mixed space of actions that are amounts; None for finitely many."""
        reward = self.reward_function
        return reward.shapes.space if isinstance(reward, AbstractAmountReward) else None

    def reward(self, states: Any, actions: Any = None) -> PerAction | PerRow:
        """r(s, a) for every action; the anchor's column is its known reward.

        Where actions are amounts, of `actions`, one for each state or one for all; without
        them at the grid `fit.actions`.
        """
        state = self.encoding.encode_any(states)
        if actions is None:
            return self._reward_of(state)
        reward, at = self._at(state, actions)
        return reward.reward_at(state, at, self.temperature)

    def _require_finite(self, what: str) -> None:
        if self.space is not None:
            raise DataError(
                f"{what} are for finitely many actions, and this fit's are amounts, "
                f"{self.space}. Fit the panel with the amounts grouped: panel.binned(11)."
            )

    def _at(self, state: States, actions: Any) -> tuple[AbstractAmountReward, np.ndarray]:
        """The reward of amounts, and the amounts of these states."""
        reward = self.reward_function
        if not isinstance(reward, AbstractAmountReward):
            raise DataError(
                "`actions` are for fits over amounts, and this fit has finitely many "
                f"actions: {list(self.actions)}. Leave them out and take a column."
            )
        return reward, actions_at(actions, reward.shapes.space, len(state))

    def _reward_of(self, state: States) -> PerAction:
        """The reward at states as the panel holds them, categories as indicators."""
        return with_known(self.estimate, state, self.reward_function(state, self.estimate))

    def q(self, states: Any, actions: Any = None) -> PerAction | PerRow:
        """Q(s, a), the value of each action; of amounts as `reward` takes them."""
        state = self.encoding.encode_any(states)
        found = self.estimate(state)
        if actions is None:
            return found.q
        reward, at = self._at(state, actions)
        return found.value + self.temperature * reward.log_density(state, at)

    def value(self, states: Any) -> PerRow:
        """V(s), the value of each state."""
        return self.estimate(self.encoding.encode_any(states)).value

    def log_policy(self, states: Any, actions: Any = None) -> PerAction | PerRow:
        """log pi(a | s).

        Of amounts a log density with respect to the space's measure; less
        `fit.space.log_volume` it is one per unit of the amount, but for atoms.
        """
        state = self.encoding.encode_any(states)
        if actions is None:
            return self.estimate.policy.log_prob(state)
        reward, at = self._at(state, actions)
        return reward.log_density(state, at)

    def predict(
        self,
        states: Any,
        *,
        only: Any = None,
        errors: bool | None = None,
        level: float = 0.95,
        bad_rows: str = "error",
        out: Any = None,
    ) -> Any:
        """A table, one row per state: reward, Q and probability of each action, the value.

        Where the fit has errors in closed form, `se_...`, `low_...` and `high_...` of each
        action have its reward's standard error and pointwise interval. The last column,
        `inside_data`, says whether a state is as near to one in the data as units usually
        are to each other; elsewhere the figures are extrapolated.

        Parameters
        ----------
        states, only
            A frame, an array, or the path of a CSV or Parquet file; some of `"reward"`,
            `"errors"`, `"q"`, `"prob"`, `"value"`, `"inside_data"`. Rewards alone are
            quick.
        errors, level
            False leaves the errors out; True adds them to what `only` names, and warns
            where the fit has none. The level is that of the intervals.
        bad_rows
            `"empty"` leaves rows empty that cannot be predicted: an unseen category, a
            missing or infinite value, a state that a table lacks.
        out
            A new file for the states' file with predictions, in parts if it is Parquet.
        """
        options = {"only": only, "errors": errors, "level": level}
        return predict_any(self, states, out, bad_rows=bad_rows, **options)

    def standard_errors(self, states: Any, actions: Any = None) -> PerAction | PerRow:
        """Standard errors of the rewards, (row, action); zero for the anchor.

        Without refitting: of the default estimator, the posterior of its penalised
        coefficients and what estimating the law adds; of counted tables and of known
        laws, influence functions. All clustered by unit, and kept by a saved fit. Of
        amounts, of those of `actions` as `reward` takes them.
        """
        state = self.encoding.encode_any(states)
        if actions is None:
            return self._errors().standard_errors(state, self.estimate, len(self.actions))
        reward, at = self._at(state, actions)
        return reward.errors_at(state, at, self.temperature)

    def _errors(self) -> AbstractUncertainty:
        """What moves the reward's estimate, refusing fits that do not know it."""
        if isinstance(self.reward_function, JointReward):
            return CoefficientUncertainty(self.reward_function)
        if isinstance(self.reward_function, AmountReward):
            return AmountUncertainty(self.reward_function)
        if self.uncertainty is None:
            why = self.provenance.get("no_errors") or "its stages have none."
            again = "Fit again, then resample" if self.model is None else "Resample"
            raise NoInfluenceFunction(
                f"This fit has no standard errors in closed form: {why} {again} units: "
                "fit.bootstrap(panel, deeppqr.inference.RewardAt(states))."
            )
        return self.uncertainty

    def interval(
        self,
        states: Any,
        actions: Any = None,
        level: float = 0.95,
        *,
        simultaneous: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the rewards' intervals, (row, action) each.

        Pointwise, or with `simultaneous` bands: each action's band holds its rewards at
        all of these states at once. Of amounts, of those of `actions` as `reward` takes
        them; where actions are finitely many the level may come second.
        """
        from .inference._bands import amount_interval, reward_interval

        if self.space is None and actions is not None:
            actions, level = None, actions
        if actions is None:
            return reward_interval(self, states, level, simultaneous)
        return amount_interval(self, states, actions, level, simultaneous)

    def at_temperature(self, temperature: float) -> "Fit":
        """This fit at another temperature: the reward is affine in it, nothing is refit.

        Where the anchor earns nothing the reward is proportional to it, whichever way it
        was estimated. Diagnostics and provenance stay those of the fit it came from, but
        for the summary's rewards: they are scaled, or left out where g keeps them from it.
        """
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
        told = {"average": average, "maximum": maximum, "minimum": minimum}
        for name, figure in told.items():
            if figure is not None and not np.isfinite(as_floats(name, figure)).all():
                raise DataError(f"`{name}` must be a finite number, but it is {figure!r}.")
        return select_temperature(*self._parts_taken(panel), panel.weight, **told)

    def _parts_taken(self, panel: Panel) -> tuple[PerRow, PerRow]:
        """The parts of the reward of each decision of a panel."""
        reward = self.reward_function
        if isinstance(reward, AbstractAmountReward):
            return reward.parts_at(panel.state, self._at(panel.state, panel.amount)[1])
        bare, known = self._parts(panel.state)
        anchor = self.estimate.anchor
        # The anchor earns g whatever the temperature.
        bare[:, anchor], known[:, anchor] = 0.0, self.estimate.anchor_reward(panel.state)
        taken = np.arange(len(panel)), panel.action
        return bare[taken], known[taken]

    def _parts(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the temperature scales in the reward, and what it leaves as it is."""
        self._require_affine()
        if isinstance(self.reward_function, _AFFINE):
            return self.reward_function.parts(state, self.estimate)
        bare = self.reward_function(state, replace(self.estimate, temperature=1.0))
        return bare, np.zeros_like(bare)

    def _require_affine(self) -> None:
        """Refuse rewards in which the temperature and the anchor's reward are entangled."""
        nothing_earned = self.estimate.anchor_reward.is_zero
        scales = isinstance(self.reward_function, BasisReward) and nothing_earned
        affine = isinstance(self.reward_function, _AFFINE)
        if not (affine or scales):
            raise DataError(
                "A reward of given `features` cannot be rescaled to another temperature "
                "where the anchor's reward is not zero, as that reward does not scale with "
                "it. Fit again at the temperature you want, as in PQR(..., "
                "temperature=2.0), or without `features`."
            )

    @overload
    def counterfactual(
        self, panel: Any = None, change: None = None, **options: Any
    ) -> "Counterfactual": ...

    @overload
    def counterfactual(
        self, panel: Panel, change: Any, **options: Any
    ) -> "ChangedStates": ...

    def counterfactual(self, panel: Any = None, change: Any = None, **options: Any) -> Any:
        """What agents would do in a changed problem, with standard errors.

        `panel` is what was fitted on, or a frame or array of states to start from; by
        default the states that the fit kept. Options are those of
        `deeppqr.counterfactual.counterfactual`: `transfer`, `remove`, `add`, `scale`,
        `transition`, `discount`, `periods`, `anchor_bounds` and more.

        With `change` the problem stays and the states are others: new values by column,
        such as `{"competitors": [5, 6, 7]}`, or a function of the states. Options are then
        those of `deeppqr.counterfactual.changed_states`: `states`, `replicates` and more.
        """
        if change is not None:
            from .counterfactual._changed import changed_states

            self._require_finite("Counterfactuals of changed states")
            return changed_states(self, panel, change, **options)
        from .counterfactual._counterfactual import counterfactual

        if panel is not None and not isinstance(panel, Panel):
            options, panel = {"states": panel, **options}, None
        return counterfactual(self, panel, **options)

    def sensitivity(self, panel: Panel, **options: Any) -> "Sensitivity":
        """How average rewards move with the anchor's reward, discount, seed and units.

        Options are those of `deeppqr.counterfactual.sensitivity`: `anchor_bounds`,
        `anchors`, `discounts`, `temperatures`, `seeds`, `folds`, `executor` and more.
        """
        from .counterfactual._sensitivity import sensitivity

        return sensitivity(self, panel, **options)

    @property
    def plot(self) -> "Plots":
        """Figures: `fit.plot.reward("x1")`, `.policy()`, `.anchor()` and others."""
        from .plots._plots import Plots

        return Plots(self)

    def summary(self) -> str:
        """A printable table: what was fitted, how, and how far to trust it."""
        from .report._summary import summarise

        return summarise(self)

    def report(
        self, path: str | Path, *, results: Any = (), title: str | None = None
    ) -> Path:
        """Write one self-contained HTML file: what was found and how far to trust it.

        `results` are tables and counterfactuals to add, one or a list: what `project`,
        `average` and `counterfactual` return. `title` is the page's heading.
        """
        from .page._report import write_report

        return write_report(self, path, results=results, title=title)

    def _repr_html_(self) -> str:
        from .page._notebook import fit_html

        return fit_html(self)

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
