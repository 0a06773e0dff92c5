"""Documents that answers of other programs wrote beside themselves: canvases and artifacts.

Each is a call that creates or changes a document. Here its card shows the document as it was then:
the call has its title and its kind, and the result its whole text. Pure; any thread.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from engine import ToolCall
from ui.records.exchange.contents import FoundConversations
from ui.records.exchange.other_programs import result_of
from ui.records.messages import ConversationMessage

# The tools that write documents, and what their cards are called.
_CANVAS = {"canmore.create_textdoc": "Canvas", "canmore.update_textdoc": "Canvas"}
_ARTIFACT = {"artifacts": "Artifact"}
_TOOLS = _CANVAS | _ARTIFACT
_NOT_KNOWN = "(the text after this change is not in the export)"
# A pattern that replaces the whole text, and one without signs of a regular expression.
_EVERYTHING = (".*", "(?s).*", "^.*$", "[\\s\\S]*")
_PLAIN = re.compile(r"[^\\.*+?\[\](){}^$|]*")

Documents = dict[str, str]


def show_documents(messages: Iterable[ConversationMessage], found: FoundConversations) -> None:
    """Give each call that wrote a document its text.

    Args:
        messages: The messages of a conversation, parents first.
        found: Gets what is left out.
    """
    after: dict[str, Documents] = {}
    for message in messages:
        above = after.get(message.parent.id, {}) if message.parent else {}
        documents = above
        run = message.run
        for place, call in enumerate(run.tool_calls if run is not None else ()):
            values = _values(call)
            if run is None or call.name not in _TOOLS or values is None:
                continue
            documents = dict(documents)
            text = _text_after(call.name, values, documents)
            shown = {name: value for name, value in values.items() if name != "content"}
            made = ToolCall(call.id, _TOOLS[call.name], json.dumps(shown, ensure_ascii=False))
            run.tool_calls[place] = made
            answered = run.result_of(call.id)
            if answered is not None:
                run.results.remove(answered)
                if answered.text.strip():
                    found.left_out["canvas confirmation"] += 1
            run.results.append(result_of(made, text))
        if documents:
            after[message.id] = documents


def _values(call: ToolCall) -> dict[str, Any] | None:
    try:
        values = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _text_after(tool: str, values: Mapping[str, Any], documents: Documents) -> str:
    """Return the text of a document after a call, and note it."""
    name = "canvas" if tool in _CANVAS else str(values.get("id") or "artifact")
    content = values.get("content")
    if isinstance(content, str) and content:
        documents[name] = content
        return content
    changed = documents.get(name)
    updates = values.get("updates") if tool in _CANVAS else [values]
    for update in updates if isinstance(updates, list) else ():
        if changed is not None:
            changed = _changed(changed, update)
    if changed is None or (tool in _ARTIFACT and "old_str" not in values):
        documents.pop(name, None)
        return _NOT_KNOWN
    documents[name] = changed
    return changed


def _changed(text: str, update: Any) -> str | None:
    """Return a text after a change; None if it is not known what that makes of it."""
    if not isinstance(update, dict):
        return None
    old, new = update.get("old_str", update.get("pattern")), update.get("new_str")
    new = update.get("replacement") if new is None else new
    if not isinstance(old, str) or not isinstance(new, str):
        return None
    if "pattern" in update:
        # A regular expression of a stranger could take forever: only plain ones are applied.
        if old in _EVERYTHING:
            return new
        if not _PLAIN.fullmatch(old):
            return None
    if not old or old not in text:
        return None
    return text.replace(old, new) if update.get("multiple") is True else text.replace(old, new, 1)
