"""An image in a conversation is refused with its block's name, or replaced by a note."""

from typing import Any

import pytest

from engine.inference.text import with_notes
from engine.values.request import Message

PNG = "iVBORw0KGgo="
NOTE = "[Image not shown (image/png): this model reads text only.]"
PLAIN_NOTE = "[Image not shown: this model reads text only.]"
WANTED = {"fullstop": {"images": "note"}}

BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
PART = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
ITEM = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}

MESSAGES = {
    "model": "m",
    "max_tokens": 4,
    "messages": [
        {"role": "user", "content": "Look at it"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t1", "name": "read", "input": {}}],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [{"type": "text", "text": "Here:"}, BLOCK],
                }
            ],
        },
    ],
}
CHAT = {
    "model": "m",
    "max_tokens": 4,
    "messages": [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, PART]}],
}
CHAT_TOOL = {
    "model": "m",
    "max_tokens": 4,
    "messages": [
        {"role": "user", "content": "Look at it"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "function": {"name": "read", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": [PART]},
    ],
}
RESPONSES = {
    "model": "m",
    "max_output_tokens": 4,
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "What is it?"}, ITEM]},
        {"type": "function_call", "call_id": "c1", "name": "view_image", "arguments": "{}"},
    ],
}
RESPONSES_TOOL = {
    "model": "m",
    "max_output_tokens": 4,
    "input": [
        {"role": "user", "content": "Look at it"},
        {"type": "function_call", "call_id": "c1", "name": "view_image", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": [ITEM]},
    ],
}
OLLAMA = {
    "model": "m",
    "stream": False,
    "options": {"num_predict": 4},
    "messages": [{"role": "user", "content": "What is it?", "images": [PNG]}],
}
GENERATE = {
    "model": "m",
    "stream": False,
    "options": {"num_predict": 4},
    "prompt": "What is it?",
    "images": [PNG],
}
# Each route with an image, the field that holds the image, and the turn that gets the note.
ASKED: list[tuple[str, dict[str, Any], str, Message]] = [
    (
        "/v1/messages",
        MESSAGES,
        "messages.2.content.0.content.1",
        Message("tool", f"Here:\n{NOTE}", tool_call_id="t1", name="read"),
    ),
    (
        "/v1/chat/completions",
        CHAT,
        "messages[0].content[1]",
        Message("user", f"What is it?\n{NOTE}"),
    ),
    (
        "/v1/chat/completions",
        CHAT_TOOL,
        "messages[2].content[0]",
        Message("tool", NOTE, tool_call_id="c1", name="read"),
    ),
    ("/v1/responses", RESPONSES, "input[0].content[1]", Message("user", f"What is it?\n{NOTE}")),
    (
        "/v1/responses",
        RESPONSES_TOOL,
        "input[2].output[0]",
        Message("tool", NOTE, tool_call_id="c1", name="view_image"),
    ),
    ("/api/chat", OLLAMA, "messages[0].images[0]", Message("user", f"{PLAIN_NOTE}\nWhat is it?")),
    ("/api/generate", GENERATE, "images[0]", Message("user", f"{PLAIN_NOTE}\nWhat is it?")),
]
NAMES = [f"{path} {place}" for path, _, place, _ in ASKED]
EACH = pytest.mark.parametrize(("path", "body", "place", "turn"), ASKED, ids=NAMES)


PDF_NOTE = "[Document not shown (application/pdf): its text was not sent.]"
PDF_SOURCE = {"type": "base64", "media_type": "application/pdf", "data": PNG}
PDF_URL = f"data:application/pdf;base64,{PNG}"
DOCUMENTS: list[tuple[str, dict[str, Any], str]] = [
    (
        "/v1/messages",
        MESSAGES
        | {"messages": [{"role": "user", "content": [{"type": "document", "source": PDF_SOURCE}]}]},
        "messages.0.content.0",
    ),
    (
        "/v1/chat/completions",
        CHAT
        | {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "file", "file": {"file_data": PDF_URL}}],
                }
            ]
        },
        "messages[0].content[0]",
    ),
    (
        "/v1/responses",
        RESPONSES
        | {"input": [{"role": "user", "content": [{"type": "input_file", "file_data": PDF_URL}]}]},
        "input[0].content[0]",
    ),
]


JSON_URL = "data:application/json;base64,eyJhIjogMX0="
JSON_SOURCE = {"type": "base64", "media_type": "application/json", "data": "eyJhIjogMX0="}
TEXT_FILES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/messages", {"type": "document", "title": "a.json", "source": JSON_SOURCE}),
    (
        "/v1/chat/completions",
        {"type": "file", "file": {"filename": "a.json", "file_data": JSON_URL}},
    ),
    ("/v1/responses", {"type": "input_file", "filename": "a.json", "file_data": JSON_URL}),
]


@pytest.mark.parametrize(("path", "body", "place"), DOCUMENTS, ids=[d[0] for d in DOCUMENTS])
def test_a_document_that_is_not_text_is_refused_like_an_image(
    site: Any, asked: list[Any], path: str, body: dict[str, Any], place: str
) -> None:
    refused = site.send("POST", path, body)

    assert refused.status == 400
    assert refused.json["error"]["message"].startswith(
        f"{place}: this server reads text and images, and cannot read this document: send its text"
    )
    assert site.send("POST", path, body | WANTED).status == 200
    assert asked[0].messages == (Message("user", PDF_NOTE),)


def test_a_document_that_is_text_is_read(site: Any, asked: list[Any]) -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "All is well."}
    result = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": [{"type": "document", "source": source}],
    }
    turns = [*MESSAGES["messages"][:2], {"role": "user", "content": [result]}]

    assert site.send("POST", "/v1/messages", MESSAGES | {"messages": turns}).status == 200
    assert asked[0].messages[-1].content == "All is well."


@pytest.mark.parametrize(("path", "part"), TEXT_FILES, ids=[path for path, _ in TEXT_FILES])
def test_a_file_of_text_is_read_below_its_name(
    site: Any, asked: list[Any], path: str, part: dict[str, Any]
) -> None:
    turns = [{"role": "user", "content": [part, {"type": "text", "text": "Well?"}]}]
    named = "input" if path == "/v1/responses" else "messages"
    body = {"model": "m", named: turns, **({"max_tokens": 9} if path == "/v1/messages" else {})}

    assert site.send("POST", path, body).status == 200
    assert asked[-1].messages[-1].content == 'Document: a.json\n{"a": 1}\nWell?'


@EACH
def test_an_image_is_refused_by_the_name_of_its_block_or_replaced_by_a_note(
    site: Any, asked: list[Any], path: str, body: dict[str, Any], place: str, turn: Message
) -> None:
    for is_streamed in (False, True):
        refused = {"fullstop": {"images": "refuse"}, "stream": is_streamed}
        reply = site.send("POST", path, body | refused)
        error = reply.json["error"]
        said = error if isinstance(error, str) else error["message"]
        assert reply.status == 400
        assert said.startswith(f"{place}: this model reads text only and cannot see this image")
        assert '"fullstop": {"images": "note"}' in said
        assert "the header x-fullstop-images: note" in said
        assert PNG not in said
    assert site.send("POST", path, body | WANTED).status == 200
    assert turn in with_notes(asked[-1], "").messages
    header = {"x-fullstop-images": "note"}
    assert site.send("POST", path, body, header).status == 200
    assert turn in with_notes(asked[-1], "").messages
    # The request itself has the last word.
    refused = body | {"fullstop": {"images": "refuse"}}
    assert site.send("POST", path, refused, header).status == 400


@EACH
def test_only_an_image_that_the_person_just_sent_is_refused_by_default(
    site: Any,
    asked: list[Any],
    path: str,
    body: dict[str, Any],
    place: str,
    turn: Message,
) -> None:
    is_new = body in (CHAT, OLLAMA, GENERATE)
    reply = site.send("POST", path, body)

    assert reply.status == (400 if is_new else 200)
    assert ("cannot see this image" in reply.body.decode()) is is_new
    if body is GENERATE:
        return
    # Agents repeat the picture with everything that comes after it.
    turns = "input" if "input" in body else "messages"
    later = body | {turns: [*body[turns], {"role": "user", "content": "Go on"}]}
    assert site.send("POST", path, later).status == 200
    assert turn in with_notes(asked[-1], "").messages
