"""The course's still diagrams: each is a function that returns a Figure, saved as an SVG in figures/.

`ALT` holds one alternative text per diagram, for README and notebooks alike. Redraw all of them with
`python -m transformer_lab.draw.diagrams figures/`; never edit an SVG by hand.
"""

import io
from collections.abc import Collection
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from transformer_lab.draw.diagrams.attention import attention_flow, rhythm
from transformer_lab.draw.diagrams.block import block_orders
from transformer_lab.draw.diagrams.course import LESSONS, course_map, learning_loop
from transformer_lab.draw.diagrams.cross_attention import cross_attention, encoder_decoder
from transformer_lab.draw.diagrams.families import three_families
from transformer_lab.draw.diagrams.heads import head_patterns, multiple_heads
from transformer_lab.draw.diagrams.masks import causal_triangle, padding_bug
from transformer_lab.draw.diagrams.parameters import block_areas
from transformer_lab.draw.diagrams.positions import content_plus_position
from transformer_lab.draw.diagrams.recurrence import gru_cell, lstm_cell, rnn_chain

__all__ = [
    "ALT", "LESSONS", "attention_flow", "available_lessons", "block_areas", "block_orders", "causal_triangle",
    "content_plus_position", "course_map", "cross_attention", "draw_all", "encoder_decoder", "gru_cell",
    "head_patterns", "learning_loop", "lstm_cell", "multiple_heads", "padding_bug", "rhythm", "rnn_chain", "svg",
    "three_families", "write_all",
]  # fmt: skip

ALT = {
    "rhythm": (
        "Four token vectors run from left to right through a block. First attention mixes between tokens: lines "
        "cross from every token to every token. Then a feed-forward network works on each token alone. After each "
        "step the vector that was carried past, the residual, is added back and normalised. The block is stacked "
        "N times, each copy with its own weights."
    ),
    "causal_triangle": (
        "A five by five causal mask for 'The cat sleeps on mats', with queries as rows and keys as columns. Each "
        "row may look at its own token and at earlier ones, so the allowed cells form a lower triangle; later "
        "cells are hatched and crossed out. An arrow at the end of each row names the label, the next token: "
        "The predicts cat, cat predicts sleeps, sleeps predicts on, on predicts mats, mats predicts the end."
    ),
    "course_map": (
        "Map of the fifteen lessons, with minutes and an arrow from each lesson to those that need it. {lessons}"
    ),
    "attention_flow": (
        "Attention for four tokens, with shapes. X, 4 by d_model, goes through three learned projections to Q, K "
        "and V. Q times K transposed gives scores, 4 by 4. They are divided by the square root of d_k, masked, and "
        "turned by softmax into weights whose rows each sum to 1. Weights times V give the output, 4 by d_v."
    ),
    "content_plus_position": (
        "Three tokens, dog, bites and dog. Each row shows a content vector of six coloured cells, plus a position "
        "vector of six cells, equals a sum of six cells, which attention reads. The two dogs have the same "
        "content cells, but other position cells, so their sums differ. The vectors are added, not appended: the "
        "width stays d_model."
    ),
    "padding_bug": (
        "The sentence 'The film was great' in two batches, with 3 pads and with 124 pads. Without a mask, and with "
        "equal scores, the words get 57% of the attention in the first batch and 3% in the second; the pads get "
        "the rest. With the mask the words get 100% in both batches."
    ),
    "rnn_chain": (
        "Five tokens, The cat that I saw, each with a hidden state above it. From the hidden state of the first "
        "token to that of the fifth, recurrence takes 4 transitions, one after another. Below, attention: from the "
        "first token itself, 1 step leads to the output under the fifth, whatever lies between."
    ),
    "lstm_cell": (
        "An LSTM step. The cell state c runs straight along the top: it is multiplied by the forget gate f (keep), "
        "then the input gate i times the candidate g is added (write). The new cell state, through tanh and times "
        "the output gate o, is the new hidden state h (show). All gates and the candidate read the input x and the "
        "old h."
    ),
    "gru_cell": (
        "A GRU step. The hidden state h runs straight along the top: it is multiplied by the update gate z (keep), "
        "then 1 minus z times the candidate n is added (write). The reset gate r decides how much of the old h the "
        "candidate reads. There is no separate cell state. Gates and candidate read the input x and the old h."
    ),
    "multiple_heads": (
        "Four tokens of width 512 enter eight heads. Each head makes its own Q, K and V of 4 by 64, a 4 by 4 map and "
        "an output of 4 by 64. The eight outputs stand side by side as 4 by 512, and the matrix W_O mixes them to the "
        "output, 4 by 512."
    ),
    "encoder_decoder": (
        "The encoder–decoder of 2017. Left, the encoder: the tokens the, white, cow, their embeddings and positions, "
        "then six blocks of self-attention and feed-forward, each followed by add and norm. Its output is the memory, "
        "one vector for each source token. Right, the decoder: start, la, vache, then six blocks of causal "
        "self-attention, cross-attention and feed-forward, then a linear layer and softmax, which say la, vache, "
        "blanche. Keys and values go from the memory to every cross-attention; the queries are the decoder's own."
    ),
    "cross_attention": (
        "Cross-attention of one head. Three decoder states, for start, la and vache, make three queries. A memory of "
        "five source places, the, white, cow and two pads, makes five keys and five values. Queries times keys, "
        "divided by the root of d_k, and a softmax row by row give weights of 3 by 5, target by source. Weights times "
        "values are 3 by d_v; W_O turns them into an output of 3 by d_model."
    ),
    "head_patterns": (
        "Illustrative, drawn by hand: four maps over the words the cat saw the cat run. Previous token: a line below "
        "the diagonal. First token: the first column. Same word: every copy of the query's word. Everything alike: "
        "all cells equal."
    ),
    "block_areas": (
        "The matrices of one block as rectangles whose areas are numbers of parameters. Attention: W_Q, W_K, W_V and "
        "W_O, each d by d, 4 d squared in all. Feed-forward: up, d by 4d, and down, 4d by d, 8 d squared in all; "
        "dashed, a third matrix of d by 4d if there is a gate. A plain block holds 12 d squared, a gated one 16. "
        "Biases and norms, 13 d, are a thin line: 0.2% of a plain block at d = 512."
    ),
    "block_orders": (
        "Two columns. Post-norm, norm of x plus f of x: attention, plus, norm, then feed-forward, plus, norm; the "
        "stream passes through every norm. Pre-norm, x plus f of norm of x: norm, attention, plus, then norm, "
        "feed-forward, plus; the stream meets one norm, after all blocks."
    ),
    "three_families": (
        "The three families side by side. Encoder-only: these, mask, dogs go into encoder blocks, in which every token "
        "reads every token, and at the mask comes out old, the hidden word. Decoder-only: these, old, dogs go into "
        "decoder blocks whose map is a lower triangle, and each place says the next word: old, dogs, barked. "
        "Encoder–decoder: a gap and dogs go into encoder blocks; start and these go into decoder blocks, which also "
        "read all of the encoder's output, and say the next target words, these and old."
    ),
    "learning_loop": (
        "A loop of four steps: predict an answer, build the idea in a few lines, look at it and move it, check the "
        "claim and your own code; then predict again."
    ),
}
ALT["course_map"] = ALT["course_map"].format(
    lessons=" ".join(
        f"{lesson.number:02d} {lesson.title}, {lesson.minutes} min"
        + (f", needs {' and '.join(f'{need:02d}' for need in lesson.needs)}." if lesson.needs else ".")
        for lesson in LESSONS
    )
)


def draw_all(available: Collection[int]) -> dict[str, Figure]:
    """Every diagram by name. `available` holds the numbers of the lessons that exist, for the map."""
    return {
        "rhythm": rhythm(),
        "causal_triangle": causal_triangle(),
        "course_map": course_map(available),
        "attention_flow": attention_flow(),
        "padding_bug": padding_bug(),
        "content_plus_position": content_plus_position(),
        "rnn_chain": rnn_chain(),
        "lstm_cell": lstm_cell(),
        "gru_cell": gru_cell(),
        "multiple_heads": multiple_heads(),
        "encoder_decoder": encoder_decoder(),
        "cross_attention": cross_attention(),
        "head_patterns": head_patterns(),
        "block_areas": block_areas(),
        "block_orders": block_orders(),
        "three_families": three_families(),
        "learning_loop": learning_loop(),
    }


def svg(figure: Figure, name: str) -> bytes:
    """The figure as an SVG that is the same bytes every time: no date, fixed ids, letters drawn as shapes."""
    settings = {"svg.hashsalt": name, "svg.fonttype": "path"}
    stream = io.BytesIO()
    with matplotlib.rc_context(settings):
        metadata = {"Date": None, "Creator": None, "Title": name.replace("_", " ")}
        figure.savefig(stream, format="svg", metadata=metadata)
    return stream.getvalue()


def available_lessons(notebooks: Path) -> frozenset[int]:
    """Numbers of the lessons whose notebook exists in this folder."""
    return frozenset(int(path.name[:2]) for path in notebooks.glob("[0-9][0-9]_*.ipynb"))


def write_all(folder: Path, available: Collection[int]) -> list[Path]:
    """Draw every diagram into the folder as <name>.svg and return the paths."""
    paths = []
    for name, figure in draw_all(available).items():
        path = Path(folder) / f"{name}.svg"
        path.write_bytes(svg(figure, name))
        paths.append(path)
    return paths
