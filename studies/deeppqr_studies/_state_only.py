"""The methods of a world whose reward is one of the state alone, by name.

PQR is told that some action earns nothing, which is false. D-AIRL and SPL-GD are told that
the reward does not depend on the action, which is true, and are not grounded: grounding
a reward of the state alone makes it zero.
"""

from typing import Any

from deeppqr.baselines import DAIRL, SPLGD, AbstractBaseline
from deeppqr.panel import Panel
from ._methods import METHODS, Estimate, Method
from ._problem import Told, preferences


def dairl(world: Any, panel: Panel, seed: int) -> Estimate:
    """D-AIRL as its theorem has it."""
    return _as_it_is(DAIRL(**preferences(world), state_only=True, seed=seed), panel)


def splgd(world: Any, panel: Panel, seed: int, **truth: Any) -> Estimate:
    """SPL-GD with a reward linear in the state, planning for itself."""
    baseline = SPLGD(**preferences(world), state_only=True, seed=seed, **truth)
    return _as_it_is(baseline, panel)


def splgd_truth(world: Any, panel: Panel, seed: int) -> Estimate:
    """The same handed the true Q and V."""
    return splgd(world, panel, seed, q=world.q, value=world.value)


def limit(world: Told, panel: Panel, seed: int) -> Estimate:
    """What PQR tends to as data grow: the reward, shaped by the false anchor."""
    del panel, seed

    def reward(states):
        return world.world.shaped_reward(states, world.anchor)

    return Estimate(reward, given="the true policy, the transitions")


def _as_it_is(baseline: AbstractBaseline, panel: Panel) -> Estimate:
    fit = baseline.fit(panel)
    return Estimate(fit.reward, given=fit.given, note=fit.note)


STATE_ONLY: dict[str, Method] = {
    **{name: METHODS[name] for name in ("default", "regression", "paper", "paper-epochs")},
    "limit": limit,
    "dairl": dairl,
    "splgd": splgd,
    "splgd-truth": splgd_truth,
    "zero": METHODS["zero"],
}
