"""What the studies of the paper's world have in common."""

import pytest


@pytest.fixture(autouse=True)
def few(few_jumps):
    """No study needs the paper's world in full."""


@pytest.fixture
def quick(monkeypatch):
    """Linear stages in place of the methods whose policies take seconds to choose."""
    from deeppqr_studies._methods import METHODS, estimate_pqr

    def linear(world, panel, seed):
        stages = {"policy": "logit", "anchor_value": "linear", "reward": "linear"}
        return estimate_pqr(world, panel, seed, **stages)

    for name in ("default", "regression"):
        monkeypatch.setitem(METHODS, name, linear)


@pytest.fixture
def small():
    """Settings of a run of seconds."""
    return {"p": [2], "scale": [5.0], "steps": 600, "units": 10, "seeds": [1]}
