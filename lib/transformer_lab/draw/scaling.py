"""The √d_k sweep: the weights of one row at one width, and four measurements over all widths."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Area, Picture, region

# The two ends of the scale of scores; no colour of a query, key or value.
CURVES = (("unscaled", "q·k", style.SIGNED(0.0), "s", "--"), ("scaled", "q·k ÷ √d_k", style.SIGNED(1.0), "o", "-"))
PANELS = (
    ("variance", "variance of the scores"),
    ("largest_weight", "largest weight in a row"),
    ("entropy", "entropy of a row (nats)"),
    ("gradient", "gradient through the softmax"),
)


class ScalingPicture(Picture):
    """Draws a scaling sweep: widths, unscaled and scaled statistics, n_keys, d_k, divided and weights."""

    def __init__(self, figure: Figure, result: Any) -> None:
        self._sizes = style.current()
        self._figure = figure
        self._draw_bars(result)
        self._panels = [self._draw_panel(i, *panel, result) for i, panel in enumerate(PANELS)]
        figure.text(0.505, 0.975, "over all widths (256 random queries)", ha="left", va="top", weight="bold",
                    fontsize=self._sizes.font_normal, family=style.FONT, color=style.TEXT)  # fmt: skip

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return 9.0, 4.9

    @staticmethod
    def layout(result: Any) -> tuple:
        return result.widths, result.n_keys, result.unscaled, result.scaled

    def _draw_bars(self, result: Any) -> None:
        axes = self._figure.add_axes((0.075, 0.13, 0.34, 0.72))
        self._plain(axes)
        axes.set(xlim=(-0.6, result.n_keys - 0.4), ylim=(0, 1.09), xticks=[], yticks=(0, 0.5, 1))
        axes.set_xlabel(f"{result.n_keys} keys", fontsize=self._sizes.font_small, color=style.KEY)
        axes.set_ylabel("weight", fontsize=self._sizes.font_small)
        self._bars = axes.bar(np.arange(result.n_keys), np.zeros(result.n_keys), width=0.8, animated=True)
        self._largest = axes.text(0, 0, "", ha="center", va="bottom", animated=True, weight="bold", color=style.TEXT,
                                  fontsize=self._sizes.font_normal, family=style.FONT)  # fmt: skip
        look = {"ha": "left", "va": "center", "animated": True, "color": style.TEXT, "family": style.FONT}
        self._title = axes.text(-0.6, 1.22, "", weight="bold", fontsize=self._sizes.font_normal, **look)
        self._average = axes.text(-0.6, 1.14, "", fontsize=self._sizes.font_small, **look)
        self._bar_axes = axes

    def _draw_panel(self, i: int, name: str, title: str, result: Any) -> Any:
        row, column = divmod(i, 2)
        axes = self._figure.add_axes((0.505 + 0.255 * column, 0.53 - 0.42 * row, 0.205, 0.29))
        self._plain(axes)
        axes.set_xscale("log", base=2)
        axes.set_xticks([4, 32, 256], labels=["4", "32", "256"])
        axes.minorticks_off()
        axes.set_title(title, fontsize=self._sizes.font_small, color=style.TEXT, loc="left", pad=5)
        for field, label, colour, marker, dashes in CURVES:
            values = [getattr(statistics, name) for statistics in getattr(result, field)]
            axes.plot(result.widths, values, color=colour, marker=marker, ms=3.5, ls=dashes, lw=self._sizes.line,
                      label=label)  # fmt: skip
        if name == "variance":
            axes.set_yscale("log")
            axes.minorticks_off()
            axes.set_yticks([1, 10, 100, 1000], labels=["1", "10", "100", "1000"])
            axes.set_ylim(0.5, 2_000)
            self._figure.legend(*axes.get_legend_handles_labels(), loc=(0.5, 0.875), ncols=2, frameon=False,
                                handlelength=2.4, fontsize=self._sizes.font_small)  # fmt: skip
        else:
            axes.set_ylim(0, {"largest_weight": 1.05, "entropy": 1.05 * result.most_entropy}.get(name))
        if row == 1:
            axes.set_xlabel("d_k", fontsize=self._sizes.font_small)
        line = axes.axvline(result.d_k, color=style.ACCENT, lw=2, animated=True, zorder=1.5)
        (dot,) = axes.plot([], [], marker="o", ms=10, mfc="none", mec=style.TEXT, mew=1.8, ls="", animated=True)
        return axes, name, line, dot

    def _plain(self, axes: Any) -> None:
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(style.MUTED)
        axes.tick_params(labelsize=self._sizes.font_small, colors=style.TEXT, length=3)

    def update(self, result: Any) -> None:
        weights = np.asarray(result.weights)
        best = int(weights.argmax())
        for bar, weight in zip(self._bars, weights, strict=True):
            bar.set_height(weight)
            bar.set_color(style.WEIGHTS(0.25 + 0.75 * float(weight)))
        self._largest.set_position((best, weights[best] + 0.015))
        self._largest.set_text(f"{weights[best]:.2f}")
        self._title.set_text(f"one row, d_k = {result.d_k:,}, " + ("÷ √d_k" if result.divided else "not scaled"))
        shown = result.at_width[int(result.divided)]
        self._average.set_text(f"largest weight: here {weights[best]:.2f}, on average {shown.largest_weight:.2f}")
        for _, name, line, dot in self._panels:
            line.set_xdata([result.d_k, result.d_k])
            dot.set_data([result.d_k], [getattr(shown, name)])

    def regions(self, result: Any) -> list[Area]:
        return [
            region(self._bar_axes, (k - 0.5, k + 0.5), (0, 1), f"key {k + 1}: weight {float(weight):.3f}")
            for k, weight in enumerate(result.weights)
        ]
