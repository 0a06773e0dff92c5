"""How captures are divided into headers, commands and frames, whatever their size."""

import json

import pytest

from api.conformance.captures.frames import command_stops, split_frames


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_every_kind_of_line_end_separates_events_headers_and_commands(line_end: str) -> None:
    body = ["data: " + json.dumps({"choices": [{"delta": {"content": c}}]}) for c in "ab"]
    lines = [
        '$ curl http://x -d \'{"stop": ["END"]}\'',
        "HTTP/1.1 301 Moved",
        "a: 1",
        "",
        "HTTP/1.1 200 OK",
        "content-type: text/event-stream",
        "",
        *(part for one in body for part in (one, "")),
    ]
    found = split_frames(line_end.join(lines))
    assert found.stops == ("END",)
    assert (found.status, found.headers) == (200, {"content-type": "text/event-stream"})
    assert [frame.value["choices"][0]["delta"]["content"] for frame in found.frames] == ["a", "b"]


@pytest.mark.parametrize(
    "text",
    ['[{"a": 1}, {"b": [2, "]}"]}]', ' [ {"a": "\\"}"} , {} ] '],
)
def test_collected_chunks_are_separated_at_their_ends(text: str) -> None:
    assert [frame.value for frame in split_frames(text).frames] == json.loads(text)


def test_command_copied_from_a_browser_may_have_ansi_quotes() -> None:
    header = "-H $'accept: it\\'s'"
    body = r"""$'{"prompt":"it\'s 1\u0021","stop":["\ud83d\ude00\u0021","a\\n"]}"""

    assert command_stops(f"curl 'http://x/v1' {header} --data-raw {body}'") == (
        "\U0001f600!",
        "a\n",
    )
