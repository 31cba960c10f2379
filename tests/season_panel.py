"""Decisions by a number, a flag and a category, for the tests of figures."""

import numpy as np
import polars as pl

import deeppqr


def decisions(num_actions: int, rows: int = 1_500) -> pl.DataFrame:
    """Choices by a logit in a number, a flag and a category."""
    rng = np.random.default_rng(0)
    size, busy = rng.normal(size=rows), rng.random(rows) < 0.4
    season = rng.choice(["dry", "wet", "cold"], rows, p=[0.5, 0.3, 0.2])
    taste = np.linspace(0, 1, num_actions)
    index = np.outer(size, taste) + 0.5 * np.outer(season == "wet", taste)
    gumbel = rng.gumbel(size=(rows, num_actions))
    action = np.argmax(index - np.arange(num_actions) / num_actions + gumbel, axis=1)
    return pl.DataFrame(
        {
            "unit": np.arange(rows) // 15,
            "time": np.arange(rows) % 15,
            "size": size,
            "busy": busy,
            "season": season,
            "do": [f"act {each:02d}" for each in action],
        }
    )


def panel_of(frame: pl.DataFrame, **names) -> deeppqr.Panel:
    names = {"state": ["size", "busy", "season"], "action": "do"} | names
    return deeppqr.Panel.from_frame(frame, unit="unit", time="time", **names)
