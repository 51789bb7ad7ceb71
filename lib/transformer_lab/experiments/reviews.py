"""The review classifier of the padding lesson: small enough to read, built from the library's own pieces."""

import torch
from torch import Tensor, nn

from transformer_lab.model.attention import MultiHeadAttention
from transformer_lab.model.averages import masked_mean
from transformer_lab.model.masks import mask_from_tokens
from transformer_lab.model.positions import sinusoidal_table
from transformer_lab.tasks.reviews import BLAME, BOTH, CLASSES, FILLERS, PAD, PRAISE, SUBJECTS, VOCABULARY


class ReviewClassifier(nn.Module):
    """Embedding, positions, one attention, the mean over the words, one linear layer to the class logits.

    The mean always leaves pads out. ``mask`` says which keys may be attended to; ``position_ids`` number the tokens,
    which are counted from the start of the row, pads and all, when they are left out.
    """

    def __init__(self, d_model: int = 8, n_heads: int = 1, *, positions: bool = True, max_length: int = 256) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(VOCABULARY), d_model, padding_idx=PAD)  # the pad's vector is zero
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.classes = nn.Linear(d_model, len(CLASSES))
        self.positions = positions
        self.register_buffer("table", sinusoidal_table(max_length, d_model))

    def forward(self, tokens: Tensor, mask: Tensor | None = None, position_ids: Tensor | None = None) -> Tensor:
        """Tokens and numbers (batch, length), a mask (batch, 1, 1, length), to logits (batch, classes)."""
        x = self.embedding(tokens)
        if self.positions:
            x = x + self.table[torch.arange(tokens.shape[1]) if position_ids is None else position_ids]
        x = self.attention(x, mask=mask)
        return self.classes(masked_mean(x, mask_from_tokens(tokens, PAD)))


# What three of the eight axes of the hand-set model's vectors stand for.
_STRENGTH, _BLAME, _PRAISE = 2, 4, 6


@torch.no_grad()
def hand_set_classifier(*, positions: bool = True) -> ReviewClassifier:
    """A `ReviewClassifier` whose weights are written down, not learnt, so that every number can be followed.

    One axis of a word's vector says how loudly it calls for attention, one how much it blames, one how much it
    praises. The biases lean to "negative", as they would after training on a box full of complaints.
    """
    model = ReviewClassifier(positions=positions)
    for parameter in model.parameters():
        parameter.zero_()
    for index, word in enumerate(VOCABULARY[1:], start=1):
        vector = model.embedding.weight[index]
        vector[_STRENGTH] = 0.45 if word in FILLERS else 0.9 if word in SUBJECTS else 1.8
        vector[_BLAME] = 6.0 if word in BLAME else 4.8 if word in BOTH else 0.0
        vector[_PRAISE] = 6.0 if word in PRAISE else 4.8 if word in BOTH else 0.0
    attention, identity = model.attention, torch.eye(8)
    # Scores compare strength and position; praise and blame only travel along, as values.
    compared = identity.clone()
    compared[_BLAME, _BLAME] = compared[_PRAISE, _PRAISE] = 0.0
    attention.query_projection.weight.copy_(compared)
    attention.key_projection.weight.copy_(compared)
    attention.query_projection.bias[_STRENGTH] = 3.0  # every word asks for the words that call loudest
    attention.value_projection.weight.copy_(identity)
    attention.output_projection.weight.copy_(identity)
    negative, mixed, positive = model.classes.weight
    negative[_BLAME], negative[_PRAISE] = 0.5, -0.5
    mixed[_BLAME], mixed[_PRAISE] = 0.25, 0.25
    positive[_BLAME], positive[_PRAISE] = -0.5, 0.5
    model.classes.bias.copy_(torch.tensor([1.2, 0.2, 0.0]))
    return model.eval()
