"""What a decoder remembers, so that a new token projects only itself."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer_lab.model.checks import check_alike, check_position_ids, check_shape


@dataclass
class KeyValueCache:
    """The keys and values of the tokens seen so far, and where each of them stands.

    Keys are stored as they are compared: already turned, if the position scheme turns them.
    """

    key: Float[Tensor, "batch kv_heads key d_head"] | None = None
    value: Float[Tensor, "batch kv_heads key d_head"] | None = None
    position_ids: Int[Tensor, "#batch key"] | None = None

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
        batch, kv_heads, n_new, d_head = key.shape
        check_shape("value", value, batch=batch, kv_heads=kv_heads, new=n_new, d_head=d_head)
        check_alike("value", value, "key", key)
        if position_ids is None:
            position_ids = self.next_position_ids(n_new, device=key.device)
        check_position_ids(position_ids, batch, n_new, key)
        if self.key is None:
            return KeyValueCache(key, value, position_ids)
        for axis, name in ((0, "batch"), (1, "kv_heads"), (3, "d_head")):
            if key.shape[axis] != self.key.shape[axis]:
                raise ValueError(
                    f"the cache holds keys of shape {tuple(self.key.shape)} and the new keys are "
                    f"{tuple(key.shape)}: {name} differs. Start a new cache for a new batch."
                )
        check_alike("key", key, "the cache", self.key)
        rows = max(len(self.position_ids), len(position_ids))
        numbers = tuple(ids.expand(rows, -1) for ids in (self.position_ids, position_ids))
        pairs = ((self.key, key), (self.value, value))
        return KeyValueCache(*(torch.cat(pair, dim=2) for pair in pairs), torch.cat(numbers, dim=1))

    def become(self, other: "KeyValueCache") -> None:
        """Take up what another cache holds."""
        self.key, self.value, self.position_ids = other.key, other.value, other.position_ids

    def append(
        self,
        key: Float[Tensor, "batch kv_heads new d_head"],
        value: Float[Tensor, "batch kv_heads new d_head"],
        position_ids: Int[Tensor, "#batch new"] | None = None,
    ) -> tuple[Float[Tensor, "batch kv_heads key d_head"], Float[Tensor, "batch kv_heads key d_head"]]:
        """Become `extended` by the new tokens, and return the keys and values of all."""
        self.become(self.extended(key, value, position_ids))
        return self.key, self.value
