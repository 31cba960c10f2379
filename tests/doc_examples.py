"""The documentation's examples: run, compared with what the page shows, or refilled.

A page's `python` blocks run top to bottom in one namespace; a `text` block right after
one is its output. `python tests/doc_examples.py README.md docs/reference/*.md` writes the
outputs of this run into the pages.
"""

import contextlib
import io
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```\n)?", re.M | re.S
)
NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?")


def run_page(text: str) -> list[str]:
    """What each block prints, in order."""
    namespace: dict = {"__name__": "__main__"}
    outputs = []
    home = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        os.chdir(folder)
        try:
            for block in BLOCK.finditer(text):
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(compile(block["code"], "example", "exec"), namespace)
                outputs.append(printed.getvalue())
        finally:
            os.chdir(home)
    return outputs


def differences(text: str) -> list[str]:
    """Lines a page shows that its blocks do not print."""
    found = []
    for block, output in zip(BLOCK.finditer(text), run_page(text), strict=True):
        if block["shown"] is None:
            continue
        shown, printed = block["shown"].splitlines(), output.splitlines()
        if len(shown) != len(printed):
            found.append(f"{len(shown)} lines shown, {len(printed)} printed: {output}")
        for one, other in zip(shown, printed, strict=False):
            if not same_line(one, other):
                found.append(f"shown:   {one}\nprinted: {other}")
    return found


def same_line(shown: str, printed: str) -> bool:
    """Equal words, and numbers equal to 2 % or both lost in rounding error.

    Other builds of the linear algebra round otherwise; they do not write other words.
    """
    words = [
        re.sub(r"\s+", " ", NUMBER.sub("#", line)).strip() for line in (shown, printed)
    ]
    if words[0] != words[1]:
        return False
    figures = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    return all(
        abs(a - b) <= 0.02 * max(abs(a), abs(b)) + 0.011 * (abs(a) > 1e-6)
        or max(abs(a), abs(b)) < 1e-8
        for a, b in (
            (float(x.replace(",", "")), float(y.replace(",", ""))) for x, y in figures
        )
    )


def refill(text: str) -> str:
    """The page with every shown output replaced by what its block prints now."""
    outputs = iter(run_page(text))

    def fill(block: re.Match) -> str:
        output = next(outputs)
        if block["shown"] is None:
            return block[0]
        return f"```python\n{block['code']}```\n\n```text\n{output}```\n"

    return BLOCK.sub(fill, text)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(refill(page.read_text(encoding="utf-8")), encoding="utf-8")
