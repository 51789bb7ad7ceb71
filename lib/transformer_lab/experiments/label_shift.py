"""What happens when the labels of a language model are not shifted: it learns to copy, and its loss looks superb."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lab.model.attention import MultiHeadAttention
from transformer_lab.model.averages import IGNORE, masked_cross_entropy
from transformer_lab.model.positions import sinusoidal_table
from transformer_lab.tasks import agreement
from transformer_lab.training import Monitor, TrainingRun, seeded, train


class CausalLanguageModel(nn.Module):
    """Embedding and positions, attention layers with a residual, a score for every word: as small as it gets."""

    def __init__(self, vocab: int, *, d_model: int = 32, n_heads: int = 4, n_layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, d_model)
        self.layers = nn.ModuleList(MultiHeadAttention(d_model, n_heads) for _ in range(n_layers))
        self.logits = nn.Linear(d_model, vocab)

    def forward(self, tokens: Int[Tensor, "batch position"]) -> Float[Tensor, "batch position vocab"]:
        x = self.embedding(tokens) + sinusoidal_table(tokens.shape[1], self.embedding.embedding_dim)
        for attend in self.layers:
            x = x + attend(x, causal=True)
        return self.logits(x)


def inputs_and_labels(
    tokens: Int[Tensor, "batch position"], *, shifted: bool = True
) -> tuple[Int[Tensor, "batch input"], Int[Tensor, "batch input"]]:
    """What the model reads and what it should say at each place: the next token, or by mistake the same one."""
    inputs = tokens[:, :-1]
    return inputs, tokens[:, 1:] if shifted else inputs


def label_loss(
    logits: Float[Tensor, "batch position vocab"], labels: Int[Tensor, "batch position"]
) -> Float[Tensor, ""]:
    """Mean cross-entropy over the labels that are not padding."""
    return masked_cross_entropy(logits, labels.masked_fill(labels == agreement.PAD_ID, IGNORE))


@torch.no_grad()
def write(model: nn.Module, n: int, generator: torch.Generator) -> list[tuple[str, ...]]:
    """Let the model write ``n`` sentences from ``<start>``, drawing each next token from its probabilities."""
    tokens = torch.full((n, 1), agreement.BEGIN_ID)
    for _ in range(agreement.LENGTH):
        probabilities = model(tokens)[:, -1].softmax(-1)
        tokens = torch.cat((tokens, torch.multinomial(probabilities, 1, generator=generator)), dim=1)
    return [agreement.decode(row) for row in tokens]


@dataclass(frozen=True)
class LabelTrial:
    """One model trained with one kind of labels.

    ``sentences`` were written by it; ``grammatical`` is the share of them that the grammar knows.
    """

    run: TrainingRun
    sentences: tuple[tuple[str, ...], ...]
    grammatical: float

    @property
    def final_loss(self) -> float:
        """Mean loss of the last 20 steps."""
        return self.run.final_loss


def label_trial(
    *, shifted: bool, steps: int = 200, n_sentences: int = 200, seed: int = 0, monitor: Monitor | None = None
) -> LabelTrial:
    """Train the tiny model with shifted or unshifted labels, on the same batches, and let it write."""
    with seeded(seed):
        model = CausalLanguageModel(len(agreement.WORDS))

    def batch_loss(generator: torch.Generator) -> Tensor:
        inputs, labels = inputs_and_labels(agreement.draw(64, generator), shifted=shifted)
        return label_loss(model(inputs), labels)

    name = "shifted labels" if shifted else "unshifted labels"
    run = train(model, batch_loss, steps=steps, learning_rate=5e-3, seed=seed, monitor=monitor, name=name)
    sentences = write(model, n_sentences, torch.Generator().manual_seed(seed))
    share = sum(map(agreement.is_sentence, sentences)) / n_sentences
    return LabelTrial(run, tuple(sentences), share)
