"""The default reward: joint estimation, or a table of means where states are counted."""

from dataclasses import dataclass, field, replace

from ..panel._cells import COUNTED, few_states, fewest_rows
from ..panel._panel import Panel
from ._joint import Joint
from ._regression import RE
from ._reward import AbstractRewardEstimator


@dataclass(frozen=True, eq=False)
class Auto(AbstractRewardEstimator):
    """Joint estimation; where every action was taken often in every state, RE.

    A table of means has no bias, and a smooth form might. Whether the reward explains the
    decisions as well as a free policy does is the diagnostic `reward_gain`.
    """

    joint: Joint = field(default_factory=Joint)
    """How joint estimation is done where it is tried."""

    def chosen_for(self, panel: Panel) -> AbstractRewardEstimator:
        """Joint estimation or the table."""
        return CountedMeans() if _is_counted(panel) else self.joint

    @property
    def is_affine(self) -> bool:
        return self.joint.is_affine

    def fit(self, panel, value, *, key):
        return self.chosen_for(panel).fit(panel, value, key=key)


@dataclass(frozen=True)
class CountedMeans(AbstractRewardEstimator):
    """RE with a note that says why."""

    def fit(self, panel, value, *, key):
        fit = RE().fit(panel, value, key=key)
        note = f"{fit.note}; every action was taken {COUNTED} times or more in each"
        return replace(fit, note=note)


def _is_counted(panel: Panel) -> bool:
    """Whether every action was taken at least `COUNTED` times in every state."""
    if not few_states(panel.state, rows_per_cell=COUNTED * panel.num_actions):
        return False
    # Rows to which the user gave weight zero do not count.
    used = panel.select(panel.weight > 0)
    return fewest_rows(used.state, used.action, used.num_actions) >= COUNTED
