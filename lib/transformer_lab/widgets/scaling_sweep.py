"""What dividing by √d_k does: weights, variance, entropy and gradient for widths from 4 to 1,024."""

from transformer_lab.draw.scaling import ScalingPicture
from transformer_lab.experiments.scaling import WIDTHS, ScalingSweep, sweep_scaling
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer


def scaling_sweep(d_k: int = 4, divided: bool = False) -> Explorer:
    """Random queries and keys of unit variance; choose the width, and whether their scores are divided by √d_k.

    The bars follow one row of scores, drawn once and stretched to the size it has at the chosen width.
    """
    return Explorer(
        controls={
            "d_k": controls.choice("d_k", [(f"{width:,}", width) for width in WIDTHS], d_k, buttons=True),
            "divided": controls.toggle("divide by √d_k", divided),
            "n_keys": controls.choice("Keys", (2, 4, 8, 16, 32), 16),
            "seed": controls.slider("Seed", 0, 9, 0, live=False),
        },
        compute=sweep_scaling,
        picture=ScalingPicture,
        describe=describe,
        reset=True,
    )


def describe(sweep: ScalingSweep) -> str:
    """The four measurements at the chosen width."""
    shown = sweep.at_width[int(sweep.divided)]
    how = "divided by √d_k" if sweep.divided else "not scaled"
    # variance to three digits, without an exponent: 4.29, 67.2, 1,020
    variance = f"{float(f'{shown.variance:.3g}'):,.4g}"
    return (
        f"d_k = {sweep.d_k:,}, {how}: the scores have variance {variance}. The largest of {sweep.n_keys} weights is "
        f"{float(sweep.weights.max()):.2f} in this row and {shown.largest_weight:.2f} on average, the entropy "
        f"{shown.entropy:.2f} of at most {sweep.most_entropy:.2f} nats, and {shown.gradient:.3f} of a gradient of "
        "length 1 comes through the softmax."
    )
