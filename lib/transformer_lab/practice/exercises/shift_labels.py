"""Lesson 08: the labels of the next-word objective, one place to the left."""

import torch
from torch import Tensor

from transformer_lab.practice.checking import Case, FunctionExercise, Mistake, Output

IGNORE = -100


def shift_labels_with_faults(
    tokens: Tensor,
    pad_id: int,
    *,
    by: int = 1,
    last: str = "ignored",
    pads: str = "ignored",
    cut: str = "no",
    axis: str = "position",
    ends: str = "last place",
    ignored: int = IGNORE,
) -> Tensor:
    """The label of each place is the token after it; pads, and the last place, have none."""
    labels = torch.roll(tokens, -by, dims=("batch", "position").index(axis))
    if last != "kept" and by:
        at = slice(-by, None) if by > 0 else slice(0, -by)
        labels[(at,) if axis == "batch" and ends == "last row" else (slice(None), at)] = IGNORE
    if pads == "ignored":
        labels = labels.masked_fill(labels == pad_id, IGNORE)
    if pads == "by input":
        labels = labels.masked_fill(tokens == pad_id, IGNORE)
    if pads == "0":
        labels = labels.masked_fill(labels == 0, IGNORE)
    if last == "pad":
        labels[:, -1] = pad_id
    if last == "one too many":
        n_after = (labels != IGNORE).flip(1).cumsum(1).flip(1)  # labels from here to the end
        labels = labels.masked_fill(n_after == 1, IGNORE)
    labels = labels.masked_fill(labels == IGNORE, ignored)
    return {"no": labels, "last": labels[:, :-1]}[cut]


def _sentences(*lengths: int, width: int, pad_id: int, seed: int) -> dict[str, object]:
    tokens = torch.randint(10, 40, (len(lengths), width), generator=torch.Generator().manual_seed(seed))
    real = torch.arange(width) < torch.tensor(lengths)[:, None]
    return {"tokens": tokens.masked_fill(~real, pad_id), "pad_id": pad_id}


SHIFT_LABELS = FunctionExercise(
    name="shift_labels",
    title="The label of each place is the next token.",
    reference=shift_labels_with_faults,
    cases=lambda: (
        Case("three sentences, two of them padded", _sentences(6, 4, 3, width=6, pad_id=0, seed=0)),
        Case("batch = length", _sentences(5, 2, 4, 5, 3, width=5, pad_id=0, seed=1)),
        Case("another pad", _sentences(3, 7, width=7, pad_id=9, seed=2)),
        Case("all longer than three, none padded", _sentences(4, 4, width=4, pad_id=0, seed=3)),
    ),
    outputs=(Output("labels", ("batch", "position")),),
    spellings=({}, {"ends": "last row"}),  # of a shift along the batch
    mistakes=(
        Mistake(
            {"by": 0},
            "The labels are not shifted",
            "Each place is asked for the token that it can see: the model learns to copy (lesson 05). The label of "
            "place i is the token at place i + 1.",
        ),
        Mistake(
            {"by": -1},
            "The labels are shifted the wrong way",
            "Your label is the token *before* each place, which the model has read already. Move the labels to the "
            "left: `tokens[:, 1:]` belongs to the places `[:, :-1]`.",
        ),
        Mistake(
            {"by": 2},
            "The labels are shifted by two",
            "The token right after each place is skipped. If your inputs are cut already, do not shift again.",
        ),
        Mistake(
            {"last": "kept"},
            "The last place still has a label",
            "After the last token comes nothing. `roll` brings the *first* token round to it; put −100 there.",
        ),
        Mistake(
            {"pads": "kept"},
            "The pads are left in the loss",
            "A pad is no word to learn, and how many there are depends on the batch. Where the label is the pad, put "
            "−100. (`masked_fill` returns a new tensor: give it a name, or return it.)",
        ),
        Mistake(
            {"pads": "by input"},
            "Pads are looked for in the inputs",
            "At the last word of a short sentence the *label* is a pad and the input is not. Compare the labels with "
            "`pad_id`, after the shift.",
        ),
        Mistake(
            {"last": "one too many"},
            "The last token of each sentence has no label left",
            "`<end>` must be learned: without it the model never stops. Only labels that are pads are ignored.",
        ),
        Mistake(
            {"cut": "last"},
            "The labels are one place short",
            "The first token is dropped and nothing takes its place at the end. The labels keep the shape of the "
            "tokens: add one place with −100.",
        ),
        Mistake(
            {"last": "pad"},
            "The last place has the pad as its label",
            "A pad is a token like any other for the loss. What counts for nothing is −100: put it there, or fill in "
            "the last place *before* you look for pads.",
        ),
        Mistake(
            {"pads": "0"},
            "The pad is taken to be token 0",
            "It is `pad_id`, which is another number in another vocabulary.",
        ),
        Mistake(
            {"axis": "batch"},
            "The sentences have moved, not the words",
            "Axis 0 counts the sentences. The next word is the next *place*: shift along axis 1.",
        ),
        Mistake(
            {"ignored": -1},
            "−1 instead of −100",
            "torch's loss ignores −100 alone. A label of −1 is an error there, or worse, the last word of the "
            "vocabulary.",
        ),
        Mistake(
            {"ignored": 100},
            "100 instead of −100",
            "The minus is missing: 100 is a word of a larger vocabulary, and −100 the label that counts for nothing.",
        ),
    ),
)
