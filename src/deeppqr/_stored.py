"""Which classes a saved fit may be made of: each says so where it is defined.

Reading a folder builds instances of these classes and of nothing else, so that no file can
name code to run.
"""

from typing import TypeVar

ROLE = "load_argument"
"""Metadata of a field that holds a user's function, which no folder stores: the argument of
`deeppqr.load` that gives it back."""
TRANSIENT = "transient"
"""Metadata of a field that is not stored and has its default after loading."""

Class = TypeVar("Class", bound=type)
_CLASSES: dict[str, type] = {}


def stored(cls: Class) -> Class:
    """Let instances of a dataclass be part of a saved fit, under the class's name."""
    known = _CLASSES.setdefault(cls.__name__, cls)
    if known.__module__ != cls.__module__:
        raise TypeError(
            f"Two stored classes are called {cls.__name__}, in {known.__module__} and "
            f"{cls.__module__}; a folder could not tell them apart."
        )
    _CLASSES[cls.__name__] = cls
    return cls


def is_stored(cls: type) -> bool:
    """Whether a class is one of these; another class of the same name is not."""
    return _CLASSES.get(cls.__name__) is cls


def find_stored(name: str) -> type | None:
    """The class of this name, if there is one."""
    return _CLASSES.get(name)
