"""Spaces of amounts: integrals over their measure, what lies in them, and messages."""

import re

import numpy as np
import pytest
from scipy.special import erf

import deeppqr
from deeppqr import Box, Mixed

SPACES = [
    Box(0.0, 10.0),
    Box([-1.0, 0.0], [1.0, 5.0]),
    Box([0.0] * 4, [1.0, 2.0, 3.0, 4.0]),
    Mixed(atoms=[0.0], box=Box(0.0, 10.0)),
    Mixed(atoms=[[0.0, 0.0], [-3.0, 1.0]], box=Box([-1.0, 0.0], [1.0, 5.0])),
]


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_a_box_has_mass_one_and_so_has_each_atom(space):
    nodes = space.nodes()
    inside = nodes.atom < 0
    assert nodes.weight[inside].sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_array_equal(nodes.weight[~inside], 1.0)
    np.testing.assert_array_equal(nodes.atom[~inside], np.arange(len(space.points)))
    np.testing.assert_array_equal(nodes.action[~inside], space.points)
    assert space.contains(nodes.action).all()
    # Quasi-random points know the middle to about 1/n, Gauss-Legendre exactly.
    middle = nodes.weight[inside] @ space.centred(nodes.action[inside])
    tol = 1e-12 if space.dimensions <= 2 else 4 / inside.sum()
    np.testing.assert_allclose(middle, 0.0, atol=tol)


@pytest.mark.parametrize("number", [3, 7])
def test_gauss_legendre_is_exact_for_polynomials_of_twice_its_degree(number):
    nodes = Box(0.0, 2.0).nodes(number)
    for degree in range(2 * number):
        exact = 2.0**degree / (degree + 1)  # the mean of a^degree over (0, 2)
        found = nodes.weight @ nodes.action[:, 0] ** degree
        assert found == pytest.approx(exact, rel=1e-13)


def test_a_normal_density_integrates_to_its_mass_after_conversion():
    """A density per unit of the amount, times the volume, is one of the box's measure."""
    box, sd = Box(-3.0, 5.0), 0.4
    nodes = box.nodes()
    log_density = -0.5 * ((nodes.action[:, 0] - 1) / sd) ** 2 - np.log(
        sd * np.sqrt(2 * np.pi)
    )
    mass = nodes.weight @ np.exp(log_density + box.log_volume)
    assert mass == pytest.approx(erf(4 / sd / np.sqrt(2)), abs=1e-6)


def test_atoms_are_recognised_up_to_rounding_and_wherever_they_lie():
    space = Mixed(atoms=[0.1, -1.0], box=Box(0.0, 10.0))
    actions = np.array([[np.float64(np.float32(0.1))], [0.11], [-1.0], [-0.9], [10.0]])
    np.testing.assert_array_equal(space.atom_of(actions), [0, -1, 1, -1, -1])
    np.testing.assert_array_equal(space.contains(actions), [True, True, True, False, True])


def test_spaces_are_values_that_print_as_they_are_typed():
    for space in SPACES:
        again = eval_of(space)
        assert again == space
        assert hash(again) == hash(space)
    assert Box(0, 10) == Box([0.0], [10.0]) == Box(np.float32(0), np.array(10))
    assert Mixed(atoms=np.array([0]), box=Box(0, 10)) == SPACES[3]
    with pytest.raises(AttributeError):
        SPACES[0].low = 3.0  # pyright: ignore[reportAttributeAccessIssue]


def eval_of(space):
    """What typing the printed form gives; the test's own strings, nothing from outside."""
    numbers = [[float(x) for x in re.findall(r"[-\d.]+", p)] for p in brackets(space.box)]
    box = Box(*numbers) if len(numbers) == 2 else Box(*numbers[0])
    if isinstance(space, Box):
        return box
    points = re.search(r"atoms=(\[.*\]), box", repr(space))
    assert points
    flat = [float(x) for x in re.findall(r"[-\d.]+", points[1])]
    atoms = np.reshape(flat, (-1, box.dimensions))
    return Mixed(atoms=atoms[:, 0] if box.dimensions == 1 else atoms, box=box)


def brackets(box):
    inner = repr(box).removeprefix("Box(").removesuffix(")")
    return re.findall(r"\[[^]]*\]", inner) or [inner]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Box(1.0, 1.0), r"`low` of a Box must lie below `high`, but 1 is not below 1\. A"),
        (lambda: Box([0, 3], [1, 2]), r"3 is not below 2 in dimension 1\."),
        (lambda: Box([0, 0], 1), r"one number for each dimension, but `low` has 2 and `high` 1"),
        (lambda: Box("0", 1), r"`low` of a Box must be a number, or one for each dimension, but '0'"),
        (lambda: Box(True, 2), r"`low` of a Box must be a number.*True arrived"),
        (lambda: Box(0, np.inf), r"`high` of a Box must be finite, but inf.*range of the data"),
        (lambda: Box([[0]], 1), r"it has the shape \(1, 1\)"),
        (lambda: Box([], []), r"it has the shape \(0,\)"),
        (lambda: Mixed(atoms=[0.0], box=(0, 1)), r"`box` of Mixed must be a deeppqr\.Box.*\(0, 1\)"),
        (lambda: Mixed(atoms=[], box=Box(0, 1)), r"but there are none\. Without atoms pass the Box"),
        (lambda: Mixed(atoms=["none"], box=Box(0, 1)), r"`atoms` of Mixed must be a list of numbers"),
        (lambda: Mixed(atoms=[0.0, 0], box=Box(0, 1)), r"must differ.*0\.0 stands there twice"),
        (lambda: Mixed(atoms=[0.0], box=Box([0, 0], [1, 1])), r"points of 2 numbers, such as \[\[0\.0, 0\.0\]\]"),
        (lambda: Mixed(atoms=[[0, 0], [1]], box=Box([0, 0], [1, 1])), r"points of 2 numbers"),
    ],
)  # fmt: skip
def test_what_is_no_space_is_refused(make, message):
    with pytest.raises(deeppqr.DataError, match=message):
        make()
