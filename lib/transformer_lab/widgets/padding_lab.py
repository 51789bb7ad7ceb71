"""The padding lab: one review in two batches, with and without the padding mask."""

from transformer_lab.draw.padding import PaddingPicture, each_pad, pads, percent
from transformer_lab.experiments.padding import MOST_PADS, SIDES, Comparison, compare_batches
from transformer_lab.tasks.reviews import REVIEWS
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer

TOLERANCE = 1e-5


def padding_lab(
    review: str = REVIEWS[0], n_pads: int = MOST_PADS, *, masked: bool = False, positions: bool = True
) -> Explorer:
    """The same four-word review in a batch that gives it 3 pads and in one that gives it up to 124.

    Args:
        review: one of `transformer_lab.tasks.reviews.REVIEWS`.
        n_pads: pads of the second batch.
        masked: whether the model is handed the padding mask.
        positions: whether position vectors are added to the embeddings.
    """
    return Explorer(
        controls={
            "n_pads": controls.slider("Pads in batch B", 0, MOST_PADS, n_pads),
            "masked": controls.toggle("padding mask", masked),
            "positions": controls.toggle("positions", positions),
            "side": controls.choice("Pads on the", SIDES, buttons=True),
            "review": controls.choice("Review", REVIEWS, review),
        },
        compute=compare_batches,
        picture=PaddingPicture,
        describe=describe,
    )


def describe(comparison: Comparison) -> str:
    """How far the logits part, and what a user of the model would have seen."""
    first, second = comparison.first, comparison.second
    review = " ".join(first.words)
    if comparison.masked:
        agree = (
            "the logits of both batches agree to 0.00001"
            if comparison.gap < TOLERANCE
            else f"yet the logits differ by {comparison.gap:.5f}"
        )
        return f"With the mask no attention goes to pads, and {agree}. {_user(comparison)}"
    if first.n_pads == second.n_pads:
        return (
            f"Both batches give “{review}” {pads(first.n_pads)}, so they agree on “{first.predicted}”. "
            "Move the slider: only the padding of batch B changes."
        )
    lost = f"{pads(first.n_pads)} take {percent(first.pad_share)} of the attention, "
    lost += (
        f"{pads(second.n_pads)} {'takes' if second.n_pads == 1 else 'take'} {percent(second.pad_share)}"
        f" ({each_pad(second)})"
        if second.n_pads
        else "no pads take nothing"
    )
    shifted = (
        " Left pads also move every word to a later position." if comparison.positions and first.side == "left" else ""
    )
    return f"Without the mask {lost}.{shifted} The logits part by up to {comparison.gap:.2f}. {_user(comparison)}"


def _user(comparison: Comparison) -> str:
    first, second = comparison.first, comparison.second
    review = " ".join(first.words)
    if first.predicted != second.predicted:
        return (
            f"A user would have seen “{review}” called {first.predicted} in one batch and {second.predicted} in the "
            "other."
        )
    if comparison.gap < TOLERANCE:
        return f"A user sees “{review}” called {first.predicted} both times."
    leads = [sorted(reading.logits)[-1] - sorted(reading.logits)[-2] for reading in (first, second)]
    change = "shrinks" if leads[1] < leads[0] else "grows"
    return (
        f"A user would still have seen {first.predicted} both times, but its lead over the next class {change} from "
        f"{leads[0]:.2f} to {leads[1]:.2f}."
    )
