import json
import threading

import pytest

from engine.files.json_fields import parse_json

LONG = json.dumps([{"n": n, "text": f"é\n{n}", "more": [None, True, 1.5e3]} for n in range(20_000)])


def test_a_long_text_is_read_as_json_reads_it() -> None:
    assert parse_json(LONG) == json.loads(LONG)


@pytest.mark.parametrize("text", [f"{LONG[:-1]},]", f"{LONG} x", LONG.replace(":", "", 1)])
def test_errors_in_a_long_text_are_those_of_json(text: str) -> None:
    with pytest.raises(json.JSONDecodeError) as wanted:
        json.loads(text)
    with pytest.raises(json.JSONDecodeError) as found:
        parse_json(text)
    assert found.value.pos == wanted.value.pos


def test_other_threads_run_while_a_long_text_is_read() -> None:
    turns, is_over = [0], threading.Event()

    def turn() -> None:
        while not is_over.is_set():
            turns[0] += 1

    other = threading.Thread(target=turn)
    other.start()
    try:
        before = turns[0]
        parse_json(LONG)
        after = turns[0]
    finally:
        is_over.set()
        other.join()
    assert after > before
