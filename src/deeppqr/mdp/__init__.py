"""The forward problem: tabular models, their soft optimum, simulation."""

from ._simulate import World as World
from ._simulate import simulate as simulate
from ._tabular import SoftSolution as SoftSolution
from ._tabular import TabularMDP as TabularMDP
from ._tabular import check_preferences as check_preferences
from ._tabular import check_transition as check_transition
from ._tabular import evaluate_policy as evaluate_policy
from ._tabular import solve_soft as solve_soft
