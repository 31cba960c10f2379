"""What can be asked of a fit beside its functions of the state: tables with errors."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..panel._panel import Panel

if TYPE_CHECKING:
    from .._fit import Fit
    from ..inference._bootstrap import Bootstrap
    from ..inference._checked import SimulationCheck
    from ..inference._one_step import OneStep
    from ..inference._projection import Projection
    from ..report._estimates import Estimates


class Questions:
    """Averages, slopes, contrasts, projections and draws: methods of every `Fit`.

    They only pass the fit on, so that the rooms that answer load when they are asked.
    """

    def average(self: Any, data: Any = None, **options: Any) -> "Estimates":
        """Average rewards by action, and by group with `by`: a table with errors.

        `data` is a panel or a table of states, by default those that the fit keeps.
        Options are those of `deeppqr.inference.average`: `by`, `actions`, `taken`,
        `weights`, `level`.
        """
        from ..inference._functionals import average

        return average(self, data, **options)

    def slopes(self: Any, column: str, data: Any = None, **options: Any) -> "Estimates":
        """Average slopes of the reward in a state column by action; of a category the
        differences between levels. Options are those of `deeppqr.inference.slopes`.
        """
        from ..inference._functionals import slopes

        return slopes(self, column, data, **options)

    def compare(
        self: Any, column: str | None = None, data: Any = None, **options: Any
    ) -> "Estimates":
        """Average contrasts: `fit.compare("age", step=1)`, `fit.compare("town",
        values=("south", "west"))` or, between actions, `fit.compare(actions=("keep",
        "replace"))`. Options are those of `deeppqr.inference.compare`.
        """
        from ..inference._functionals import compare

        return compare(self, column, data, **options)

    def project(self: Any, features: Any, panel: Panel, **options: Any) -> "Projection":
        """The reward's best linear form, with errors clustered by unit and a test.

        `features` are terms such as `["1", "mileage", "mileage^2"]` for each action but
        the anchor, a dict of such lists by action, or a function of the states. Options
        are those of `deeppqr.inference.project`. Over amounts they are a function of the
        states and the actions, zero at the anchor; the one option is `names`.
        """
        if self.space is None:
            from ..inference._projection import project
        else:
            from ..inference._amount_projection import project_amounts as project
        return project(self, features, panel, **options)

    def one_step(self: Any, panel: Panel, **options: Any) -> "OneStep":
        """Average rewards, or their best linear predictor, corrected for the errors of
        every stage: also of networks and trees. Refits on folds of units.

        Options are those of `deeppqr.inference.one_step`: `features`, `taken`, `folds`.
        """
        from ..inference._one_step import one_step

        return one_step(self, panel, **options)

    def bootstrap(
        self: Any, panel: Panel, statistic: Callable[["Fit"], Any], **options: Any
    ) -> "Bootstrap":
        """Draws of a statistic of this fit over resampled units.

        Options are those of `deeppqr.bootstrap`.
        """
        from ..inference._bootstrap import (
            bootstrap,
            measure,
            require_model,
            require_own_panel,
        )

        model = require_model(self)
        require_own_panel(self, panel)
        own = measure(statistic, self)
        return bootstrap(model, panel, statistic, estimate=own, fit=self, **options)

    def simulate(self: Any, panel: Panel, *, seed: int = 0) -> Panel:
        """Decisions of agents with this reward, by the fit's policy and law.

        Of the shape of the fit's own panel: each unit begins where it began there, and is
        followed as long unless it leaves.
        """
        from ..inference._simulated import simulate_fit

        return simulate_fit(self, panel, seed)

    def simulation_check(
        self: Any, panel: Panel, statistic: Any = None, **options: Any
    ) -> "SimulationCheck":
        """Bias and coverage for this very panel's size, were the fit the truth: panels
        are drawn from the fit and fitted again.

        Options are those of `deeppqr.inference.simulation_check`: `replicates`, `seed`,
        `level`, `workers`, `executor`, `out`.
        """
        from ..inference._simulation_check import simulation_check

        return simulation_check(self, panel, statistic, **options)

    def identification(self: Any) -> str:
        """What is normalised, what the data say of the anchor, and which conclusions do
        not depend on it: three sentences for whoever reads the result."""
        from ..report._identification import identification

        return identification(self)
