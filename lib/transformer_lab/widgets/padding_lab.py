"""The padding lab: one review in two batches, with and without the padding mask."""

from transformer_lab.draw.padding import PaddingPicture, each_pad, pads, percent
from transformer_lab.experiments.padding import MOST_PADS, POSITIONS, SIDES, Comparison, compare_batches
from transformer_lab.tasks.reviews import REVIEWS
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer

TOLERANCE = 1e-5


def padding_lab(
    review: str = REVIEWS[0], n_pads: int = MOST_PADS, *, masked: bool = False, positions: str = "off"
) -> Explorer:
    """The same four-word review in a batch that gives it 3 pads and in one that gives it up to 124.

    Args:
        review: one of `transformer_lab.tasks.reviews.REVIEWS`.
        n_pads: pads of the second batch.
        masked: whether the model is handed the padding mask.
        positions: ``"off"``, or which tokens are counted when they are numbered: ``"count all"`` counts the pads too,
            ``"count words"`` leaves them out.
    """
    return Explorer(
        controls={
            "n_pads": controls.slider("Pads in batch B", 0, MOST_PADS, n_pads),
            "masked": controls.toggle("padding mask", masked),
            "positions": controls.choice("Positions", POSITIONS, positions, buttons=True),
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
        if comparison.gap < TOLERANCE:
            found = "and the logits of both batches agree to 0.00001"
        else:
            found = (
                f"yet the logits differ by {comparison.gap:.2f}: the pads on the left are counted, so the words stand "
                "at other positions in each batch"
            )
        return f"With the mask no attention goes to pads, {found}. {_user(comparison)}"
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
    parted = f"The logits part by up to {comparison.gap:.2f}."
    return f"Without the mask {lost}.{_side(comparison)} {parted} {_user(comparison)}"


def _side(comparison: Comparison) -> str:
    if comparison.positions == "off":
        return " All pads are one and the same key, so the side they stand on changes nothing."
    if comparison.positions == "count all" and comparison.first.side == "left":
        return " Pads on the left also move every word to a later position."
    return ""


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
