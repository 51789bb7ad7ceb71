"""A still chart: how far the rule of 2 FLOPs a parameter and token holds as the text grows."""

from transformer_lab.accounting.flops import against_the_rule
from transformer_lab.accounting.named_models import NAMED_MODELS
from transformer_lab.draw.curves import Curves, LineChart
from transformer_lab.widgets.explorer import Explorer, show

LENGTHS = tuple(2**power for power in range(7, 18))
NAMED = (2048, 32_768, 131_072)  # lengths whose figures the sentence gives


def work_against_rule(model: str = "Llama-2-7B") -> Explorer:
    """The forward work over 2 · N · tokens of a published decoder-only model, at 128 to 131,072 tokens."""
    config = NAMED_MODELS[model].config
    whole = {length: against_the_rule(config, length) for length in LENGTHS}
    weights = [against_the_rule(config, length, scores=False) for length in LENGTHS]
    chart = LineChart(
        {"all products": (LENGTHS, list(whole.values())), "without the scores": (LENGTHS, weights)},
        "tokens in the text", "work / (2 · N · tokens)", x_log=True, y_range=(0, max(6.5, 1.05 * max(whole.values()))),
        title=f"Forward work, {model}", levels={"the rule": 1.0},
    )  # fmt: skip
    figures = [f"{whole[length]:.3g} at {length:,}" for length in NAMED]
    return show(
        Curves,
        chart,
        f"Without the scores the work stays at {weights[0]:.2f} of the rule at every length: the look-up is free. With "
        f"the scores it is {figures[0]} tokens, {figures[1]} and {figures[2]}.",
    )
