"""What can go wrong, as types a caller can catch, filter and cite."""


class DeepPQRError(ValueError):
    """Base of every error raised on purpose; its message is meant for a person."""


class DataError(DeepPQRError):
    """The decisions, states or options handed in are not what they should be."""


class AnchorNeverTaken(DeepPQRError):
    """The anchor action never occurs where it is needed: nothing pins the reward down."""


class ActionNeverTaken(DeepPQRError):
    """An action occurs in no row: its reward is not identified."""


class NoInfluenceFunction(DataError):
    """A fit has no closed-form influence function: bootstrap it instead."""


class StorageError(DeepPQRError):
    """A model folder cannot be written, or is not one that can be read."""


class WeakOverlapWarning(UserWarning):
    """The anchor is so rare in places that log pi(anchor) is hard to learn there."""


class AdversarialWarning(UserWarning):
    """Adversarial training went wrong in one of its usual ways."""


class NotConvergedWarning(UserWarning):
    """An iteration stopped before the residual it was asked for."""
