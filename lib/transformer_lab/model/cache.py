"""What a decoder remembers, so that a new token projects only itself."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformer_lab.model.checks import check_alike, check_kind, check_position_ids, check_shape


@dataclass
class KeyValueCache:
    """The keys and values of the tokens seen so far, and where each of them stands.

    Keys are stored as they are compared: already turned, if the position scheme turns them. ``mask`` is the padding
    mask under which a model filled the cache; None where every token is real.

    Raises:
        TypeError, ValueError: keys, values and position ids that do not fit each other, or one without the others.
    """

    key: Float[Tensor, "batch kv_heads key d_head"] | None = None
    value: Float[Tensor, "batch kv_heads key d_head"] | None = None
    position_ids: Int[Tensor, "#batch key"] | None = None
    mask: Bool[Tensor, "batch 1 1 key"] | None = None

    def __post_init__(self) -> None:
        held = {"key": self.key, "value": self.value, "position_ids": self.position_ids}
        missing = [name for name, tensor in held.items() if tensor is None]
        if missing == list(held):
            return
        if missing:
            raise ValueError(f"{' and '.join(missing)} of the cache is None; give {', '.join(held)}, or none of them.")
        check_shape("key", self.key, batch=None, kv_heads=None, key=None, d_head=None)
        batch, kv_heads, n_key, d_head = self.key.shape
        check_shape("value", self.value, batch=batch, kv_heads=kv_heads, key=n_key, d_head=d_head)
        check_alike("value", self.value, "key", self.key)
        check_position_ids(self.position_ids, batch, n_key, self.key)
        self.position_ids = self.position_ids.long()  # counting on from 255 needs more than 8 bits

    def __len__(self) -> int:
        return 0 if self.key is None else self.key.shape[2]

    def next_position_ids(
        self, n_new: int, *, device: torch.device | str | None = None
    ) -> Int[Tensor, "#batch {n_new}"]:
        """The numbers of the next ``n_new`` tokens: each sentence counts on from its own last token, or from 0."""
        new = torch.arange(n_new, device=device)[None]
        return new if self.position_ids is None else self.position_ids[:, -1:] + 1 + new

    def extended(
        self,
        key: Float[Tensor, "batch kv_heads new d_head"],
        value: Float[Tensor, "batch kv_heads new d_head"],
        position_ids: Int[Tensor, "#batch new"] | None = None,
    ) -> "KeyValueCache":
        """Another cache, of the old tokens and the new ones after them; this one stays as it is.

        Raises:
            TypeError: another dtype than the cache holds.
            ValueError: another batch, head count, width or device than the cache holds, a key without its value.
        """
        check_shape("key", key, batch=None, kv_heads=None, new=None, d_head=None)
        if position_ids is None:
            position_ids = self.next_position_ids(key.shape[2], device=key.device)
        new = KeyValueCache(key, value, position_ids)
        if self.key is None:
            return new
        for axis, name in ((0, "batch"), (1, "kv_heads"), (3, "d_head")):
            if key.shape[axis] != self.key.shape[axis]:
                raise ValueError(
                    f"the cache holds keys of shape {tuple(self.key.shape)} and the new keys are "
                    f"{tuple(key.shape)}: {name} differs. Start a new cache for a new batch."
                )
        check_alike("key", key, "the cache", self.key)
        rows = max(len(self.position_ids), len(position_ids))
        numbers = tuple(ids.expand(rows, -1) for ids in (self.position_ids, new.position_ids))
        pairs = ((self.key, key), (self.value, value))
        return KeyValueCache(*(torch.cat(pair, dim=2) for pair in pairs), torch.cat(numbers, dim=1))

    def become(self, other: "KeyValueCache") -> None:
        """Take up what another cache holds."""
        self.key, self.value, self.position_ids, self.mask = other.key, other.value, other.position_ids, other.mask

    def check_mask(self, name: str, mask: Bool[Tensor, "batch 1 1 key"] | None) -> None:
        """Refuse a padding mask that calls a cached token a pad which was real, or the other way round."""
        if not len(self) or self.key.is_meta:
            return
        real = torch.ones(1, 1, 1, len(self), dtype=torch.bool)
        was, now = (real if given is None else given[..., : len(self)] for given in (self.mask, mask))
        differs = was.to(now.device) != now
        if differs.any():
            batch, *_, token = differs.nonzero()[0].tolist()
            kind = "a pad" if now.expand_as(differs)[batch, 0, 0, token] else "real"
            raise ValueError(
                f"{name} is {'missing' if mask is None else 'another'}, but the caches were filled when token {token} "
                f"of sentence {batch} was {kind}: repeat the mask of the {len(self)} cached tokens before the new ones."
            )

    def append(
        self,
        key: Float[Tensor, "batch kv_heads new d_head"],
        value: Float[Tensor, "batch kv_heads new d_head"],
        position_ids: Int[Tensor, "#batch new"] | None = None,
    ) -> tuple[Float[Tensor, "batch kv_heads key d_head"], Float[Tensor, "batch kv_heads key d_head"]]:
        """Become `extended` by the new tokens, and return the keys and values of all."""
        self.become(self.extended(key, value, position_ids))
        return self.key, self.value


def check_caches(caches: object, n_blocks: int, name: str, tokens: object) -> None:
    """Refuse anything but a list of one cache a block, all filled alike, and tokens of another batch than theirs."""
    check_kind("caches", caches, list, "make it with new_caches()")
    for cache in caches:
        check_kind("caches[i]", cache, KeyValueCache, "make it with new_caches()")
    distinct, lengths = len({id(cache) for cache in caches}), [len(cache) for cache in caches]
    if distinct != n_blocks:
        raise ValueError(f"caches holds {distinct} different caches, for {n_blocks} blocks: make it with new_caches().")
    if len(set(lengths)) > 1:
        raise ValueError(
            f"caches hold {lengths} tokens, but every block has seen the same ones: start again with new_caches()."
        )
    check_shape(name, tokens, batch=len(caches[0].key) if lengths[0] else None, length=None)
