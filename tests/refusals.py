"""What a refused call must say."""

import re
from collections.abc import Callable, Sequence

import pytest


def assert_refused(call: Callable[[], object], error: type[Exception], said: Sequence[str]) -> None:
    """The call raises exactly this error, and its message holds all these words."""
    with pytest.raises(error, match=re.escape(said[0])) as caught:
        call()
    assert type(caught.value) is error
    for words in said:
        assert words in str(caught.value)
