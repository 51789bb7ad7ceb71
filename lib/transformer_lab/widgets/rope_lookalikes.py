"""Why a trained RoPE attention loses its way: move the query on and watch where it looks."""

from transformer_lab.draw.lookalikes import LookalikesPicture
from transformer_lab.experiments.extrapolation import TESTED, LookingBack
from transformer_lab.experiments.lookalikes import ALIKE, WANTED, Lookalikes, lookalikes, mean_weights, pair_scores
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer


def rope_lookalikes(model: LookingBack, position: int = 48, head: int = 1) -> Explorer:
    """What the pairs of each head of ``model`` say about a distance, and where a query looks.

    Args:
        model: trained with RoPE on "two back".
        position: of the query, counted from 1.
        head: counted from 1.
    """
    pairs, weights = pair_scores(model), mean_weights(model)
    return Explorer(
        controls={
            "position": controls.slider("query at position", 3, TESTED, position),
            "head": controls.slider("head", 1, len(pairs), head),
        },
        compute=lambda position, head: lookalikes(pairs, weights, head - 1, position),
        picture=LookalikesPicture,
        describe=describe,
    )


def describe(result: Lookalikes) -> str:
    """Where the query looks, and whether that is a lookalike of two back. Whole numbers only: the rest is trained."""
    opening = f"Head {result.head + 1}, query at position {result.position}: the largest share of its attention goes"
    if result.favourite == WANTED:
        reachable = sum(distance < result.position for distance in ALIKE)
        return f"{opening} {WANTED} back, as trained. Within its reach are {reachable} lookalikes of {WANTED} back."
    if result.favourite not in ALIKE:
        return f"{opening} {result.favourite} back, not {WANTED}."
    turns = ALIKE.index(result.favourite) + 1
    times = f"{turns} full turns" if turns > 1 else "1 full turn"
    return (
        f"{opening} {result.favourite} back, not {WANTED}. To the fastest pair {result.favourite} is {WANTED} again, "
        f"{times} later; only the second pair tells them apart, and it scores {result.favourite} "
        f"{'higher' if result.pairs[1, result.favourite] > result.pairs[1, WANTED] else 'lower'} than {WANTED}."
    )
