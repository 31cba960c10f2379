"""A table of text cells in four formats: terminal, Markdown, LaTeX and HTML."""

import html
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ._layout import columns, decimal, framed

MISSING = "-"
_LATEX = {
    **{letter: rf"\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


@dataclass(frozen=True)
class Grid:
    """Lines of cells under headings; the first column is text, the others figures."""

    title: str
    head: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    """What stands under the figures, by name."""

    def text(self) -> str:
        """Aligned columns between rules, for the terminal."""
        head, *body = columns([self.head, *self.body])
        width = max(map(len, [self.title, head, *body]))
        facts = [f"{name}  {value}" for name, value in self.facts.items()]
        below = [facts] if facts else []
        table = framed(self.title, [head], body, *below, width=width)
        return "\n".join([table, *self.notes])

    def markdown(self) -> str:
        """A Markdown table under a bold title, notes below."""
        rule = ["---", *["---:"] * (len(self.head) - 1)]
        body = [[cell.replace("|", r"\|") for cell in line] for line in self.body]
        lines = ["| " + " | ".join(line) + " |" for line in (self.head, rule, *body)]
        facts = "; ".join(f"{name} {value}" for name, value in self.facts.items())
        below = _spaced([facts + "."] if facts else []) + _spaced(self.notes)
        return "\n".join([f"**{self.title}**", "", *lines, *below])

    def latex(self) -> str:
        r"""A `table` float with the rules of booktabs, which the preamble loads."""
        head = " & ".join(map(latex_escape, self.head)).strip()
        lines = [
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{latex_escape(self.title)}}}",
            rf"  \begin{{tabular}}{{l{'r' * (len(self.head) - 1)}}}",
            r"    \toprule",
            rf"    {head} \\",
            r"    \midrule",
        ]
        for first, *rest in self.body:
            cells = [latex_escape(first), *map(latex_figure, rest)]
            lines.append(rf"    {' & '.join(cells)} \\")
        if self.facts:
            lines.append(r"    \midrule")
        for name, value in self.facts.items():
            cell = rf"\multicolumn{{{len(self.head) - 1}}}{{l}}{{{latex_figure(value)}}}"
            lines.append(rf"    {latex_escape(name)} & {cell} \\")
        lines += [r"    \bottomrule", r"  \end{tabular}"]
        lines += [
            rf"  \par\smallskip\footnotesize {latex_escape(note)}" for note in self.notes
        ]
        return "\n".join([*lines, r"\end{table}"])

    def html(self) -> str:
        """A `table` element with its title as the caption, notes in its foot."""
        lines = ["<table>", f"<caption>{html.escape(self.title)}</caption>"]
        cells = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in self.head)
        lines += [f"<thead><tr>{cells}</tr></thead>", "<tbody>"]
        for first, *rest in self.body:
            cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in rest)
            lines.append(f'<tr><th scope="row">{html.escape(first)}</th>{cells}</tr>')
        lines.append("</tbody>")
        facts = [f"{name} {value}" for name, value in self.facts.items()]
        if below := [*facts, *self.notes]:
            note = "<br>".join(map(html.escape, below))
            lines.append(
                f'<tfoot><tr><td colspan="{len(self.head)}">{note}</td></tr></tfoot>'
            )
        return "\n".join([*lines, "</table>"])


class PrintedTable(ABC):
    """What prints as a table: `text`, or another format; notebooks show `html`."""

    @abstractmethod
    def printed(self) -> Grid:
        """Its cells, as every format shows them."""

    def text(self) -> str:
        """Aligned columns between rules, for the terminal."""
        return self.printed().text()

    def markdown(self) -> str:
        """A Markdown table under a bold title, its facts below."""
        return self.printed().markdown()

    def latex(self) -> str:
        r"""A `table` float with the rules of booktabs, which the preamble loads."""
        return self.printed().latex()

    def html(self) -> str:
        """A `table` element, which notebooks show."""
        return self.printed().html()

    def _repr_html_(self) -> str:
        return self.html()

    def __str__(self) -> str:
        return self.text()


def figure(value: float, digits: int) -> str:
    """A number for a cell; a dash where there is none."""
    return MISSING if value != value else decimal(value, digits)


def _spaced(notes: Sequence[str]) -> list[str]:
    return [line for note in notes for line in ("", note)]


def latex_escape(text: str) -> str:
    """Text as LaTeX prints it literally."""
    return "".join(_LATEX.get(letter, letter) for letter in text)


def latex_figure(text: str) -> str:
    """A number as LaTeX, with a minus sign instead of a hyphen."""
    if text == MISSING:
        return "--"
    if text.startswith("<0"):
        return f"${text}$"
    try:
        float(text.replace(",", ""))
    except ValueError:
        return latex_escape(text)
    return "$-$" + text[1:] if text.startswith("-") else text
