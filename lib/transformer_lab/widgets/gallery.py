"""Widgets as still pictures for the README: `python -m transformer_lab.widgets.gallery figures/` draws them again."""

import sys
from pathlib import Path

from matplotlib.figure import Figure

from transformer_lab.draw import diagrams
from transformer_lab.draw.attention_walk import AttentionWalkPicture
from transformer_lab.draw.canvas import still
from transformer_lab.widgets.attention_explorer import attention_explorer

NAME = "attention_explorer"


def explorer_picture() -> Figure:
    """The attention explorer as it opens."""
    return still(AttentionWalkPicture, attention_explorer().result)


if __name__ == "__main__":
    Path(sys.argv[1], f"{NAME}.svg").write_bytes(diagrams.svg(explorer_picture(), NAME))
