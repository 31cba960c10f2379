"""The complexity of a regression's labels under a wide network's kernel."""

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve


def unit_norm(inputs: Float[np.ndarray, "row input"]) -> Float[np.ndarray, "row input"]:
    """The direction of every input."""
    return inputs / np.linalg.norm(inputs, axis=1, keepdims=True)


def relu_kernel(inputs: Float[np.ndarray, "row input"]) -> Float[np.ndarray, "row row"]:
    r"""The kernel of a two-layer ReLU network of infinite width, inputs at unit norm.

    $$H^\infty_{ij} = \frac{x_i^\top x_j\,\{\pi - \arccos(x_i^\top x_j)\}}{2\pi}.$$

    References
    ----------
    [arora2019fine]; [geng2020pqr], Theorem 2.
    """
    unit = unit_norm(inputs)
    cosine = np.clip(unit @ unit.T, -1.0, 1.0)
    np.fill_diagonal(cosine, 1.0)
    return cosine * (np.pi - np.arccos(cosine)) / (2 * np.pi)


def kernel_complexity(
    inputs: Float[np.ndarray, "row input"], target: Float[np.ndarray, " row"]
) -> float:
    r"""$\sqrt{2\,y^\top (H^\infty)^{-1} y / n}$, the term of Theorem 2 for one regression.

    Inputs are brought to unit norm, as the theorem has them. They must be distinct then:
    two labels at one input would make it infinite.
    """
    solved = cho_solve(cho_factor(relu_kernel(inputs)), target)
    return float(np.sqrt(2 * target @ solved / len(target)))
