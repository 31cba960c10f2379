"""A local web page on which a fit answers questions: states, curves, counterfactuals."""

from ._server import serve as serve
