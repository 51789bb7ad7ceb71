"""What a decoder remembers, so that a new token projects only itself."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


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

    def append(
        self,
        key: Float[Tensor, "batch kv_heads new d_head"],
        value: Float[Tensor, "batch kv_heads new d_head"],
        position_ids: Int[Tensor, "#batch new"] | None = None,
    ) -> tuple[Float[Tensor, "batch kv_heads key d_head"], Float[Tensor, "batch kv_heads key d_head"]]:
        """Store the new tokens after the old ones and return the keys and values of all.

        Raises:
            ValueError: another batch, head count or width than the cache holds.
        """
        if position_ids is None:
            position_ids = self.next_position_ids(key.shape[2], device=key.device)
        if self.key is None:
            self.key, self.value, self.position_ids = key, value, position_ids
        else:
            for axis, name in ((0, "batch"), (1, "kv_heads"), (3, "d_head")):
                if key.shape[axis] != self.key.shape[axis]:
                    raise ValueError(
                        f"the cache holds keys of shape {tuple(self.key.shape)} and the new keys are "
                        f"{tuple(key.shape)}: {name} differs. Start a new cache for a new batch."
                    )
            self.key, self.value = torch.cat((self.key, key), dim=2), torch.cat((self.value, value), dim=2)
            rows = max(len(self.position_ids), len(position_ids))
            numbers = (ids.expand(rows, -1) for ids in (self.position_ids, position_ids))
            self.position_ids = torch.cat(tuple(numbers), dim=1)
        return self.key, self.value
