"""Widget: what the loss says to every block of a deep model, with and without shortcuts and norms."""

from transformer_lab.draw.depth import LOWEST, DepthCurve
from transformer_lab.experiments.deep_models import (
    ACTIVATIONS,
    DEEPEST,
    NORM_ORDERS,
    DepthGradient,
    explore_depth,
)
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer
from transformer_lab.widgets.gradient_gap import figure

VANISHED, ALIKE = 1e-3, 1e-3
UNSEEN = 1e-12  # float32 rounds a vector of length 1 by about 1e-7, and 1 − cosine is half a squared distance


def depth_and_gradient(
    depth: int = 8, shortcut: bool = False, norm_order: str = "none", activation: str = "gelu"
) -> Explorer:
    """Gradient norm at each block of an untrained language model: depth, shortcuts, norm order and activation."""
    return Explorer(
        controls={
            "depth": controls.slider("Blocks", 1, DEEPEST, depth, live=False),
            "shortcut": controls.toggle("shortcuts", shortcut),
            "norm_order": controls.choice("Norm order", NORM_ORDERS, norm_order, buttons=True),
            "activation": controls.choice("Activation", ACTIVATIONS, activation, buttons=True),
        },
        compute=explore_depth,
        picture=DepthCurve,
        describe=describe,
    )


def describe(result: DepthGradient) -> str:
    """The gradient at both ends, whether it has vanished, and what still tells tokens apart."""
    first, last = result.gradients[0], result.gradients[-1]
    blocks = "1 block" if result.depth == 1 else f"{result.depth} blocks"
    norms = "without norms" if result.norm_order == "none" else f"{result.norm_order}-norm"
    found = f"{blocks}, {norms}, {'with' if result.shortcut else 'no'} shortcuts: the gradient has size {figure(last)}"
    if result.depth > 1:
        found += f" at the last block and {figure(first)} at the first"
        if first < LOWEST:
            found += ", below the picture"
    found += "."
    if first < VANISHED * last:
        found += " It has vanished on the way: the first block cannot learn."
    if result.difference < UNSEEN:
        left = "none that float32 could see"
    else:
        left = figure(result.difference) + (", next to nothing" if result.difference < ALIKE else "")
    return found + f" What still tells two tokens of a sentence apart, 1 − cosine: {left}."
