"""What a chat template takes of conversations that agents send, for ``fullstop models check``."""

from dataclasses import dataclass, fields, replace
from typing import Literal

from engine.conversation.template import ChatTemplate
from engine.conversation.template_rules import TemplateRules
from engine.errors import InvalidRequest
from engine.values.request import GenerationRequest, Message, Tool, ToolCall
from engine.wording import quoted

Outcome = Literal["as sent", "adapted", "incomplete", "refused"]

_TOOL = Tool("read_file", "Reads a file.", {"type": "object", "properties": {"path": {}}})
# How values are written, not what a template takes: every conversation is sent in this form.
_FORM = ("has_content_parts", "has_thinking_parts", "ids", "has_text_arguments", "has_null_content")


def _call(number: int, arguments: str = '{"path": "ARGUMENT"}') -> ToolCall:
    return ToolCall(f"call_{number:020d}", _TOOL.name, arguments)


def _called(number: int, *, text: str = "", thinking: str = "") -> tuple[Message, Message]:
    call = _call(number)
    return (
        Message("assistant", text, thinking=thinking, tool_calls=(call,)),
        Message("tool", f"RESULT{number}", tool_call_id=call.id),
    )


_SYSTEM, _QUESTION, _ANSWER = (
    Message("system", "SYSTEM1"),
    Message("user", "QUESTION1"),
    Message("assistant", "ANSWER1"),
)
_LATER, _SECOND = Message("system", "SYSTEM2"), Message("user", "QUESTION2")
CONVERSATIONS: dict[str, tuple[Message, ...]] = {
    "a question": (_QUESTION,),
    "a system message first": (_SYSTEM, _QUESTION, _ANSWER, _SECOND),
    "several system messages": (_SYSTEM, _LATER, _QUESTION),
    "a later system message": (_SYSTEM, _QUESTION, _LATER, _ANSWER, _SECOND),
    "a system message alone": (_SYSTEM,),
    "an answer first": (_ANSWER, _SECOND),
    "two user turns in a row": (_QUESTION, _SECOND, _ANSWER, Message("user", "QUESTION3")),
    "a call and its result": (_QUESTION, *_called(1), _ANSWER, _SECOND),
    "thinking, text and a call": (_QUESTION, *_called(1, text="TEXT", thinking="THOUGHT")),
    "two calls in one turn": (
        _QUESTION,
        Message("assistant", "", tool_calls=(_call(1), _call(2))),
        Message("tool", "RESULT1", tool_call_id=_call(1).id),
        Message("tool", "RESULT2", tool_call_id=_call(2).id),
    ),
    "user text behind a result": (_QUESTION, *_called(1), _SECOND),
    "a call that was cut": (
        _QUESTION,
        Message("assistant", "", tool_calls=(_call(1, '{"path": "ARGUM'),)),
        Message("tool", "RESULT1", tool_call_id=_call(1).id),
    ),
    "a result without its call": (
        _QUESTION,
        Message("tool", "RESULT1", tool_call_id="call_of_a_trimmed_turn"),
        _SECOND,
    ),
}


@dataclass(frozen=True, slots=True)
class TemplateCase:
    """One conversation and its outcome."""

    conversation: str
    outcome: Outcome
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TemplateReport:
    """What a chat template takes, and how conversations are adapted to it, in words.

    ``closing`` is the text behind an answer, by which the model knows its end.
    """

    cases: tuple[TemplateCase, ...]
    changes: tuple[str, ...]
    efforts: tuple[str, ...]
    closing: str = ""

    @property
    def closing_sentence(self) -> str:
        if not self.closing:
            return "No text closes an answer: only end tokens of the model’s files end it."
        return f"Closes an answer with {quoted(self.closing)}."


def check_template(template: ChatTemplate) -> TemplateReport:
    """Render each conversation as it is sent, and as it is adapted where that fails."""
    rules = template.rules(has_tools=True)
    form = replace(TemplateRules(), **{name: getattr(rules, name) for name in _FORM})
    cases = tuple(
        _check(template, name, messages, form) for name, messages in CONVERSATIONS.items()
    )
    changed = (field for field in fields(rules) if getattr(rules, field.name) != field.default)
    changes = tuple(field.metadata["change"] for field in changed if field.metadata)
    return TemplateReport(cases, changes, template.effort_names, _closing(template))


def _closing(template: ChatTemplate) -> str:
    request = GenerationRequest(
        messages=(_QUESTION, _ANSWER), continues_last=False, opens_answer=False
    )
    try:
        text = str(template.render(request, "model")[0])
    except InvalidRequest:
        return ""
    return text.rpartition(_ANSWER.content)[2].strip()


def _check(
    template: ChatTemplate, name: str, messages: tuple[Message, ...], form: TemplateRules
) -> TemplateCase:
    tools = (_TOOL,) if any(message.tool_calls for message in messages) else ()
    request = GenerationRequest(messages=messages, tools=tools, continues_last=False)
    with_form = template.render_by(form, request)
    if with_form is not None and not _missing(messages, with_form):
        return TemplateCase(name, "as sent")
    try:
        text = str(template.render(request, "model")[0])
    except InvalidRequest:
        return TemplateCase(name, "refused")
    missing = _missing(messages, text)
    return TemplateCase(name, "incomplete" if missing else "adapted", missing)


def _missing(messages: tuple[Message, ...], prompt: str) -> tuple[str, ...]:
    """Return the texts of messages that are not in a prompt; thinking may be left out by design."""
    texts = [message.content for message in messages]
    texts += ["ARGUM" for message in messages for _ in message.tool_calls]
    return tuple(text for text in texts if text and text not in prompt)
