"""The paper's hyperparameters, for `PQR.paper`: [geng2020pqr], Supplements."""

from typing import Any, NamedTuple

from . import anchor, policy, reward
from ._errors import DataError
from .learners._network import Training


class Row(NamedTuple):
    """One line of a table: Adagrad's learning rate and the number of steps."""

    learning_rate: float
    steps: int


# Learning rates and steps as printed, by data set and network.
TABLES = {
    "synthetic": {
        "policy": Row(5e-4, 600),
        "q": Row(1e-3, 1000),
        "reward": Row(1e-3, 1000),
    },
    "airline": {
        "policy": Row(1.5e-4, 1000),
        "q": Row(5e-5, 500),
        "reward": Row(1e-3, 1000),
    },
}
# Minibatches of 1,024 rows in one pass: over 50,000 steps, over a carrier's 3,540 rows.
PASS_STEPS = {"synthetic": 50, "airline": 4}


def paper_stages(study: str, reading: str, progress: float = 1.0) -> dict[str, Any]:
    """The three stages of `PQR.paper`, trained for all printed steps or a share of them.

    `progress` is that share. Adagrad's rate is constant, minibatches are drawn by their
    number, and the last step is kept, so a share of the steps is exactly the beginning of
    the whole training.
    """
    if study not in TABLES:
        raise DataError(f"`study` must be one of {sorted(TABLES)}, but it is {study!r}.")
    if reading not in ("steps", "epochs"):
        raise DataError(f'`reading` must be "steps" or "epochs", but it is {reading!r}.')
    if not 0 < progress <= 1:
        raise DataError(f"`progress` must be above 0 and at most 1, not {progress!r}.")
    table = TABLES[study]
    factor = 1 if reading == "steps" else PASS_STEPS[study]
    # Read as steps, FQI-I's targets are recomputed every 10 of them: 100 rounds on the
    # synthetic data. Read as epochs, once in each pass.
    between = 10 if reading == "steps" else PASS_STEPS[study]

    def looks(row: Row) -> int:
        return max(1, round(progress * row.steps * factor / between))

    def training(row: Row, **changes) -> Training:
        return Training(
            members=1,
            optimiser="adagrad",
            learning_rate=row.learning_rate,
            max_steps=looks(row) * between,
            check_every=between,
            **changes,
        )

    return {
        "policy": policy.AIRL(training(table["policy"])),
        "anchor_value": anchor.Fitted(
            training=training(table["q"], early_stopping=False),
            max_rounds=looks(table["q"]),
        ),
        "reward": reward.Network(training(table["reward"], early_stopping=False)),
    }
