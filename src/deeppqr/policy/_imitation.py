"""AIRL as the imitation library implements it, trained in the user's environment."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax.random as jr
import numpy as np

from .._errors import DataError
from .._random import integer_seed, numpy_rng
from ..panel._encoding import Encoding
from ..panel._panel import Panel
from ._given import Given, from_stable_baselines
from ._policy import AbstractPolicyEstimator, draw_folds


@dataclass(frozen=True)
class ImitationAIRL(AbstractPolicyEstimator):
    """The imitation library's AIRL, with a PPO generator that acts in an environment.

    Unlike `AIRL` it needs the environment the decisions were made in, and returns what
    its generator learned there. A fifth of the units is held out to judge it.

    Parameters
    ----------
    env_factory
        A function that makes a Gymnasium environment. Its observations are the panel's
        state columns, all numeric, and its i-th action is the panel's i-th.
    discount
        The agent's discount factor, for the generator and the discriminator's shaping.
    total_timesteps
        Steps of the generator in all.
    num_envs, steps_per_round
        Environments run side by side, and the generator's steps in each of them between
        two updates of the discriminator.
    batch_size
        Demonstrated decisions in an update of the discriminator.
    updates_per_round
        Updates of the discriminator after each of the generator's.
    learning_rate, discriminator_rate
        Of the generator and of the discriminator.
    entropy
        The generator earns f - log pi, which makes it the soft optimum of f. Without it
        the generator earns f alone, as imitation has it, and its policy tends to one
        action per state: probabilities of zero, which say nothing about the reward.
    variable_horizon
        Allow episodes of different lengths; their ends tell the discriminator more than
        the decisions do.

    References
    ----------
    [fu2018airl].
    """

    env_factory: Callable[[], Any]
    discount: float
    total_timesteps: int = 200_000
    num_envs: int = 8
    steps_per_round: int = 256
    batch_size: int = 1_024
    updates_per_round: int = 4
    learning_rate: float = 3e-4
    discriminator_rate: float = 1e-3
    entropy: bool = True
    variable_horizon: bool = False

    def fit(self, panel, *, key):
        _require_extra()
        rounds = self.total_timesteps // (self.num_envs * self.steps_per_round)
        if rounds < 1:
            raise DataError(
                f"`total_timesteps` must cover one round of {self.num_envs} environments "
                f"times {self.steps_per_round} steps, but it is {self.total_timesteps}. "
                "Raise it, or lower `num_envs` or `steps_per_round`."
            )
        key_rows, key_training = jr.split(jr.fold_in(key, 1))
        judged = draw_folds(panel, key=key) == 0
        rows = np.flatnonzero(panel.is_transition & ~judged)
        chance = panel.weight[rows] / panel.weight[rows].sum()
        # imitation draws demonstrations evenly, so weights are turned into frequencies.
        if np.ptp(chance) > 0:
            rows = numpy_rng(key_rows).choice(rows, size=len(rows), p=chance)
        generator = self._train(panel, rows, seed=integer_seed(key_training))
        space, function = generator.observation_space, from_stable_baselines(generator)
        see = lambda states: _observations(states, space, panel.encoding)
        given = Given(lambda states: function.function(see(states)))
        found = given.fit(panel, key=key)
        note = f"imitation's AIRL, {rounds:,} rounds, {len(rows):,} decisions"
        return replace(found, held_out=np.where(judged, found.held_out, np.nan), note=note)

    def _train(self, panel: Panel, rows: np.ndarray, *, seed: int) -> Any:
        """The generator after training."""
        import torch  # pyright: ignore[reportMissingImports]
        from imitation.algorithms.adversarial.airl import AIRL  # pyright: ignore[reportMissingImports]
        from imitation.rewards.reward_nets import BasicShapedRewardNet  # pyright: ignore[reportMissingImports]
        from imitation.util import logger  # pyright: ignore[reportMissingImports]
        from stable_baselines3 import PPO  # pyright: ignore[reportMissingImports]
        from stable_baselines3.common.vec_env import DummyVecEnv  # pyright: ignore[reportMissingImports]

        # In this process: small environments lose more to pickling than they gain.
        envs = DummyVecEnv([self.env_factory] * self.num_envs)
        _check_spaces(envs, panel)
        torch.manual_seed(seed)
        generator = PPO(
            "MlpPolicy",
            envs,
            n_steps=self.steps_per_round,
            batch_size=min(256, self.num_envs * self.steps_per_round),
            learning_rate=self.learning_rate,
            gamma=self.discount,
            seed=seed,
            device="cpu",
        )
        reward_net = BasicShapedRewardNet(
            envs.observation_space, envs.action_space, discount_factor=self.discount
        )
        # imitation always writes logs; they go to a folder that is deleted.
        with tempfile.TemporaryDirectory() as folder:
            trainer = AIRL(
                demonstrations=_demonstrations(panel, rows, envs.observation_space),
                demo_batch_size=min(self.batch_size, len(rows)),
                venv=envs,
                gen_algo=generator,
                reward_net=reward_net,
                n_disc_updates_per_round=self.updates_per_round,
                disc_opt_kwargs={"lr": self.discriminator_rate},
                log_dir=folder,
                custom_logger=logger.configure(folder, format_strs=[]),
                allow_variable_horizon=self.variable_horizon,
            )
            # imitation's generator earns f alone. PPO's own entropy bonus is no substitute:
            # it counts the current step and not the entropy of later ones.
            if self.entropy:
                trainer.venv_train.reward_fn = _soft_reward(reward_net, generator)
            trainer.train(self.total_timesteps)
        envs.close()
        return generator


def _require_extra() -> None:
    try:
        import imitation  # noqa: F401  # pyright: ignore[reportMissingImports]
        import stable_baselines3  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError as problem:
        raise DataError(
            f"ImitationAIRL needs the package {problem.name}, which is not installed: "
            "pip install 'deeppqr[imitation]'"
        ) from problem


def _check_spaces(envs: Any, panel: Panel) -> None:
    """Refuse an environment that is not the one the panel's decisions were made in."""
    space, actions = envs.observation_space, getattr(envs.action_space, "n", None)
    if actions != panel.num_actions:
        raise DataError(
            f"The environment must have one discrete action for each of the panel's "
            f"{panel.num_actions}, {list(panel.actions)}, but it has {envs.action_space}. "
            "Name all of its actions, in its order, in the panel's `actions`."
        )
    categories = [c.name for c in panel.encoding.columns if c.kind == "categorical"]
    if categories and _is_cell(panel.encoding, space):
        return
    if categories:
        raise DataError(
            f"State columns must be numeric to be observations, but {categories[0]!r} is "
            f"categorical ({len(categories)} in all). Give it the environment's numbers."
        )
    columns = int(np.prod(space.shape)) if space.shape else 1
    if columns != panel.state.shape[1]:
        raise DataError(
            f"The environment must observe the panel's {panel.state.shape[1]} state "
            f"columns, {panel.encoding.names}, but its observations, {space}, have "
            f"{columns}."
        )


def _soft_reward(reward_net: Any, generator: Any) -> Callable[..., np.ndarray]:
    """f(s, a, s') - log pi(a|s), the logit of the discriminator."""
    import torch  # pyright: ignore[reportMissingImports]

    def reward(obs, acts, next_obs, dones) -> np.ndarray:
        actor = generator.policy
        with torch.no_grad():
            chosen = torch.as_tensor(acts, device=actor.device)
            seen, _ = actor.obs_to_tensor(obs)
            log_prob = actor.get_distribution(seen).log_prob(chosen).cpu().numpy()
        return reward_net.predict_processed(obs, acts, next_obs, dones) - log_prob

    return reward


def _demonstrations(panel: Panel, rows: np.ndarray, space: Any) -> Any:
    from imitation.data.types import Transitions  # pyright: ignore[reportMissingImports]

    # imitation needs a next state in terminal rows too; it does not enter the loss there.
    ended = panel.terminal[rows, None]
    next_state = np.where(ended, panel.state[rows], panel.next_state[rows])
    return Transitions(
        obs=_observations(panel.state[rows], space, panel.encoding),
        acts=panel.action[rows],
        infos=np.array([{}] * len(rows)),
        next_obs=_observations(next_state, space, panel.encoding),
        dones=panel.terminal[rows],
    )


def _is_cell(encoding: Encoding, space: Any) -> bool:
    """Whether the state is one category, whose labels are numbers of a Discrete space."""
    column = encoding.columns[0]
    one = len(encoding.columns) == 1 and column.kind == "categorical"
    return one and hasattr(space, "n") and all(str(c).isdigit() for c in column.categories)


def _observations(states: np.ndarray, space: Any, encoding: Encoding) -> np.ndarray:
    """Rows of state columns, or labels of cells, in the shape of the observations."""
    if _is_cell(encoding, space):
        labels = np.array([int(label) for label in encoding.columns[0].categories])
        if states.dtype.kind == "f" and states.shape[1] == len(labels) - 1:
            # The first category is the reference, so it has no indicator column.
            states = labels[(states @ np.arange(1, len(labels))).astype(np.int64)]
        states = np.asarray(states).reshape(len(states), -1)
    return states.astype(space.dtype).reshape(len(states), *space.shape)
