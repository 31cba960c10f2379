"""One printed table in four forms: text, Markdown, LaTeX and HTML."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from ._layout import columns, framed

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
class PrintedTable:
    """Cells as they are printed, a name first in each line, and what stands around."""

    title: str
    headings: tuple[str, ...]
    lines: Sequence[tuple[str, ...]]
    """Each a name and a figure for every heading."""
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    corner: str = ""
    """Above the names."""

    def text(self) -> str:
        """Aligned columns between rules, for the terminal."""
        head, *body = columns([(self.corner, *self.headings), *self.lines])
        width = max(map(len, [self.title, head, *body]))
        facts = [f"{name}  {value}" for name, value in self.facts.items()]
        below = [facts] if facts else []
        table = framed(self.title, [head], body, *below, width=width)
        return "\n".join([table, *self.notes])

    def markdown(self) -> str:
        """A Markdown table under a bold title, its facts below."""
        rule = ["---", *["---:"] * len(self.headings)]
        body = [[cell.replace("|", r"\|") for cell in line] for line in self.lines]
        table = [
            "| " + " | ".join(line) + " |"
            for line in ((self.corner, *self.headings), rule, *body)
        ]
        parts = [f"**{self.title}**", "", *table]
        if self.facts:
            facts = "; ".join(f"{name} {value}" for name, value in self.facts.items())
            parts += ["", facts + "."]
        for note in self.notes:
            parts += ["", note]
        return "\n".join(parts)

    def latex(self) -> str:
        r"""A `table` float with the rules of booktabs, which the preamble loads."""
        width = len(self.headings)
        head = " & ".join(map(latex_escape, (self.corner, *self.headings)))
        lines = [
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{latex_escape(self.title)}}}",
            rf"  \begin{{tabular}}{{l{'r' * width}}}",
            r"    \toprule",
            rf"    {head.strip()} \\",
            r"    \midrule",
        ]
        for name, *figures in self.lines:
            cells = [latex_escape(name), *map(_latex_figure, figures)]
            lines.append(rf"    {' & '.join(cells)} \\")
        if self.facts:
            lines.append(r"    \midrule")
        for name, value in self.facts.items():
            cell = rf"\multicolumn{{{width}}}{{l}}{{{_latex_figure(value)}}}"
            lines.append(rf"    {latex_escape(name)} & {cell} \\")
        lines += [r"    \bottomrule", r"  \end{tabular}"]
        for note in self.notes:
            lines.append(rf"  \par\smallskip\footnotesize {latex_escape(note)}")
        return "\n".join([*lines, r"\end{table}"])

    def html(self) -> str:
        """A `table` element without styles of its own."""
        cell = lambda tag, text: f"<{tag}>{escape(text)}</{tag}>"
        row = lambda tag, cells: f"<tr>{''.join(cell(tag, each) for each in cells)}</tr>"
        body = "\n".join(row("td", line) for line in self.lines)
        parts = [
            "<table>",
            f"<caption>{escape(self.title)}</caption>",
            f"<thead>{row('th', ('', *self.headings))}</thead>",
            f"<tbody>\n{body}\n</tbody>",
        ]
        span = len(self.headings)
        if self.facts:
            facts = "\n".join(
                f'<tr><td>{escape(name)}</td><td colspan="{span}">{escape(value)}</td></tr>'
                for name, value in self.facts.items()
            )
            parts.append(f"<tfoot>\n{facts}\n</tfoot>")
        parts.append("</table>")
        return "\n".join([*parts, *(f"<p>{escape(note)}</p>" for note in self.notes)])


def latex_escape(text: str) -> str:
    """Text as LaTeX prints it literally."""
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _latex_figure(text: str) -> str:
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
