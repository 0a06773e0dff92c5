"""Each fault of a captured answer is named once, and nothing else is."""

import json
from pathlib import Path
from typing import Any

import pytest

from api.conformance.captures.diagnosis import diagnose
from api.conformance.captures.recognition import parse
from api.conformance.captures.values import Severity, WireDialect

GOLDEN = Path(__file__).parents[2] / "golden"
FOLDERS = {
    "messages": WireDialect.MESSAGES,
    "chat": WireDialect.CHAT,
    "completions": WireDialect.COMPLETIONS,
    "responses": WireDialect.RESPONSES,
    "generate": WireDialect.GENERATE,
    "ollama_chat": WireDialect.OLLAMA,
    "ollama_generate": WireDialect.OLLAMA,
}
BROKEN_OFF = ("cancelled", "error_after_text")

START = {"type": "message_start", "message": {"usage": {"input_tokens": 5}}}
OPEN = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
CLOSE = {"type": "content_block_stop", "index": 0}
STOP = {"type": "message_stop"}


def text(words: str) -> dict[str, Any]:
    return {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": words},
    }


def delta(reason: str | None, sequence: str | None = None) -> dict[str, Any]:
    return {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": sequence},
        "usage": {"output_tokens": 3},
    }


def stream(*events: dict[str, Any]) -> str:
    return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)


def answer(words: str, reason: str | None, sequence: str | None = None) -> str:
    return stream(START, OPEN, text(words), CLOSE, delta(reason, sequence), STOP)


def found(captured: str, *stops: str) -> dict[str, Severity]:
    return {finding.code: finding.severity for finding in diagnose(parse(captured), stops)}


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_output_of_our_own_encoders_has_no_finding(folder: str) -> None:
    paths = sorted((GOLDEN / folder).glob("*.json"))
    assert len(paths) >= 9
    for path in paths:
        frames = [
            (f"event: {name}\n" if name else "")
            + f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n"
            for name, data in json.loads(path.read_text())
        ]
        capture = parse("".join(frames))
        assert capture.dialect is FOLDERS[folder], path
        faults = [one.code for one in diagnose(capture) if one.severity is not Severity.NOTE]
        assert set(faults) <= {"error_in_stream"}, path
        assert bool(faults) == (path.stem in BROKEN_OFF), path
        assert (capture.error is not None) == (path.stem in BROKEN_OFF), path


def test_a_null_sequence_beside_its_reason_is_found() -> None:
    assert found(answer("A B ", "stop_sequence"), "STOP") == {"sequence_null": Severity.ERROR}


def test_a_text_that_ends_with_a_stop_which_is_not_named_is_found() -> None:
    assert found(answer("A STOP", "end_turn"), "STOP") == {
        "stop_in_text": Severity.ERROR,
        "sequence_null": Severity.ERROR,
    }


def test_a_sequence_without_its_reason_or_without_a_request_is_found() -> None:
    assert found(answer("A", "end_turn", "STOP"), "STOP") == {
        "sequence_without_reason": Severity.ERROR
    }
    assert found(answer("A", "stop_sequence", "X"), "STOP") == {"sequence_unknown": Severity.ERROR}


def test_the_beginning_of_a_stop_at_the_end_is_suspicious_only_after_a_stop() -> None:
    leaked, released = answer("A ST", "stop_sequence", "STOP"), answer("A ST", "end_turn")
    assert found(leaked, "STOP") == {"stop_prefix_at_end": Severity.WARNING}
    assert found(released, "STOP") == {"stop_prefix_at_end": Severity.NOTE}


def test_a_stop_and_the_text_after_it_are_found_with_their_event() -> None:
    captured = stream(START, OPEN, text("A ST"), text("OP"), text(" B"), CLOSE,
                      delta("end_turn"), STOP)  # fmt: skip
    inside, after = diagnose(parse(captured), ["STOP"])
    assert (inside.code, inside.event_index) == ("stop_in_text", 2)
    assert (after.code, after.event_index, after.excerpt) == ("text_after_stop", 4, " B")


def test_the_stops_of_a_pasted_command_are_used() -> None:
    command = 'curl http://127.0.0.1/ -d \'{"stop_sequences": ["B"]}\'\n'
    assert set(found(command + answer("A B", "end_turn"))) == {"stop_in_text", "sequence_null"}


@pytest.mark.parametrize("last", [{"stop_reason": None, "stop_sequence": None}, {}])
def test_a_later_event_without_the_reason_erases_it(last: dict[str, Any]) -> None:
    erasing = {**delta(None), "delta": last}
    captured = stream(START, OPEN, CLOSE, delta("end_turn"), erasing, STOP)
    assert found(captured) == {"reason_erased": Severity.ERROR}
    assert found(stream(START, OPEN, CLOSE, erasing, delta("end_turn"), STOP)) == {}


@pytest.mark.parametrize(
    ("reason", "codes"), [("end_turn", set()), ("stop_sequence", {"sequence_null"})]
)
@pytest.mark.parametrize("dialect", [None, WireDialect.MESSAGES])
def test_a_missing_stop_sequence_is_read_as_null_by_inspect_and_the_probe(
    reason: str, codes: set[str], dialect: WireDialect | None
) -> None:
    nameless = {**delta(reason), "delta": {"stop_reason": reason}}
    capture = parse(stream(START, OPEN, text("A"), CLOSE, nameless, STOP), dialect)
    # The probe has the whole stream, and expects more of its beginning.
    shown = [one for one in diagnose(capture) if "message" not in one.sentence.split(".")[0]]
    assert {one.code for one in shown} == codes


@pytest.mark.parametrize(
    "events",
    [
        (OPEN, START, text("A"), CLOSE, delta("end_turn"), STOP),
        (START, text("A"), OPEN, CLOSE, delta("end_turn"), STOP),
        (START, OPEN, text("A"), delta("end_turn"), CLOSE, STOP),
        (START, OPEN, text("A"), CLOSE, STOP, delta("end_turn")),
        (START, OPEN, CLOSE, OPEN, CLOSE, delta("end_turn"), STOP),
    ],
)
def test_events_out_of_order_are_found(events: tuple[dict[str, Any], ...]) -> None:
    assert found(stream(*events)) == {"event_order": Severity.ERROR}


def test_a_stream_without_its_last_event_is_found() -> None:
    begun = (START, OPEN, text("A"))
    assert found(stream(*begun, CLOSE, delta("end_turn"))) == {"end_marker_missing": Severity.ERROR}
    cut = found(stream(*begun))
    assert cut == {"stream_truncated": Severity.ERROR, "reason_missing": Severity.ERROR}


def test_a_stream_that_breaks_off_inside_its_json_is_found() -> None:
    captured = stream(START, OPEN, text("A")) + 'data: {"type":"content_bl'
    assert "stream_truncated" in found(captured)
    assert "bad_json" not in found(captured)


def test_event_names_are_checked() -> None:
    captured = answer("A", "end_turn")
    assert found(captured.replace("event: message_stop\n", "")) == {
        "event_name_missing": Severity.ERROR
    }
    assert found(captured.replace("event: message_stop", "event: message_end")) == {
        "event_name_differs": Severity.ERROR
    }
    assert found(stream(START, {"type": "status"}, OPEN, CLOSE, delta("end_turn"), STOP)) == {}


def chunk(choice: dict[str, Any] | None, **more: Any) -> str:
    choices = [] if choice is None else [{"index": 0} | choice]
    return f"data: {json.dumps({'object': 'chat.completion.chunk', 'choices': choices} | more)}\n\n"


CONTENT = chunk({"delta": {"content": "A"}})
REASON = chunk({"delta": {}, "finish_reason": "stop"})
USAGE = chunk(None, usage={"completion_tokens": 1})
DONE = "data: [DONE]\n\n"
CALLED = chunk({"delta": {}, "finish_reason": "tool_calls"})


def called(call_id: str, index: int, name: str = "note", arguments: str = "{}") -> str:
    function = {"name": name, "arguments": arguments}
    return chunk({"delta": {"tool_calls": [{"index": index, "id": call_id, "function": function}]}})


@pytest.mark.parametrize(
    ("captured", "code"),
    [
        (CONTENT + REASON + USAGE, "end_marker_missing"),
        (CONTENT + USAGE + DONE, "reason_missing"),
        (CONTENT + REASON + REASON + USAGE + DONE, "reason_repeated"),
        (REASON + CONTENT + USAGE + DONE, "text_after_reason"),
        (REASON + chunk({"delta": {"reasoning_content": "B"}}) + USAGE + DONE,
         "thinking_after_reason"),
        (chunk({}, created=1_767_225_600) + CONTENT + chunk({}, created=1_767_225_601) + REASON
         + USAGE + DONE, "created_changes"),
        (CONTENT + REASON + DONE + USAGE, "event_order"),
        (CONTENT + chunk({"delta": {}, "finish_reason": "stop"}, usage=None) + DONE,
         "usage_missing"),
        (chunk({"delta": {"content": "A"}, "finish_reason": ""}) + REASON + USAGE + DONE,
         "reason_empty"),
        (chunk({}, id="c1") + CONTENT + chunk({}, id="c2") + REASON + USAGE + DONE, "id_changes"),
        (called("t1", 0) + called("t2", 0) + CALLED + USAGE + DONE, "call_index_repeated"),
        (called("t1", 0) + called("t1", 1) + CALLED + USAGE + DONE, "call_id_repeated"),
        (called("t1", 0, arguments="") + called("", 0) + CALLED + USAGE + DONE,
         "call_name_repeated"),
        (called("t1", 0) + called("t2", 0, name="", arguments="") + CALLED + USAGE + DONE,
         "call_id_changes"),
    ],
)  # fmt: skip
def test_each_fault_of_a_chat_stream_is_found_alone(captured: str, code: str) -> None:
    assert found(CONTENT + REASON + USAGE + DONE) == {}
    assert set(found(captured)) == {code}


def response_events(status: str = "completed") -> list[dict[str, Any]]:
    part = {"type": "output_text", "text": "A"}
    item = {"type": "message", "status": status, "content": [part]}
    done = {"id": "r1", "status": status, "usage": {"output_tokens": 1}, "output": [item]}
    if status == "incomplete":
        done["incomplete_details"] = {"reason": "max_output_tokens"}
    where = {"output_index": 0, "content_index": 0}
    events = [
        {"type": "response.created", "response": {"id": "r1", "model": "m"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message"}},
        {"type": "response.content_part.added", **where},
        {"type": "response.output_text.delta", "delta": "A", **where},
        {"type": "response.output_text.done", "text": "A", **where},
        {"type": "response.content_part.done", "part": part, **where},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": f"response.{status}", "response": done},
    ]
    return [event | {"sequence_number": number} for number, event in enumerate(events)]


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda events: events.pop(0), "event_order"),
        (lambda events: events[3].update(sequence_number=0), "event_order"),
        (lambda events: events[4].update(text="B"), "text_differs"),
        (lambda events: events.pop(4), "event_missing"),
        (lambda events: events.pop(6), "event_missing"),
        (lambda events: events[7]["response"].pop("usage"), "usage_missing"),
        (lambda events: events[7]["response"].update(output=[]), "text_differs"),
        (lambda events: events[7]["response"].update(id="r2"), "id_changes"),
        (lambda events: events[7].update(type="response.incomplete"), "event_name_differs"),
    ],
)
def test_each_fault_of_a_responses_stream_is_found_alone(spoil: Any, code: str) -> None:
    events = response_events()
    assert found(stream(*events)) == {}
    spoil(events)
    assert set(found(stream(*events))) == {code}


@pytest.mark.parametrize("own_id", ["m1", None])
def test_text_of_an_item_that_has_no_index_is_read(own_id: str | None) -> None:
    events = response_events()
    for event in events:
        event.pop("output_index", None)
        named = event.get("item")
        if own_id and isinstance(named, dict):
            event["item"] = named | {"id": own_id}
        elif own_id and "content_index" in event:
            event["item_id"] = own_id
    captured = stream(*events)
    assert parse(captured).text == "A"
    assert found(captured) == {}


def test_a_delta_of_another_type_than_its_block_is_found() -> None:
    text = {"type": "text_delta", "text": "A"}
    call = {"type": "tool_use", "id": "t1", "name": "note", "input": {}}
    begin = {"type": "content_block_start", "index": 0, "content_block": call}
    inside = {"type": "content_block_delta", "index": 0, "delta": text}
    assert found(stream(START, begin, CLOSE, delta("tool_use"), STOP)) == {}
    assert found(stream(START, begin, inside, CLOSE, delta("tool_use"), STOP)) == {
        "event_order": Severity.ERROR
    }


def test_a_frame_that_takes_text_back_is_found() -> None:
    frames = [{"text": "A B"}, {"text": "A"}]
    meta = {"meta_info": {"finish_reason": None, "completion_tokens": 1}}
    last = {"text": "A B", "meta_info": {"finish_reason": {"type": "stop"},
                                          "completion_tokens": 1}}  # fmt: skip
    captured = "".join(f"data: {json.dumps(one | meta)}\n\n" for one in frames)
    captured += f"data: {json.dumps(last)}\n\n{DONE}"
    assert found(captured) == {"text_retracted": Severity.ERROR}


def test_lines_of_ollama_that_never_say_done_are_found() -> None:
    lines = [{"message": {"content": "A"}, "done": False}] * 2
    assert set(found("\n".join(map(json.dumps, lines)))) == {
        "end_marker_missing",
        "reason_missing",
    }


def test_an_error_is_reported_and_nothing_is_said_about_stops() -> None:
    captured = json.dumps({"type": "error", "error": {"type": "api_error", "message": "busy"}})
    assert found(captured, "STOP") == {"error": Severity.ERROR}
