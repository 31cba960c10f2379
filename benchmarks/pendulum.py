"""Gymnasium's Pendulum: the reward behind a maximum-entropy expert's torques.

    python benchmarks/pendulum.py expert WORK         # plans and plays the expert
    python benchmarks/pendulum.py airl WORK           # in the environment of the adapters
    python benchmarks/pendulum.py recover WORK --table docs/tables/pendulum.csv

The reward of torque zero, -(angle^2 + speed^2 / 10), is told; the rest is recovered from
20,000 decisions. The expert plans softly on a grid of angles and speeds, and its torques
have the density exp{(Q - V) / temperature} over [-2, 2]. Beside it imitation's AIRL on the
same decisions: its reward net's part that depends on state and action, which has no level
and no unit and gets the best of both here. Errors are over the expert's fresh states with
torques drawn evenly: of the whole reward, and of what the torque adds to it.

Then an agent plans with each reward as the expert did with the true one, and plays.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from scipy.interpolate import RegularGridInterpolator
from scipy.special import logsumexp

DISCOUNT = 0.95
# An expert who swings up and wavers: its return is -413, at temperature 2 -203 and at 0.5
# -150. The colder, the more torques have a density next to zero, and nobody sees them.
TEMPERATURE = 5.0
MAX_TORQUE, MAX_SPEED = 2.0, 8.0
# Cells of the planner's grid, and torques at which it integrates.
ANGLES, SPEEDS, TORQUES = 180, 161, 15
# Pieces of the range of torques from which one is drawn.
PIECES = 200
EPISODES, STEPS = 100, 200
KNOWN = "told: reward of torque 0"


def step(angle, speed, torque):
    """Gymnasium's dynamics, Pendulum-v1."""
    torque = np.clip(torque, -MAX_TORQUE, MAX_TORQUE)
    speed = speed + (15 * np.sin(angle) + 3 * torque) * 0.05
    speed = np.clip(speed, -MAX_SPEED, MAX_SPEED)
    return angle + speed * 0.05, speed


def wrapped(angle):
    return (angle + np.pi) % (2 * np.pi) - np.pi


def reward(angle, speed, torque):
    """Gymnasium's reward."""
    return -(wrapped(angle) ** 2 + 0.1 * speed**2 + 0.001 * torque**2)


def anchor_reward(states):
    """That of torque zero, from observations: cosine, sine and speed."""
    return reward(np.arctan2(states[:, 1], states[:, 0]), states[:, 2], 0.0)


def observed(angle, speed):
    return np.column_stack([np.cos(angle), np.sin(angle), speed])


def grid_axes():
    """Angles, speeds and torques at which planners know the reward."""
    nodes = MAX_TORQUE * np.polynomial.legendre.leggauss(TORQUES)[0]
    angle = np.linspace(-np.pi, np.pi, ANGLES, endpoint=False)
    return angle, np.linspace(-MAX_SPEED, MAX_SPEED, SPEEDS), nodes


def on_grid(pay) -> np.ndarray:
    """A reward at all angles, speeds and torques of the grid."""
    grid = np.meshgrid(*grid_axes(), indexing="ij")
    return pay(*(axis.ravel() for axis in grid)).reshape(grid[0].shape)


class SoftPlan:
    """The soft optimum of a reward on the grid; torques count as one over their range."""

    def __init__(self, pay: np.ndarray, tol: float = 1e-6):
        weight = np.polynomial.legendre.leggauss(TORQUES)[1] / 2
        self.angle, self.speed, self.nodes = grid_axes()
        ahead = step(*np.meshgrid(*grid_axes(), indexing="ij"))
        value, self.residual = np.zeros((ANGLES, SPEEDS)), np.inf
        while self.residual > tol:
            later = self._around(value)((wrapped(ahead[0]), ahead[1]))
            q = (pay + DISCOUNT * later) / TEMPERATURE
            updated = TEMPERATURE * logsumexp(q, b=weight, axis=2)
            self.residual, value = np.abs(updated - value).max(), updated
        self._value, self._pay = self._around(value), self._around(pay)

    def _around(self, values: np.ndarray) -> RegularGridInterpolator:
        """Linear between the grid's points; angles are a circle."""
        # Not splines: they overshoot where the speed is cut off, and iterating on them need
        # not converge.
        axes = [np.append(self.angle, np.pi), self.speed, self.nodes][: values.ndim]
        closed = np.concatenate([values, values[:1]])
        return RegularGridInterpolator(axes, closed, bounds_error=False, fill_value=None)

    def play(self, rng: np.random.Generator, episodes: int = 100):
        """Angles, speeds and torques of episodes, (step, episode), and their returns."""
        angle = rng.uniform(-np.pi, np.pi, episodes)
        speed = rng.uniform(-1, 1, episodes)
        path, total = [], np.zeros(episodes)
        pieces = np.linspace(-MAX_TORQUE, MAX_TORQUE, PIECES + 1)
        torques = np.broadcast_to(pieces, (episodes, PIECES + 1))
        for _ in range(STEPS):
            ahead = step(angle[:, None], speed[:, None], torques)
            here = np.broadcast_arrays(wrapped(angle)[:, None], speed[:, None], torques)
            later = self._value((wrapped(ahead[0]), ahead[1]))
            q = (self._pay(tuple(here)) + DISCOUNT * later) / TEMPERATURE
            chance = np.exp(q - q.max(axis=1, keepdims=True))
            # By trapezoids between the torques, then evenly within the piece drawn.
            piece = np.cumsum((chance[:, 1:] + chance[:, :-1]) / 2, axis=1)
            uniform = rng.random((episodes, 1)) * piece[:, -1:]
            drawn = (uniform > piece).sum(axis=1)
            torque = pieces[drawn] + rng.random(episodes) * (pieces[1] - pieces[0])
            total += reward(angle, speed, torque)
            path.append((angle, speed, torque))
            angle, speed = step(angle, speed, torque)
        path.append((angle, speed, np.full(episodes, np.nan)))
        return np.array(path).swapaxes(0, 1), total


def expert(work: Path) -> None:
    """Plans, plays 100 episodes to learn from and 20 to be judged on."""
    start = time.perf_counter()
    plan = SoftPlan(on_grid(reward))
    spent = time.perf_counter() - start
    (angle, speed, torque), total = plan.play(np.random.default_rng(1), EPISODES)
    fresh, _ = plan.play(np.random.default_rng(2), episodes=20)
    work.mkdir(parents=True, exist_ok=True)
    np.savez(
        work / "expert.npz", angle=angle, speed=speed, torque=torque, fresh=fresh[:2, :-1]
    )
    print(f"planned in {spent:.0f} s to {plan.residual:.0e}; return {total.mean():.0f}")
    error = float(total.std() / np.sqrt(len(total)))
    note = {"return": float(total.mean()), "error": error}
    (work / "expert.json").write_text(json.dumps(note))


def panel_columns(work: Path):
    """States, torques, next states and units, one row per decision."""
    data = np.load(work / "expert.npz")
    by_unit = lambda values: values.T.ravel()
    state = observed(by_unit(data["angle"][:-1]), by_unit(data["speed"][:-1]))
    after = observed(by_unit(data["angle"][1:]), by_unit(data["speed"][1:]))
    torque = by_unit(data["torque"][:-1])
    return state, torque, after, np.repeat(np.arange(EPISODES), STEPS)


def judged(work: Path):
    """Fresh angles and speeds of the expert with torques drawn evenly."""
    angle, speed = np.load(work / "expert.npz")["fresh"].reshape(2, -1)
    torque = np.random.default_rng(3).uniform(-MAX_TORQUE, MAX_TORQUE, len(angle))
    return angle, speed, torque


def score(
    name: str, found, torque_part, at, seconds: float, plan: SoftPlan | None, error=None
) -> dict:
    """Correlations and errors against the environment's reward, and an agent's return.

    `error` are standard errors of what the torque adds: of their 95 % intervals the share
    that holds the truth, and half their median width.
    """
    truth, known = reward(*at), reward(at[0], at[1], 0.0)
    relative = lambda gap, of: float((gap**2).mean() / of.var())
    gap = torque_part - (truth - known)
    half = np.nan if error is None else 1.96 * error
    row = {
        "method": name,
        "correlation": float(np.corrcoef(found, truth)[0, 1]),
        "nmse": relative(found - truth, truth),
        "torque rms error": float(np.sqrt((gap**2).mean())),
        "torque median error": float(np.median(np.abs(gap))),
        "torque rms": float(np.sqrt(((truth - known) ** 2).mean())),
        "covered": np.nan if error is None else float((np.abs(gap) < half).mean()),
        "half width": float(np.median(half)),
        "seconds": seconds,
    }
    if plan is not None:
        _, total = plan.play(np.random.default_rng(4))
        row |= {"return": float(total.mean()), "return se": float(total.std() / 10)}
    return row


def airl(work: Path, steps: int) -> None:
    """imitation's AIRL on the same decisions; needs torch and imitation, not JAX."""
    import gymnasium
    import torch
    from imitation.algorithms.adversarial.airl import AIRL
    from imitation.data.types import Transitions
    from imitation.rewards.reward_nets import BasicShapedRewardNet
    from imitation.util import logger
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    torch.manual_seed(0)
    torch.set_num_threads(1)
    state, torque, after, _ = panel_columns(work)
    env = DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")] * 8)
    learner = PPO(
        "MlpPolicy",
        env,
        n_steps=512,
        batch_size=256,
        gamma=DISCOUNT,
        learning_rate=1e-3,
        use_sde=True,
        sde_sample_freq=4,
        seed=0,
        device="cpu",
    )
    net = BasicShapedRewardNet(
        env.observation_space, env.action_space, discount_factor=DISCOUNT
    )
    trainer = AIRL(
        demonstrations=Transitions(
            obs=state.astype(np.float32),
            acts=torque[:, None].astype(np.float32),
            infos=np.array([{}] * len(state)),
            next_obs=after.astype(np.float32),
            dones=np.zeros(len(state), bool),
        ),
        demo_batch_size=1_024,
        venv=env,
        gen_algo=learner,
        reward_net=net,
        n_disc_updates_per_round=8,
        log_dir=str(work / "airl"),
        custom_logger=logger.configure(str(work / "airl"), format_strs=[]),
    )
    start = time.perf_counter()
    trainer.train(steps)
    spent = time.perf_counter() - start

    def found(angle, speed, torque) -> np.ndarray:
        paid = []
        for rows in np.array_split(np.arange(len(angle)), -(-len(angle) // 50_000)):
            seen = torch.as_tensor(observed(angle[rows], speed[rows]), dtype=torch.float32)
            acts = torch.as_tensor(torque[rows, None], dtype=torch.float32)
            done = torch.zeros(len(rows))
            with torch.no_grad():  # the part that is no shaping
                paid.append(net.base(seen, acts, seen, done).numpy())
        return np.concatenate(paid).astype(np.float64)

    at = judged(work)
    np.savez(
        work / "airl.npz",
        grid=on_grid(found),
        at=found(*at),
        known=found(at[0], at[1], np.zeros(len(at[0]))),
        seconds=spent,
    )
    played = learner.policy, []
    for seed in range(20):
        one = gymnasium.make("Pendulum-v1")
        seen, _ = one.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            action, _ = played[0].predict(seen, deterministic=False)
            seen, paid, _, over, _ = one.step(action)
            total += float(paid)
        played[1].append(total)
    print(f"AIRL: {spent:.0f} s; its generator's return {np.mean(played[1]):.0f}")


def recover(work: Path, table: Path | None) -> None:
    """Fits, compares, plans with what was found, and writes the table."""
    import polars as pl

    import deeppqr

    at = judged(work)
    state, torque, after, unit = panel_columns(work)
    names = ["cosine", "sine", "speed"]
    box = deeppqr.Box(-MAX_TORQUE, MAX_TORQUE)
    told = {"unit": unit, "actions": box, "state_names": names}
    panel = deeppqr.Panel.from_arrays(state, torque, after, **told)
    note = json.loads((work / "expert.json").read_text())
    known = reward(at[0], at[1], 0.0)
    rows = [
        score("environment", reward(*at), reward(*at) - known, at, 0.0, None)
        | {"return": note["return"], "return se": note["error"]},
        score(
            KNOWN,
            known,
            0 * known,
            at,
            0.0,
            SoftPlan(on_grid(lambda a, s, t: reward(a, s, 0))),
        ),
    ]
    for name, how in (("deeppqr", "auto"), ("deeppqr, three stages", "regression")):
        start = time.perf_counter()
        model = deeppqr.PQR(
            discount=DISCOUNT,
            anchor=0.0,
            anchor_reward=anchor_reward,
            temperature=TEMPERATURE,
            reward=how,
        )
        fit = model.fit(panel)
        spent = time.perf_counter() - start

        def found(angle, speed, torque, fit=fit) -> np.ndarray:
            blocks = np.array_split(np.arange(len(angle)), -(-len(angle) // 20_000))
            return np.concatenate(
                [
                    fit.reward(observed(angle[r], speed[r]), np.asarray(torque)[r])
                    for r in blocks
                ]
            )

        paid = found(*at)
        without = found(at[0], at[1], np.zeros(len(at[0])))
        error = None
        if how == "auto":
            error = fit.standard_errors(observed(at[0], at[1]), at[2])
        told = (at, spent, SoftPlan(on_grid(found)), error)
        rows.append(score(name, paid, paid - without, *told))
        print(fit.summary())
    if (work / "airl.npz").exists():
        rows.append(airl_row(work, at))
    frame = pl.DataFrame(rows)
    with pl.Config(tbl_cols=-1, tbl_width_chars=140):
        print(frame)
    if table is not None:
        frame.write_csv(table, float_precision=4)


def airl_row(work: Path, at) -> dict:
    """AIRL's reward, with the level and unit that suit the truth best."""
    data = np.load(work / "airl.npz")
    unit, level = np.polyfit(data["at"], reward(*at), 1)
    torque_part = unit * (data["at"] - data["known"])
    # The generator earned the net's reward and its entropy: a temperature of one.
    plan = SoftPlan(TEMPERATURE * data["grid"])
    fitted = unit * data["at"] + level
    return score("imitation's AIRL", fitted, torque_part, at, float(data["seconds"]), plan)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("job", choices=["expert", "airl", "recover"])
    parser.add_argument("work", type=Path, help="folder of decisions and rewards")
    parser.add_argument("--steps", type=int, default=300_000, help="of AIRL's generator")
    parser.add_argument("--table", type=Path, help="CSV file to write")
    parser.add_argument("--temperature", type=float, default=TEMPERATURE)
    parser.add_argument("--episodes", type=int, default=EPISODES, help="of 200 decisions")
    asked = parser.parse_args()
    globals()["TEMPERATURE"] = asked.temperature  # the agents', in every job the same
    globals()["EPISODES"] = asked.episodes
    if asked.job == "expert":
        expert(asked.work)
    elif asked.job == "airl":
        airl(asked.work, asked.steps)
    else:
        recover(asked.work, asked.table)


if __name__ == "__main__":
    main()
