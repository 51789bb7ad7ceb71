"""What a check says, and how a notebook shows it: the same words as text and as HTML, a mark beside the colour."""

import textwrap
from dataclasses import dataclass, replace

from transformer_lab.practice.markup import to_html

_WIDTH = 100
_LOOKS = {  # status: (mark, word, colour); the colours stay apart for colour-blind readers
    "right": ("✓", "Right", "#009E73"),
    "wrong": ("✗", "Not right yet", "#D55E00"),
    "not attempted": ("○", "Not attempted yet", "#767676"),
    "note": ("•", "Note", "#767676"),  # for questions: no verdict, something to read
}
_VERDICTS = ("right", "wrong", "not attempted")


def panel(status: str, headline: str, paragraphs: tuple[str, ...], word: str | None = None) -> str:
    """The HTML box shared by checks and questions; ``word`` replaces the usual one. Everything is escaped here."""
    mark, usual, colour = _LOOKS[status]
    body = "".join(f'<p style="margin:0.3em 0 0 0">{to_html(paragraph)}</p>' for paragraph in paragraphs)
    return (
        f'<div role="status" style="border-left:5px solid {colour};padding:0.3em 0.9em;max-width:46em;'
        f'line-height:1.45"><strong><span style="color:{colour}" aria-hidden="true">{mark}</span> '
        f"{to_html(word or usual)}.{' ' + to_html(headline) if headline else ''}</strong>{body}</div>"
    )


@dataclass(frozen=True, repr=False)
class Feedback:
    """The verdict on one answer.

    ``status`` is "right", "wrong" or "not attempted"; ``title`` names the finding in a few words; ``messages``
    are the sentences under it. They may carry `code` and *emphasis*, and are escaped when shown as HTML.
    """

    status: str
    title: str
    messages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.status not in _VERDICTS:
            raise ValueError(f"status must be one of {', '.join(map(repr, _VERDICTS))}; got {self.status!r}")

    def with_message(self, message: str | None) -> "Feedback":
        """The same verdict with one more sentence; without one, itself."""
        return replace(self, messages=(*self.messages, message)) if message else self

    def __repr__(self) -> str:
        mark, word, _ = _LOOKS[self.status]
        lines = [f"{mark} {word}. {self.title}".rstrip()]
        for message in self.messages:
            lines += textwrap.wrap(message, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return panel(self.status, self.title, self.messages)


NOTHING_YET = Feedback("not attempted", "", ("Replace the `...` with your answer, then run this cell again.",))
