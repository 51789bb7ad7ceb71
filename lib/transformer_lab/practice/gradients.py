"""Whether the gradients of a learner's function are those of the reference, on every case.

Equal numbers do not promise equal gradients: `detach` and a factor of 0 stop them, and a NaN that was replaced on the
way forward comes back on the way backward.
"""

from collections.abc import Callable, Sequence

import torch

from transformer_lab.practice import running, sentences
from transformer_lab.practice.feedback import Feedback
from transformer_lab.practice.running import Raised

Gradients = tuple[torch.Tensor, ...]
# Of the largest component. Fused attention works its weights out again from a log-sum-exp, which float32 rounds to
# 0.001 beside scores of 16,000.
_TOLERANCE = 2e-3


def of(function: Callable, inputs: dict[str, object], names: Sequence[str]) -> Gradients:
    """The gradients of a fixed random mixture of all outputs, for the inputs in ``names``; zeros where none arrives."""
    given = running.copies(inputs)
    watched = [given[name].requires_grad_() for name in names]
    result = function(*given.values())
    outputs = result if isinstance(result, tuple | list) else (result,)
    mixed = [(output * _mixture(output, seed)).sum() for seed, output in enumerate(outputs) if output.requires_grad]
    if not mixed:
        return tuple(map(torch.zeros_like, watched))
    return torch.autograd.grad(sum(mixed), watched, allow_unused=True, materialize_grads=True)


def problem(
    answer: Callable,
    cases: Sequence[tuple[str, dict[str, object]]],
    expected: Sequence[Gradients],
    names: Sequence[str],
) -> Feedback | None:
    """What is wrong with the gradients of ``answer``; ``cases`` are labels with inputs. None when nothing is."""
    for (label, inputs), right in zip(cases, expected, strict=True):
        given = running.attempt(answer, lambda inputs=inputs: of(answer, inputs, names))
        if isinstance(given, Raised):
            return sentences.raised_backward(answer, given, inputs)
        pairs = list(zip(names, given, right, strict=True))
        broken = [name for name, mine, _ in pairs if not mine.isfinite().all()]
        if broken:
            return _not_finite(broken, label)
        off = {name: mine for name, mine, wanted in pairs if _differs(mine, wanted)}
        if off:
            cut = [name for name, mine in off.items() if not mine.any()]
            return _cut(cut) if cut else _another(list(off), label)
    return None


def _mixture(output: torch.Tensor, seed: int) -> torch.Tensor:
    return torch.randn(output.shape, generator=torch.Generator().manual_seed(seed))


def _differs(given: torch.Tensor, expected: torch.Tensor) -> bool:
    return bool(((given - expected).abs() > _TOLERANCE * (1 + expected.abs().max())).any())


def _not_finite(names: list[str], label: str) -> Feedback:
    return Feedback(
        "wrong",
        f"The forward pass is right, but backward the gradient of {sentences.join(names)} is NaN or infinite",
        (
            "`nan_to_num` and `torch.where` hide a NaN on the way forward; on the way backward it is multiplied by 0, "
            "and 0 · NaN is NaN. Keep it from arising: change the numbers *before* the step that makes it, for example "
            f"with `masked_fill` before the softmax. This was the input: {label}.",
        ),
    )


def _cut(names: list[str]) -> Feedback:
    return Feedback(
        "wrong",
        f"The numbers are right, but no gradient reaches {sentences.join(names)}",
        ("Look for `detach`, `.data`, `no_grad`, `item`, a factor of 0 or a new `torch.tensor(…)` on the way.",),
    )


def _another(names: list[str], label: str) -> Feedback:
    return Feedback(
        "wrong",
        f"The numbers are right, but the gradient of {sentences.join(names)} is not",
        (
            "Training would go another way. A path of the gradient is cut or counted twice: look for `detach`, "
            f"`.data` or `no_grad` around a part of the computation. This was the input: {label}.",
        ),
    )
