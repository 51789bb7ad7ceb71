"""Attention maps as the forward pass really made them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from transformer_lab.model.attention import Attention


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Record the weights of every attention in ``model`` while the ``with`` block runs.

    The model is asked to take its readable path, and what it computes there is what is stored: nothing is
    recomputed beside it, and the model goes back to its fused path afterwards.

    Yields:
        A dict from the name of each attention module (``"layers.0.self_attention"``; ``""`` for ``model`` itself) to
        the list of its weights, one ``(batch, heads, query, key)`` tensor a call, detached.

    Raises:
        ValueError: a model without attention.
    """
    cores = {name: module for name, module in model.named_modules() if isinstance(module, Attention)}
    if not cores:
        raise ValueError(f"{type(model).__name__} holds no attention to record.")
    maps: dict[str, list[Tensor]] = {}
    handles = []

    def ask_for_weights(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        return args, {**kwargs, "need_weights": True}

    for name, core in cores.items():
        owner = "" if name == "attention" else name.removesuffix(".attention")
        stored = maps.setdefault(owner, [])

        def store(module: nn.Module, args: tuple, output: tuple, stored: list[Tensor] = stored) -> None:
            stored.append(output[1].detach())

        handles += [
            core.register_forward_pre_hook(ask_for_weights, with_kwargs=True),
            core.register_forward_hook(store),
        ]
    try:
        yield maps
    finally:
        for handle in handles:
            handle.remove()
