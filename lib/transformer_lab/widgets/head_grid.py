"""The head grid: every head of a trained layer, each with a switch."""

from functools import cache

from transformer_lab.draw.head_grid import HeadGridPicture
from transformer_lab.experiments.ablation import Ablation, HeadGrid, ablate, look_at_heads
from transformer_lab.experiments.one_or_two_heads import TrainedReader
from transformer_lab.tasks.two_sources import ASKED_FROM, LENGTH
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer


def head_grid(reader: TrainedReader, *, sequence: int = 1, place: int = 7) -> Explorer:
    """Maps of all heads of a trained reader on one sequence; switch heads off and see which answers survive.

    Args:
        reader: from `transformer_lab.experiments.one_or_two_heads.train_reader`, with at most four heads.
        sequence: which of the drawn sequences to show first.
        place: which place asks, counted from 1.
    """
    n_heads = reader.model.attention.n_heads
    if n_heads > 4:
        raise ValueError(f"the reader has {n_heads} heads; the grid has room for 4.")
    model = reader.model

    @cache  # it changes with the switches only, and takes longer than the rest
    def on_many(off: tuple[int, ...]) -> Ablation:
        return ablate(model, off)

    def compute(sequence: int, place: int, **switches: bool) -> HeadGrid:
        off = tuple(head for head, on in enumerate(switches.values()) if not on)
        return look_at_heads(model, on_many(off), sequence, place)

    switches = {f"head_{head + 1}": controls.toggle(f"head {head + 1}", True) for head in range(n_heads)}
    return Explorer(
        controls={
            "sequence": controls.slider("sequence", 1, 20, sequence),
            "place": controls.slider("place that asks", ASKED_FROM + 1, LENGTH, place),
        }
        | switches,
        compute=compute,
        picture=HeadGridPicture,
        describe=describe,
    )


def describe(grid: HeadGrid) -> str:
    """Which heads are off, what is answered here, and how often the answers are right on many sequences."""
    off = [f"head {head + 1}" for head in grid.on_many.off]
    if not off:
        opening = "All heads on"
    elif len(off) == len(grid.maps):
        opening = "All heads off"
    else:
        opening = f"{' and '.join(off).capitalize()} off"
    here = ", ".join(
        f"{question}: {given} ({'right' if given == answer else f'wrong, it was {answer}'})"
        for question, given, answer in zip(grid.questions, grid.given, grid.answers, strict=True)
    )
    shares = ", ".join(
        f"{question} {'99% or more' if share >= 0.99 else f'{share:.0%}'}"
        for question, share in zip(grid.questions, grid.on_many.accuracy, strict=True)
    )
    return f"{opening}. At place {grid.place} the model answers {here}. Right on 500 sequences: {shares}."
