"""One token's vector on its way through every sublayer of real blocks, as forward hooks see it pass."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from transformer_lab.experiments.deep_models import language_model
from transformer_lab.tasks import agreement

WORDS = (agreement.START, "these", "old", "cats", "sleep", "here")
NORMS = ("layernorm", "rmsnorm")
D_MODEL = 16
MOST_BLOCKS = 3
ADDED = "added"  # the name of what a sublayer returns, before it joins the stream


@dataclass(frozen=True)
class Stage:
    """One step of the stream. ``added`` is what the sublayer returned; ``None`` at the input and at the final norm."""

    name: str
    added: Float[Tensor, " d_model"] | None
    stream: Float[Tensor, " d_model"]

    @property
    def length(self) -> float:
        """The Euclidean norm of the stream."""
        return self.stream.norm().item()


@dataclass(frozen=True)
class BlockWalk:
    """The stages of one token, and the shape that the stream has had at every one of them."""

    token: int
    norm_order: str
    norm: str
    shortcut: bool
    activation: str
    shapes: tuple[tuple[int, ...], ...]
    stages: tuple[Stage, ...]

    @property
    def word(self) -> str:
        return WORDS[self.token]

    @property
    def n_blocks(self) -> int:
        return sum(stage.added is not None for stage in self.stages) // 2


def walk_block(
    token: int = 3,
    norm_order: str = "pre",
    norm: str = "layernorm",
    shortcut: bool = True,
    activation: str = "gelu",
    n_blocks: int = 1,
) -> BlockWalk:
    """Run an untrained model on `WORDS` and record one token's vector before and after every sublayer.

    Raises:
        ValueError: a token or a number of blocks that is not there, and what `language_model` refuses.
    """
    if not 0 <= token < len(WORDS):
        raise ValueError(f"token is {token}; the sentence has the tokens 0 to {len(WORDS) - 1}.")
    if not 1 <= n_blocks <= MOST_BLOCKS:
        raise ValueError(f"n_blocks is {n_blocks}; there is room for 1 to {MOST_BLOCKS}.")
    passed = _record(norm_order, norm, shortcut, activation, n_blocks)
    stages, added = [], None
    for name, output in passed:
        if name == ADDED:
            added = output[0, token]
        else:
            stages.append(Stage(name, added, output[0, token]))
            added = None
    shapes = tuple(tuple(output.shape) for _, output in passed)
    return BlockWalk(token, norm_order, norm, shortcut, activation, shapes, tuple(stages))


@functools.lru_cache(maxsize=128)  # another token needs no other pass
@torch.no_grad()
def _record(
    norm_order: str, norm: str, shortcut: bool, activation: str, n_blocks: int
) -> tuple[tuple[str, Tensor], ...]:
    """What enters the first block, then what each sublayer returns and the stream after it, in the order of passing."""
    model = language_model(
        n_blocks, norm_order=norm_order, norm=norm, shortcut=shortcut, activation=activation, d_model=D_MODEL
    )
    # The same words enter, whatever follows: a model's embedding is drawn together with its blocks.
    model.embedding.load_state_dict(language_model(1, d_model=D_MODEL).embedding.state_dict())
    passed: list[tuple[str, Tensor]] = []

    def listen(name: str) -> Callable[..., None]:
        return lambda module, args, output: passed.append((name, output))

    first = model.decoder.blocks[0]
    first.register_forward_pre_hook(lambda module, args: passed.append(("input", args[0])))
    for number, block in enumerate(model.decoder.blocks, 1):
        for residual, name in ((block.self_attention, "attention"), (block.feedforward, "feed-forward")):
            residual.sublayer.register_forward_hook(listen(ADDED))
            residual.register_forward_hook(listen(f"block {number}: {name}" if n_blocks > 1 else name))
    if norm_order == "pre":
        model.decoder.final_norm.register_forward_hook(listen("final norm"))
    model(torch.tensor([[agreement.WORDS.index(word) for word in WORDS]]))
    return tuple(passed)
