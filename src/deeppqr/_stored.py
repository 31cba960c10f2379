"""The classes that a saved fit may consist of, registered where they are defined.

Loading a folder builds instances of these classes and of no others, so that a file cannot
make the reader run code.
"""

from typing import TypeVar

# Metadata of a field that holds a user's function, which no folder stores: the argument of
# `deeppqr.load` that gives it back.
ROLE = "load_argument"
# Metadata of a field that is not stored and has its default after loading.
TRANSIENT = "transient"

Class = TypeVar("Class", bound=type)
_CLASSES: dict[str, type] = {}


def stored(cls: Class) -> Class:
    """Let instances of a dataclass be part of a saved fit, under the class's name."""
    # The same module may register twice, when it is reloaded or a dataclass is rebuilt.
    known = _CLASSES.setdefault(cls.__name__, cls)
    if known.__module__ != cls.__module__:
        raise TypeError(
            f"Two stored classes are called {cls.__name__}, in {known.__module__} and "
            f"{cls.__module__}; a folder could not tell them apart."
        )
    _CLASSES[cls.__name__] = cls
    return cls


def is_stored(cls: type) -> bool:
    """Whether this very class is registered, not only one of the same name."""
    return _CLASSES.get(cls.__name__) is cls


def find_stored(name: str) -> type | None:
    """The class of this name, if there is one."""
    return _CLASSES.get(name)
