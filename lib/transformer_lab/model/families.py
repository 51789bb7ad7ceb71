"""Three families from the same blocks: encoder-only, decoder-only and encoder–decoder.

What differs is what a token may read and how the stacks are wired. The objective, which is not in the model, does the
rest (Devlin et al. 2018; Vaswani et al. 2017).
"""

from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lab.model.blocks import Block
from transformer_lab.model.cache import KeyValueCache, check_caches
from transformer_lab.model.checks import check_alike, check_kind, check_shape
from transformer_lab.model.config import TransformerConfig
from transformer_lab.model.embedding import Embedding, check_padding_mask, make_scheme
from transformer_lab.model.norms import make_norm
from transformer_lab.model.positions import NoPositions

IN_ATTENTION = ("rope", "alibi", "relative")  # the other schemes act once, on the embeddings
Mask = Bool[Tensor, "batch 1 1 key"]
Hidden = Float[Tensor, "batch length d_model"]


class Stack(nn.Module):
    """Blocks on top of each other, and after pre-norm blocks one more norm, since their sum was never normed."""

    def __init__(self, config: TransformerConfig, n_layers: int, scheme: NoPositions, *, causal: bool) -> None:
        super().__init__()

        def block() -> Block:
            return Block(
                config.d_model,
                config.n_heads,
                config.d_ff,
                norm=config.norm,
                norm_order=config.norm_order,
                norm_eps=config.norm_eps,
                activation=config.activation,
                cross_attention=causal and config.family == "encoder-decoder",
                n_kv_heads=config.n_kv_heads,
                d_head=config.d_head,
                bias=config.bias,
                dropout=config.dropout,
                position=scheme if config.position in IN_ATTENTION else None,
            )

        self.causal = causal
        self.blocks = nn.ModuleList([block()] * n_layers if config.share_layers else [block() for _ in range(n_layers)])
        final_norm = make_norm(config.norm, config.d_model, eps=config.norm_eps, bias=config.bias)
        self.final_norm = final_norm if config.norm_order == "pre" else nn.Identity()

    def forward(
        self,
        x: Hidden,
        context: Float[Tensor, "batch source d_model"] | None = None,
        *,
        ids: Int[Tensor, "#batch length"],
        mask: Mask | None = None,
        context_mask: Bool[Tensor, "batch 1 1 source"] | None = None,
        caches: list[KeyValueCache] | None = None,
    ) -> Hidden:
        # Blocks fill copies: a call that is refused half way leaves every cache as it was.
        filled = [None] * len(self.blocks) if caches is None else [replace(cache) for cache in caches]
        for block, cache in zip(self.blocks, filled, strict=True):
            x = block(
                x, context, mask=mask, causal=self.causal, context_mask=context_mask, cache=cache, position_ids=ids
            )
        x = self.final_norm(x)
        kept_mask = mask if mask is None else mask.clone()  # the caller may go on writing in theirs
        for cache, new in zip(caches or (), filled, strict=False):
            new.mask = kept_mask
            cache.become(new)
        return x


class EncoderOnly(nn.Module):
    """Every token reads every other one: BERT, ViT. Ends in the head that the config names, or in none.

    Raises:
        TypeError, ValueError: in its methods, inputs, segments or masks that do not fit, by their name.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        _check_family(config, "encoder-only")
        self.config, scheme = config, make_scheme(config, causal=False)
        self.embedding = Embedding(config, scheme, "inputs")
        self.encoder = Stack(config, config.n_layers, scheme, causal=False)
        self.pooler = nn.Sequential(nn.Linear(config.d_model, config.d_model), nn.Tanh()) if config.pooler else None
        self.head = _vocabulary_head(config, self.embedding)
        if config.n_classes:
            self.head = nn.Linear(config.d_model, config.n_classes)
        _initialise(self)

    def encode(
        self,
        inputs: Int[Tensor, "batch length"] | Float[Tensor, "batch length d_patch"],
        *,
        mask: Mask | None = None,
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Float[Tensor, "batch position d_model"]:
        """One vector for every token, and one in front for a class token.

        Args:
            inputs: token ids, or patches.
            mask: (batch, 1, 1, length), True on real tokens, as `padding_mask` and `mask_from_tokens` return it.
                Positions are numbered from it, so padding may stand on either side.
            segments: which segment each token belongs to; 0 unless given.
        """
        x, ids = self.embedding(inputs, mask=mask, segments=segments)
        return self.encoder(x, ids=ids, mask=self.embedding.mask_with_class_token(mask))

    def pool(self, hidden: Hidden, *, mask: Mask | None) -> Float[Tensor, "batch d_model"]:
        """The first token's vector, or the class token's, through the pooler if there is one.

        Args:
            hidden: what `encode` returned.
            mask: the padding mask that `encode` was given, or None. Pads in front of the first token are passed over.
        """
        check_shape("hidden", hidden, batch=None, position=None, d_model=self.config.d_model)
        check_alike("hidden", hidden, "the weights", next(self.parameters()))
        if mask is not None:
            check_padding_mask("mask", mask, hidden[:, self.config.class_token :])
        first = hidden[:, 0]
        if mask is not None and not self.config.class_token:
            start = mask[:, 0, 0].int().argmax(dim=-1)  # the first True
            first = hidden[torch.arange(len(hidden), device=hidden.device), start]
        return first if self.pooler is None else self.pooler(first)

    def forward(
        self,
        inputs: Int[Tensor, "batch length"] | Float[Tensor, "batch length d_patch"],
        *,
        mask: Mask | None = None,
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Float[Tensor, "batch ..."]:
        """Logits over the vocabulary for every token, or over the classes, or else what `encode` returns."""
        hidden = self.encode(inputs, mask=mask, segments=segments)
        if self.config.n_classes:
            return self.head(self.pool(hidden, mask=mask))
        return hidden if self.head is None else self.head(hidden)


class DecoderOnly(nn.Module):
    """Every token reads itself and what stands before it: GPT-2, Llama.

    Raises:
        TypeError, ValueError: in its methods, tokens, masks or caches that do not fit, by their name.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        _check_family(config, "decoder-only")
        self.config, scheme = config, make_scheme(config, causal=True)
        self.embedding = Embedding(config, scheme, "tokens")
        self.decoder = Stack(config, config.decoder_layers, scheme, causal=True)
        self.head = _vocabulary_head(config, self.embedding)
        _initialise(self)

    def new_caches(self) -> list[KeyValueCache]:
        """Empty caches, one a block, for decoding token by token."""
        return [KeyValueCache() for _ in self.decoder.blocks]

    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
        *,
        mask: Mask | None = None,
        caches: list[KeyValueCache] | None = None,
    ) -> Float[Tensor, "batch length width"]:
        """Logits of the next token after each token, or vectors without a head.

        Args:
            mask: True on real tokens; with ``caches`` it covers the cached tokens and the new ones.
            caches: from `new_caches`. ``tokens`` are then only the new ones.
        """
        if caches is not None:
            check_caches(caches, len(self.decoder.blocks), "tokens", tokens)
        x, ids = self.embedding(tokens, mask=mask, caches=caches)
        hidden = self.decoder(x, ids=ids, mask=mask, caches=caches)
        return hidden if self.head is None else self.head(hidden)


class EncoderDecoder(nn.Module):
    """An encoder reads the source; a causal decoder reads what it wrote, and in every block the encoder's output: T5.

    Source and target share one vocabulary and one token embedding; each side has its own positions.

    Raises:
        TypeError, ValueError: in its methods, tokens, masks, memory or caches that do not fit, by their name.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        _check_family(config, "encoder-decoder")
        self.config = config
        schemes = make_scheme(config, causal=False), make_scheme(config, causal=True)
        self.source_embedding = Embedding(config, schemes[0], "source")
        self.target_embedding = Embedding(config, schemes[1], "target", self.source_embedding.token)
        self.encoder = Stack(config, config.encoder_layers, schemes[0], causal=False)
        self.decoder = Stack(config, config.decoder_layers, schemes[1], causal=True)
        self.head = _vocabulary_head(config, self.source_embedding)
        _initialise(self)

    def new_caches(self) -> list[KeyValueCache]:
        """Empty caches, one a decoder block, for decoding token by token."""
        return [KeyValueCache() for _ in self.decoder.blocks]

    def encode(self, source: Int[Tensor, "batch length"], *, mask: Mask | None = None) -> Hidden:
        """One vector for every source token. ``mask`` is True on real tokens."""
        x, ids = self.source_embedding(source, mask=mask)
        return self.encoder(x, ids=ids, mask=mask)

    def decode(
        self,
        target: Int[Tensor, "batch length"],
        memory: Float[Tensor, "batch source d_model"],
        *,
        memory_mask: Bool[Tensor, "batch 1 1 source"] | None = None,
        mask: Mask | None = None,
        caches: list[KeyValueCache] | None = None,
    ) -> Float[Tensor, "batch length width"]:
        """Logits of the next target token after each target token.

        Args:
            memory: what `encode` returned; once for all steps.
            memory_mask: the padding mask of the source.
            mask: the padding mask of the target; with ``caches`` of the cached tokens and the new ones.
            caches: from `new_caches`. ``target`` is then only the new tokens.
        """
        if caches is not None:
            check_caches(caches, len(self.decoder.blocks), "target", target)
        x, ids = self.target_embedding(target, mask=mask, caches=caches)
        check_shape("memory", memory, batch=len(x), source=None, d_model=self.config.d_model)
        check_alike("memory", memory, "the weights", x)
        if memory_mask is not None:
            check_padding_mask("memory_mask", memory_mask, memory)
        hidden = self.decoder(x, memory, ids=ids, mask=mask, context_mask=memory_mask, caches=caches)
        return hidden if self.head is None else self.head(hidden)

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch length"],
        *,
        source_mask: Bool[Tensor, "batch 1 1 source"] | None = None,
        target_mask: Bool[Tensor, "batch 1 1 length"] | None = None,
    ) -> Float[Tensor, "batch length width"]:
        """`encode` the source, `decode` the whole target at once."""
        memory = self.encode(source, mask=source_mask)
        return self.decode(target, memory, memory_mask=source_mask, mask=target_mask)


def build(config: TransformerConfig) -> EncoderOnly | DecoderOnly | EncoderDecoder:
    """The model that ``config`` describes, with fresh weights.

    Raises:
        TypeError: no config.
    """
    check_kind("config", config, TransformerConfig, "describe the model with TransformerConfig(…)")
    families = {"encoder-only": EncoderOnly, "decoder-only": DecoderOnly, "encoder-decoder": EncoderDecoder}
    return families[config.family](config)


def _vocabulary_head(config: TransformerConfig, embedding: Embedding) -> nn.Linear | None:
    if not config.vocab_head:
        return None
    head = nn.Linear(config.d_model, config.vocab, bias=False)
    if config.tie_embeddings:
        # The same tensor, not a copy. As in any torch model, to_empty() and load_state_dict(assign=True) part the two.
        head.weight = embedding.token.weight
    return head


def _initialise(model: nn.Module) -> None:
    """Embeddings of standard deviation 1 / √d_model, so that tied logits start near 1."""
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=model.config.d_model**-0.5)


def _check_family(config: TransformerConfig, family: str) -> None:
    check_kind("config", config, TransformerConfig, "describe the model with TransformerConfig(…)")
    if config.family != family:
        raise ValueError(f"config.family is {config.family!r}; this model is {family!r}. Call build(config).")
