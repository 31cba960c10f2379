"""Robustness: no action is an anchor, because the reward is one of the state alone."""

from typing import Any, ClassVar

from ._cells import PAPER_OPTIONS, cell_tasks_of, paper_cells
from ._kinds import described, kinds
from ._study import Option, Study, choose

METHODS = {
    **described("default", "regression", "paper", "paper-epochs"),
    "limit": "what PQR tends to as data grow",
    "dairl": "D-AIRL with a reward of the state",
    "splgd": "SPL-GD with a reward linear in the state, planning for itself",
    "splgd-truth": "the same handed the true Q and V",
    **described("zero"),
}
DEFAULT_METHODS = [
    "default",
    "paper",
    "paper-epochs",
    "limit",
    "dairl",
    "splgd",
    "splgd-truth",
    "zero",
]
SCORES = {
    "nmse": "as it is",
    "centred_nmse": "up to a constant",
}
ABOUT = (
    "The reward is scale tanh(s'omega/p), the same for all five actions; a randomly chosen "
    "action is believed to earn nothing, which is false. Every method is scored against "
    "that true reward. PQR cannot find it: under the belief it identifies the true one "
    "shaped so that the believed anchor earns nothing, which explains the decisions "
    "equally well. `limit` is the shaped reward computed from the truth, to which PQR "
    "tends as data grow; an estimate shrunk towards zero can be closer to r, by accident. "
    "D-AIRL and SPL-GD are told that the reward is one of the state, which is true, and "
    "are scored without grounding. D-AIRL's theorem also asks "
    "for deterministic transitions; here they are random where a step would leave the box. "
    "D-AIRL, and SPL-GD without the truth, find the reward up to a constant and set its "
    "mean over the demonstrations to zero; the score up to a constant is theirs. Errors "
    "are over all five actions, relative to the mean square, or the variance, of r: zero "
    "scores 1."
)


class Robustness(Study):
    """Errors where the belief that an action is an anchor is false."""

    name = "robustness"
    title = "a reward of the state alone, where no action is an anchor"
    options: ClassVar = {
        **PAPER_OPTIONS,
        "p": PAPER_OPTIONS["p"]._replace(default=[10]),
        "methods": Option(str, "+", DEFAULT_METHODS, f"among {', '.join(METHODS)}"),
    }

    def tasks(self, settings):
        methods = choose("methods", settings["methods"], METHODS)
        false = {"state_only": True, "assumed": {"anchor": "random"}}
        cells = [{**cell, **false} for cell in paper_cells(settings)]
        return cell_tasks_of(cells, settings["seeds"], "method", methods)

    def run(self, task):
        from ._paper_rows import robustness_row

        return [robustness_row(**task.parameters)]

    def report(self, frame, folder):
        from ._figures import draw_dots
        from ._paper_report import conclude, score_tables
        from ._tables import means

        parts, dots = [], {}
        for (p, scale), part in frame.group_by(["p", "scale"], maintain_order=True):
            where = f"p = {p:g}, scale {scale:g}"
            for score, words in SCORES.items():
                title = f"Mean NMSE of r {words} (standard error), {where}"
                parts += score_tables(part, title, over="p", score=score)
                found = means(part, ["method"], score)
                dots[f"{where}\n{words}"] = {name: mean for (name,), mean in found.items()}
            parts.append(_claims(part, where))
        draw_dots(dots, folder, "robustness", x_label="NMSE of r")
        return conclude("Robustness", ABOUT, parts, frame, folder)


def _claims(frame, where: str) -> Any:
    from ._claims import Claims, claim_below, scores_by

    def scores(method: str, score: str):
        return scores_by(frame, score, method=method)

    found = []
    present = frame["method"].unique(maintain_order=True).to_list()
    for rival in present:
        if rival not in ("dairl", "zero", "limit"):
            text = f"D-AIRL is closer to the reward than {rival}, up to a constant"
            pair = scores("dairl", "centred_nmse"), scores(rival, "centred_nmse")
            found.append(claim_below(text, *pair, relative=True))
    limit = [name for name in present if name == "limit"]
    for method in [*limit, *kinds(frame)]:
        text = f"PQR has no guarantee: zero is closer to the reward than {method}"
        pair = scores("zero", "nmse"), scores(method, "nmse")
        found.append(claim_below(text, *pair, relative=True))
    return Claims(f"What the paper claims, {where}", found)
