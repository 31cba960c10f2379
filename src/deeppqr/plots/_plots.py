"""`fit.plot`: the figures of a fit, as matplotlib axes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import DataError
from ..counterfactual._answer import Counterfactual
from ..counterfactual._changed import ChangedStates
from ..counterfactual._sensitivity_table import Sensitivity
from ._amounts import at_amounts, plot_amounts, plot_density
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
            Labels to show; by default the anchor and the six chosen most. Any amounts,
            where actions are these, by default the six of the grid chosen most.
        others
            What becomes of the other columns: `"average"` averages rewards over them as
            they are in the data, `"typical"` holds them at the state nearest to the
            medians. For a counted table of rewards, which knows only the states that
            were seen, means over the states with each value.
        """
        fit = self.fit
        if fit.space is not None and actions is not None:
            fit = at_amounts(fit, actions)
            actions = list(fit.actions)
        with styled(ax), quiet_fonts():
            if second is None:
                return plot_curves(fit, column, actions, others, level, ax, self.new_axes)
            return plot_surfaces(
                fit, column, second, actions, others, level, ax, self.new_axes
            )

    def amounts(
        self,
        column: str | None = None,
        *,
        dimension: int = 0,
        others: Others = "average",
        level: float = 0.95,
        ax: Any = None,
    ) -> Any:
        """Rewards over the amount, where actions are amounts, with pointwise bands.

        One curve, or one for each of three values of a state column, its 10th, 50th and
        90th percentiles, or for the levels of a category. Atoms are points, the anchor a
        dotted line, and the grey strip says which amounts were chosen. Of amounts in
        several dimensions along `dimension`, the others at the medians of the data.
        """
        with styled(ax), quiet_fonts():
            return plot_amounts(
                self.fit, column, dimension, others, level, ax, self.new_axes
            )

    def density(
        self, column: str | None = None, *, dimension: int = 0, ax: Any = None
    ) -> Any:
        """The fitted density of amounts beside a histogram of those taken.

        For all states, or by thirds of a state column or levels of a category. The
        density is one where all amounts are alike; atoms have their shares in the title.
        """
        with styled(ax), quiet_fonts():
            return plot_density(self.fit, column, dimension, ax, self.new_axes)

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
