"""What goes in: tokens or image patches become vectors that know their places."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lab.model.cache import KeyValueCache
from transformer_lab.model.checks import check_floats, check_integers, check_shape
from transformer_lab.model.config import TransformerConfig
from transformer_lab.model.norms import make_norm
from transformer_lab.model.positions import NoPositions, RotaryPositions, position_ids, position_scheme
from transformer_lab.model.relative import RelativePositions


class Embedding(nn.Module):
    """Tokens or patches become vectors of width ``d_model``, which know their places if the scheme says so there.

    ``name`` is what messages call the inputs.
    """

    def __init__(self, config: TransformerConfig, scheme: NoPositions, name: str = "tokens") -> None:
        super().__init__()
        self.config, self.name, width = config, name, config.embedding_width
        self.token = None if config.d_patch else nn.Embedding(config.vocab, width)
        self.patch = nn.Linear(config.d_patch, width) if config.d_patch else None
        self.segment = nn.Embedding(config.n_segments, width) if config.n_segments else None
        self.class_token = nn.Parameter(torch.empty(width)) if config.class_token else None
        self.position = scheme
        norm = make_norm(config.norm, width, eps=config.norm_eps, bias=config.bias)
        self.norm = norm if config.embedding_norm else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)
        self.widen = nn.Identity() if config.d_embedding is None else nn.Linear(width, config.d_model)

    def forward(
        self,
        inputs: Int[Tensor, "batch length"] | Float[Tensor, "batch length d_patch"],
        *,
        mask: Bool[Tensor, "batch 1 1 key"] | None = None,
        segments: Int[Tensor, "batch length"] | None = None,
        caches: list[KeyValueCache] | None = None,
    ) -> tuple[Float[Tensor, "batch position d_model"], Int[Tensor, "#batch position"]]:
        """The vectors and the numbers of their positions: one a token, and one in front for a class token.

        The numbers come from the padding mask, or from how many tokens the caches hold.
        """
        self._check(inputs, segments)
        x = self.patch(inputs) if self.token is None else self.token(inputs)
        if self.config.scale_embeddings:
            x = x * math.sqrt(x.shape[-1])
        if self.segment is not None:
            x = x + self.segment(torch.zeros_like(inputs) if segments is None else segments)
        if self.class_token is not None:
            x = torch.cat((self.class_token.expand(len(x), 1, -1), x), dim=1)
        length = x.shape[1]
        if mask is None:
            ids = (caches[0] if caches else KeyValueCache()).next_position_ids(length, device=x.device)
        else:
            ids = position_ids(mask)[:, -length:]
        return self.widen(self.dropout(self.norm(self.position.add(x, ids)))), ids

    def _check(self, inputs: object, segments: object) -> None:
        if self.patch is not None:
            check_floats(self.name, inputs)
            check_shape(self.name, inputs, batch=None, length=None, d_patch=self.config.d_patch)
            return
        check_integers(self.name, inputs)
        check_shape(self.name, inputs, batch=None, length=None)
        _check_range(self.name, inputs, self.config.vocab, "the vocabulary")
        if segments is not None:
            check_integers("segments", segments)
            check_shape("segments", segments, batch=len(inputs), length=inputs.shape[1])
            if self.segment is None:
                raise ValueError("segments were passed, but config.n_segments is 0: the model has none.")
            _check_range("segments", segments, self.config.n_segments, "the segments")


def make_scheme(config: TransformerConfig, *, causal: bool) -> NoPositions:
    """The position scheme of one stack."""
    if config.position == "relative":
        return RelativePositions(
            config.n_heads, n_buckets=config.n_buckets, max_distance=config.max_distance, bidirectional=not causal
        )
    if config.position == "rope":
        return RotaryPositions(layout=config.rope_layout, base=config.rope_base)
    return position_scheme(config.position, d_model=config.embedding_width, n_positions=config.n_positions)


def _check_range(name: str, ids: Tensor, n: int, what: str) -> None:
    if ids.is_meta:
        return
    lowest, highest = ids.aminmax()
    if lowest < 0 or highest >= n:
        wrong = int(lowest if lowest < 0 else highest)
        raise ValueError(f"{name} holds {wrong}; {what} has the numbers 0 to {n - 1}.")
