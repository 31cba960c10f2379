"""Behavioural cloning: log-odds against the anchor, taken as the reward."""

from dataclasses import dataclass, replace
from typing import Any

from .._random import check_seed
from ..mdp._tabular import check_preferences
from ..panel._panel import require_panel
from ..policy._resolve import resolve as resolve_policy
from ._baseline import NOTHING, AbstractBaseline, BaselineFit, fit_policy
from ._maxent import EnergyReward


@dataclass(frozen=True)
class BehaviouralCloning(AbstractBaseline):
    r"""The imitating policy's log-odds against the anchor.

    $$\hat r(s,a) = \alpha\{\log\hat\pi(a|s) - \log\hat\pi(a^A|s)\} = Q(s,a) - Q(s,a^A).$$

    It is the static logit of discrete choice: what the reward would be if agents did not
    look ahead. MaxEnt-IRL on the same policy, grounded at the anchor, is the same.

    Parameters
    ----------
    anchor
        Label of the action that the others are compared with.
    temperature
        $\alpha$, the scale of the agent's randomness.
    policy
        Anything that `PQR` takes.
    """

    anchor: Any
    temperature: float = 1.0
    policy: Any = "auto"
    seed: int = 0

    def __post_init__(self):
        check_preferences(0.0, self.temperature)
        check_seed(self.seed)
        resolve_policy(self.policy)

    def fit(self, panel):
        require_panel(panel)
        panel.action_index(self.anchor)  # raises before the fit if there is no such action
        policy, note = fit_policy(self.policy, panel, seed=self.seed)
        energy = EnergyReward(policy, self.temperature)
        fit = BaselineFit(
            "behavioural cloning",
            NOTHING,
            panel.actions,
            panel.encoding,
            energy,
            policy,
            note,
        )
        return replace(fit.grounded(self.anchor), grounding="log-odds against the anchor")
