"""The exceptions and warnings that deeppqr raises."""

from typing import Any


class DeepPQRError(ValueError):
    """Base of all errors that deeppqr raises for wrong input or data."""


class DataError(DeepPQRError):
    """Data or arguments are invalid; the message says which and what to do."""


class BadRows(DataError):
    """Some rows cannot be used; `rows` is a mask of them, for callers that can go on
    without."""

    def __init__(self, message: str, rows: Any):
        super().__init__(message)
        self.rows = rows


class AnchorNeverTaken(DeepPQRError):
    """The anchor never occurs where it is needed, so the reward is not identified."""


class ActionNeverTaken(DeepPQRError):
    """An action occurs in no row, so its reward is not identified."""


class NoInfluenceFunction(DataError):
    """A fit has no closed-form influence function; use the bootstrap."""


class StorageError(DeepPQRError):
    """A saved fit cannot be written or read."""


class WeakOverlapWarning(UserWarning):
    """The anchor is so rare that log pi(anchor) is estimated from few rows."""


class AbsorbingStateWarning(UserWarning):
    """A state of a known law is never left, and nothing says that it is an end."""


class RoundedTransitionWarning(UserWarning):
    """Rows of a known law miss one by as little as rounding would make them."""


class NotConvergedWarning(UserWarning):
    """An iteration stopped above its tolerance, or adversarial training did not settle."""


class DataWarning(UserWarning):
    """The data have something that is rarely meant, such as copied units."""
