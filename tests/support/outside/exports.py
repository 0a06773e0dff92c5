"""Exports of other programs, in the structure of real ones.

Every text that a user or a model could have written is a word of its own that begins with ``w-``,
so that a test can follow it.
"""

import base64
from pathlib import Path
from typing import Any

from ui.chat.session.conversation_files import ConversationFiles
from ui.records.exchange.contents import FileContents
from ui.records.exchange.export_process import ExportReading

Values = dict[str, Any]


def read_whole(path: Path, most_bytes: int, pictures: Path | None = None) -> FileContents:
    """A file with all its conversations, read here: the program has a process of its own for it."""
    with ExportReading(path, most_bytes, pictures) as reading:
        conversations = list(reading.conversations())
        reading.contents.conversations = conversations
        return reading.contents


def chatgpt() -> Values:
    """Return a conversation of ChatGPT with everything of its export that has a place here."""
    nodes: dict[str, Values] = {"root": {"id": "root", "message": None, "parent": None}}

    def node(
        key: str, role: str, content: Values, parent: str = "", recipient: str = "all", **more: Any
    ) -> None:
        message = {
            "author": {"role": role},
            "create_time": 1_700_000_000.5,
            "content": content,
            "status": "finished_successfully",
            "metadata": more,
            "recipient": recipient,
        }
        nodes[key] = {"id": key, "message": message, "parent": parent or [*nodes][-1]}

    def text(*parts: Any) -> Values:
        return {"content_type": "text", "parts": list(parts)}

    plot = "file-service://file-plot0001"
    mark = "\ue200cite\ue202turn0search1\ue201"
    about = {"about_user_message": "w-about-user-1", "about_model_message": "w-about-model-1"}
    instructions = {"user_profile": "w-about-me-1", "user_instructions": "w-how-to-answer-1"}
    node(
        "ctx",
        "user",
        {"content_type": "user_editable_context", **instructions},
        user_context_message_data=about,
    )
    memory = {"content_type": "model_editable_context", "model_set_context": "w-memory-1"}
    node("mem", "assistant", memory)
    picture = {
        "content_type": "image_asset_pointer",
        "asset_pointer": "sediment://file_pic00001",
        "size_bytes": 10,
    }
    spoken = {"content_type": "audio_transcription", "text": "w-spoken-1", "direction": "in"}
    question = {
        "content_type": "multimodal_text",
        "parts": [picture, spoken, "w-question-1"],
    }
    attachments = [
        {"id": "file_pic00001", "name": "w-photo-1.png", "mime_type": "image/png"},
        {"id": "file_doc00001", "name": "w-paper-1.pdf", "size": 9},
    ]
    node("q1", "user", question, attachments=attachments, targeted_reply="w-replied-to-1")
    thought = {"summary": "w-summary-1", "content": "w-thought-1", "finished": True}
    node("think", "assistant", {"content_type": "thoughts", "thoughts": [thought]})
    node("recap", "assistant", {"content_type": "reasoning_recap", "content": "w-recap-1"})
    code = {"content_type": "code", "language": "unknown", "text": "w-code-1"}
    node("run", "assistant", code, recipient="python")
    shown = {"message_type": "image", "image_url": plot, "width": 5}
    output = {"content_type": "execution_output", "text": "w-output-1"}
    node("ran", "tool", output, aggregate_result={"status": "success", "messages": [shown]})
    create = '{"name":"w-canvas-1","type":"document","content":"first w-draft-1"}'
    node("make", "assistant", text(create), recipient="canmore.create_textdoc")
    node("made", "tool", text("Successfully created text document."))
    update = '{"updates":[{"pattern":"first","multiple":false,"replacement":"second"}]}'
    node("change", "assistant", text(update), recipient="canmore.update_textdoc")
    search = {"content_type": "code", "text": "w-search-1"}
    node("search", "assistant", search, recipient="browser")
    quoted = {"url": "w-url-1", "text": "w-quoted-1", "title": "w-quoted-title-1"}
    node("quote", "tool", {"content_type": "tether_quote", **quoted})
    screen = {"content_type": "computer_output", "screenshot": {"asset_pointer": plot}}
    node("seen", "tool", screen)
    source = {"matched_text": mark, "alt": "([w-source-1](https://source.test))"}
    node(
        "a1",
        "assistant",
        text(f"w-answer-1 {mark}"),
        model_slug="w-model-1",
        finish_details={"type": "stop", "stop_tokens": [200002]},
        content_references=[source],
    )
    other = text("w-other-version-1")
    node("a2", "assistant", other, "seen", finish_details={"type": "max_tokens"})
    return {
        "title": "w-title-1",
        "create_time": 1_700_000_000.0,
        "update_time": 1_700_000_100.0,
        "mapping": nodes,
        "current_node": "a1",
        "conversation_id": "w-conversation-1",
        "is_archived": False,
        "is_starred": True,
        "default_model_slug": "w-default-model-1",
        "conversation_template_id": "g-p-abc123",
    }


def claude() -> Values:
    """Return a conversation of Claude with everything of its export that has a place here."""

    def message(key: str, above: str, sender: str, *content: Values, **more: Any) -> Values:
        return {
            "uuid": key,
            "text": "",
            "content": list(content),
            "sender": sender,
            "created_at": "2025-03-01T10:00:00.000000Z",
            "attachments": [],
            "files": [],
            "parent_message_uuid": above,
            **more,
        }

    def block(kind: str, **more: Any) -> Values:
        return {"type": kind, **more}

    def artifact(key: str, title: str, **given: Any) -> Values:
        call = {"id": "art-1", "type": "text/markdown", "title": title, **given}
        return block("tool_use", id=key, name="artifacts", input=call)

    citation = {"title": "w-cited-1", "details": {"url": "https://cited.test"}}
    found = [
        block("knowledge", title="w-page-1", url="w-page-url-1", text="w-page-text-1"),
        block("image", file_uuid="pic-uuid-0001"),
        block("local_resource", name="w-made-1"),
    ]
    question = message(
        "q1",
        "00000000-0000-4000-8000-000000000000",
        "human",
        block("text", text="w-question-1", citations=[]),
        block("voice_note", title="w-spoken-title-1", text="w-spoken-1"),
        attachments=[{"file_name": "w-file-1.txt", "extracted_content": "w-extracted-1"}],
        files=[
            {"file_uuid": "pic-uuid-0001", "file_name": "w-photo-1.png"},
            {"file_uuid": "gone-uuid-0002", "file_name": "w-gone-1.pdf"},
        ],
    )
    answer = message(
        "a1",
        "q1",
        "assistant",
        block("thinking", thinking="w-thought-1"),
        block("tool_use", id="t1", name="look_up", input={"query": "w-query-1"}),
        block("tool_result", tool_use_id="t1", name="look_up", content=found),
        artifact("t2", "w-artifact-1", command="create", content="old w-content-1"),
        block("tool_result", tool_use_id="t2", content=[block("text", text="OK")]),
        artifact("t3", "w-artifact-2", command="update", old_str="old", new_str="new"),
        block("text", text="w-answer-1", citations=[citation]),
        block("token_budget", remaining=7),
        stop_reason="stop_sequence",
        stop_sequence="w-stop-1",
    )
    retry = message("a2", "q1", "assistant", block("text", text="w-retry-1"))
    return {
        "uuid": "w-uuid-1",
        "name": "w-name-1",
        "model": "w-model-1",
        "created_at": "2025-03-01T10:00:00Z",
        "updated_at": "2025-03-01T11:00:00Z",
        "is_starred": True,
        "project": {"uuid": "p-1", "name": "w-project-1"},
        "current_leaf_message_uuid": "a1",
        "chat_messages": [question, answer, retry],
    }


def lm_studio() -> Values:
    """Return a conversation of LM Studio with everything of its file that has a place here."""

    def text(word: str) -> Values:
        return {"type": "text", "text": word}

    def step(*pieces: Values, **more: Any) -> Values:
        identifier = "1720000001000-0.5"
        return {
            "type": "contentBlock",
            "stepIdentifier": identifier,
            "content": list(pieces),
            **more,
        }

    def stops(word: str) -> Values:
        return {"key": "llm.prediction.stopStrings", "value": [word]}

    info = {
        "indexedModelIdentifier": "w-model-1",
        "predictionConfig": {"fields": [stops("w-stop-1")]},
        "stats": {
            "stopReason": "stopStringFound",
            "stopString": "w-stop-string-1",
            "totalTimeSec": 1.5,
            "predictedTokensCount": 34,
        },
    }
    call = {
        "type": "toolCallRequest",
        "callId": 1,
        "name": "w-tool-1",
        "parameters": {"where": "w-where-1"},
    }
    passage = {"citedText": "w-passage-1", "fileName": "w-cited-file-1", "pageNumber": [2, 3]}
    question = [
        text("w-question-1"),
        {
            "type": "file",
            "name": "w-photo-1.png",
            "identifier": "17-1.png",
            "fileType": "image",
        },
        {"type": "file", "fileIdentifier": "w-paper-1.pdf", "fileType": "text/plain"},
    ]
    answer = [
        step(text("w-thought-1"), prefix="<think>", suffix="</think>", style={"type": "thinking"}),
        {"type": "citationBlock", **passage},
        step(call),
        step({"type": "toolCallResult", "callId": 1, "content": "w-result-1"}),
        {"type": "debugInfoBlock", "debugInfo": "x"},
        step(text("w-answer-1"), genInfo=info),
    ]
    first = {
        "role": "assistant",
        "senderInfo": {"senderName": "x"},
        "steps": [step(text("w-first-version-1"))],
    }
    return {
        "name": "w-name-1",
        "pinned": True,
        "createdAt": 1_720_000_000_000,
        "systemPrompt": "w-system-1",
        "perChatPredictionConfig": {
            "fields": [
                {"key": "llm.prediction.temperature", "value": 0.5},
                stops("w-own-stop-1"),
                {"key": "llm.prediction.contextOverflowPolicy", "value": "rollingWindow"},
            ]
        },
        "clientInput": "w-draft-1",
        "lastUsedModel": {"indexedModelIdentifier": "w-last-model-1"},
        "notes": ["w-note-1"],
        "messages": [
            {"currentlySelected": 0, "versions": [{"role": "user", "content": question}]},
            {
                "currentlySelected": 1,
                "versions": [first, {"role": "assistant", "steps": answer}],
            },
        ],
    }


def jan() -> tuple[Values, list[Values]]:
    """Return a thread of Jan and its messages, with everything that has a place here."""

    def message(role: str, *content: Values, **more: Any) -> Values:
        times = {"created_at": 1_730_000_000_000, "status": "ready"}
        return {"role": role, "content": list(content), **times, **more}

    def text(value: str, kind: str = "text") -> Values:
        return {"type": kind, "text": {"value": value, "annotations": []}}

    thread = {
        "id": "w-id-1",
        "object": "thread",
        "title": "w-title-1",
        "created": 1_730_000_000,
        "updated": 1_730_000_100,
        "model": {"id": "w-model-1"},
        "assistants": [
            {
                "instructions": "w-instructions-1",
                "parameters": {"temperature": 0.5, "stop": ["w-stop-1"]},
            }
        ],
        "metadata": {"is_favorite": True, "project": {"id": "p", "name": "w-project-1"}},
    }
    call = {
        "type": "tool_call",
        "tool_call_id": "c1",
        "tool_name": "w-tool-1",
        "input": {"where": "w-where-1"},
        "output": "w-output-1",
    }
    function = {"name": "w-second-1", "arguments": '{"a": "w-argument-1"}'}
    second = {
        "tool": {"id": "c2", "type": "function", "function": function},
        "response": {"content": [{"type": "text", "text": "w-returned-1"}]},
    }
    messages = [
        message(
            "user",
            text("w-question-1"),
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
            attachments=[{"name": "w-file-1.pdf"}],
            metadata={"inline_file_contents": [{"name": "w-notes-1", "content": "w-inside-1"}]},
        ),
        message(
            "assistant",
            text("<think>w-thought-1</think>w-answer-1"),
            call,
            metadata={"modelId": "w-answered-by-1", "tool_calls": [second]},
        ),
        message("assistant", text("w-reasoning-1", "reasoning"), text("w-said-1")),
        message("assistant", text("w-half-1"), status="stopped"),
    ]
    return thread, messages


def open_webui(picture: bytes = b"\x89PNG\r\n\x1a\n0000") -> list[Values]:
    """Return a chat of Open WebUI, with everything that has a place here."""
    data = base64.b64encode(picture).decode()
    reasoning = (
        '<details type="reasoning" done="true" duration="2">\n<summary>Thought</summary>\n'
        "&gt; w-thought-1\n</details>\n"
    )
    call = (
        '<details type="tool_calls" done="true" id="c1" name="w-tool-1" '
        'arguments="&quot;{\\&quot;a\\&quot;: \\&quot;w-argument-1\\&quot;}&quot;" '
        'result="&quot;w-returned-1&quot;">\n<summary>Tool Executed</summary>\n</details>\n'
    )
    files = [
        {"type": "image", "url": f"data:image/png;base64,{data}"},
        {"type": "image", "url": "6f0c", "name": "kept-on-the-server.png"},
        {
            "type": "file",
            "name": "w-notes-1",
            "file": {"id": "f", "data": {"content": "w-inside-1"}},
        },
        {"type": "file", "name": "w-file-1.pdf"},
    ]

    def message(key: str, above: str | None, role: str, content: str, **more: Any) -> Values:
        links = {"id": key, "parentId": above, "childrenIds": [], "timestamp": 1_700_000_000}
        return {**links, "role": role, "content": content, **more}

    answers = [
        message("a1", "q1", "assistant", "w-answer-1", model="w-answered-by-1"),
        message("a2", "q1", "assistant", f"{reasoning}{call}w-answer-2", model="w-answered-by-2"),
        message("q2", "a1", "user", "w-question-2"),
    ]
    listed = [message("q1", None, "user", "w-question-1", files=files), *answers]
    chat = {
        "title": "w-title-1",
        "models": ["w-model-1"],
        "params": {"system": "w-system-1", "temperature": 0.5, "stop": ["w-stop-1"]},
        "history": {"messages": {each["id"]: each for each in listed}, "currentId": "a2"},
    }
    times = {"created_at": 1_700_000_000, "updated_at": 1_700_000_100}
    return [{"id": "o-1", "title": "w-title-1", "chat": chat, "pinned": True, **times}]


def import_all(files: ConversationFiles, path: Path) -> None:
    """Import all conversations of a file, also those that are here already."""

    def take(preview: FileContents) -> None:
        files.imports.looked.disconnect(take)
        files.imports.take(preview, preview.listed)

    files.imports.looked.connect(take)
    files.imports.look_into(path)
