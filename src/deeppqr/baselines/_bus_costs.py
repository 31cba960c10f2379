"""Rust's cost functions of mileage, as linear rewards."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from .._errors import DataError
from .._shapes import States
from ._structural import LinearReward

# The parameters of c(x) by form; RC comes before them.
FORMS = {
    "linear": ("theta11",),
    "square root": ("theta11",),
    "quadratic": ("theta11", "theta12"),
    "cubic": ("theta11", "theta12", "theta13"),
    "hyperbolic": ("theta11",),
}


def bus_costs(
    form: str = "linear",
    *,
    bins: int = 90,
    first: int = 0,
    keep_column: int = 0,
    fixed: Mapping[str, float] | None = None,
) -> LinearReward:
    r"""The reward of Rust's model: running costs c(x), or a new engine's price RC.

    $$r(x, \text{keep}) = -c(x; \theta_1), \qquad
    r(x, \text{replace}) = -RC - c(1; \theta_1),$$
    with x counted from 1 to `bins` and
    linear $c = 0.001\,\theta_{11} x$; square root $0.01\,\theta_{11}\sqrt{x}$; quadratic
    $0.001\,\theta_{11} x + 10^{-5}\,\theta_{12} x^2$; cubic with $10^{-7}\,\theta_{13} x^3$
    besides; hyperbolic $0.1\,\theta_{11} / (91 - x)$, where 91 is one more than `bins`.
    The powers of x are measured from the first bin, where they are zero.

    Parameters
    ----------
    form
        One of `"linear"`, `"square root"`, `"quadratic"`, `"cubic"`, `"hyperbolic"`.
    bins, first
        The states are the `bins` whole numbers from `first`.
    keep_column
        Which of the panel's two actions is to keep.
    fixed
        Parameters that are known, by name, such as {"RC": 5.0}.

    References
    ----------
    [rust1987], Table VIII.
    """
    if form not in FORMS:
        raise DataError(f"`form` must be one of {list(FORMS)}, but it is {form!r}.")
    features = BusFeatures(form, bins, first, keep_column)
    return LinearReward(("RC", *FORMS[form]), features, fixed=dict(fixed or {}))


@dataclass(frozen=True)
class BusFeatures:
    """Minus the costs that each parameter multiplies, for keeping and for replacing."""

    form: str
    bins: int
    first: int
    keep_column: int

    def __call__(self, states: States) -> Float[np.ndarray, "row action feature"]:
        # Bins from zero, wherever the panel's numbers begin.
        bin_number = states[:, 0] - self.first
        cost = self._cost(bin_number)
        features = np.zeros((len(states), 2, 1 + cost.shape[1]))
        replace_column = 1 - self.keep_column
        features[:, self.keep_column, 1:] = -cost
        features[:, replace_column, 0] = -1.0
        # A new engine is driven at once and has the running costs of the first bin.
        features[:, replace_column, 1:] = -self._cost(np.zeros(1))
        return features

    def _cost(self, bin_number: np.ndarray) -> Float[np.ndarray, "row feature"]:
        if self.form == "square root":
            return 0.01 * np.sqrt(bin_number + 1)[:, None]
        if self.form == "hyperbolic":
            return 0.1 / (self.bins - bin_number)[:, None]
        # 0.001 x, 1e-5 x^2, 1e-7 x^3: Rust's scaling, so that thetas are printed alike.
        degrees = range(1, len(FORMS[self.form]) + 1)
        powers = [10.0 ** -(1 + 2 * degree) * bin_number**degree for degree in degrees]
        return np.stack(powers, axis=1)
