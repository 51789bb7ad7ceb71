"""The two marks that prompts and feedback may carry: `code` and *emphasis*. Everything else is literal text."""

import html
import re

_CODE = re.compile(r"`([^`\n]+)`")
# a star that touches its word; "2 * 3 * 4" stays arithmetic
_EMPHASIS = re.compile(r"\*(?=\S)([^*\n]+?)(?<=\S)\*")


def to_html(text: str) -> str:
    """Escape ``text``, then turn `code` into ``<code>`` and *emphasis* into ``<em>``."""
    pieces = _CODE.split(html.escape(text))
    for i, piece in enumerate(pieces):
        pieces[i] = f"<code>{piece}</code>" if i % 2 else _EMPHASIS.sub(r"<em>\1</em>", piece)
    return "".join(pieces)


def plain(text: str) -> str:
    """``text`` without its marks, for places that show letters only, such as the label of a control."""
    pieces = _CODE.split(text)
    return "".join(piece if i % 2 else _EMPHASIS.sub(r"\1", piece) for i, piece in enumerate(pieces))
