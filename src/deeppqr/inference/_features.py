"""Features that a reward is projected on: a function, or terms in state columns."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from .._errors import DataError, DeepPQRError
from .._shapes import PerRow, States
from ..learners._scaling import Scaling
from ..panel._encoding import Encoding
from ..reward._given_basis import GivenBasis
from ._formula import FormulaColumns, is_formula

# Columns beyond the features that the specification test uses: more would spread its power
# over directions that are rarely wrong. The projections of tests/pinned have fewer.
MAX_EXTRAS = 20


class Features(NamedTuple):
    """Named features of each state and action; zero for the anchor."""

    names: tuple[str, ...]
    columns: Callable[[np.ndarray], np.ndarray]
    """Encoded states to (row, action, feature)."""

    def at(self, state, action) -> Float[np.ndarray, "row feature"]:
        """The features of each state with its own action."""
        return self.columns(state)[np.arange(len(state)), action]


def resolve_features(
    features: Any,
    names: Sequence[str] | None,
    encoding: Encoding,
    actions: tuple[Any, ...],
    anchor: int,
    state: States | None = None,
) -> Features:
    """The features behind what the user passed; the anchor's are zero.

    `state` is what a formula learns its knots and levels from.
    """
    if callable(features):
        return _given(features, names, encoding, actions, anchor)
    others = [index for index in range(len(actions)) if index != anchor]
    if isinstance(features, Mapping):
        unknown = [label for label in features if label not in actions]
        missing = [actions[index] for index in others if actions[index] not in features]
        if unknown or missing or actions[anchor] in features:
            raise DataError(
                "`features` by action must name every action but the anchor, "
                f"{[actions[index] for index in others]}, but it names {list(features)}."
            )
        by_action = [(index, features[actions[index]]) for index in others]
        if is_formula(features) and state is not None:
            return _by_formula(by_action, names, encoding, actions, state)
        # Python would take a text for a list of letters.
        is_list = lambda given: isinstance(given, Sequence) and not isinstance(given, str)
        text = next((given for _, given in by_action if not is_list(given)), None)
        if text is not None:
            raise DataError(
                "`features` by action must hold lists of terms, such as "
                f"[{text!r}], but {text!r} arrived."
            )
    elif is_formula(features) and state is not None:
        by_action = [(index, features) for index in others]
        return _by_formula(by_action, names, encoding, actions, state)
    elif isinstance(features, Sequence) and not isinstance(features, str):
        by_action = [(index, features) for index in others]
    else:
        raise DataError(
            "`features` must be a list of state columns such as "
            f"{['1', *encoding.names[:2]]}, a formula, a dict of either by action, or a "
            f"function of the states, but {features!r} arrived."
        )
    terms = [
        (index, term)
        for index, given in by_action
        for each in given
        for term in _levels(each, encoding)
    ]
    if not terms:
        raise DataError("`features` must hold at least one feature, but it is empty.")
    factors = [_factors(term, encoding) for _, term in terms]
    many = len(others) > 1
    own = [f"{actions[index]}: {term}" if many else str(term) for index, term in terms]

    def columns(state: np.ndarray) -> np.ndarray:
        found = np.zeros((len(state), len(actions), len(terms)))
        for number, ((index, _), powers) in enumerate(zip(terms, factors, strict=True)):
            found[:, index, number] = np.prod(state[:, powers], axis=1)
        return found

    return Features(_named(names, own), columns)


def _by_formula(by_action, names, encoding: Encoding, actions, state: States) -> Features:
    """The columns of a formula for each action but the anchor."""
    made = {text: FormulaColumns(text, encoding, state) for _, text in by_action}
    many, own = len(by_action) > 1, []
    for index, text in by_action:
        own += [f"{actions[index]}: {n}" if many else n for n in made[text].names]

    def columns(state: np.ndarray) -> np.ndarray:
        found, at = np.zeros((len(state), len(actions), len(own))), 0
        values = {text: each(state) for text, each in made.items()}
        for index, text in by_action:
            found[:, index, at : at + values[text].shape[1]] = values[text]
            at += values[text].shape[1]
        return found

    return Features(_named(names, own), columns)


def _given(function, names, encoding, actions, anchor: int) -> Features:
    """A user's function of the states, checked at every call."""
    basis = GivenBasis(function, encoding, anchor, len(actions))
    own = None if names is None else tuple(names)
    if own is None:
        probe = np.zeros((1, len(encoding.feature_names)))
        own = tuple(f"theta{i + 1}" for i in range(_asked(basis, probe).shape[2]))

    def columns(state: np.ndarray) -> np.ndarray:
        found = _asked(basis, state)
        if found.shape[2] != len(own):
            raise DataError(
                f"`names` must name each of the {found.shape[2]} features that the "
                f"function returns, but there are {len(own)}: {list(own)}."
            )
        return found

    return Features(own, columns)


def _asked(basis: GivenBasis, state: States) -> np.ndarray:
    """What the user's function gives, its own errors in words."""
    try:
        return basis.design(state)
    except DeepPQRError:
        raise
    except Exception as problem:
        raise DataError(
            f"The function passed as `features` failed with {type(problem).__name__}: "
            f"{str(problem).rstrip('.')}. It is given an array of {len(state)} states with "
            f"the columns {basis.encoding.names} and returns an array (row, action, "
            "feature)."
        ) from problem


def _levels(term: Any, encoding: Encoding) -> list[Any]:
    """A term with its categories spelt out: "town" is "town=south", "town=west".

    The first level is the base, as everywhere, and has no feature of its own.
    """
    if not isinstance(term, str) or term in encoding.feature_names:
        return [term]
    levels = {c.name: c.feature_names for c in encoding.columns if c.kind == "categorical"}
    if term in levels:
        return levels[term]
    factors = [factor.strip() for factor in term.split("*")]
    if not any(factor in levels for factor in factors):
        return [term]
    return [" * ".join(each) for each in product(*(levels.get(f, [f]) for f in factors))]


def _factors(term: Any, encoding: Encoding) -> list[int]:
    """Encoded columns whose product a term is: "1", "x", "x^2", "x * y"."""
    if term == "1" or (isinstance(term, (int, float)) and term == 1):
        return []
    # Before it is split at "*": a column's own name may contain one.
    if term in encoding.feature_names:
        return [encoding.feature_names.index(term)]
    found = []
    for factor in str(term).split("*"):
        name, _, power = factor.strip().partition("^")
        times = int(power) if power.strip().isdigit() else 0 if power else 1
        if name.strip() not in encoding.feature_names or times < 1:
            raise DataError(
                f'The feature {term!r} must be "1" (a constant), one of the state columns '
                f"{encoding.feature_names}, or a product or power of these such as "
                f'"{encoding.feature_names[0]}^2". A category by its own name stands for '
                "all its levels but the first."
            )
        found += [encoding.feature_names.index(name.strip())] * times
    return found


def _named(names: Sequence[str] | None, own: list[str]) -> tuple[str, ...]:
    if names is None:
        return tuple(own)
    if len(names) != len(own):
        raise DataError(
            f"`names` must name each of the {len(own)} features {own}, but there are "
            f"{len(names)}: {list(names)}."
        )
    return tuple(names)


def with_extras(
    features: Features, state: States, action: np.ndarray, weight: PerRow
) -> Float[np.ndarray, "row column"]:
    """The features of each row, and simple columns beyond them that a test can use.

    Constants, then states, squares and products of each action, as many as are not
    combinations of what is there already, up to twenty.
    """
    own = features.at(state, action)
    standard = Scaling.of(state)(state)
    width = standard.shape[1]
    shapes = [np.ones(len(state)), *standard.T]
    shapes += [standard[:, i] * standard[:, j] for i in range(width) for j in range(i + 1)]
    kept, root = own, np.sqrt(weight)[:, None]
    basis = np.linalg.qr(own * root)[0]
    for shape in shapes:
        for index in np.unique(action):
            if kept.shape[1] - own.shape[1] >= MAX_EXTRAS:
                return kept
            column = (shape * (action == index))[:, None]
            scaled = column * root
            # Gram-Schmidt, twice: once loses orthogonality where a column is nearly a
            # combination of the others.
            left = scaled - basis @ (basis.T @ scaled)
            left -= basis @ (basis.T @ left)
            size = np.linalg.norm(left)
            if size > 1e-6 * np.linalg.norm(scaled):
                kept = np.column_stack([kept, column])
                basis = np.column_stack([basis, left / size])
    return kept
