"""The paper's algorithms against the exact truth of its world, printed as tables.

    python benchmarks/algorithms.py policies     AIRL beside maximum likelihood
    python benchmarks/algorithms.py soft-q       soft Q-learning's Q for p = 5, 10, 20, 40
    python benchmarks/algorithms.py paper        PQR.paper in both readings of "steps"

Seeds: omega 0, demonstrations 100, scored states 200, everything else 0.
"""

import sys
import time
import warnings

import numpy as np

import deeppqr
from deeppqr.mdp import SoftQLearning
from deeppqr.metrics import score_reward
from deeppqr.policy import AIRL, Network

PAPER_FINAL_LOSS = {5: 4e-3, 10: 6e-3, 20: 9e-3, 40: 1.2e-2}
"""The paper's table "Hyperparameters for soft Q-learning"."""


def worlds(p=5):
    for scale in (1.0, 10.0):
        world = deeppqr.worlds.PaperWorld(p=p, reward_scale=scale, seed=0)
        states = world.simulate(seed=200).state[::10]
        yield scale, world, world.simulate(seed=100), states


def policies() -> None:
    import jax.random as jr

    print("policy on the paper's world, p = 5, 50,000 steps")
    print("scale  method                held-out log-lik.  KL from truth  seconds")
    for scale, world, panel, states in worlds():
        truth = world.log_policy(states)
        for name, estimator in (("maximum likelihood", Network()), ("AIRL", AIRL())):
            start = time.perf_counter()
            fit = estimator.fit(panel, key=jr.key(0))
            seconds = time.perf_counter() - start
            learned = fit.policy.log_prob(states)
            divergence = np.mean(np.sum(np.exp(truth) * (truth - learned), axis=1))
            print(
                f"{scale:5g}  {name:<22}{fit.held_out.mean():17.4f} {divergence:14.5f} "
                f"{seconds:8.1f}",
                flush=True,
            )


def soft_q() -> None:
    print("soft Q-learning on the paper's world, scale 1, against the exact Q")
    print(" p   MSE of Q  var of Q  KL of policy  seconds  the paper's final loss")
    for p, loss in PAPER_FINAL_LOSS.items():
        world = deeppqr.worlds.PaperWorld(p=p, seed=0)
        states = world.simulate(steps=2_000, units=20, seed=200).state
        start = time.perf_counter()
        learned = SoftQLearning(0.9).solve(world, world.reward, seed=0)
        seconds = time.perf_counter() - start
        q, truth = world.q(states), world.log_policy(states)
        policy = learned.log_policy(states)
        divergence = np.mean(np.sum(np.exp(truth) * (truth - policy), axis=1))
        error = np.mean((learned.q(states) - q) ** 2)
        print(
            f"{p:2d} {error:10.4f} {q.var():9.4f} {divergence:13.5f} {seconds:8.1f} "
            f"{loss:12g}",
            flush=True,
        )


def paper() -> None:
    print("PQR.paper on the paper's world, p = 5, 50,000 steps; reward NMSE (zero = 1)")
    print("scale  reading  NMSE    corr.  held-out gain  seconds")
    for scale, world, panel, states in worlds():
        for reading in ("steps", "epochs"):
            model = deeppqr.PQR.paper(discount=0.9, anchor=0, reading=reading)
            start = time.perf_counter()
            fit = model.fit(panel)
            seconds = time.perf_counter() - start
            row = score_reward(fit.reward(states), world.reward(states))
            gain = fit.diagnostics["held_out_gain"].value
            print(
                f"{scale:5g}  {reading:<8}{row.nmse:6.3f}{row.correlation:8.2f}"
                f"{gain:15.4f}{seconds:9.1f}",
                flush=True,
            )


if __name__ == "__main__":
    warnings.simplefilter("ignore", deeppqr.NotConvergedWarning)
    {"policies": policies, "soft-q": soft_q, "paper": paper}[sys.argv[1]]()
