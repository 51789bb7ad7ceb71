"""From multi-head to multi-query attention: how many query heads share a key/value head, and what it saves."""

from transformer_lab.draw.kv_sharing import KVSharingPicture
from transformer_lab.experiments.kv_sharing import MOST_TOKENS, N_HEADS, KVSharing, share_kv
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer

SIZES = tuple(n for n in range(N_HEADS, 0, -1) if N_HEADS % n == 0)


def kv_sharing(n_kv_heads: int = N_HEADS, n_tokens: int = MOST_TOKENS) -> Explorer:
    """A layer of width 512 with eight query heads and one to eight key/value heads.

    Args:
        n_kv_heads: a divisor of 8.
        n_tokens: how many tokens the cache holds.
    """
    return Explorer(
        controls={
            "n_kv_heads": controls.stops("key/value heads", [(f"{n} ({_short(n)})", n) for n in SIZES], n_kv_heads),
            "n_tokens": controls.slider("tokens in the cache", 1, MOST_TOKENS, n_tokens),
        },
        compute=share_kv,
        picture=KVSharingPicture,
        describe=describe,
    )


def _short(n_kv_heads: int) -> str:
    return "MHA" if n_kv_heads == N_HEADS else "MQA" if n_kv_heads == 1 else "GQA"


_NAMES = {"MHA": "Multi-head attention", "GQA": "Grouped-query attention", "MQA": "Multi-query attention"}


def describe(sharing: KVSharing) -> str:
    """Who shares what, the cache beside multi-head attention's, and what does not shrink."""
    name = _NAMES[_short(sharing.n_kv_heads)]
    group = sharing.n_heads // sharing.n_kv_heads
    tokens = "1 token" if sharing.n_tokens == 1 else f"{sharing.n_tokens} tokens"
    if group == 1:
        return (
            f"{name}: every query head has a key/value head of its own. {tokens} fill {sharing.cache_bytes:,} bytes "
            "of cache in this layer."
        ).replace("1 token fill", "1 token fills")
    heads = "one key/value head" if sharing.n_kv_heads == 1 else f"{sharing.n_kv_heads} key/value heads"
    cut = sharing.full_cache_bytes / sharing.cache_bytes
    return (
        f"{name}: {sharing.n_heads} query heads share {heads}. The cache of {tokens} is {cut:g} times smaller: "
        f"{sharing.cache_bytes:,} bytes instead of {sharing.full_cache_bytes:,}. W_Q and W_O keep their size. "
        f"Multi-head attention with every key/value head repeated {group} times gives the same output within "
        f"{'0.00001' if sharing.gap < 1e-5 else f'{sharing.gap:.5f}'}."
    )
