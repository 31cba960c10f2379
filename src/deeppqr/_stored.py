"""The classes that a saved fit may consist of, registered where they are defined.

Loading a folder builds instances of these classes and of no others, so that a file cannot
make the reader run code.
"""

import re
import reprlib
from collections.abc import Callable
from dataclasses import MISSING, fields
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from jaxtyping import jaxtyped

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


def check_fields(cls: Any, values: dict[str, Any]) -> None:
    """Raise a ValueError unless the values are those that the class's annotations ask for.

    Axes of one name must have the same length in all of its arrays.
    """
    stored_fields = (entry for entry in fields(cls) if TRANSIENT not in entry.metadata)
    needed = {entry.name: entry for entry in stored_fields if entry.init}
    for name in values:
        if name not in needed:
            raise ValueError(f"{cls.__name__} has no {name!r}")
    for name, entry in needed.items():
        absent = entry.default is MISSING and entry.default_factory is MISSING
        if absent and name not in values:
            raise ValueError(f"the {name!r} of {cls.__name__} is missing")
    with jaxtyped("context"):  # pyright: ignore[reportGeneralTypeIssues]
        for name, value in values.items():
            expected: Any = needed[name].type
            # Here and not in a function: axes are compared within one call's checks.
            plain = isinstance(expected, type) and expected not in (int, float, Any)
            if not (isinstance(value, expected) if plain else _is_a(value, expected)):
                wanted = str(expected) if get_args(expected) else expected.__name__
                wanted = re.sub(r"\b(\w+\.)+", "", wanted)
                raise ValueError(
                    f"{name!r} of {cls.__name__} must be {wanted}, but it is "
                    f"{_described(value)}"
                )


def _is_a(value: Any, expected: Any) -> bool:
    """Whether a value is of an annotated type, as far as fits use them."""
    origin, inner = get_origin(expected), get_args(expected)
    if origin in (Union, UnionType):
        return any(_is_a(value, each) for each in inner)
    if origin is tuple and inner[-1:] == (...,):
        return isinstance(value, tuple) and all(_is_a(each, inner[0]) for each in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            _is_a(key, inner[0]) and _is_a(each, inner[1]) for key, each in value.items()
        )
    if origin is Literal:
        return value in inner
    if origin is Callable:
        return callable(value)
    if expected in (int, float):
        # Whole numbers may stand for others in JSON, and True is a number for Python only.
        numbers = (int, float) if expected is float else int
        return isinstance(value, numbers) and not isinstance(value, bool)
    if expected is None or expected is Any:
        return expected is Any or value is None
    return not isinstance(expected, type) or isinstance(value, expected)


def _described(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"an array of {value.dtype} with shape {value.shape}"
    return (
        reprlib.repr(value)
        if isinstance(value, (str, int, float, tuple))
        else (f"a {type(value).__name__}")
    )
