"""Features by formula: the right-hand side as statisticians write it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._errors import DataError
from .._shapes import States
from ..panel._encoding import Encoding


class FormulaColumns:
    """The columns of one formula at any states.

    What a term learns, such as knots of a spline or a mean to subtract, it learns on the
    states given first. A formula may call functions, so it is code: take none from others.
    """

    def __init__(self, text: str, encoding: Encoding, state: States):
        import formulaic  # with pandas half a second: only for who writes a formula

        self._text, self._encoding = text, encoding
        if "~" in text:
            raise DataError(
                f"A formula of features has a right-hand side only, but {text!r} has a "
                f"`~`: write {text.partition('~')[2].strip()!r}."
            )
        self._spec = None
        self._materialise = formulaic.model_matrix
        self._spec = self._made(state).model_spec

    @property
    def names(self) -> list[str]:
        assert self._spec is not None
        names = map(str, self._spec.column_names)
        return ["1" if name == "Intercept" else name for name in names]

    def __call__(self, state: States) -> np.ndarray:
        found = np.asarray(self._made(state), dtype=np.float64)
        if not np.isfinite(found).all():
            row, column = np.argwhere(~np.isfinite(found))[0]
            raise DataError(
                f"The term {self.names[column]!r} of the formula {self._text!r} must be "
                f"finite, but it is {found[row, column]} at the state "
                f"{self._encoding.decode(state[row : row + 1])[0].tolist()} "
                f"({int((~np.isfinite(found)).any(axis=1).sum())} states in all)."
            )
        return found

    def _made(self, state: States) -> Any:
        try:
            with np.errstate(all="ignore"):
                return self._materialise(
                    self._text if self._spec is None else self._spec,
                    self._frame(state),
                    na_action="ignore",
                    context={},  # no names but the columns' and the library's transforms
                )
        except Exception as problem:
            raise DataError(
                f"The formula {self._text!r} cannot be read with the state columns "
                f"{self._encoding.names}: {type(problem).__name__}: "
                f"{str(problem).strip().splitlines()[0] if str(problem).strip() else ''}. "
                'Write, say, "x + x**2", "C(town)" or "bs(x, df=4)".'
            ) from problem

    def _frame(self, state: States) -> Any:
        import pandas as pd

        columns: dict[str, Any] = {}
        values = self._encoding.decode(state)
        for spec, column in zip(self._encoding.columns, values.T, strict=True):
            if spec.kind == "categorical":
                # All levels, so that the columns are the same wherever it is evaluated.
                columns[spec.name] = pd.Categorical(column, categories=spec.categories)
            else:
                columns[spec.name] = column.astype(np.float64)
        return pd.DataFrame(columns)


def is_formula(features: Any) -> bool:
    """Whether features are given by formula: for all actions, or one for each."""
    if isinstance(features, Mapping):
        return bool(features) and all(isinstance(each, str) for each in features.values())
    return isinstance(features, str)
