"""`fit.plot`: the figures of a fit, as matplotlib axes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import DataError
from ..counterfactual._answer import Counterfactual
from ..counterfactual._changed import ChangedStates
from ..counterfactual._sensitivity_table import Sensitivity
from ._checks import plot_anchor, plot_diagnostics, plot_policy
from ._curves import Others
from ._recovery import plot_recovery
from ._results import plot_changed, plot_counterfactual
from ._reward import plot_curves, plot_surfaces
from ._sensitivity import plot_sensitivity
from ._style import NewAxes, pyplot_axes, quiet_fonts, styled

if TYPE_CHECKING:
    from .._fit import Fit


@dataclass(frozen=True)
class Plots:
    """The figures of a fit; every method returns matplotlib Axes, or an array of them.

    `ax` takes Axes to draw into, one or as many as the figure has; without it a figure of
    its own is made with pyplot. A fit that was read from a folder draws the same figures:
    it keeps what they need of its data.
    """

    fit: "Fit"
    new_axes: NewAxes = field(default=pyplot_axes, repr=False)

    def reward(
        self,
        column: str,
        second: str | None = None,
        *,
        actions: Any = None,
        others: Others = "average",
        level: float = 0.95,
        ax: Any = None,
    ) -> Any:
        """Rewards along a state column, or with `second` over two columns as surfaces.

        Bands are pointwise intervals. The grey strip at the foot shows where the data
        lie; lines are faint, and surfaces hatched, where most of the states that they are
        made of lie outside the data.

        Parameters
        ----------
        actions
            Labels to show; by default the anchor and the six chosen most.
        others
            What becomes of the other columns: `"average"` averages rewards over them as
            they are in the data, `"typical"` holds them at the state nearest to the
            medians. For a counted table of rewards, which knows only the states that
            were seen, means over the states with each value.
        """
        with styled(ax), quiet_fonts():
            if second is None:
                return plot_curves(
                    self.fit, column, actions, others, level, ax, self.new_axes
                )
            return plot_surfaces(
                self.fit, column, second, actions, others, level, ax, self.new_axes
            )

    def recovery(
        self, column: str, truth: Callable[[np.ndarray], Any], *, ax: Any = None
    ) -> Any:
        """The reward along a column against a known truth, beside naive log-odds.

        Of fits to simulated decisions: `truth` takes an array of states and returns the
        true rewards, (state, action), as `world.reward` does. On the right, what is often
        read as a reward: how much more likely an action is than the anchor.
        """
        with styled(ax), quiet_fonts():
            return plot_recovery(self.fit, column, truth, ax, self.new_axes)

    def policy(self, *, actions: Any = None, ax: Any = None) -> Any:
        """The policy's calibration: shares in the data against its probabilities."""
        with styled(ax), quiet_fonts():
            return plot_policy(self.fit, actions, ax, self.new_axes)

    def anchor(self, *, ax: Any = None) -> Any:
        """The anchor's support: its probability over the states of the data."""
        with styled(ax), quiet_fonts():
            return plot_anchor(self.fit, ax, self.new_axes)

    def diagnostics(self, *, ax: Any = None) -> Any:
        """Every diagnostic with its verdict, the worst first."""
        with styled(ax), quiet_fonts():
            return plot_diagnostics(self.fit, ax, self.new_axes)

    def counterfactual(
        self,
        result: Any,
        *,
        quantity: str | None = None,
        actions: Any = None,
        ax: Any = None,
    ) -> Any:
        """What `fit.counterfactual` returned: choices before and after, with intervals.

        Of changed states, means by scenario: `quantity` is `"reward"` or
        `"probability"`, both by default, and `actions` are the labels to show.
        """
        if isinstance(result, Counterfactual):
            with styled(ax), quiet_fonts():
                return plot_counterfactual(result, ax, self.new_axes)
        if not isinstance(result, ChangedStates):
            raise DataError(
                "`result` must be what `fit.counterfactual(...)` returned, but a "
                f"{type(result).__name__} arrived."
            )
        with styled(ax), quiet_fonts():
            return plot_changed(result, quantity, actions, ax, self.new_axes)

    def sensitivity(self, result: Any, *, actions: Any = None, ax: Any = None) -> Any:
        """What `fit.sensitivity` returned: average rewards under other assumptions."""
        if not isinstance(result, Sensitivity):
            raise DataError(
                "`result` must be what `fit.sensitivity(...)` returned, but a "
                f"{type(result).__name__} arrived."
            )
        with styled(ax), quiet_fonts():
            return plot_sensitivity(result, actions, ax, self.new_axes)
