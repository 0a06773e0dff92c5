"""How a model's chat template is given the calls of earlier turns, and their results.

Templates differ in what they want of a call: arguments as an object or as text, no text beside it,
ids of a certain form, one call in a message. One that gets something else fails, or leaves the call
out, and the model then answers as if it had never called. So a template is shown a small
conversation in several forms, and gets real ones in the first form in which all of it appears.
"""

import functools
import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from engine.inference.mlx_lm_internals import has_template_in_code, inner_tokenizer
from engine.values.request import Message, ToolCall

# Put before a template: transformers leaves out a content of None, for which some templates ask.
_NO_CONTENT = (
    "{%- set calling = namespace(messages=[]) -%}{%- for message in messages -%}"
    "{%- set calling.messages = calling.messages + [dict(message, content=none) "
    "if message.tool_calls and not message.content else message] -%}"
    "{%- endfor -%}{%- set messages = calling.messages +%}"
)
Ids = Literal["given", "short", "named"]
Content = Literal["kept", "none", "apart"]
_SHORT = 9  # characters of an id, as Mistral's templates ask for


@dataclass(frozen=True, slots=True)
class CallForm:
    """The form in which a template shows earlier calls.

    Attributes:
        ids: As they are, short, or made of the tool's name.
        arguments_are_text: Whether arguments are JSON in text form.
        content: The text before a call: with it, None where there is none, or in a message of its
            own and None with the call.
        is_single: Whether each call has a message of its own, with its result behind it.
        calls_are_text: Whether calls are written into the text, for want of a place.
        results_are_text: Whether results are messages of the user, for want of a place.
    """

    ids: Ids = "given"
    arguments_are_text: bool = False
    content: Content = "kept"
    is_single: bool = False
    calls_are_text: bool = False
    results_are_text: bool = False


def _forms() -> list[CallForm]:
    """Return the forms to try: those that change least come first."""
    natural = [
        CallForm(ids, is_text, content, is_single)
        for ids, is_text, content, is_single in itertools.product(
            get_args(Ids), (False, True), get_args(Content), (False, True)
        )
    ]
    usual = CallForm()
    natural.sort(
        key=lambda form: (
            (form.ids != usual.ids)
            + (form.arguments_are_text != usual.arguments_are_text)
            + 2 * (form.content != usual.content)
            + 3 * (form.is_single != usual.is_single)
        )
    )
    return [
        *natural,
        CallForm(calls_are_text=True),
        CallForm(calls_are_text=True, results_are_text=True),
    ]


class EarlierCalls:
    """Gives conversations to the chat template of a tokenizer. Any thread.

    Args:
        tokenizer: mlx-lm's wrapper.
        marks: What the model writes around a call in JSON, for templates without a place for calls.
    """

    def __init__(self, tokenizer: Any, marks: tuple[str, str] = ("", "")) -> None:
        self._tokenizer = tokenizer
        self._marks = marks

    def prepared(
        self, messages: Sequence[Message], tools: Sequence[Any] | None
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return messages as the template takes them, and the options that this needs."""
        if not any(message.tool_calls or message.role == "tool" for message in messages):
            return [_as_dict(message, CallForm()) for message in messages], {}
        return self._given(messages, tools, self.form)

    @functools.cached_property
    def form(self) -> CallForm:
        """The form in which the template shows calls and results."""
        best = CallForm()
        for tools in ([_SAMPLE_TOOL], None):  # a template may fail at any tool
            counts: dict[CallForm, int] = {}
            for form in _forms():
                if form.content != "kept" and has_template_in_code(self._tokenizer):
                    continue
                text = self._sample(form, tools)
                counts[form] = sum(mark in text for mark in _MARKS) - _is_quoted(text)
                if counts[form] == len(_MARKS) and (form.content != "none" or _BEFORE in text):
                    return form
            best = max(counts, key=counts.__getitem__)
            if counts[best] > 0:
                break
        return best

    def _sample(self, form: CallForm, tools: Sequence[Any] | None) -> str:
        """Return how the template renders the sample conversation; empty where it fails."""
        try:
            messages, options = self._given(_SAMPLE, tools, form)
            return str(
                self._template(
                    messages, tools=tools, add_generation_prompt=True, tokenize=False, **options
                )
            )
        except Exception:  # templates raise whatever their authors chose
            return ""

    @property
    def _template(self) -> Any:
        if has_template_in_code(self._tokenizer):
            return self._tokenizer.apply_chat_template
        return inner_tokenizer(self._tokenizer).apply_chat_template

    def _given(
        self, messages: Sequence[Message], tools: Sequence[Any] | None, form: CallForm
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        turns = _named_results(messages)
        if form.ids != "given":
            turns = _with_ids(turns, form.ids)
        if form.content == "apart":
            turns = [part for turn in turns for part in _apart(turn)]
        if form.is_single:
            turns = _one_call_each(turns)
        if form.calls_are_text:
            turns = [_told(turn, *self._marks) for turn in turns]
        if form.results_are_text:
            turns = _asked(turns)
        options = {}
        if form.content != "kept":
            template = inner_tokenizer(self._tokenizer).get_chat_template(tools=tools)
            options["chat_template"] = _NO_CONTENT + template
        return [_as_dict(turn, form) for turn in turns], options


# -- the sample ------------------------------------------------------------------------------------

_BEFORE = "LOOKING"
_SAMPLE_TOOL = {
    "type": "function",
    "function": {
        "name": "offered",
        "description": "A tool.",
        "parameters": {"type": "object", "properties": {"sought": {"type": "string"}}},
    },
}
_SAMPLE = (
    Message("user", "QUESTION"),
    Message(
        "assistant",
        _BEFORE,
        tool_calls=(
            ToolCall("call_0123456789abcdef", "first_tool", '{"sought": "VALUE1"}'),
            ToolCall("call_fedcba9876543210", "second_tool", '{"sought": "VALUE2"}'),
        ),
    ),
    # Of another name, for the name of a tool has to be in its call: Kimi K2's templates show it in
    # the header of the result, too.
    Message("tool", "RESULT1", tool_call_id="call_0123456789abcdef", name="answering"),
    Message("tool", "RESULT2", tool_call_id="call_fedcba9876543210", name="answering"),
    Message("assistant", "ANSWER"),
    Message("user", "NEXT"),
)
_MARKS = (
    "first_tool",
    "second_tool",
    "VALUE1",
    "VALUE2",
    "RESULT1",
    "RESULT2",
    "QUESTION",
    "ANSWER",
    "NEXT",
)


def _is_quoted(text: str) -> bool:
    """Return whether a prompt shows arguments as Python, or as JSON inside a JSON text."""
    return "'sought'" in text or '\\"sought' in text


# -- forms of messages -----------------------------------------------------------------------------


def _as_dict(message: Message, form: CallForm) -> dict[str, Any]:
    values: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.thinking:
        values["reasoning_content"] = message.thinking
    if message.tool_calls:
        values["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": (
                        call.arguments if form.arguments_are_text else _arguments(call.arguments)
                    ),
                },
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        values["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        values["name"] = message.name
    return values


def _arguments(text: str) -> Any:
    """Return arguments as the object that templates expect; broken JSON stays text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _named_results(messages: Sequence[Message]) -> list[Message]:
    """Give each result the name of the tool that was called."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    return [
        replace(message, name=names.get(message.tool_call_id or ""))
        if message.role == "tool" and message.name is None
        else message
        for message in messages
    ]


def _with_ids(messages: Sequence[Message], kind: str) -> list[Message]:
    """Return the messages with ids of another form, calls and results alike."""
    calls = [call for message in messages for call in message.tool_calls]
    ids = {
        call.id: hashlib.sha256(call.id.encode()).hexdigest()[:_SHORT]
        if kind == "short"
        else f"functions.{call.name}:{number}"
        for number, call in enumerate(calls)
    }
    return [
        replace(
            message,
            tool_calls=tuple(replace(call, id=ids[call.id]) for call in message.tool_calls),
            tool_call_id=ids.get(message.tool_call_id or "", message.tool_call_id),
        )
        for message in messages
    ]


def _apart(message: Message) -> list[Message]:
    """Return the text before calls as a message of its own."""
    if not message.tool_calls or not message.content:
        return [message]
    return [replace(message, tool_calls=()), replace(message, content="", thinking="")]


def _one_call_each(messages: Sequence[Message]) -> list[Message]:
    """Give each call a message of its own, with its result behind it."""
    results = {message.tool_call_id: message for message in messages if message.role == "tool"}
    turns: list[Message] = []
    moved: set[str | None] = set()
    for message in messages:
        if len(message.tool_calls) < 2:
            if not (message.role == "tool" and message.tool_call_id in moved):
                turns.append(message)
            continue
        for number, call in enumerate(message.tool_calls):
            begun = message if number == 0 else replace(message, content="", thinking="")
            turns.append(replace(begun, tool_calls=(call,)))
            if (result := results.get(call.id)) is not None:
                turns.append(result)
                moved.add(call.id)
    return turns


def _told(message: Message, start: str, end: str) -> Message:
    """Write the calls of a message into its text."""
    calls = [
        f"{start}{json.dumps({'name': call.name, 'arguments': given}, ensure_ascii=False)}{end}"
        for call in message.tool_calls
        for given in [_arguments(call.arguments)]
    ]
    text = "\n".join([part for part in (message.content, *calls) if part])
    return replace(message, content=text, tool_calls=())


def _asked(messages: Sequence[Message]) -> list[Message]:
    """Give results to the user, and join what the user then says in a row: roles alternate."""
    turns: list[Message] = []
    is_told = False
    for message in messages:
        if message.role == "tool":
            message = Message("user", message.content)
            joins = is_told
            is_told = True
        else:
            joins = is_told and message.role == "user"
            is_told = False
        if joins:
            told = turns.pop()
            message = replace(told, content=f"{told.content}\n\n{message.content}")
        turns.append(message)
    return turns
