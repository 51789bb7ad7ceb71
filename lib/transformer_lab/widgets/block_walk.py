"""Widget: one token's vector on its way through every sublayer of real blocks."""

from transformer_lab.draw.block_walk import BlockWalkPicture
from transformer_lab.experiments.block_walk import MOST_BLOCKS, NORMS, WORDS, BlockWalk, walk_block
from transformer_lab.experiments.deep_models import ACTIVATIONS, NORM_ORDERS
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer

NORM_NAMES = {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}


def block_walk(
    token: int = 3,
    norm_order: str = "pre",
    norm: str = "layernorm",
    shortcut: bool = True,
    activation: str = "gelu",
    n_blocks: int = 1,
) -> Explorer:
    """Every sublayer's output, the stream after it and its length, for one token of a sentence."""
    return Explorer(
        controls={
            "token": controls.choice("Token", [(word, place) for place, word in enumerate(WORDS)], token, buttons=True),
            "norm_order": controls.choice("Norm order", NORM_ORDERS, norm_order, buttons=True),
            "norm": controls.choice("Norm", [(NORM_NAMES[name], name) for name in NORMS], norm, buttons=True),
            "shortcut": controls.toggle("shortcuts", shortcut),
            "activation": controls.choice("Activation", ACTIVATIONS, activation, buttons=True),
            "n_blocks": controls.slider("Blocks", 1, MOST_BLOCKS, n_blocks),
        },
        compute=walk_block,
        picture=BlockWalkPicture,
        describe=describe,
        rows=[["token", "norm_order", "norm"], ["activation", "n_blocks", "shortcut"]],
    )


def describe(walk: BlockWalk) -> str:
    """The one shape, the length of what each sublayer returns, and how the stream's length changes."""
    (shape,) = set(walk.shapes)
    sublayers = [stage for stage in walk.stages if stage.added is not None]
    verb = "adds" if walk.shortcut else "returns"
    sizes = [f"{stage.added.norm().item():.2f}" for stage in sublayers]
    parts = [f"attention {verb} {', '.join(sizes[::2])}", f"feed-forward {', '.join(sizes[1::2])}"]
    found = (
        f"“{walk.word}”: every sublayer takes {shape} and returns {shape}. The stream enters with length "
        f"{walk.stages[0].length:.2f}; {', '.join(parts)}; it leaves the last block with {sublayers[-1].length:.2f}."
    )
    if walk.norm_order == "pre":
        found += f" The final norm makes that {walk.stages[-1].length:.2f}."
    elif walk.norm_order == "post":
        found += f" A norm sets the length after every {'sum' if walk.shortcut else 'sublayer'}."
    if not walk.shortcut:
        found += " Without shortcuts nothing of the input is carried past."
    return found
