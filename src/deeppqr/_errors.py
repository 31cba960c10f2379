"""The exceptions and warnings that deeppqr raises."""


class DeepPQRError(ValueError):
    """Base of all errors that deeppqr raises for wrong input or data."""


class DataError(DeepPQRError):
    """Data or arguments are invalid; the message says which and what to do."""


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


class AdversarialWarning(UserWarning):
    """Adversarial training did not converge, or its policy is nearly deterministic."""


class NotConvergedWarning(UserWarning):
    """An iteration stopped at its maximum number of steps, above its tolerance."""
