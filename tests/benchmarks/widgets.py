"""One update of every widget against the naive widget of the same picture, in CPU time; prints ratios.

    python tests/benchmarks/widgets.py

Naive is what ``interact`` and ``plt.show`` do: compute, a new pyplot figure, everything drawn, a tight bounding box,
a PNG. Both sides compute the same results and draw the same pictures. The budget is one fifth. Exits 1 when over it.
"""

import io
import sys
import time
from collections.abc import Callable, Iterable
from statistics import median

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

from transformer_lab.draw import style
from transformer_lab.experiments.extrapolation import LookingBack
from transformer_lab.experiments.objectives import train_family
from transformer_lab.experiments.one_or_two_heads import train_reader
from transformer_lab.experiments.translation import train_translator
from transformer_lab.lesson import begin
from transformer_lab.widgets.attention_explorer import attention_explorer
from transformer_lab.widgets.block_walk import block_walk
from transformer_lab.widgets.bug_clinic import bug_clinic
from transformer_lab.widgets.depth_and_gradient import depth_and_gradient
from transformer_lab.widgets.explorer import Explorer
from transformer_lab.widgets.fill_the_blank import fill_the_blank
from transformer_lab.widgets.gate_explorer import gate_explorer
from transformer_lab.widgets.gradient_gap import gradient_gap
from transformer_lab.widgets.head_grid import head_grid
from transformer_lab.widgets.kv_sharing import kv_sharing
from transformer_lab.widgets.mask_painter import mask_painter
from transformer_lab.widgets.norm_explorer import norm_explorer
from transformer_lab.widgets.padding_lab import padding_lab
from transformer_lab.widgets.pairs import pairs_explorer
from transformer_lab.widgets.parameter_calculator import parameter_calculator
from transformer_lab.widgets.permutation_lab import permutation_lab
from transformer_lab.widgets.position_schemes import alibi_slopes_explorer, rope_dials, sinusoid_clock
from transformer_lab.widgets.rope_lookalikes import rope_lookalikes
from transformer_lab.widgets.scaling_sweep import scaling_sweep
from transformer_lab.widgets.translate_and_inspect import translate_and_inspect
from transformer_lab.widgets.wiring_selector import wiring_selector

BUDGET = 1 / 5
# Each widget with a control to move and the values it is moved through.
MOVES: dict[str, tuple[Callable[[], Explorer], str, list]] = {
    "pairs explorer": (pairs_explorer, "n_tokens", [1, 4, 8, 12]),
    "gate explorer": (gate_explorer, "step", [1, 4, 7, 10]),
    "gradient gap": (gradient_gap, "gap", [1, 30, 60, 100]),
    "attention explorer": (attention_explorer, "temperature", [0.5, 2.0, 5.0, 10.0]),
    "scaling sweep": (scaling_sweep, "d_k", [4, 16, 64, 256]),
    "head grid": (lambda: head_grid(train_reader(16, 4, d_model=32, steps=1)), "place", [3, 5, 7, 10]),
    "K/V sharing": (kv_sharing, "n_tokens", [1, 64, 128, 256]),
    "permutation lab": (permutation_lab, "scheme", ["none", "learned", "rope", "alibi"]),
    "sinusoid clock": (sinusoid_clock, "position", [0, 20, 40, 60]),
    "RoPE dials": (rope_dials, "shift", [0, 10, 50, 100]),
    "RoPE lookalikes": (lambda: rope_lookalikes(LookingBack("rope")), "position", [16, 32, 48, 64]),
    "ALiBi slopes": (alibi_slopes_explorer, "head", [1, 3, 5, 8]),
    "mask painter": (mask_painter, "row", [1, 3, 5, 7]),
    "parameter calculator": (parameter_calculator, "n_layers", [1, 12, 32, 80]),
    "padding lab": (padding_lab, "n_pads", [0, 30, 60, 124]),
    "translate": (lambda: translate_and_inspect(train_translator()), "step", [1, 4, 7, 10]),
    "bug clinic": (bug_clinic, "next_patient", [1, 2, 3, 4]),
    "norm explorer": (norm_explorer, "scale", [-2.0, -0.5, 0.5, 2.0]),
    "depth and gradient": (depth_and_gradient, "depth", [2, 8, 16, 24]),
    "block walk": (block_walk, "token", [0, 2, 4, 5]),
    "wiring selector": (wiring_selector, "asks", [1, 2, 4, 5]),
    "fill the blank": (
        lambda: fill_the_blank(*(train_family(family, steps=1).model for family in ("encoder-only", "decoder-only"))),
        "blank", [0, 1, 2, 3],
    ),
}


def naive_update(widget: Explorer, values: dict) -> None:
    """What a widget without a kept background does for one change."""
    result = widget._compute(**values)
    widget._describe(result)
    picture_class = widget._canvas._picture_class
    figure = plt.figure(figsize=picture_class.size(result), dpi=style.current().dpi)
    picture_class(figure, result).update(result)
    for artist in figure.findobj(lambda artist: artist.get_animated()):
        artist.set_animated(False)
    figure.savefig(io.BytesIO(), format="png", bbox_inches="tight")
    plt.close(figure)


def cpu_ms(work: Callable[[object], None], values: Iterable) -> float:
    """The median CPU time of one call, after one round of warming up."""
    times = []
    for turn in range(4):
        for value in values:
            start = time.process_time()
            work(value)
            if turn:
                times.append(1000 * (time.process_time() - start))
    return median(times)


def main() -> int:
    begin()
    over = False
    print(f"{'widget':20}{'ours':>8}{'naive':>8}{'ratio':>8}   budget {BUDGET:.2f}")
    for name, (make, control, values) in MOVES.items():
        widget = make()
        ours = cpu_ms(lambda value: widget.set(**{control: value}), values)  # noqa: B023
        naive = cpu_ms(lambda value: naive_update(widget, {**widget.values, control: value}), values)  # noqa: B023
        over |= ours / naive > BUDGET
        print(f"{name:20}{ours:8.1f}{naive:8.1f}{ours / naive:8.2f}{'   OVER' if ours / naive > BUDGET else ''}")
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
