"""Slow and obvious versions of what the library does fast."""

import numpy as np


def value_iteration(reward, transition, discount, temperature, sweeps):
    """The soft Bellman operator, applied over and over, state by state."""
    num_states, num_actions = reward.shape
    value = np.zeros(num_states)
    for _ in range(sweeps):
        updated = np.empty(num_states)
        for s in range(num_states):
            q = [
                reward[s, a] + discount * sum(transition[s, a] * value)
                for a in range(num_actions)
            ]
            top = max(q)
            total = sum(np.exp((x - top) / temperature) for x in q)
            updated[s] = top + temperature * np.log(total)
        value = updated
    return value


def paper_reward(state, action, omega, scale):
    """The printed reward of the paper's world for one state and action."""
    p = len(state)
    features = np.append(np.asarray(state) / p, action / 4)
    return scale * action * np.tanh(features @ omega) / (4 * omega.sum())


def frequency_table(panel, num_states):
    """Action shares by counting, one row at a time."""
    count = np.zeros((num_states, panel.num_actions))
    for state, action in zip(panel.state[:, 0], panel.action, strict=True):
        count[int(state), action] += 1
    return count / count.sum(axis=1, keepdims=True)


def empirical_transition(panel, num_states):
    """Transition shares by counting, one row at a time."""
    count = np.zeros((num_states, panel.num_actions, num_states))
    rows = zip(panel.state[:, 0], panel.action, panel.next_state[:, 0], strict=True)
    for state, action, after in rows:
        count[int(state), action, int(after)] += 1
    return count / count.sum(axis=2, keepdims=True)


def policy_value(mdp, log_policy):
    """The value of following a policy forever, its entropy counted, by dense algebra."""
    policy = np.exp(log_policy)
    flow = (policy * (mdp.reward - mdp.temperature * log_policy)).sum(axis=1)
    moves = np.einsum("sa,sat->st", policy, mdp.transition)
    return np.linalg.solve(np.eye(len(flow)) - mdp.discount * moves, flow)
