"""Lesson 08: the inputs and labels of the masked objective."""

import torch
from torch import Tensor

from transformer_lab.practice.checking import Case, FunctionExercise, Mistake, Output

IGNORE, MASK_ID, N_SPECIALS, VOCAB = -100, 3, 5, 40


def mask_words_with_faults(
    tokens: Tensor,
    special: Tensor,
    choose: Tensor,
    kind: Tensor,
    random_words: Tensor,
    mask_id: int,
    *,
    replaced: str = "80/10/10",
    specials_chosen: bool = False,
    chosen_if: str = "below 0.15",
    draws: str = "two",
    labels_at: str = "chosen",
    elsewhere: str = "ignored",
    labels_from: str = "tokens",
    second_from: str = "inputs",
    masks_at: str = "chosen",
    swaps_at: str = "chosen",
    mask_written: str = "mask_id",
    returned: str = "inputs, labels",
) -> tuple[Tensor, Tensor]:
    """Inputs and labels: 15 % of the words chosen, of these 80 % masked, 10 % swapped and 10 % kept."""
    chosen = {"below 0.15": choose < 0.15, "above 0.15": choose >= 0.15, "below 0.85": choose < 0.85}[chosen_if]
    if not specials_chosen:
        chosen = chosen & ~special
    mask_id = {"mask_id": mask_id, "3": MASK_ID}[mask_written]
    share = {"two": kind, "one": choose / 0.15}[draws]
    masked, swapped = {
        "80/10/10": (share < 0.8, (share >= 0.8) & (share < 0.9)),
        "10/10 swapped": (share < 0.8, share >= 0.9),
        "always": (share < 2.0, share > 2.0),
        "80/20 swapped": (share < 0.8, share >= 0.8),
        "80/20 kept": (share < 0.8, share > 2.0),
        "overwritten": (share < 0.8, share < 0.9),
    }[replaced]
    inputs = tokens.masked_fill(chosen & masked if masks_at == "chosen" else masked, mask_id)
    at_swaps = chosen & swapped if swaps_at == "chosen" else swapped
    inputs = torch.where(at_swaps, random_words, inputs if second_from == "inputs" else tokens)
    counted = {
        "chosen": chosen,
        "all": torch.ones_like(chosen),
        "words": ~special,
        "changed": chosen & (masked | swapped),
        "masked": chosen & masked,
        "not chosen": ~chosen,
    }[labels_at]
    source = tokens if labels_from == "tokens" else inputs
    labels = source.masked_fill(~counted, {"ignored": IGNORE, "zero": 0}[elsewhere])
    return (inputs, labels) if returned == "inputs, labels" else (labels, inputs)


# Draws just beside each threshold: whoever compares with another number gets one of these wrong.
_CLOSE_DRAWS = (
    (0.149, 0.4), (0.151, 0.4), (0.1, 0.799), (0.1, 0.801), (0.1, 0.899), (0.1, 0.901),
)  # fmt: skip


def _masking_case(
    label: str, batch: int, length: int, seed: int, *, mask_id: int = MASK_ID, by_number: bool = True
) -> Case:
    """A case of the masking; unless ``by_number``, nobody can tell from a token's number whether it is special."""
    generator = torch.Generator().manual_seed(seed)

    def numbers(low: int) -> Tensor:
        return torch.randint(low, VOCAB, (batch, length), generator=generator)

    tokens = numbers(N_SPECIALS)
    tokens[:, 0], tokens[:, -1] = 1, 2  # <start> and <end>
    tokens[::2, -2:] = torch.tensor([2, 0])  # every second sentence is shorter: <end>, then a pad
    special = tokens < N_SPECIALS
    # Draws on a fine grid, shuffled, so that every kind of outcome is there, and none lies on a threshold.
    n = batch * length
    grid = (torch.arange(n) + 0.5) / n
    choose, kind = (grid[torch.randperm(n, generator=generator)].view(batch, length) for _ in range(2))
    choose = torch.where(torch.rand(batch, length, generator=generator) < 0.5, choose * 0.14, choose)
    words = (~special).nonzero()
    words = words[torch.randperm(len(words), generator=generator)]
    for (row, place), draws in zip(words.tolist(), _CLOSE_DRAWS, strict=False):
        choose[row, place], kind[row, place] = draws
    if not by_number:
        for row, place in words[len(_CLOSE_DRAWS) :][:4].tolist():
            special[row, place], choose[row, place] = True, 0.05
        for token, (row, place) in zip((2, 4), words[len(_CLOSE_DRAWS) + 4 :].tolist(), strict=False):
            tokens[row, place], choose[row, place] = token, 0.05
    inputs = {"tokens": tokens, "special": special, "choose": choose, "kind": kind, "random_words": numbers(N_SPECIALS)}
    return Case(label, inputs | {"mask_id": mask_id})


MASK_WORDS = FunctionExercise(
    name="mask_words",
    title="Inputs and labels of the masked objective, 80/10/10.",
    reference=mask_words_with_faults,
    cases=lambda: (
        _masking_case("six sentences of nine tokens", 6, 9, seed=0),
        _masking_case("batch = length, words among the special tokens", 8, 8, seed=1, by_number=False),
        _masking_case("one long sentence, another mask id", 1, 40, seed=2, mask_id=4),
    ),
    outputs=(Output("inputs", ("batch", "position")), Output("labels", ("batch", "position"))),
    mistakes=(
        Mistake(
            {"replaced": "always"},
            "Every chosen word becomes the mask",
            "The mask never occurs in real use, so the model must also learn from words. Only "
            "80 % of the chosen words become it, where `kind` is below 0.8; 10 % become a random word and 10 % stay.",
        ),
        Mistake(
            {"replaced": "10/10 swapped"},
            "The last two tenths have changed places",
            "Random words belong where `kind` lies from 0.8 up to 0.9. From 0.9 on the word stays as it is.",
        ),
        Mistake(
            {"replaced": "80/20 swapped"},
            "No chosen word is kept",
            "From 0.9 on, `kind` says: leave the word. Yours swaps all of the last 20 %, so the model learns that a "
            "visible word that it is asked about is always wrong.",
        ),
        Mistake(
            {"replaced": "80/20 kept"},
            "No chosen word is swapped",
            "Where `kind` lies from 0.8 up to 0.9, the word from `random_words` belongs. Without it the model may "
            "copy every word that it can see.",
        ),
        Mistake(
            {"specials_chosen": True},
            "Special tokens are masked",
            "`<start>`, `<end>` and pads are no words; nobody needs to guess them. Choose only where `special` is "
            "False.",
        ),
        Mistake(
            {"chosen_if": "above 0.15"},
            "85 % of the words are chosen",
            "A draw from 0 to 1 is *below* 0.15 in 15 % of cases. Turn the comparison round.",
        ),
        Mistake(
            {"chosen_if": "below 0.85"},
            "Words are chosen below 0.85",
            "15 % of the words are chosen, not 85 %: compare `choose` with 0.15.",
        ),
        Mistake(
            {"draws": "one"},
            "One draw decides both questions",
            "You cut the 15 % of `choose` into 80, 10 and 10. That gives the right shares on average, but this "
            "exercise hands you a second draw for the second question: `kind`.",
        ),
        Mistake(
            {"labels_at": "all"},
            "The loss counts every token",
            "Words in plain sight are easy: the loss would measure copying. Where nothing was chosen, the label is "
            "−100, which the loss ignores.",
        ),
        Mistake(
            {"labels_at": "words"},
            "The loss counts every word",
            "You leave out the special tokens, but the words that were not chosen count too, and those can be copied. "
            "Only chosen words get a label.",
        ),
        Mistake(
            {"labels_at": "changed"},
            "Chosen words that stayed are left out of the loss",
            "They are chosen too. Asking for them is what keeps the model from trusting that a visible word is right. "
            "Take the labels from `chosen`, not from where inputs and tokens differ.",
        ),
        Mistake(
            {"labels_at": "masked"},
            "Only the masks count in the loss",
            "Swapped and kept words were chosen as well: all three kinds get their label. Otherwise 80/10/10 has no "
            "effect but noise.",
        ),
        Mistake(
            {"elsewhere": "zero"},
            "Words that were not chosen get the label 0",
            "0 is a token like any other (here the pad), so the loss would teach the model to say it. The label that "
            "counts for nothing is −100.",
        ),
        Mistake(
            {"labels_from": "inputs"},
            "The labels come from the masked inputs",
            "The label is what stood there *before*: take it from `tokens`. Yours asks the model to say the mask.",
        ),
        Mistake(
            {"second_from": "tokens"},
            "The masks are lost again",
            "Your second replacement starts from `tokens`, so it undoes the first. Let it start from the inputs that "
            "already hold the masks.",
        ),
        Mistake(
            {"replaced": "overwritten"},
            "Random words overwrite the masks",
            "`kind < 0.9` holds where `kind < 0.8` does, so your second replacement writes over the first. Random "
            "words belong only from 0.8 up to 0.9.",
        ),
        Mistake(
            {"swaps_at": "everywhere"},
            "Words that were not chosen are swapped",
            "The line of the random words looks at `kind` alone. Join it with `chosen &`.",
        ),
        Mistake(
            {"masks_at": "everywhere"},
            "Words that were not chosen become the mask",
            "The line of the masks looks at `kind` alone. Join it with `chosen &`.",
        ),
        Mistake(
            {"labels_at": "not chosen"},
            "The labels stand where nothing was chosen",
            "The two branches have changed places: `torch.where(chosen, tokens, -100)` takes the word where it was "
            "chosen, and −100 elsewhere.",
        ),
        Mistake(
            {"mask_written": "3"},
            "The mask is always token 3",
            "Write `mask_id` instead of a number: another vocabulary has its mask elsewhere.",
        ),
        Mistake(
            {"returned": "labels, inputs"},
            "The labels come first",
            "Exchange the two: `return inputs, labels`.",
        ),
    ),
)
