"""The default solver: a closed form, a table, the linear solve, or an averager."""

from dataclasses import dataclass, replace

import numpy as np

from .._errors import AnchorNeverTaken
from ..panel._cells import few_states
from ._averager import Averager
from ._exact import Exact
from ._linear import Linear
from ._problem import AbstractAnchorSolver, AnchorProblem, AnchorSolution
from ._structure import recognise

# Beyond this, six of float64's sixteen digits are left. The linear solve has condition
# numbers of 70 to 2,100 on the paper world (p = 2 and 5), so doubling it changes nothing.
MAX_CONDITION = 1e10


@dataclass(frozen=True)
class Auto(AbstractAnchorSolver):
    """Chooses the solver by what the anchor's rows show.

    The closed form if the anchor is recognised as an exit, a self-loop or a renewal. Else
    the exact solve if states are few and the anchor was taken in each. Else the linear
    solve. The averager if that is ill-conditioned or violates the bound that every
    solution obeys, |h| <= max |g - temperature log pi(anchor)| / (1 - discount).
    """

    def solve(self, problem: AnchorProblem, *, key) -> AnchorSolution:
        structure = recognise(problem)
        if structure is not None:
            solution = structure.solver.solve(problem, key=key)
            return replace(solution, evidence=((structure.name, structure.why),))
        exact = "too many distinct states to count"
        if few_states(problem.query_states, rows_per_cell=2):
            try:
                solution = Exact().solve(problem, key=key)
                exact = "chosen: few states, the anchor taken in each"
                return replace(solution, evidence=(("exact", exact),))
            except AnchorNeverTaken:
                exact = "the anchor was never taken in some state"
        solution = Linear().solve(problem, key=key)
        fault = _fault(problem, solution)
        linear = fault or f"chosen: condition {solution.condition:.1e}"
        evidence = [("exact", exact), ("linear", linear)]
        if fault is not None:
            evidence.append(("averager", "chosen: a contraction whatever the data"))
            solution = Averager().solve(problem, key=key)
        return replace(solution, evidence=tuple(evidence))


def _fault(problem: AnchorProblem, solution: AnchorSolution) -> str | None:
    """What is wrong with a linear solution, or None."""
    if solution.condition is None or solution.condition > MAX_CONDITION:
        return f"ill-conditioned: {solution.condition:.1e}"
    # About 10,000 states show a violation as well as all of them.
    query_states = problem.query_states[:: max(1, len(problem.query_states) // 10_000)]
    value = solution.continuation(query_states, problem.log_prob(query_states))
    limit = np.abs(problem.bonus(query_states)).max() / (1 - problem.discount)
    # Twice the bound: an estimate may exceed it a little, and one that diverged exceeds it
    # by orders of magnitude. On the paper world the largest value is 0.6 to 0.8 of it.
    if not np.abs(value).max() <= 2 * limit:
        return f"values up to {np.abs(value).max():.2g} break the bound {limit:.2g}"
    return None
