"""Paint a mask and read what a query may see, under our convention and under the opposite one."""

from collections.abc import Mapping

import ipywidgets

from transformer_lab.draw.masks import PaintedMaskPicture
from transformer_lab.experiments.masking import WORDS, PaintedMask, paint_mask
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer

CORNERS = ("bottom right", "top left")


def mask_painter() -> Explorer:
    """Causal, window, padding and fewer queries than keys, alone and combined; choose a row and read it."""
    n = len(WORDS)
    return Explorer(
        controls={
            "causal": controls.toggle("causal", True),
            "window": controls.slider("window (0 = off)", 0, n, 0),
            "real_tokens": controls.slider("real tokens (rest: pads)", 0, n, n),
            "n_query": controls.slider("queries (the last tokens)", 1, n, n),
            "row": controls.slider("read row", 1, n, 4),
            "alignment": controls.choice("fewer queries: align to the", CORNERS),
        },
        adjust=_adjust,
        compute=_paint,
        picture=PaintedMaskPicture,
        describe=_describe,
    )


def _paint(causal: bool, window: int, real_tokens: int, n_query: int, row: int, alignment: str) -> PaintedMask:
    return paint_mask(causal, window, real_tokens, n_query, row - 1, alignment)


def _adjust(found: Mapping[str, ipywidgets.Widget]) -> None:
    """Keep the row inside; a corner matters only where a triangle or a window meets fewer queries than keys."""
    n_query = found["n_query"].value
    controls.set_range(found["row"], 1, n_query)
    found["alignment"].disabled = n_query == len(WORDS) or not (found["causal"].value or found["window"].value)


def _describe(painted: PaintedMask) -> str:
    row = painted.mask[painted.row]
    seen = [token for token, allowed in zip(painted.key_tokens, row.tolist(), strict=True) if allowed]
    hidden = [token for token, allowed in zip(painted.key_tokens, row.tolist(), strict=True) if not allowed]
    who = f"Row {painted.row + 1}, “{painted.query_tokens[painted.row]}”, "
    if seen:
        sentence = f"{who}may attend to {len(seen)} of {len(row)} keys: {', '.join(seen)}."
    else:
        sentence = f"{who}may attend to nothing."
    sentence += f" Read the other way round, it would see {', '.join(hidden) if hidden else 'nothing'}."
    if painted.empty_rows:
        noun = "row is" if painted.empty_rows == 1 else "rows are"
        sentence += f" {painted.empty_rows} {noun} empty."
    return sentence
