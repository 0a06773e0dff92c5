"""The rate of a running answer, over its last seconds."""

from ui.records.runs import Pace


def test_the_rate_follows_the_last_seconds() -> None:
    pace = Pace()
    assert not pace.note(0, 0.0)
    assert pace.words == ""
    assert pace.note(1, 1.0)
    assert pace.words == "1 token"
    assert not pace.note(2, 1.1), "news that come too fast cannot be read"
    assert pace.note(21, 2.0)
    assert pace.words == "20 tok/s · 21 tokens"
    for number in range(1, 9):
        pace.note(21 + 5 * number, 2.0 + number)
    assert pace.words == "5.0 tok/s · 61 tokens", "the fast beginning is forgotten"


def test_the_rate_falls_while_no_tokens_arrive() -> None:
    pace = Pace()
    pace.note(1, 0.0)
    pace.note(31, 1.0)
    assert pace.words == "30 tok/s · 31 tokens"
    assert pace.note(31, 2.0)
    assert pace.words == "15 tok/s · 31 tokens"
