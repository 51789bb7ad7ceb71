"""The tokens around the words of a sentence, which the languages of this room share."""

from collections.abc import Sequence

PAD, START, END = "<pad>", "<start>", "<end>"


def words_between(words: Sequence[str]) -> tuple[str, ...]:
    """The words after a leading ``<start>`` and up to the first ``<end>``; all of them where there is none."""
    first = 1 if words and words[0] == START else 0
    last = words.index(END) if END in words else len(words)
    return tuple(words[first:last])
