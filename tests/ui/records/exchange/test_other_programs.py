"""Files of other programs, written here by hand in their formats, come in as our conversations."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from engine.files.json_fields import DamagedFile
from engine.values.figures import end_facts, figures
from tests.support.outside.exports import read_whole
from ui.records.conversations import Conversation
from ui.records.runs import Run

MAX_BYTES = 8_000_000


def line_under(run: Run) -> str:
    """Return the figures and the reason of an answer, as the line under it shows them."""
    assert run.finished is not None
    assert run.verdict is not None
    return " · ".join((*figures(run.finished), run.verdict.text.label))


def node(key: str, parent: str | None, role: str = "", *parts: Any, **more: Any) -> dict[str, Any]:
    """Return a node of ChatGPT's tree."""
    content = more.pop("content", {"content_type": "text", "parts": list(parts)})
    message = {
        "id": key,
        "author": {"role": role},
        "create_time": 1_700_000_000.5,
        "content": content,
        "metadata": more,
    }
    return {"id": key, "parent": parent, "children": [], "message": message if role else None}


def chatgpt() -> list[dict[str, Any]]:
    nodes = [
        node("root", None),
        node("hidden", "root", "system", ""),
        node("q1", "hidden", "user", "Count to three."),
        node("a1", "q1", "assistant", "1, 2", model_slug="gpt-4o"),
        node("a2", "q1", "assistant", "1, 2, 3 \ue200cite\ue202turn0\ue201", model_slug="gpt-4o"),
        node("q2", "a2", "user", "Look it up."),
        node("th", "q2", "assistant", content={
            "content_type": "thoughts", "thoughts": [{"summary": "s", "content": "I should look."}],
        }),
        node("call", "th", "assistant", content={
            "content_type": "code", "language": "python", "text": "search()",
        }),
        node("tool", "call", "tool", "found"),
        node("a3", "tool", "assistant", "Here it is."),
        node("q3", "a1", "user", {"content_type": "image_asset_pointer"}, "What is this?"),
        node("mem", "a3", "assistant", "not to be seen", is_visually_hidden_from_conversation=True),
    ]  # fmt: skip
    whole = {
        "title": "Counting \ud83d",
        "conversation_id": "c-1",
        "create_time": 1_700_000_000.0,
        "update_time": 1_700_000_100.0,
        "current_node": "mem",
        "is_archived": True,
        "mapping": {one["id"]: one for one in nodes},
    }
    broken = {
        "title": "Half",
        "conversation_id": "c-2",
        "create_time": None,
        "current_node": "gone",
        "mapping": {
            "root": node("root", None),
            "bad": {**node("bad", "root", "user", "x"), "message": [1]},
            "q": node("q", "bad", "user", "still here"),
        },
    }
    return [whole, {"title": "Nothing", "mapping": 7, "conversation_id": "c-3"}, broken]


def texts(conversation: Conversation) -> list[tuple[str, str]]:
    return [(one.role, one.content) for one in conversation.messages]


def written(path: Path, values: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def zipped(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


@pytest.mark.parametrize("is_archive", [False, True])
def test_chatgpt_conversations_come_with_their_branches(tmp_path: Path, is_archive: bool) -> None:
    path = written(tmp_path / "conversations.json", chatgpt())
    if is_archive:
        text = path.read_text()
        path = zipped(tmp_path / "export.zip", {"chat.html": "x", "conversations.json": text})
    found = read_whole(path, MAX_BYTES)
    assert found.program == "ChatGPT"
    one, half = found.conversations
    assert one.title == "Counting \ufffd"
    assert (one.origin, one.created_at, one.updated_at) == ("chatgpt:c-1", 1.7e9, 1.7e9 + 100)
    assert one.placement.is_archived
    assert texts(one) == [
        ("user", "Count to three."),
        ("assistant", "1, 2, 3 "),
        ("user", "Look it up."),
        ("assistant", ""),
        ("assistant", "Here it is."),
    ]
    call = one.messages[-2].run
    assert call is not None
    assert call.thinking == "s\n\nI should look."
    assert [(c.name, json.loads(c.arguments)) for c in call.tool_calls] == [
        ("python", {"code": "search()"})
    ]
    assert [(r.call_id, r.text) for r in call.results] == [("call", "found")]
    first, second = one.tree.versions(one.messages[1])
    assert (first.content, second.content) == ("1, 2", "1, 2, 3 ")
    assert second.run is not None
    assert second.run.model_id == "gpt-4o"
    one.tree.show(first)
    assert one.messages[-1].typed == "What is this?"
    assert [file.name for file in one.messages[-1].files] == ["picture"]
    assert texts(half) == [("user", "still here")]
    assert found.damaged == [
        "conversations[1].mapping: must be an object",
        "“Half”: mapping.bad.message: must be an object",
    ]


def test_claude_conversations_come_with_attachments_and_retries(tmp_path: Path) -> None:
    zeros = "00000000-0000-4000-8000-000000000000"

    def said(uuid: str, sender: str, text: str, above: str, **more: Any) -> dict[str, Any]:
        return {
            "uuid": uuid,
            "sender": sender,
            "text": text,
            "content": [{"type": "text", "text": text}],
            "created_at": "2025-03-01T10:00:00.000000Z",
            "parent_message_uuid": above,
            **more,
        }

    attached = [{"file_name": "notes.txt", "file_type": "txt", "extracted_content": "Milk, bread"}]
    thought = [
        {"type": "thinking", "thinking": "A list."},
        {"type": "tool_use", "id": "t", "name": "search", "input": {}},
        {
            "type": "tool_result",
            "tool_use_id": "t",
            "content": [{"type": "text", "text": "2 found"}],
        },
        {"type": "text", "text": "Two things."},
    ]
    values = [
        {
            "uuid": "u-1",
            "name": "Shopping",
            "created_at": "2025-03-01T10:00:00Z",
            "updated_at": "2025-03-01T11:00:00+00:00",
            "chat_messages": [
                said("m1", "human", "What is on it?", zeros, attachments=attached),
                said("m2", "assistant", "", "m1", content=thought),
                said("m3", "assistant", "Milk and bread.", "m1"),
                said("m4", "human", "Thanks", "m3"),
                {"uuid": "m5", "sender": 7},
            ],
        },
        {"uuid": "u-2", "name": "", "chat_messages": []},
    ]
    found = read_whole(written(tmp_path / "conversations.json", values), MAX_BYTES)
    assert found.program == "Claude"
    (one,) = found.conversations
    assert (one.title, one.updated_at - one.created_at) == ("Shopping", 3600)
    assert [m.typed for m in one.messages if m.role == "user"] == ["What is on it?", "Thanks"]
    (file,) = one.messages[0].files
    assert (file.name, file.text.strip()) == ("notes.txt", "Milk, bread")
    first, second = one.tree.versions(one.messages[1])
    assert (first.content, second.content) == ("Two things.", "Milk and bread.")
    assert first.run is not None
    assert first.run.thinking == "A list."
    assert [one.name for one in first.run.tool_calls] == ["search"]
    assert [(one.text, one.state) for one in first.run.results] == [("2 found", "done")]
    assert found.damaged == ["“Shopping”: chat_messages[4].sender: must be text"]


def lm_studio(name: str) -> dict[str, Any]:
    def block(text: str, **more: Any) -> dict[str, Any]:
        return {"type": "contentBlock", "content": [{"type": "text", "text": text}], **more}

    def user(text: str) -> dict[str, Any]:
        content = [{"type": "text", "text": text}]
        return {"type": "singleStep", "role": "user", "content": content}

    def answer(*steps: dict[str, Any]) -> dict[str, Any]:
        info = {"senderName": "qwen3-4b"}
        return {"type": "multiStep", "role": "assistant", "senderInfo": info, "steps": [*steps]}

    thinking = block("Hm.", style={"type": "thinking", "ended": True})
    return {
        "name": name,
        "pinned": True,
        "createdAt": 1_720_000_000_000,
        "systemPrompt": "Be brief.",
        "messages": [
            {"versions": [user("Hello?")], "currentlySelected": 0},
            {
                "versions": [
                    answer(block("Hi.")),
                    answer(thinking, {"type": "debugInfoBlock"}, block("Good day.")),
                ],
                "currentlySelected": 0,
            },
            {"versions": [user("Bye")], "currentlySelected": 0},
        ],
    }


@pytest.mark.parametrize("is_archive", [False, True])
def test_lm_studio_conversations_come_with_their_folders(tmp_path: Path, is_archive: bool) -> None:
    files = {
        "1.conversation.json": json.dumps(lm_studio("Greeting")),
        "Work/deep/2.conversation.json": json.dumps(lm_studio("")),
        "Work/3.conversation.json": "{",
    }
    path = tmp_path / "conversations"
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    if is_archive:
        inside = {f"conversations/{name}": text for name, text in files.items()}
        path = zipped(tmp_path / "c.zip", inside)
    found = read_whole(path, MAX_BYTES)
    assert found.program == "LM Studio"
    one, two = found.conversations
    assert (one.title, two.title) == ("Greeting", "Hello?")
    assert (one.is_pinned, one.settings.system_prompt) == (True, "Be brief.")
    assert (one.origin, one.created_at) == ("lm-studio:1", 1.72e9)
    assert texts(one) == [("user", "Hello?"), ("assistant", "Hi."), ("user", "Bye")]
    other = one.tree.versions(one.messages[1])[1]
    assert other.run is not None
    assert (other.content, other.run.thinking, other.run.model_id) == (
        "Good day.",
        "Hm.",
        "qwen3-4b",
    )
    (folder,) = found.folders
    assert (folder.name, two.placement.folder_id) == ("Work/deep", folder.id)
    assert [words.partition(": ")[2] for words in found.damaged] == ["line 1 is not valid JSON"]


def test_jan_threads_come_with_what_can_be_read_of_them(tmp_path: Path) -> None:
    def line(role: str, text: str, at: int) -> str:
        content = [{"type": "text", "text": {"value": text, "annotations": []}}]
        return json.dumps({"role": role, "content": content, "created_at": at}, ensure_ascii=False)

    threads = tmp_path / "jan" / "threads"
    thread = {
        "id": "t-1",
        "title": "Jokes",
        "created": 1_730_000_000,
        "updated": 1_730_000_100,
        "assistants": [{"instructions": "Be funny.", "model": {"id": "llama"}}],
    }
    written(threads / "jan_1" / "thread.json", thread)
    lines = [
        line("assistant", "A horse walks into a bar.", 1_730_000_002_000),
        "{damaged",
        line("user", "Tell me a joke.\u2028Now.", 1_730_000_001_000),
        "",
    ]
    (threads / "jan_1" / "messages.jsonl").write_text("\n".join(lines), encoding="utf-8")
    written(threads / "empty" / "thread.json", {"id": "t-2"})
    found = read_whole(tmp_path / "jan", MAX_BYTES)
    assert found.program == "Jan"
    (one,) = found.conversations
    assert (one.title, one.origin, one.settings.system_prompt) == ("Jokes", "jan:t-1", "Be funny.")
    assert texts(one) == [
        ("user", "Tell me a joke.\u2028Now."),
        ("assistant", "A horse walks into a bar."),
    ]
    assert found.damaged == ["jan_1/messages.jsonl, line 2: this is not valid JSON"]


def test_what_chatgpt_ran_and_why_it_stopped_come_in_and_the_rest_is_counted(
    tmp_path: Path,
) -> None:
    output = {"content_type": "execution_output", "text": "42\n"}
    failed = {"content_type": "execution_output", "text": "NameError"}
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-1"}
    sound = {"content_type": "audio_asset_pointer", "asset_pointer": "sediment://file_2"}
    context = {"content_type": "user_editable_context", "user_instructions": "Be brief."}
    attached = [{"id": "file-1", "name": "cat.png"}, {"id": "file-3", "name": "a.pdf"}]

    def code(text: str) -> dict[str, Any]:
        return {"content_type": "code", "language": "python", "text": text}

    nodes = [
        node("me", None, "user", content=context, is_visually_hidden_from_conversation=True),
        node("q", "me", "user", picture, sound, "What is 6 × 7?", attachments=attached),
        node("c1", "q", "assistant", content=code("6 * x")),
        node("t1", "c1", "tool", content=failed, aggregate_result={"status": "failed_with_x"}),
        node("c2", "t1", "assistant", content=code("6 * 7")),
        node("t2", "c2", "tool", content=output),
        node("a", "t2", "assistant", "It is 42.", finish_details={"type": "max_tokens"}),
        node("q2", "a", "user", "And?"),
        node("th", "q2", "assistant", finish_details={"type": "interrupted"}, content={
            "content_type": "thoughts", "thoughts": [{"content": "Hm."}],
        }),
    ]  # fmt: skip
    for one in nodes:
        if one["id"] in ("c1", "c2"):
            one["message"]["recipient"] = "python"
    values = {"id": "c", "current_node": "th", "mapping": {one["id"]: one for one in nodes}}
    path = zipped(
        tmp_path / "export.zip",
        {"conversations.json": json.dumps([values]), "user.json": "{}", "file-1-cat.png": "P"},
    )
    found = read_whole(path, MAX_BYTES)
    (one,) = found.conversations
    assert one.settings.system_prompt == "Be brief."
    assert [file.name for file in one.messages[0].files] == ["cat.png", "a.pdf"]
    first, second, answer = (message.run for message in one.messages[1:4])
    assert first is not None
    assert second is not None
    assert answer is not None
    assert [(r.text, r.state) for run in (first, second) for r in run.results] == [
        ("NameError", "failed"),
        ("42\n", "done"),
    ]
    assert (first.text, second.text, answer.text) == ("", "", "It is 42.")
    assert first.finished is not None
    assert line_under(first) == "Ended with a tool call"
    assert answer.finished is not None
    assert line_under(answer) == "Cut off at the token limit"
    assert [fact.name for fact in end_facts(answer.finished)] == ["Where"]
    last = one.messages[-1].run
    assert last is not None
    assert (last.thinking, last.finished and last.finished.stop.kind) == ("Hm.", "cancelled")
    assert found.left_out_sentence == (
        "Left out: 1 attached file, 1 picture, 1 sound recording, 2 other files "
        "(user.json, file-1-cat.png)."
    )


def test_lm_studio_brings_its_stops_prompts_presets_and_reasons(tmp_path: Path) -> None:
    def fields(**values: Any) -> dict[str, Any]:
        return {"fields": [{"key": f"llm.prediction.{k}", "value": v} for k, v in values.items()]}

    values = lm_studio("Greeting")
    values["systemPrompt"] = ""
    values["perChatPredictionConfig"] = fields(
        systemPrompt="Be kind.",
        stopStrings=["###", "", 7],
        temperature=0.5,
        topPSampling={"checked": False, "value": 0.1},
        maxPredictedTokens={"checked": True, "value": 64},
    )
    step = values["messages"][1]["versions"][0]["steps"][0]
    step["content"][0]["text"] = "<think>Who?</think>Hi."
    step["genInfo"] = {
        "identifier": "qwen",
        "predictionConfig": fields(stopStrings=["###"]),
        "stats": {"stopReason": "stopStringFound"},
    }
    file = {"type": "file", "fileIdentifier": "17 - cat.png", "fileType": "image"}
    values["messages"][0]["versions"][0]["content"].append(file)
    preset = {"name": "Terse", "operation": fields(systemPrompt="Be terse.", stopStrings=["END"])}
    written(tmp_path / "conversations" / "1.conversation.json", values)
    written(tmp_path / "config-presets" / "terse.preset.json", preset)
    found = read_whole(tmp_path, MAX_BYTES)
    (one,) = found.conversations
    settings = one.settings
    assert (settings.system_prompt, settings.temperature, settings.top_p) == ("Be kind.", 0.5, None)
    assert (settings.max_tokens, [stop.stop.text for stop in one.stops]) == (64, ["###"])
    assert [file.name for file in one.messages[0].files] == ["17 - cat.png"]
    run = one.messages[1].run
    assert run is not None
    assert run.finished is not None
    assert (run.text, run.thinking, run.stops) == ("Hi.", "Who?", ("###",))
    assert line_under(run) == "Stopped by “###”"
    assert [(p.name, p.settings.system_prompt, p.stops[0].stop.text) for p in found.presets] == [
        ("Terse", "Be terse.", "END")
    ]
    assert "llm.prediction.stopStrings[1]: must be a string, not int" in found.damaged[0]
    assert found.left_out_sentence == "Left out: 1 picture."


def test_jan_brings_reasoning_calls_and_stops(tmp_path: Path) -> None:
    model = {"id": "m", "parameters": {"stop": ["</s>"], "temperature": 0.1}}
    written(tmp_path / "t" / "thread.json", {"id": "t", "assistants": [{"model": model}]})
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    function = {"name": "look", "arguments": '{"at": 1}'}
    calls = [{"tool": {"id": "x", "function": function}, "response": {"content": [{"text": "A"}]}}]
    messages = [
        {"role": "user", "content": [picture, {"type": "text", "text": {"value": "What?"}}]},
        {
            "role": "assistant",
            "status": "stopped",
            "content": [{"type": "text", "text": {"value": "<think>\nHm.\n</think>\n\nA cat."}}],
            "metadata": {"tool_calls": calls},
        },
    ]
    (tmp_path / "t" / "messages.jsonl").write_text("\n".join(map(json.dumps, messages)))
    found = read_whole(tmp_path, MAX_BYTES)
    (one,) = found.conversations
    assert ([stop.stop.text for stop in one.stops], one.settings.temperature) == (["</s>"], 0.1)
    run = one.messages[1].run
    assert run is not None
    assert run.finished is not None
    assert (run.text, run.thinking, run.finished.stop.kind) == ("A cat.", "Hm.", "cancelled")
    assert [(call.name, call.arguments) for call in run.tool_calls] == [("look", '{"at": 1}')]
    assert [result.text for result in run.results] == ["A"]
    assert found.left_out_sentence == "Left out: 1 picture."


def test_unknown_and_too_large_files_are_refused_with_a_reason(tmp_path: Path) -> None:
    cases = {
        "other.zip": zipped(tmp_path / "other.zip", {"a.txt": "x"}),
        "list.json": written(tmp_path / "list.json", [1, 2]),
    }
    for path in cases.values():
        with pytest.raises(DamagedFile, match="no conversations of Fullstop, ChatGPT, Claude"):
            read_whole(path, MAX_BYTES)
    # A small archive that unpacks to far more is read no further than the limit.
    bomb = zipped(tmp_path / "bomb.zip", {"conversations.json": " " * 50_000_000})
    assert bomb.stat().st_size < 100_000
    with pytest.raises(DamagedFile, match="unpacks to more than 1 MB"):
        read_whole(bomb, 1_000_000)
    cut = tmp_path / "cut.zip"
    cut.write_bytes(bomb.read_bytes()[:20_000])
    with pytest.raises(DamagedFile, match="the archive is damaged"):
        read_whole(cut, MAX_BYTES)


def test_a_chain_of_many_thousand_nodes_is_read(tmp_path: Path) -> None:
    nodes = [node("n0", None)]
    for number in range(1, 5_000):
        role = "user" if number % 2 else "assistant"
        nodes.append(node(f"n{number}", f"n{number - 1}", role, str(number)))
    nodes[1]["parent"] = "n0"
    nodes.append(node("loop", "loop", "user", "follows itself"))
    values = {
        "title": "Long",
        "id": "c",
        "current_node": "n4999",
        "mapping": {one["id"]: one for one in nodes},
    }
    found = read_whole(written(tmp_path / "conversations.json", [values]), MAX_BYTES)
    (one,) = found.conversations
    assert len(one.messages) == 4_999
    assert found.damaged == ["“Long”: mapping: the parents of 1 message form a circle"]


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2])
def test_archives_that_may_unpack_without_a_limit_are_refused(tmp_path: Path, method: int) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("conversations.json", json.dumps(chatgpt()))
    with pytest.raises(DamagedFile, match="unpack it, and choose its folder"):
        read_whole(path, MAX_BYTES)


def jan_message(own: str, role: str, at: int, words: str, **metadata: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": {"value": words}}]
    message = {"id": own, "role": role, "content": content, "created_at": at}
    return {**message, "metadata": metadata} if metadata else message


def jan_thread(folder: Path, *messages: dict[str, Any]) -> Conversation:
    written(folder / "t" / "thread.json", {"id": "t-1", "title": "Versions"})
    lines = "\n".join(map(json.dumps, messages))
    (folder / "t" / "messages.jsonl").write_text(lines, encoding="utf-8")
    (one,) = read_whole(folder, MAX_BYTES).conversations
    return one


def test_versions_of_jan_are_ours_and_the_chosen_one_is_shown(tmp_path: Path) -> None:
    one = jan_thread(
        tmp_path,
        jan_message("q", "user", 1, "Why?", parentId=None, activeChildId="a1"),
        jan_message("a1", "assistant", 2, "Because.", parentId="q"),
        jan_message("q2", "user", 3, "And then?", parentId="a1"),
        jan_message("a2", "assistant", 4, "No idea.", parentId="q", stopped=True),
        jan_message("end", "assistant", 5, "The end.", parentId="q2"),
    )
    assert [message.content for message in one.messages] == [
        "Why?", "Because.", "And then?", "The end.",
    ]  # fmt: skip
    _, answer, _, _ = one.messages
    (_, other) = one.tree.versions(answer)
    assert (other.content, other.run and other.run.finished and other.run.finished.stop.kind) == (
        "No idea.", "cancelled",
    )  # fmt: skip


def test_the_files_of_a_question_to_jan_are_files_and_not_words(tmp_path: Path) -> None:
    listed = "[ATTACHED_FILES]\n- file_id: f1, name: plan.pdf, size: 9\n[/ATTACHED_FILES]"
    inside = [{"name": "notes.txt", "content": "Loam."}]
    one = jan_thread(
        tmp_path,
        jan_message("q", "user", 1, f"Read it.\n\n{listed}", inline_file_contents=inside),
    )
    (question,) = one.messages
    assert question.typed == "Read it."
    assert [(file.name, file.text.strip()) for file in question.files] == [
        ("notes.txt", "Loam."), ("plan.pdf", "(the file is not kept here)"),
    ]  # fmt: skip


def test_lm_studio_says_which_stop_ended_an_answer(tmp_path: Path) -> None:
    stats = {"stopReason": "stopStringFound", "stopString": "END"}
    stops = {"fields": [{"key": "llm.prediction.stopStrings", "value": ["\n\n", "END"]}]}
    block = {
        "type": "contentBlock",
        "content": [{"type": "text", "text": "Four."}],
        "genInfo": {"identifier": "m", "predictionConfig": stops, "stats": stats},
    }
    versions = [{"type": "multiStep", "role": "assistant", "steps": [block]}]
    values = {"name": "Stops", "messages": [{"versions": versions, "currentlySelected": 0}]}
    written(tmp_path / "1.conversation.json", values)
    (one,) = read_whole(tmp_path, MAX_BYTES).conversations
    (answer,) = one.messages
    assert answer.run is not None
    assert answer.run.finished is not None
    assert answer.run.finished.stop.value == "END"


def test_parts_of_unknown_kinds_are_counted(tmp_path: Path) -> None:
    blocks = [{"type": "text", "text": "Hi"}, {"type": "hologram"}, {"type": "hologram"}]
    message = {"uuid": "m", "sender": "assistant", "content": blocks}
    written(tmp_path / "c.json", [{"uuid": "1", "name": "One", "chat_messages": [message]}])
    found = read_whole(tmp_path / "c.json", MAX_BYTES)
    assert found.left_out_sentence == "Left out: 2 unknown parts."
