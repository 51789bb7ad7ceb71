"""What goes in: tokens or image patches become vectors that know their places."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lab.model.cache import KeyValueCache
from transformer_lab.model.checks import (
    AnyTensor,
    check_alike,
    check_boolean,
    check_floats,
    check_integers,
    check_shape,
)
from transformer_lab.model.config import TransformerConfig
from transformer_lab.model.norms import make_norm
from transformer_lab.model.positions import NoPositions, RotaryPositions, position_ids, position_scheme
from transformer_lab.model.relative import RelativePositions


class Embedding(nn.Module):
    """Tokens or patches become vectors of width ``d_model``, which know their places if the scheme says so there.

    Args:
        config: what there is to embed.
        scheme: the positions; from `make_scheme`.
        name: what messages call the inputs.
        token: the token embedding of another side, to share it.
    """

    def __init__(
        self, config: TransformerConfig, scheme: NoPositions, name: str, token: nn.Embedding | None = None
    ) -> None:
        super().__init__()
        self.config, self.name, width = config, name, config.embedding_width
        self.token = None if config.d_patch else token or nn.Embedding(config.vocab, width)
        self.patch = nn.Linear(config.d_patch, width) if config.d_patch else None
        self.segment = nn.Embedding(config.n_segments, width) if config.n_segments else None
        self.class_token = nn.Parameter(torch.randn(width) / math.sqrt(width)) if config.class_token else None
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

        The numbers come from the padding mask, or go on from those in the caches.

        Raises:
            TypeError: tokens that are not whole numbers, patches of another dtype than the weights, a mask that is not
                boolean.
            ValueError: shapes or devices that do not fit, a token or segment without a row; a padding mask that does
                not repeat the one that the caches were filled with.
        """
        inputs = self._checked(inputs)
        past = caches[0] if caches else KeyValueCache()
        if mask is not None:
            check_padding_mask(f"mask of {self.name}", mask, inputs, n_cached=len(past))
        past.check_mask(f"mask of {self.name}", mask)
        x = self.patch(inputs) if self.token is None else self.token(inputs)
        if self.config.scale_embeddings:
            x = x * math.sqrt(x.shape[-1])
        if segments is not None:
            self._check_segments(segments, inputs)
        if self.segment is not None:
            x = x + self.segment(torch.zeros_like(inputs) if segments is None else segments.long())
        if self.class_token is not None:
            x = torch.cat((self.class_token.expand(len(x), 1, -1), x), dim=1)
        length = x.shape[1]
        if mask is None:
            ids = past.next_position_ids(length, device=x.device)
        else:
            ids = position_ids(self.mask_with_class_token(mask))[:, -length:]
        return self.widen(self.dropout(self.norm(self.position.add(x, ids)))), ids

    def mask_with_class_token(self, mask: Bool[Tensor, "batch 1 1 key"] | None) -> Bool[Tensor, "batch 1 1 n"] | None:
        """The padding mask of the vectors: a class token in front is read by all."""
        return mask if mask is None or self.class_token is None else F.pad(mask, (1, 0), value=True)

    def _checked(self, inputs: object) -> Tensor:
        """The inputs, tokens as torch looks them up: in int64."""
        if self.patch is not None:
            check_floats(self.name, inputs)
            check_shape(self.name, inputs, batch=None, length=None, d_patch=self.config.d_patch)
            check_alike(self.name, inputs, "the weights", self.patch.weight)
            return inputs
        check_integers(self.name, inputs)
        check_shape(self.name, inputs, batch=None, length=None)
        check_alike(self.name, inputs, "the weights", self.token.weight, dtype=False)
        _check_range(self.name, inputs, "vocab", self.config.vocab)
        return inputs.long()

    def _check_segments(self, segments: object, tokens: Tensor) -> None:
        if self.segment is None:
            raise ValueError("segments were passed, but config.n_segments is 0: leave them out.")
        check_integers("segments", segments)
        check_shape("segments", segments, batch=len(tokens), length=tokens.shape[1])
        check_alike("segments", segments, self.name, tokens, dtype=False)
        _check_range("segments", segments, "n_segments", self.config.n_segments)


def make_scheme(config: TransformerConfig, *, causal: bool) -> NoPositions:
    """The position scheme of one stack."""
    if config.position == "relative":
        return RelativePositions(
            config.n_heads, n_buckets=config.n_buckets, max_distance=config.max_distance, bidirectional=not causal
        )
    if config.position == "rope":
        return RotaryPositions(layout=config.rope_layout, base=config.rope_base)
    return position_scheme(config.position, d_model=config.embedding_width, n_positions=config.n_positions)


def check_padding_mask(name: str, mask: object, inputs: AnyTensor, *, n_cached: int = 0) -> None:
    """Refuse anything but one True or False for every token of ``inputs`` (batch, length, …), after the cached ones.

    Raises:
        TypeError: no boolean tensor.
        ValueError: a shape other than (batch, 1, 1, length), another device.
    """
    check_boolean(name, mask)
    batch, n_new = inputs.shape[:2]
    if mask.shape != (batch, 1, 1, n_cached + n_new):
        length = f"{n_cached} cached tokens and {n_new} new" if n_cached else n_new
        fix = "insert the two axes with [:, None, None, :]" if mask.ndim == 2 else "see padding_mask"
        raise ValueError(
            f"{name} has shape {tuple(mask.shape)}; it must be (batch = {batch}, 1, 1, length = {length}), True on "
            f"real tokens: {fix}."
        )
    check_alike(name, mask, "the inputs", inputs, dtype=False)


def _check_range(name: str, ids: Tensor, field: str, n: int) -> None:
    if ids.is_meta:
        return
    lowest, highest = ids.aminmax()
    if lowest < 0 or highest >= n:
        wrong = int(lowest if lowest < 0 else highest)
        raise ValueError(
            f"{name} holds {wrong}; config.{field} is {n}, so the numbers go from 0 to {n - 1}. Correct the input "
            f"or raise {field}."
        )
