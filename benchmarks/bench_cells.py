"""What `bench.py` measures, each in a process of its own: worlds, fits and peers."""

import platform
import resource
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

# Rows of a table of predictions. Two blocks for each core at least, and a second or more.
PREDICTED = {"reward": 1_000_000, "all": 50_000}
ECONIRL = (
    "econirl GLADIUS",
    "econirl TD-CCP",
    "econirl TD-CCP neural",
    "econirl AIRL neural",
    "econirl AIRL2",
)
"""The names of `discretised.ESTIMATORS`, which load econirl."""


class Cell(NamedTuple):
    """What is measured in one process."""

    method: str
    world: str
    size: dict[str, Any]

    @property
    def title(self) -> str:
        return ", ".join(f"{name} {value:,}" for name, value in self.size.items())


class Found(NamedTuple):
    cold: float
    warm: float
    cpu: float
    """Processor seconds of all threads in `cold`: what other work on the machine spares."""
    peak: float
    error: float
    note: str = ""


def quick_sizes() -> Iterator[Cell]:
    yield Cell("deeppqr", "paper", {"rows": 10_000, "p": 5})
    yield Cell("deeppqr", "paper", {"rows": 50_000, "p": 5})
    yield Cell("deeppqr", "paper", {"rows": 10_000, "p": 40})
    yield Cell("deeppqr", "paper", {"rows": 10_000, "p": 5, "discount": 0.99})
    yield Cell("deeppqr", "smooth", {"rows": 10_000, "actions": 2})
    yield Cell("deeppqr", "smooth", {"rows": 10_000, "actions": 16})
    yield Cell("deeppqr", "table", {"rows": 20_000, "states": 10})
    yield Cell("deeppqr", "table", {"rows": 20_000, "states": 1_000})


def full_sizes() -> Iterator[Cell]:
    for rows in (10_000, 50_000, 100_000, 1_000_000):
        yield Cell("deeppqr", "paper", {"rows": rows, "p": 5})
    for p in (10, 40, 160, 320):
        yield Cell("deeppqr", "paper", {"rows": 50_000, "p": p})
    for discount in (0.99, 0.999, 0.9999):
        yield Cell("deeppqr", "paper", {"rows": 50_000, "p": 5, "discount": discount})
    for actions in (2, 8, 32, 64):
        yield Cell("deeppqr", "smooth", {"rows": 20_000, "actions": actions})
    for states in (10, 100, 1_000):
        yield Cell("deeppqr", "table", {"rows": 50_000, "states": states})


def genpqr_settings() -> Iterator[Cell]:
    import genpqr_design

    for rows, shift in genpqr_design.SETTINGS:
        yield Cell("deeppqr default", "genpqr", {"rows": rows, "shift": shift})


def problem(world: str, size: dict[str, Any], seed: int) -> Any:
    """A model, a panel, states that are judged, their rewards, and the anchor's column."""
    import engine

    import deeppqr
    from deeppqr.worlds import random_tabular

    rows = size["rows"]
    if world == "paper":
        found = engine.paper(size["p"], 10.0, rows, seed, size.get("discount", 0.9))
        return (*found, 0)
    if world == "smooth":
        model, panel, states, truth, known = engine.smooth(4, size["actions"], rows, seed)
        return model, panel, states, truth, known, panel.actions.index(model.anchor)
    tabular = random_tabular(size["states"], 3, seed=seed)
    panel = tabular.simulate(steps=rows, units=rows // 100, seed=100_000 + seed)
    known = lambda states: tabular.reward(states)[:, 0]
    model = deeppqr.PQR(discount=0.9, anchor=0, anchor_reward=known)
    states = np.unique(panel.state, axis=0)
    return model, panel, states, tabular.reward(states), known(states)[:, None], 0


def relative_error(found: np.ndarray, truth: np.ndarray, known: Any, anchor: int) -> float:
    """One where every action is given the anchor's reward."""
    others = np.arange(truth.shape[1]) != anchor
    gap = (found - truth)[:, others]
    return float(np.nanmean(gap**2) / ((truth - known)[:, others] ** 2).mean())


def ours(cell: Cell, seed: int) -> Found:
    model, panel, states, truth, known, anchor = problem(cell.world, cell.size, seed)
    fit, cold, cpu = timed(lambda: model.fit(panel))
    error = relative_error(fit.reward(states), truth, known, anchor)
    _, warm, _ = timed(lambda: model.fit(panel))
    return Found(cold, warm, cpu, peak_memory(), error)


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What it returns, the seconds that passed, and those that processors spent on it."""
    start, spent = time.perf_counter(), time.process_time()
    done = work()
    return done, time.perf_counter() - start, time.process_time() - spent


def predictions(cell: Cell, seed: int) -> Found:
    """The second and third predictions of many rows; the error is of the fit behind."""
    model, panel, states, truth, known, anchor = problem("paper", cell.size, seed)
    fit = model.fit(panel)
    tables = None if cell.method == "all" else [cell.method]
    many = np.resize(panel.state, (PREDICTED[cell.method], panel.state.shape[1]))
    fit.predict(states, only=tables)
    _, cold, cpu = timed(lambda: fit.predict(many, only=tables))
    _, warm, _ = timed(lambda: fit.predict(many, only=tables))
    error = relative_error(fit.reward(states), truth, known, anchor)
    return Found(cold, warm, cpu, peak_memory(), error)


def airl(cell: Cell, seed: int) -> Found:
    """imitation's AIRL, which is handed the environment as well."""
    import gymnasium
    import torch
    from imitation.algorithms.adversarial.airl import AIRL
    from imitation.data.types import Transitions
    from imitation.rewards.reward_nets import BasicShapedRewardNet
    from imitation.util import logger
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    from deeppqr.mdp import WorldEnv
    from deeppqr.worlds import PaperWorld

    _, panel, states, truth, known, anchor = problem(cell.world, cell.size, seed)
    world = PaperWorld(p=cell.size["p"], reward_scale=10.0, seed=seed)
    torch.manual_seed(seed)

    def single() -> Any:
        narrow = WorldEnv(world, horizon=100)  # in float32, as its networks are
        return gymnasium.wrappers.TransformObservation(
            narrow, lambda seen: seen.astype(np.float32)
        )

    envs = DummyVecEnv([single] * 8)
    rows = np.flatnonzero(panel.is_transition)
    learner = PPO("MlpPolicy", envs, n_steps=256, batch_size=256, gamma=0.9, seed=seed)
    net = BasicShapedRewardNet(
        envs.observation_space, envs.action_space, discount_factor=0.9
    )
    trainer = AIRL(
        demonstrations=Transitions(
            obs=panel.state[rows].astype(np.float32),
            acts=panel.action[rows],
            infos=np.array([{}] * len(rows)),
            next_obs=panel.next_state[rows].astype(np.float32),
            dones=np.zeros(len(rows), bool),
        ),
        demo_batch_size=1_024,
        venv=envs,
        gen_algo=learner,
        reward_net=net,
        custom_logger=logger.configure(None, format_strs=[]),
    )
    _, spent, cpu = timed(lambda: trainer.train(cell.size["steps"]))
    seen = torch.as_tensor(states, dtype=torch.float32)
    found = np.empty(truth.shape)
    for action in range(truth.shape[1]):
        chosen = torch.nn.functional.one_hot(
            torch.full((len(seen),), action), truth.shape[1]
        )
        with torch.no_grad():  # the part that is no shaping
            paid = net.base(seen, chosen.float(), seen, torch.zeros(len(seen)))
        found[:, action] = paid.numpy()
    # Identified up to a function of the state: the anchor's own is known to be zero.
    found -= found[:, [anchor]]
    error = relative_error(found, truth, known, anchor)
    return Found(spent, np.nan, cpu, peak_memory(), error)


def econirl(cell: Cell, seed: int) -> Found:
    """One of econirl's estimators, on states cut into cells."""
    import discretised

    _, panel, states, truth, known, anchor = problem(cell.world, cell.size, seed)
    seconds, reward, said = discretised.measure(cell.method, panel, states, 0.9, seed)
    error = relative_error(reward, truth, known, anchor)
    return Found(*seconds, peak_memory(), error, said)


def backwards(cell: Cell, seed: int) -> Found:
    """Ours on the design that genpqr's authors published figures for."""
    import genpqr_design

    model, panel, score = genpqr_design.problem(**cell.size, seed=seed)
    fit, cold, cpu = timed(lambda: model.fit(panel))
    return Found(cold, np.nan, cpu, peak_memory(), score(fit))


def peak_memory() -> float:
    """Of this process so far, in MB."""
    # Kilobytes on Linux, bytes on macOS.
    unit = 2**20 if platform.system() == "Darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


MEASURES: dict[str, Callable[[Cell, int], Found]] = {
    "deeppqr": ours,
    "imitation AIRL": airl,
    **dict.fromkeys(ECONIRL, econirl),
    "deeppqr default": backwards,
    "reward": predictions,
    "all": predictions,
}
