"""Training error: what the three networks were left with, beside what they could reach."""

from typing import Any, ClassVar

from ._cells import PAPER_OPTIONS, cell_tasks_of, paper_cells
from ._kinds import described, kinds
from ._study import Option, Study, choose

METHODS = described("paper", "paper-epochs", "default")
NETWORKS = {
    "policy": "log-loss per decision",
    "q": "mean square of V(s') - E[V(s')|s, anchor]",
    "reward": "mean square of V(s') - E[V(s')|s,a]",
}
MEANING = """\
`loss` is on the decisions that were fitted, `fresh` on as many others. `floor` is the
least that can be had: the demonstrator's own log-loss, or the part of V(s') that a jump
leaves to chance. `constant` is the loss of predicting shares of actions, or the mean of
V(s'). V is the fit's own: where the policy is close to uniform, V hardly varies and both
losses are small for that reason; `true V` is the variance that the true V(s') has. AIRL's
own loss is a game's, where 2 log 2 = 1.386 is a draw. `diagnostic` is the fit's
held_out_gain, bellman_residual or anchor_residual.
The paper shows these losses in a figure and draws no conclusion from it."""


class TrainingError(Study):
    """The paper's figure "Final loss on the training datasets of neural networks"."""

    name = "training-error"
    title = "the final losses of the three networks, beside their floors"
    options: ClassVar = {
        **PAPER_OPTIONS,
        "methods": Option(str, "+", list(METHODS), f"among {', '.join(METHODS)}"),
    }

    def tasks(self, settings):
        methods = choose("methods", settings["methods"], METHODS)
        return cell_tasks_of(paper_cells(settings), settings["seeds"], "method", methods)

    def run(self, task):
        from ._training_error_fits import training_errors

        return training_errors(**task.parameters)

    def report(self, frame, folder):
        from ._paper_report import conclude

        found: list[Any] = []
        for (scale,), part in sorted(frame.group_by("scale"), key=lambda group: group[0]):
            for network in NETWORKS:
                found.append(_table(part.filter(network=network), network, scale))
            found.append(_claims(part, scale))
            _draw(part, folder, f"training-error-scale-{scale:g}")
        return conclude("Training error", MEANING, found, frame, folder)


def _table(frame, network: str, scale: float) -> Any:
    """A row per p and method."""
    from ._tables import MISSING, Table, means

    names = {
        "loss": "loss",
        "floor": "floor",
        "constant": "constant",
        "fresh_loss": "fresh",
        "fresh_floor": "its floor",
        "target_truth": "true V",
        "game_loss": "AIRL's",
        "diagnostic": "diagnostic",
        "seconds": "seconds",
    }
    shown = {key: name for key, name in names.items() if frame[key].count() > 0}
    columns = {key: means(frame, ["p", "method"], key) for key in shown}
    rows = [
        [
            f"p = {p}, {method}",
            *(str(columns[key].get((p, method), MISSING)) for key in shown),
        ]
        for p, method in frame.select("p", "method").unique(maintain_order=True).rows()
    ]
    title = f"Scale {scale:g}, {network}: {NETWORKS[network]} (standard error)"
    return Table(title, ["", *shown.values()], rows)


def _draw(frame, folder, name: str) -> None:
    """A panel per network: final losses by p, their floors in grey."""
    from ._figures import chart_of, draw_charts
    from ._tables import means

    charts = []
    for network, words in NETWORKS.items():
        part = frame.filter(network=network)
        floors: dict[str, dict[Any, float]] = {}
        for (method, p), mean in means(part, ["method", "p"], "floor").items():
            same = network == "policy"  # the true policy is one for all
            floors.setdefault("floor" if same else f"floor, {method}", {})[p] = mean.value
        charts.append(
            chart_of(
                means(part, ["method", "p"], "loss"),
                title=f"network for {network}",
                x_label="state variables p",
                y_label=words,
                y_scale="linear" if network == "policy" else "log",
                published=floors,
            )
        )
    draw_charts(charts, folder, name, sharey=False)


def _claims(frame, scale: float) -> Any:
    """What networks that were trained well would show, judged at every p."""
    from ._claims import Claims, claim_at_every, scores_over

    claims = []
    for method in kinds(frame):
        for network in NETWORKS:
            where = {"method": method, "network": network}
            loss, constant = (
                scores_over(frame, "p", score, **where)
                for score in ("fresh_loss", "fresh_constant")
            )
            text = (
                f"On fresh decisions {method} foresees more than a constant ({network}), "
                "at every p"
            )
            claims.append(claim_at_every("p", text, loss, constant, relative=True))
    return Claims(f"What trained networks would show, at scale {scale:g}", claims)
