"""Panels of amounts: read, kept exactly, round trips, bins, and messages."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import deeppqr
from deeppqr import Box, Mixed, Panel

UNIT, MIXED = Box(0.0, 10.0), Mixed(atoms=[0.0], box=Box(0.0, 10.0))
ROLES: dict[str, Any] = {"state": "x", "action": "dose", "unit": "id", "time": "t"}


def amounts(panel: Panel) -> np.ndarray:
    assert panel.amount is not None
    return panel.amount


@pytest.fixture
def frame(rng):
    """Ten units of fifty decisions: nothing in three of ten, else between 0 and 10."""
    amount = rng.uniform(0, 10, 500)
    return pl.DataFrame(
        {
            "id": np.repeat(np.arange(10), 50),
            "t": np.tile(np.arange(50), 10),
            "x": rng.normal(size=500),
            "dose": np.where(rng.random(500) < 0.3, 0.0, amount),
            "torque": rng.uniform(-1, 1, 500),
        }
    )


def test_amounts_are_kept_as_they_are(frame):
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=3)
    panel = Panel.from_frame(shuffled, actions=MIXED, **ROLES)
    np.testing.assert_array_equal(amounts(panel)[:, 0], frame["dose"].to_numpy())
    assert panel.space == MIXED
    assert "actions Mixed(atoms=[0.0], box=Box(0.0, 10.0))" in repr(panel)
    # The grid: the atom for what is one, and otherwise the nearest.
    grid = np.array(panel.actions)
    np.testing.assert_array_equal(grid, np.arange(11.0))
    assert (np.abs(grid[panel.action] - amounts(panel)[:, 0]) <= 1.0).all()
    np.testing.assert_array_equal(panel.action == 0, amounts(panel)[:, 0] == 0)


def test_several_columns_are_one_action(frame):
    box = Box([-0.1, -1.0], [10.0, 1.0])
    noisy = frame.with_columns(dose=pl.col("dose") - pl.Series(np.linspace(0, 0.09, 500)))
    both = Panel.from_frame(noisy, actions=box, **{**ROLES, "action": ["dose", "torque"]})
    columns = noisy.select("dose", "torque").to_numpy()
    np.testing.assert_array_equal(amounts(both), columns)
    swapped = Panel.from_frame(
        noisy,
        actions=Box([-1.0, -0.1], [1.0, 10.0]),
        **{**ROLES, "action": ["torque", "dose"]},
    )
    np.testing.assert_array_equal(amounts(swapped), columns[:, ::-1])


def test_round_trips_through_frames_and_files_keep_the_decisions(frame, tmp_path):
    panel = Panel.from_frame(frame, actions=MIXED, **ROLES)
    named = {"state": "x", "action": "action", "unit": "unit", "time": "time"}
    again = Panel.from_frame(panel.to_frame(), actions=MIXED, **named)
    assert again.digest == panel.digest
    panel.to_frame().write_parquet(tmp_path / "decisions.parquet")
    frame.write_csv(tmp_path / "decisions.csv")
    stored = Panel.from_file(tmp_path / "decisions.parquet", actions=MIXED, **named)
    text = Panel.from_file(tmp_path / "decisions.csv", actions=MIXED, **ROLES)
    assert stored.digest == text.digest == panel.digest
    # The checksum is of the amounts, and not of where they lie in the grid.
    moved = frame.with_columns(dose=pl.col("dose") * 0.999)
    assert Panel.from_frame(moved, actions=MIXED, **ROLES).digest != panel.digest


def test_selected_rows_take_their_amounts_along(frame):
    panel = Panel.from_frame(frame, actions=MIXED, **ROLES)
    rows = panel.unit >= 7
    part = panel.select(rows)
    np.testing.assert_array_equal(amounts(part), amounts(panel)[rows])
    assert part.num_units == 3


def test_arrays_and_trajectories_are_read_alike(frame):
    panel = Panel.from_frame(frame, actions=MIXED, **ROLES)
    arrays = Panel.from_arrays(
        panel.state, frame["dose"], panel.next_state, unit=panel.unit, actions=MIXED
    )
    paths = [
        (part["x"].to_numpy(), part["dose"].to_numpy()[:, None])
        for part in frame.partition_by("id", maintain_order=True)
    ]
    walked = Panel.from_trajectories(paths, actions=MIXED)
    np.testing.assert_array_equal(amounts(arrays), amounts(panel))
    np.testing.assert_array_equal(amounts(walked), amounts(panel))
    np.testing.assert_array_equal(walked.next_state, panel.next_state)


class Space(SimpleNamespace):
    """Stands for a Gymnasium space of the same name."""


def spaces(kind, **fields):
    return type(kind, (Space,), {})(**fields)


def episodes(rng, action_space, act):
    made = [
        SimpleNamespace(
            observations=rng.normal(size=(41, 2)),
            actions=act(rng),
            terminations=np.zeros(40, dtype=bool),
        )
        for _ in range(3)
    ]
    return SimpleNamespace(action_space=action_space, iterate_episodes=lambda: iter(made))


def test_boxes_of_recorded_environments_are_the_space(rng):
    torque = spaces("Box", low=np.array([-2], np.float32), high=np.array([2], np.float32))
    act = lambda rng: rng.uniform(-2, 2, (40, 1)).astype(np.float32)
    panel = Panel.from_minari(episodes(rng, torque, act))
    assert panel.space == Box(-2.0, 2.0)
    assert amounts(panel).shape == (120, 1)

    grip = spaces(
        "Box", low=np.array([0, 0], np.float32), high=np.array([1, 3], np.float32)
    )
    both = spaces("Dict", spaces={"turn": torque, "grip": grip})
    acts = lambda rng: {"turn": act(rng), "grip": rng.uniform(0, 1, (40, 2))}
    panel = Panel.from_minari(episodes(rng, both, acts))
    assert panel.space == Box([-2.0, 0.0, 0.0], [2.0, 1.0, 3.0])
    with pytest.raises(deeppqr.DataError, match=r"`action_space` has no bounds.*range of"):
        Panel.from_minari(episodes(rng, spaces("Box", low=-np.inf, high=np.inf), act))
    mixed = spaces("Dict", spaces={"do": spaces("Discrete", n=2), "turn": torque})
    with pytest.raises(deeppqr.DataError, match=r"a Dict of Boxes.*deeppqr\.Mixed"):
        Panel.from_minari(episodes(rng, mixed, acts))


def test_bins_group_amounts_and_leave_atoms(frame):
    panel = Panel.from_frame(frame, actions=MIXED, **ROLES)
    grouped = panel.binned(5)
    assert grouped.actions == (0.0, 1.0, 3.0, 5.0, 7.0, 9.0)
    assert grouped.space is None
    middle = np.array(grouped.actions)[grouped.action]
    inside = amounts(panel)[:, 0] > 0
    assert (np.abs(middle - amounts(panel)[:, 0])[inside] <= 1.0).all()
    with pytest.raises(
        deeppqr.DataError, match=r"amounts in one dimension, but.*finitely many"
    ):
        grouped.binned(5)
    with pytest.raises(deeppqr.DataError, match=r"`number` of bins must be 2 or more"):
        panel.binned(1)


def changed(frame, **columns):
    return frame.with_columns(**{name: pl.Series(v) for name, v in columns.items()})


@pytest.mark.parametrize(
    ("change", "actions", "message"),
    [
        ({}, Mixed(atoms=[0.0], box=Box(0, 8)), r"`action` must lie in Mixed.*row 4 \(unit 0, time 4\) has \d\.\d+ \(\d+ rows in all\)\. The actions go from 0\.0 to 9\.\d+: widen"),
        ({}, UNIT, r"no room for a value that is taken again and again, but 0\.0 .* 31\.0% \(1 such value.*Mixed\(atoms=\[0\.0\], box=Box\(0\.0, 10\.0\)\)"),
        ({}, Mixed(atoms=[0.0, 5.0], box=Box(0, 10)), r"An atom must be taken often, but 5\.0 is the action of 0 rows among 500.*leave it out of `atoms`, as amounts"),
        ({}, Mixed(atoms=[0.0, -1.0], box=Box(0, 10)), r"-1\.0 is the action of 0 rows"),
        ({}, Box([0, 0], [1, 1]), r"a column for each dimension of its space, 2 of .*but it has 1\."),
        ({}, None, r"346 different labels in 500 rows.*say between which bounds: actions=deeppqr\.Box\(0\.0, 9\.97"),
        ({"dose": [2.0] * 500}, UNIT, r"Every row takes the same action, 2\.0\."),
        ({"dose": [0.0, 4.0] * 250}, MIXED, r"'dose' must vary, but it is 4\.0 in all 250 rows that take no atom"),
        ({"dose": [1.0, 4.0] * 250}, UNIT, r"nearly all rows take one of 2 values.*leave out `actions`"),
        ({"dose": ["none", "3"] * 250}, UNIT, r"Action column 'dose' must hold numbers, as `actions` is a Box, but row 0 .* has 'none' \(500 rows.*Mixed\(atoms"),
        ({"dose": [None] + [1.0] * 499}, UNIT, r"Action column 'dose' must not be missing, but row 0"),
        ({"dose": [np.inf] + [1.0] * 499}, UNIT, r"Action column 'dose' must be finite, but row 0 \(unit 0, time 0\) has inf"),
        ({"dose": [True, False] * 250}, UNIT, r"'dose' must hold numbers.*True"),
    ],
)  # fmt: skip
def test_actions_that_are_no_amounts_of_the_space_are_refused(
    frame, change, actions, message
):
    with pytest.raises(deeppqr.DataError, match=message):
        Panel.from_frame(changed(frame, **change), actions=actions, **ROLES)


def test_columns_of_an_action_are_named_well_or_refused(frame):
    box = Box([0, -1], [10, 1])
    for action, message in [
        (
            ["dose", "dose"],
            r"`action` must name different columns, but 'dose' stands twice",
        ),
        (["dose", "x"], r"`state` must not name the column of `action`, but 'x' is both"),
        (["dose", "torqe"], r"no such column.*Did you mean 'torque'"),
    ]:
        with pytest.raises(deeppqr.DataError, match=message):
            Panel.from_frame(frame, actions=box, **{**ROLES, "action": action})
    with pytest.raises(
        deeppqr.DataError, match=r"one column of labels.*deeppqr\.Box\(\[\.\.\.\]"
    ):
        Panel.from_frame(frame, **{**ROLES, "action": ["dose", "torque"]})
