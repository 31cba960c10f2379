"""Error budget: what each estimated part costs, found by replacing it with the truth."""

from typing import Any, ClassVar

from ._cells import WORLD_OPTIONS, cell_tasks
from ._study import Option, Study, choose

DEFAULT_VARIANTS = [
    "estimated",
    "true policy",
    "true value",
    "true continuation",
    "true reward class",
]
WITHOUT = {"true reward class": ["samq-bus"]}
ERRORS = {
    "log_policy_mse": "log pi, mean square",
    "value_nmse": "V centred, NMSE",
    "continuation_nmse": "continuation differences, NMSE",
    "nmse": "r, NMSE",
}


class ErrorBudget(Study):
    """What the estimated policy, value and continuation each add to the reward's error."""

    name = "error-budget"
    title = "what each estimated part costs: one at a time is replaced by the truth"
    options: ClassVar = {
        **WORLD_OPTIONS,
        "p": WORLD_OPTIONS["p"]._replace(default=[5, 20]),
        "trajectories": WORLD_OPTIONS["trajectories"]._replace(default=[1000]),
        "irrelevant": WORLD_OPTIONS["irrelevant"]._replace(default=[5]),
        "variants": Option(str, "+", DEFAULT_VARIANTS, "what is replaced by the truth"),
    }

    def tasks(self, settings):
        from ._variants import VARIANTS

        variants = choose("variants", settings["variants"], VARIANTS)
        return cell_tasks(settings, "variant", variants, without=WITHOUT)

    def run(self, task):
        from ._measure import budget

        return [budget(**task.parameters)]

    def report(self, frame, folder):
        from ._figures import draw_dots
        from ._tables import means, write_markdown

        tables, dots = [], {}
        for (cell,), part in frame.group_by("cell", maintain_order=True):
            tables.append(_table(cell, part))
            found = means(part, ["variant"], "nmse")
            dots[cell.replace(" ", "\n", 1)] = {
                variant: mean for (variant,), mean in found.items()
            }
        draw_dots(dots, folder, "error-budget", x_label="NMSE of r")
        write_markdown("Error budget", tables, folder)
        return "\n\n".join(table.text() for table in tables)


def _table(cell: str, frame) -> Any:
    from ._tables import MISSING, Table, means

    found = {error: means(frame, ["variant"], error) for error in ERRORS}
    variants = list(frame["variant"].unique(maintain_order=True))
    rows = [
        [variant, *(str(found[error].get((variant,), MISSING)) for error in ERRORS)]
        for variant in variants
    ]
    return Table(f"{cell}: mean error (standard error)", ["", *ERRORS.values()], rows)
