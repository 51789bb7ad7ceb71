"""Texts of a picture that are clipped or that run into each other, after one or more updates."""

from itertools import combinations

from matplotlib.text import Text

from transformer_lab.draw import style


def unreadable(picture_class, results, slack: float = 1.0) -> list[str]:
    """Draw the results one after the other on one figure, as a widget does, and report every text in trouble."""
    figure = style.new_figure(*picture_class.size(results[0]))
    picture = picture_class(figure, results[0])
    figure.canvas.draw()  # only drawing puts the labels of the axes in their place
    renderer = figure.canvas.get_renderer()
    found = []
    for result in results:
        picture.update(result)
        texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
        texts = [text for text in texts if text not in unused_labels(figure)]
        boxes = {text: text.get_window_extent(renderer) for text in texts}
        for text, box in boxes.items():
            inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
            if not inside:
                found.append(f"{text.get_text()!r} is clipped")
        for (one, first), (other, second) in combinations(boxes.items(), 2):
            wide = min(first.x1, second.x1) - max(first.x0, second.x0)
            high = min(first.y1, second.y1) - max(first.y0, second.y0)
            if wide > slack and high > slack:
                found.append(f"{one.get_text()!r} runs into {other.get_text()!r}")
    return found


def unused_labels(figure) -> set[Text]:
    """Labels of ticks outside the limits of their axis: matplotlib keeps them and draws none of them."""
    labels = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not low <= tick.get_loc() <= high:
                    labels |= {tick.label1, tick.label2}
    return labels
