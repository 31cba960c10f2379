"""Predicting zero: the reference of the normalised mean squared error."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..panel._panel import require_panel
from ._baseline import NOTHING, AbstractBaseline, BaselineFit


@dataclass(frozen=True)
class Zero(AbstractBaseline):
    r"""No estimate at all, $\hat r(s,a) = 0$: a normalised error of one, by definition."""

    def fit(self, panel):
        require_panel(panel)
        return BaselineFit(
            "predicting zero",
            NOTHING,
            panel.actions,
            panel.encoding,
            ZeroReward(panel.num_actions),
            None,
            "nothing is estimated",
        )


@dataclass(frozen=True)
class ZeroReward:
    """Zero for every action."""

    num_actions: int

    def __call__(
        self, state: Float[np.ndarray, "row state_feature"]
    ) -> Float[np.ndarray, "row action"]:
        return np.zeros((len(state), self.num_actions))
