"""Position schemes to turn by hand: the sinusoids' clocks, the pairs of RoPE and the slopes of ALiBi."""

import math
from collections.abc import Mapping
from typing import Any

from transformer_lab.draw.dials import ClockPicture, RopePairPicture
from transformer_lab.draw.slopes import SlopesPicture
from transformer_lab.experiments.positions import FARTHEST, AlibiView, Clock, RopePair, alibi_view, clock, rope_pair
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer

LAYOUTS = (("interleaved", "interleaved"), ("half-split", "half_split"))
MOST_HEADS = 16


def sinusoid_clock(d_model: int = 8, position: int = 3, shift: int = 2) -> Explorer:
    """Each pair of sinusoids as a clock with two hands: one for a position, one for a position further on."""
    return Explorer(
        controls={
            "position": controls.slider("position p", 0, 300, position),
            "shift": controls.slider("further on by k", 0, 60, shift),
            "d_model": controls.choice("d_model", (4, 8, 16), d_model, buttons=True),
        },
        compute=clock,
        picture=ClockPicture,
        describe=_describe_clock,
    )


def _describe_clock(result: Clock) -> str:
    p, k = result.position, result.shift
    return (
        f"From position {p} to {p + k} the fastest hand turns by {k:.2f} radians, the slowest by "
        f"{2 * math.pi * k / result.wavelengths[-1]:.3g}. The inner product of the two position vectors is "
        f"{_signed(result.dot)}; it depends on k = {k} alone."
    )


def rope_dials(query_position: int = 5, key_position: int = 2, layout: str = "interleaved") -> Explorer:
    """A query and a key of width 4 under RoPE: two pairs, each turned to its position."""
    return Explorer(
        controls={
            "query_position": controls.slider("query position", 0, 60, query_position),
            "key_position": controls.slider("key position", 0, 60, key_position),
            "shift": controls.slider("move both on by", 0, 100, 0),
            "layout": controls.choice("Layout", LAYOUTS, layout, buttons=True),
        },
        compute=rope_pair,
        picture=RopePairPicture,
        describe=_describe_rope,
    )


def _describe_rope(result: RopePair) -> str:
    pairs = " and ".join(f"({a}, {b})" for a, b in result.pairs)
    first, second = result.scores
    distance = str(result.query_position - result.key_position).replace("-", "−")
    return (
        f"Components {pairs} turn together. The query at {result.query_position} and the key at {result.key_position} "
        f"score {_signed(result.score)}: {_signed(first)} from the first pair, {_signed(second)} from the second. "
        f"Only their distance, {distance}, counts."
    )


def alibi_slopes_explorer(n_heads: int = 8, head: int = 1) -> Explorer:
    """The slope of every head, and how one head shares out its attention when all scores are equal."""
    return Explorer(
        controls={
            "n_heads": controls.slider("heads", 1, MOST_HEADS, n_heads),
            "head": controls.slider("look at head", 1, n_heads, head),
        },
        adjust=_keep_head_inside,
        compute=lambda n_heads, head: alibi_view(n_heads, head - 1),
        picture=SlopesPicture,
        describe=_describe_alibi,
    )


def _keep_head_inside(found: Mapping[str, Any]) -> None:
    controls.set_range(found["head"], 1, found["n_heads"].value)


def _describe_alibi(result: AlibiView) -> str:
    n, slope = len(result.slopes), result.slopes[result.head]
    nearest = "the nearest key alone gets" if result.half == 1 else f"the {result.half} nearest keys share"
    extra = n - result.from_the_rule
    borrowed = ""
    if extra:
        those = "1 slope is" if extra == 1 else f"{extra} slopes are"
        borrowed = f" {those} borrowed from the rule for {2 * result.from_the_rule} heads."
    return (
        f"Head {result.head + 1} of {n} has slope {slope:.4g}: over {FARTHEST} equal scores {nearest} at least half "
        f"its attention.{borrowed}"
    )


def _signed(number: float) -> str:
    return f"{number:.3f}".replace("-", "−") if round(number, 3) else "0.000"
