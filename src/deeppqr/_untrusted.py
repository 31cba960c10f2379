"""Reads what may have been damaged or made up, and refuses it before it costs anything.

Every refusal is a ValueError that completes the sentence "it is damaged: ...".
"""

import json
import math
from pathlib import Path
from struct import error as StructError
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import numpy as np

MAX_JSON = (
    2**26
)  # bytes; the largest tree of the tests has 60 kB, one of many labels a few MB
MAX_INTEGER = 2**63  # the arrays' integers have as many bits; larger ones are no float
# How many times its size a sparse array may take when it is read: zeros and small whole
# numbers shrink to a tenth. Deflate could reach a thousand.
MAX_RATIO = 20


def read_json(path: Path) -> Any:
    """What is in a JSON file, if it is standard JSON of a reasonable size and depth."""
    size = path.stat().st_size
    if size > MAX_JSON:
        raise ValueError(f"it has {size:,} bytes, and at most {MAX_JSON:,} are read")
    try:
        text = path.read_text(encoding="utf-8")
        return json.loads(
            text, parse_constant=_refused, parse_float=_finite, parse_int=_short
        )
    except RecursionError:
        raise ValueError("its lists are nested too deeply") from None
    except json.JSONDecodeError as problem:
        raise ValueError(f"it is no JSON ({problem})") from None
    except UnicodeDecodeError as problem:
        raise ValueError(f"byte {problem.start} is no text in UTF-8") from None


def _refused(text: str) -> float:
    raise ValueError(f"it holds {text}, which is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refused(text)


def _short(text: str) -> int:
    # Python refuses to convert more than 4,300 digits, with advice for programmers.
    if len(text) > 20 or abs(int(text)) >= MAX_INTEGER:
        raise ValueError(f"it holds a whole number of {len(text)} digits")
    return int(text)


def check_archive(path: Path) -> None:
    """Raise unless reading a skops file takes about as much memory as the file has bytes.

    Nothing is inflated for it: skops does not compress, so that what is compressed was
    made by another program.
    """
    try:
        with ZipFile(path) as archive:
            _check_entries(archive, path.stat().st_size, compressed=False)
            _check_mentions(archive, path.stat().st_size)
    # The parser's errors on damaged files are of many kinds.
    except (
        *(BadZipFile, OSError, EOFError, KeyError),
        *(NotImplementedError, RuntimeError, StructError),
    ) as problem:
        raise ValueError(f"it is no archive that can be read ({problem})") from problem


def _check_entries(archive: ZipFile, size: int, *, compressed: bool) -> None:
    claimed = 0
    for entry in archive.infolist():
        if not compressed and entry.compress_type != ZIP_STORED:
            raise ValueError(f"{entry.filename} in it is compressed; nothing was inflated")
        claimed += entry.file_size
        # Entries may also share their bytes.
        if claimed > size * (MAX_RATIO if compressed else 1):
            raise ValueError(
                f"what is in it would take {claimed:,} bytes or more, but the file has "
                f"{size:,}; nothing was inflated"
            )
        with archive.open(entry) as file:
            # By its first bytes, as the reader will do, and not by its name.
            start = file.read(4)
            file.seek(0)
            if start == b"\x93NUM":
                _check_array(file, entry.filename, entry.file_size)
            elif start[:2] == b"PK":  # a sparse array is an archive in the archive
                with ZipFile(file) as inner:
                    _check_entries(inner, entry.file_size, compressed=True)


def _check_mentions(archive: ZipFile, size: int) -> None:
    """Raise if arrays are to be read so often that many copies of them would be made."""
    sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
    schema, claimed = json.loads(archive.read("schema.json")), 0
    if not isinstance(schema, dict):
        raise ValueError("schema.json in it is no description of an estimator")
    left: list[Any] = [schema]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            name = node.get("file")
            claimed += sizes.get(name, 0) if isinstance(name, str) else 0
        left += (
            node.values()
            if isinstance(node, dict)
            else node
            if isinstance(node, list)
            else []
        )
    if claimed > size * MAX_RATIO:
        raise ValueError(
            f"it asks for {claimed:,} bytes of arrays, but the file has {size:,}"
        )


def _check_array(file: Any, name: str, size: int) -> None:
    """Raise if an array's header claims more than there is: it is allocated unread."""
    version = np.lib.format.read_magic(file)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"{name} in it has version {version} of NumPy's format")
    shape, _, dtype = readers[version](file)
    claimed = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or claimed > size:
        raise ValueError(f"{name} in it claims {claimed:,} bytes and has {size:,}")
