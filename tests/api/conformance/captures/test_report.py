"""The report of ``inspect`` on an answer."""

import json

from api.conformance.captures.diagnosis import as_json, as_text, diagnose
from api.conformance.captures.recognition import parse

BODY = {
    "type": "message",
    "model": "m",
    "content": [{"type": "text", "text": "A\nST"}],
    "stop_reason": "stop_sequence",
    "stop_sequence": "STOP",
    "usage": {"input_tokens": 5, "output_tokens": 3},
}


def test_the_report_lists_the_content_and_the_faults() -> None:
    capture = parse(json.dumps(BODY))
    lines = as_text(capture, diagnose(capture, ["STOP"])).splitlines()
    assert "reason    stop_sequence, stop 'STOP'" in lines
    assert "tokens    prompt 5, answer 3" in lines
    assert "text      'A\\nST'" in lines
    assert lines[-2].startswith("WARNING stop_prefix_at_end (event 0): ")


def test_the_report_can_be_written_as_json() -> None:
    capture = parse(json.dumps(BODY))
    written = "".join(as_json([(capture, diagnose(capture, ["STOP"]))] * 2))
    data, again = json.loads(written)["answers"]
    assert data == again
    assert data["has_faults"] is False
    assert data["text"] == "A\nST"
    assert data["events"][0]["text"] == "A\nST"
    assert [one["code"] for one in data["findings"]] == ["stop_prefix_at_end"]
