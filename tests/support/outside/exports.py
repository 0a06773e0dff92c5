"""Whole exports of other programs, written by hand in the structure of real ones.

Every text that a person or a model could have written, and every value that the program noted, is a
word of its own that begins with ``w-``, so that a test can follow it.
"""

from itertools import count
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


class Words:
    def __init__(self) -> None:
        self._numbers = count()

    def __call__(self, name: str) -> str:
        return f"w-{name}-{next(self._numbers)}"


def chatgpt() -> Values:
    """Return a conversation of ChatGPT with everything that its export has."""
    w = Words()

    def node(key: str, parent: str | None, role: str, content: Values, **more: Any) -> Values:
        metadata = {
            "request_id": w("request"),
            "message_type": "next",
            "timestamp_": "absolute",
            "parent_id": w("parent"),
            "turn_exchange_id": w("turn"),
            **more.pop("metadata", {}),
        }
        message = {
            "id": key,
            "author": {"role": role, "name": w("author"), "metadata": {}},
            "create_time": 1_700_000_000.5,
            "update_time": None,
            "content": content,
            "status": "finished_successfully",
            "end_turn": True,
            "weight": 1.0,
            "metadata": metadata,
            "recipient": more.pop("recipient", "all"),
            "channel": more.pop("channel", None),
        }
        return {"id": key, "message": message, "parent": parent, "children": []}

    def text(*parts: Any) -> Values:
        return {"content_type": "text", "parts": list(parts)}

    mark = "\ue200cite\ue202turn0search1\ue201"
    references = [
        {
            "matched_text": mark,
            "start_idx": 5,
            "end_idx": 9,
            "type": "grouped_webpages",
            "alt": f"([{w('source')}](https://source.test))",
            "items": [{"title": w("item")}],
        },
    ]
    create = f'{{"name":"{w("canvas")}","type":"document","content":"first {w("draft")}"}}'
    update = '{"updates":[{"pattern":"first","multiple":false,"replacement":"second"}]}'
    nodes = [
        {"id": "root", "message": None, "parent": None, "children": ["ctx"]},
        node(
            "ctx",
            "root",
            "user",
            {
                "content_type": "user_editable_context",
                "user_profile": w("about-me"),
                "user_instructions": w("how-to-answer"),
            },
            metadata={
                "is_visually_hidden_from_conversation": True,
                "is_user_system_message": True,
                "user_context_message_data": {
                    "about_user_message": w("about-user"),
                    "about_model_message": w("about-model"),
                },
            },
        ),
        node(
            "mem",
            "ctx",
            "assistant",
            {
                "content_type": "model_editable_context",
                "model_set_context": w("memory"),
            },
        ),
        node(
            "q1",
            "mem",
            "user",
            {
                "content_type": "multimodal_text",
                "parts": [
                    {
                        "content_type": "image_asset_pointer",
                        "asset_pointer": "sediment://file_pic00001",
                        "size_bytes": 10,
                        "width": 4,
                        "height": 4,
                        "fovea": None,
                        "metadata": None,
                    },
                    {
                        "content_type": "audio_transcription",
                        "text": w("spoken"),
                        "direction": "in",
                        "decoding_id": None,
                    },
                    w("question"),
                ],
            },
            metadata={
                "attachments": [
                    {
                        "id": "file_pic00001",
                        "name": w("photo") + ".png",
                        "size": 10,
                        "mime_type": "image/png",
                        "width": 4,
                        "height": 4,
                    },
                    {"id": "file_doc00001", "name": w("paper") + ".pdf", "size": 9},
                ],
                "targeted_reply": w("replied-to"),
            },
        ),
        node(
            "think",
            "q1",
            "assistant",
            {
                "content_type": "thoughts",
                "thoughts": [
                    {
                        "summary": w("summary"),
                        "content": w("thought"),
                        "chunks": [],
                        "finished": True,
                    },
                ],
                "source_analysis_msg_id": w("source-id"),
            },
        ),
        node(
            "recap",
            "think",
            "assistant",
            {
                "content_type": "reasoning_recap",
                "content": w("recap"),
            },
        ),
        node(
            "run",
            "recap",
            "assistant",
            {
                "content_type": "code",
                "language": "unknown",
                "text": w("code"),
                "response_format_name": None,
            },
            recipient="python",
        ),
        node(
            "ran",
            "run",
            "tool",
            {"content_type": "execution_output", "text": w("output")},
            metadata={
                "aggregate_result": {
                    "status": "success",
                    "run_id": w("run"),
                    "code": w("code-again"),
                    "messages": [
                        {
                            "message_type": "image",
                            "image_url": "file-service://file-plot0001",
                            "width": 5,
                            "height": 5,
                        }
                    ],
                    "jupyter_messages": [{"msg_type": w("jupyter")}],
                }
            },
        ),
        node("make", "ran", "assistant", text(create), recipient="canmore.create_textdoc"),
        node(
            "made",
            "make",
            "tool",
            text("Successfully created text document."),
            metadata={"canvas": {"textdoc_id": w("doc"), "textdoc_type": "document", "version": 1}},
        ),
        node("change", "made", "assistant", text(update), recipient="canmore.update_textdoc"),
        node(
            "search",
            "change",
            "assistant",
            {"content_type": "code", "text": w("search")},
            recipient="browser",
        ),
        node(
            "quote",
            "search",
            "tool",
            {
                "content_type": "tether_quote",
                "url": w("url"),
                "domain": w("domain"),
                "text": w("quoted"),
                "title": w("title"),
                "tether_id": None,
            },
        ),
        node(
            "seen",
            "quote",
            "tool",
            {
                "content_type": "computer_output",
                "computer_id": w("computer"),
                "screenshot": {"asset_pointer": "file-service://file-plot0001", "width": 5},
                "state": {"url": w("state"), "title": w("state-title")},
            },
        ),
        node(
            "a1",
            "seen",
            "assistant",
            text(f"{w('answer')} {mark}"),
            metadata={
                "model_slug": w("model"),
                "finish_details": {"type": "stop", "stop_tokens": [200002]},
                "content_references": references,
                "citations": [{"metadata": {"title": w("cited"), "url": w("cited-url")}}] * 3,
                "search_queries": [{"type": "search", "q": w("term")}],
                "image_results": [{"url": w("found-picture")}],
            },
        ),
        node(
            "a2",
            "seen",
            "assistant",
            text(w("other-version")),
            metadata={
                "finish_details": {"type": "max_tokens"},
            },
        ),
    ]
    return {
        "title": w("title"),
        "create_time": 1_700_000_000.0,
        "update_time": 1_700_000_100.0,
        "mapping": {one["id"]: one for one in nodes},
        "current_node": "a1",
        "conversation_id": w("conversation"),
        "id": w("id"),
        "is_archived": False,
        "is_starred": True,
        "default_model_slug": w("default-model"),
        "gizmo_id": "g-p-abc123",
        "conversation_template_id": "g-p-abc123",
        "safe_urls": [w("safe")],
        "moderation_results": [],
        "plugin_ids": None,
        "memory_scope": "global_enabled",
    }


def claude() -> Values:
    """Return a conversation of Claude with everything that its export has."""
    w = Words()

    def message(key: str, above: str, sender: str, *content: Values, **more: Any) -> Values:
        return {
            "uuid": key,
            "text": "",
            "content": list(content),
            "sender": sender,
            "created_at": "2025-03-01T10:00:00.000000Z",
            "updated_at": "2025-03-01T10:00:01Z",
            "attachments": [],
            "files": [],
            "parent_message_uuid": above,
            "index": 0,
            **more,
        }

    def block(kind: str, **more: Any) -> Values:
        times = {"start_timestamp": "2025-03-01T10:00:00Z", "stop_timestamp": None, "flags": None}
        return {**times, "type": kind, **more}

    def artifact(key: str, **given: Any) -> Values:
        call = {"id": "art-1", "type": "text/markdown", "title": w("artifact"), **given}
        return block(
            "tool_use",
            id=key,
            name="artifacts",
            input=call,
            message=w("message"),
            integration_name=w("integration"),
            display_content={"text": w("display")},
        )

    citation = {
        "title": w("cited"),
        "uuid": w("uuid"),
        "start_index": 0,
        "end_index": 4,
        "details": {"type": "web_search_citation", "url": "https://cited.test"},
    }
    knowledge = {
        "type": "knowledge",
        "title": w("page"),
        "url": w("page-url"),
        "text": w("page-text"),
        "is_missing": False,
        "metadata": {"site_name": w("site")},
    }
    picture = {"type": "image", "file_uuid": "pic-uuid-0001"}
    made = {"type": "local_resource", "file_path": w("path"), "name": w("made"), "uuid": w("uuid")}
    return {
        "uuid": w("uuid"),
        "name": w("name"),
        "summary": w("summary"),
        "model": w("model"),
        "created_at": "2025-03-01T10:00:00Z",
        "updated_at": "2025-03-01T11:00:00Z",
        "is_starred": True,
        "account": {"uuid": w("account")},
        "project": {"uuid": "p-1", "name": w("project")},
        "current_leaf_message_uuid": "a1",
        "chat_messages": [
            message(
                "q1",
                "00000000-0000-4000-8000-000000000000",
                "human",
                block("text", text=w("question"), citations=[]),
                block("voice_note", title=w("spoken-title"), text=w("spoken")),
                attachments=[
                    {
                        "id": w("id"),
                        "file_name": w("file") + ".txt",
                        "file_size": 4,
                        "file_type": "txt",
                        "extracted_content": w("extracted"),
                    }
                ],
                files=[
                    {"file_uuid": "pic-uuid-0001", "file_name": w("photo") + ".png"},
                    {"file_uuid": "gone-uuid-0002", "file_name": w("gone") + ".pdf"},
                ],
            ),
            message(
                "a1",
                "q1",
                "assistant",
                block(
                    "thinking",
                    thinking=w("thought"),
                    summaries=[{"summary": w("short")}],
                    cut_off=False,
                    signature=w("signature"),
                ),
                block("tool_use", id="t1", name="look_up", input={"query": w("query")}),
                block(
                    "tool_result",
                    tool_use_id="t1",
                    name="look_up",
                    is_error=False,
                    content=[knowledge, picture, made],
                    structured_content={"threads": [w("again")]},
                ),
                artifact("t2", command="create", content=f"old {w('content')}"),
                block(
                    "tool_result",
                    tool_use_id="t2",
                    name="artifacts",
                    content=[{"type": "text", "text": "OK", "uuid": w("uuid")}],
                ),
                artifact("t3", command="update", old_str="old", new_str="new"),
                block("text", text=w("answer"), citations=[citation]),
                block("token_budget", remaining=7),
                stop_reason="stop_sequence",
                stop_sequence=w("stop"),
            ),
            message("a2", "q1", "assistant", block("text", text=w("retry"))),
        ],
    }


def lm_studio() -> Values:
    """Return a conversation of LM Studio with everything that its file has."""
    w = Words()

    def content(text: str, **more: Any) -> Values:
        return {
            "type": "text",
            "text": text,
            "fromDraftModel": False,
            "tokensCount": 3,
            "isStructural": False,
            **more,
        }

    def step(*pieces: Values, **more: Any) -> Values:
        return {
            "type": "contentBlock",
            "stepIdentifier": "1720000001000-0.5",
            "content": list(pieces),
            "defaultShouldIncludeInContext": True,
            "shouldIncludeInContext": True,
            **more,
        }

    stops = {"key": "llm.prediction.stopStrings", "value": [w("stop")]}
    info = {
        "indexedModelIdentifier": w("model"),
        "identifier": w("identifier"),
        "loadModelConfig": {"fields": [{"key": w("load"), "value": 1}]},
        "predictionConfig": {"fields": [stops]},
        "stats": {
            "stopReason": "stopStringFound",
            "stopString": w("stop-string"),
            "tokensPerSecond": 30.0,
            "numGpuLayers": -1,
            "timeToFirstTokenSec": 0.25,
            "totalTimeSec": 1.5,
            "promptTokensCount": 12,
            "predictedTokensCount": 34,
            "totalTokensCount": 46,
            "usedDraftModelKey": w("draft-model"),
        },
    }
    call = {
        "type": "toolCallRequest",
        "callId": 1,
        "name": w("tool"),
        "toolCallRequestId": "r1",
        "parameters": {"where": w("where")},
        "pluginIdentifier": w("plugin"),
    }
    result = {
        "type": "toolCallResult",
        "callId": 1,
        "toolCallRequestId": "r1",
        "name": "",
        "content": w("result"),
    }
    return {
        "name": w("name"),
        "pinned": True,
        "createdAt": 1_720_000_000_000,
        "preset": w("preset"),
        "tokenCount": 46,
        "userLastMessagedAt": 1_720_000_005_000,
        "assistantLastMessagedAt": 1_720_000_006_000,
        "systemPrompt": w("system"),
        "usePerChatPredictionConfig": True,
        "perChatPredictionConfig": {
            "fields": [
                {"key": "llm.prediction.temperature", "value": 0.5},
                {"key": "llm.prediction.stopStrings", "value": [w("own-stop")]},
                {"key": "llm.prediction.contextOverflowPolicy", "value": "rollingWindow"},
            ]
        },
        "clientInput": w("draft"),
        "clientInputFiles": [],
        "userFilesSizeBytes": 0,
        "lastUsedModel": {
            "indexedModelIdentifier": w("last-model"),
            "identifier": w("last-id"),
            "instanceLoadTimeConfig": {"fields": [{"key": w("context")}]},
            "instanceOperationTimeConfig": {"fields": []},
        },
        "notes": [w("note")],
        "plugins": [w("plugin")],
        "looseFiles": [],
        "messages": [
            {
                "currentlySelected": 0,
                "versions": [
                    {
                        "type": "singleStep",
                        "role": "user",
                        "content": [
                            content(w("question")),
                            {
                                "type": "file",
                                "name": w("photo") + ".png",
                                "identifier": "17-1.png",
                                "fileType": "image",
                                "sizeBytes": 3,
                            },
                            {
                                "type": "file",
                                "fileIdentifier": w("paper") + ".pdf",
                                "fileType": "text/plain",
                            },
                        ],
                        "preprocessed": {"role": "user", "content": [content(w("processed"))]},
                    },
                ],
            },
            {
                "currentlySelected": 1,
                "versions": [
                    {
                        "type": "multiStep",
                        "role": "assistant",
                        "senderInfo": {"senderName": w("sender")},
                        "steps": [step(content(w("first-version")))],
                    },
                    {
                        "type": "multiStep",
                        "role": "assistant",
                        "senderInfo": {"senderName": w("sender")},
                        "steps": [
                            step(
                                content(w("thought")),
                                prefix="<think>",
                                suffix="</think>",
                                style={
                                    "type": "thinking",
                                    "ended": True,
                                    "title": w("thought-title"),
                                },
                            ),
                            {
                                "type": "citationBlock",
                                "stepIdentifier": "1720000001000-0.6",
                                "citedText": w("passage"),
                                "fileName": w("cited-file"),
                                "fileIdentifier": w("cited-id"),
                                "pageNumber": [2, 3],
                            },
                            step(call),
                            step(result),
                            {
                                "type": "debugInfoBlock",
                                "stepIdentifier": "x",
                                "debugInfo": w("debug"),
                            },
                            step(content(w("answer")), genInfo=info),
                        ],
                    },
                ],
            },
        ],
    }


def jan() -> tuple[Values, list[Values]]:
    """Return a thread of Jan with everything that its files have, and its messages."""
    w = Words()

    def message(key: str, role: str, *content: Values, **more: Any) -> Values:
        return {
            "id": w(key),
            "object": "thread.message",
            "thread_id": w("thread"),
            "assistant_id": w("assistant"),
            "role": role,
            "content": list(content),
            "status": "ready",
            "created_at": 1_730_000_000_000,
            "completed_at": 1,
            **more,
        }

    def text(value: str, kind: str = "text") -> Values:
        return {"type": kind, "text": {"value": value, "annotations": []}}

    thread = {
        "id": w("id"),
        "object": "thread",
        "title": w("title"),
        "created": 1_730_000_000,
        "updated": 1_730_000_100,
        "model": {"id": w("model"), "provider": w("provider")},
        "assistants": [
            {
                "id": w("assistant"),
                "name": w("name"),
                "avatar": w("avatar"),
                "instructions": w("instructions"),
                "parameters": {"temperature": 0.5, "stop": [w("stop")]},
                "model": {"id": w("other-model"), "engine": w("engine")},
            }
        ],
        "metadata": {
            "is_favorite": True,
            "order": 1,
            "project": {"id": w("p"), "name": w("project")},
        },
    }
    messages = [
        message(
            "q",
            "user",
            text(w("question")),
            {
                "type": "image_url",
                "image_url": {"url": "data:image/png;base64,AAAA", "detail": "auto"},
            },
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
            attachments=[{"file_id": w("file-id"), "name": w("file") + ".pdf", "tools": []}],
            metadata={"inline_file_contents": [{"name": w("notes"), "content": w("inside")}]},
        ),
        message(
            "a",
            "assistant",
            text(f"<think>{w('thought')}</think>{w('answer')}"),
            {
                "type": "tool_call",
                "tool_call_id": "c1",
                "tool_name": w("tool"),
                "input": {"where": w("where")},
                "output": w("output"),
            },
            metadata={
                "modelId": w("answered-by"),
                "tokenSpeed": {"tokenSpeed": 3},
                "usage": {"total_tokens": 5},
                "tool_calls": [
                    {
                        "tool": {
                            "id": "c2",
                            "type": "function",
                            "function": {
                                "name": w("second"),
                                "arguments": f'{{"a": "{w("argument")}"}}',
                            },
                        },
                        "response": {"content": [{"type": "text", "text": w("returned")}]},
                        "state": w("state"),
                    }
                ],
            },
        ),
        message("r", "assistant", text(w("reasoning"), "reasoning"), text(w("said"))),
        message("s", "assistant", text(w("half")), status="stopped"),
    ]
    return thread, messages


def import_all(files: ConversationFiles, path: Path) -> None:
    """Import all conversations of a file, also those that are here already."""

    def take(preview: FileContents) -> None:
        files.imports.looked.disconnect(take)
        files.imports.take(preview, preview.listed)

    files.imports.looked.connect(take)
    files.imports.look_into(path)
