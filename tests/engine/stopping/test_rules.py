import pytest

from engine.errors import InvalidRequest
from engine.stopping.rules import (
    MAX_ALL_STOPS_CHARS,
    MAX_STOP_TOKEN_IDS,
    checked_strings,
    checked_token_ids,
)

LONGEST = tuple(f"{n:02}" + "x" * 1022 for n in range(64))


def test_limit_of_all_stop_characters_ignores_duplicates() -> None:
    assert sum(map(len, LONGEST)) == MAX_ALL_STOPS_CHARS
    assert checked_strings([*LONGEST, *LONGEST], "stop") == LONGEST
    with pytest.raises(InvalidRequest, match=r"stop: .* 65536 characters, these have 65540"):
        checked_strings([*LONGEST[:-1], LONGEST[-1] + "tail"], "stop")


def test_limit_of_stop_token_ids() -> None:
    assert checked_token_ids([3, 1, 3]) == (3, 1)
    assert len(checked_token_ids(range(MAX_STOP_TOKEN_IDS))) == MAX_STOP_TOKEN_IDS
    with pytest.raises(InvalidRequest, match=r"token_ids: at most 16384"):
        checked_token_ids(range(MAX_STOP_TOKEN_IDS + 1))
