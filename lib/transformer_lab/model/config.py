"""One description of a model: `families` builds it, `accounting` counts it."""

from dataclasses import dataclass

from transformer_lab.model.blocks import ORDERS
from transformer_lab.model.checks import check_choice, check_dropout, check_switches, check_whole_numbers
from transformer_lab.model.feedforward import check_activation
from transformer_lab.model.norms import NORMS, check_eps
from transformer_lab.model.positions import LAYOUTS, check_base
from transformer_lab.model.relative import check_buckets

FAMILIES = ("encoder-only", "decoder-only", "encoder-decoder")
POSITIONS = ("none", "learned", "sinusoidal", "rope", "alibi", "relative")


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Every choice that makes a Transformer, and nothing that follows from them.

    Args:
        family: which stacks there are and what they may read: ``"encoder-only"``, ``"decoder-only"`` or
            ``"encoder-decoder"``.
        d_model, n_layers, n_heads, d_ff: width, blocks a stack, query heads, inner width of the feed-forward layer.
        n_decoder_layers: blocks of the decoder beside an encoder, unless ``n_layers`` too.
        n_kv_heads, d_head: key/value heads and width of a head, unless ``n_heads`` and d_model / n_heads.
        activation, norm, norm_order, norm_eps, bias, dropout: as in `Block`. A pre-norm stack ends with one more norm.
        causal: whether a token reads only what stands before it. It follows from the family; stated, it must agree.
        vocab: token kinds; source and target share one vocabulary. 0 with ``d_patch``.
        d_patch: numbers in a patch, where the input is patches of an image and not tokens (Dosovitskiy et al. 2020).
        class_token: one trained vector stands in front of the input.
        n_segments: kinds of segment, each with a trained vector that is added (Devlin et al. 2018).
        d_embedding: width of the token embeddings, unless ``d_model``; a matrix widens them (Lan et al. 2019).
        embedding_norm: whether the embeddings are normed before the first block.
        scale_embeddings: whether token embeddings are multiplied by the root of their width (Vaswani et al. 2017).
        position: ``"none"``, ``"learned"``, ``"sinusoidal"``, ``"rope"``, ``"alibi"`` or ``"relative"``.
        n_positions: rows of a learned table, for which it must be given.
        rope_layout, rope_base: as in `RotaryPositions`. n_buckets, max_distance: as in `RelativePositions`.
        share_layers: all blocks of a stack are one and the same (Lan et al. 2019).
        vocab_head: whether the model ends in logits over the vocabulary.
        tie_embeddings: whether the embedding matrix also makes these logits.
        pooler: a further linear layer and tanh on the first token (Devlin et al. 2018).
        n_classes: classes told apart by a last linear layer on the first token, pooled if there is a pooler; 0: none.

    Raises:
        TypeError: a size that is not a whole number, a switch that is not True or False.
        ValueError: a choice that does not exist, or two that contradict each other; the message names both.
    """

    family: str
    d_model: int
    n_layers: int
    n_heads: int
    d_ff: int
    n_decoder_layers: int | None = None
    n_kv_heads: int | None = None
    d_head: int | None = None
    activation: str = "gelu"
    norm: str = "layernorm"
    norm_order: str = "pre"
    norm_eps: float = 1e-5
    bias: bool = True
    dropout: float = 0.0
    causal: bool | None = None
    vocab: int = 0
    d_patch: int = 0
    class_token: bool = False
    n_segments: int = 0
    d_embedding: int | None = None
    embedding_norm: bool = False
    scale_embeddings: bool = False
    position: str = "learned"
    n_positions: int = 0
    rope_layout: str = "half_split"
    rope_base: float = 10_000.0
    n_buckets: int = 32
    max_distance: int = 128
    share_layers: bool = False
    vocab_head: bool = True
    tie_embeddings: bool = True
    pooler: bool = False
    n_classes: int = 0

    def __post_init__(self) -> None:
        self._check_kinds()
        self._check_attention()
        self._check_family()
        self._check_embeddings()
        self._check_heads()

    @property
    def head_width(self) -> int:
        """The width of one attention head."""
        return self.d_model // self.n_heads if self.d_head is None else self.d_head

    @property
    def kv_heads(self) -> int:
        """The number of key/value heads."""
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads

    @property
    def embedding_width(self) -> int:
        """The width of the token embeddings."""
        return self.d_model if self.d_embedding is None else self.d_embedding

    @property
    def decoder_layers(self) -> int:
        """The blocks of the decoder; 0 without one."""
        if self.family == "encoder-only":
            return 0
        return self.n_layers if self.n_decoder_layers is None else self.n_decoder_layers

    @property
    def encoder_layers(self) -> int:
        """The blocks of the encoder; 0 without one."""
        return 0 if self.family == "decoder-only" else self.n_layers

    def _check_kinds(self) -> None:
        sizes = ("d_model", "n_layers", "n_heads", "d_ff", "n_buckets", "max_distance")
        optional = ("n_decoder_layers", "n_kv_heads", "d_head", "d_embedding")
        counts = ("vocab", "d_patch", "n_segments", "n_positions", "n_classes")
        given = [name for name in optional if getattr(self, name) is not None]
        check_whole_numbers(**{name: getattr(self, name) for name in (*sizes, *given)})
        check_whole_numbers(least=0, **{name: getattr(self, name) for name in counts})
        switches = ("bias", "class_token", "embedding_norm", "scale_embeddings", "share_layers", "vocab_head")
        check_switches(**{name: getattr(self, name) for name in (*switches, "tie_embeddings", "pooler")})
        if self.causal is not None:
            check_switches(causal=self.causal)
        check_dropout(self.dropout)
        check_eps("norm_eps", self.norm_eps)
        check_base("rope_base", self.rope_base)
        check_activation(self.activation)
        choices = {
            "family": FAMILIES,
            "norm": NORMS,
            "norm_order": ORDERS,
            "position": POSITIONS,
            "rope_layout": LAYOUTS,
        }
        for name, known in choices.items():
            check_choice(name, getattr(self, name), known)

    def _check_attention(self) -> None:
        if self.d_head is None and self.d_model % self.n_heads:
            self._refuse("d_model", "n_heads", "the width does not divide into equal heads, unless d_head is given")
        if self.n_heads % self.kv_heads:
            self._refuse("n_heads", "n_kv_heads", "every key/value head must serve the same number of query heads")
        if self.position == "rope" and self.head_width % 2:
            width = "d_model" if self.d_head is None else "d_head"
            self._refuse("position", width, f"a head is {self.head_width} wide, and rotary positions turn pairs")
        if self.position == "learned" and not self.n_positions:
            self._refuse("position", "n_positions", "a learned table needs a row for every position")
        if self.position != "learned" and self.n_positions:
            self._refuse("position", "n_positions", "only a learned table has rows: leave n_positions at 0")
        if self.position == "relative":
            for stack, bidirectional in ((self.encoder_layers, True), (self.decoder_layers, False)):
                if stack:
                    check_buckets(self.n_buckets, self.max_distance, bidirectional=bidirectional)

    def _check_family(self) -> None:
        if self.causal is not None and self.family != "encoder-decoder":
            if self.causal != (self.family == "decoder-only"):
                reads = "both ways" if self.causal else "only what stands before"
                self._refuse("family", "causal", f"its tokens read {reads}")
        elif self.causal is not None:
            self._refuse("family", "causal", "its encoder reads both ways and its decoder does not: leave causal out")
        if self.n_decoder_layers is not None and self.family != "encoder-decoder":
            self._refuse("family", "n_decoder_layers", "one stack has n_layers blocks")
        if self.family != "encoder-only":
            for name in ("d_patch", "class_token", "n_segments", "pooler", "n_classes"):
                if getattr(self, name):
                    self._refuse("family", name, "only an encoder-only model has it here")

    def _check_embeddings(self) -> None:
        if bool(self.vocab) == bool(self.d_patch):
            self._refuse("vocab", "d_patch", "a model reads tokens or patches: exactly one of the two is above 0")
        if self.d_patch:
            for name in ("d_embedding", "scale_embeddings", "n_segments", "vocab_head"):
                if getattr(self, name):
                    self._refuse("d_patch", name, "patches have no vocabulary")

    def _check_heads(self) -> None:
        if self.vocab_head and self.tie_embeddings and self.embedding_width != self.d_model:
            why = f"tied logits need embeddings as wide as d_model, {self.d_model}"
            self._refuse("tie_embeddings", "d_embedding", why)
        if self.vocab_head and self.n_classes:
            self._refuse("vocab_head", "n_classes", "a model ends in one head")
        for name in ("pooler", "class_token"):
            if self.vocab_head and getattr(self, name):
                self._refuse("vocab_head", name, "logits over the vocabulary are for every token and for nothing else")

    def _refuse(self, one: str, other: str, why: str) -> None:
        raise ValueError(
            f"{one} is {getattr(self, one)!r} and {other} is {getattr(self, other)!r}: {why}. Change one of them."
        )
