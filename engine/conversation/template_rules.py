"""What a chat template takes of a conversation, learnt from small conversations that it renders.

Templates differ: a system message anywhere or only first, roles in any order or alternating,
arguments as an object or as text. A template fails on anything else, or drops it without an error,
and the model never sees it. The rules are learnt one after another, each from samples in which only
that rule matters; each is the smallest change with which everything is rendered.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from engine.values.request import Message, ToolCall

Ids = Literal["given", "short", "named"]
TextBesideCalls = Literal["kept", "apart", "joined_to_thinking", "joined_to_result"]
# Texts for turns that may not be empty, the first being preferred.
_FILLERS = ("", "...")
# The score of a mark that is in a prompt, and behind those before it; less for one elsewhere.
_PERFECT = 3

SAMPLE_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "zqoffered",
        "description": "A tool.",
        "parameters": {"type": "object", "properties": {"sought": {"type": "string"}}},
    },
}
_KEY = "sought"
_MARK = "zq"
# A part of a content as Python or JSON writes it: the template knows no parts.
_WRITTEN_PART = re.compile(rf"""['"](?:text|thinking)['"]: ?['"]{_MARK}""")
_ID = "call_0123456789abcdef"


def _rule(change: str, *, default: bool = False) -> Any:
    return field(default=default, metadata={"change": change})


@dataclass(frozen=True, slots=True)
class TemplateRules:
    """How a conversation is changed for a template; the defaults change nothing.

    Each ``change`` is how ``fullstop models check`` describes what differs from the default.

    Attributes:
        has_content_parts: Whether contents are lists of parts, as templates of vision models read
            them; a text would be rendered as nothing.
        has_thinking_parts: Whether thinking is a part of the content, as in Mistral's templates.
        ids: Ids of calls: as they are, short, or made of the tool's name.
        has_text_arguments: Whether arguments are JSON in text form.
        has_null_content: Whether a call without text has the content None.
        text_beside_calls: Where the text before a call goes: with it, in a turn of its own, joined
            to thinking (a turn would hide that of earlier calls) until an answer follows, or as a
            marked part of the call's result.
        filler: Text of answers that are empty.
        user_filler: Text of user turns that are empty.
        result_filler: Text of results that are empty.
        moves_tools: Whether its list of tools, which the template moves to each new user turn, is
            put before the first one: an agent's model would read the whole conversation anew for
            each question.
    """

    has_content_parts: bool = False
    has_thinking_parts: bool = False
    has_system: bool = _rule("the system message begins the first user turn", default=True)
    joins_systems: bool = _rule("several system messages are joined")
    moves_systems: bool = _rule("later system messages become a marked part of the next user turn")
    joins_users: bool = _rule("user turns in a row are joined")
    joins_answers: bool = _rule("assistant turns in a row are joined")
    opens_with_user: bool = _rule(
        "an empty user turn precedes a conversation that begins otherwise"
    )
    joins_results: bool = _rule("user text behind tool results is joined to the last result")
    closes_calls: bool = _rule("calls without results get empty ones")
    ids: Ids = "given"
    has_text_arguments: bool = False
    has_null_content: bool = False
    has_single_calls: bool = _rule("each call has a turn of its own")
    text_beside_calls: TextBesideCalls = "kept"
    calls_are_text: bool = _rule("calls are written as text")
    results_are_text: bool = _rule("tool results are user turns")
    filler: str = ""
    user_filler: str = ""
    result_filler: str = ""
    moves_tools: bool = _rule("the list of tools stays before the first question")


# Renders messages by rules; raises whatever the template does.
RenderSample = Callable[[Sequence[Message], TemplateRules], str]


class _Sample(NamedTuple):
    """A conversation, and the words of it that a prompt must have, in their order or in any."""

    messages: tuple[Message, ...]
    marks: tuple[str, ...]
    is_ordered: bool = True


def learn_rules(render: RenderSample, *, is_code: bool, has_tools: bool) -> TemplateRules:
    """Return the rules of a template; a template in Python cannot have contents of None.

    With ``has_tools``, samples are rendered with ``SAMPLE_TOOL`` on offer.
    """
    learner = _Learner(render)
    dialogue = _sample(_user("U1"), _answer("A1"), _user("U2"))
    learner.learn([dialogue], {"has_content_parts": True})
    learner.learn([_sample(_user(""), *dialogue.messages[1:])], *_fill("user_filler"))
    _learn_calls(learner, is_code=is_code)
    learner.learn(
        [
            _sample(_system("S1"), _user("U1")),
            _sample(_system("S1"), _user("U1"), _answer("A1"), _user("U2")),
            _sample(_system("S1"), _user("U1"), *_called()),
        ],
        {"has_system": False},
    )
    _learn_order(learner)
    learner.learn(
        [
            _sample(_system("S1"), _user("U1"), _system("S2"), _answer("A1"), _user("U2")),
            _sample(_user("U1"), _answer("A1"), _system("S1"), _user("U2")),
            _sample(_user("U1"), *_called(), _system("S1"), _answer("A1"), _user("U2")),
            _sample(_user("U1"), _system("S1")),
        ],
        {"moves_systems": True},
    )
    if has_tools:
        name = SAMPLE_TOOL["function"]["name"]
        called = _sample(_user("U1"), *_called(), _answer("A1"), _user("U2"))
        listed = [sample._replace(marks=(name, *sample.marks)) for sample in (dialogue, called)]
        learner.learn(listed, {"moves_tools": True})
    return learner.rules


class _Learner:
    """The rules so far, and the choice of the next."""

    def __init__(self, render: RenderSample) -> None:
        self._render = render
        self.rules = TemplateRules()

    def learn(self, samples: Sequence[_Sample], *changes: Mapping[str, Any]) -> None:
        """Change the rules by the first change with which all samples are rendered.

        If there is none, by the one with which the prompts have the largest number of marks.
        """
        best, best_score = self.rules, -1
        full = sum(_PERFECT * len(sample.marks) for sample in samples)
        for rules in (self.rules, *(replace(self.rules, **change) for change in changes)):
            score = sum(self._score(sample, rules) for sample in samples)
            if score > best_score:
                best, best_score = rules, score
            if score == full:
                break
        self.rules = best

    def is_rendered(self, sample: _Sample) -> bool:
        return self._score(sample, self.rules) == _PERFECT * len(sample.marks)

    def _score(self, sample: _Sample, rules: TemplateRules) -> int:
        """Return how many marks a prompt has, and how many of them in their order."""
        try:
            text = self._render(sample.messages, rules)
        except Exception:  # templates raise whatever their authors chose
            return 0
        end, score = 0, (_PERFECT - 1) * sum(mark in text for mark in sample.marks)
        for mark in sample.marks:
            if (start := text.find(mark, end)) >= 0:
                score, end = score + 1, (start + len(mark)) * sample.is_ordered
        if _WRITTEN_PART.search(text):
            return 0
        # Arguments as Python writes them, or as JSON inside a JSON text.
        is_quoted = f"'{_KEY}'" in text or f'\\"{_KEY}' in text
        return score - is_quoted


def _learn_calls(learner: _Learner, *, is_code: bool) -> None:
    """Learn how calls and results are rendered, simple ones first."""
    contents = (False,) if is_code else (False, True)
    learner.learn(
        [
            _sample(_user("U1"), *_called(), _answer("A1"), _user("U2")),
            _sample(_user("U1"), *_called(call_id="0"), _answer("A1"), _user("U2")),
        ],
        *(
            {"ids": ids, "has_text_arguments": is_text, "has_null_content": is_null}
            for ids in ("given", "short")
            for is_null in contents
            for is_text in (False, True)
        ),
        {"ids": "named"},
        {"ids": "named", "has_text_arguments": True},
        {"calls_are_text": True},
        {"calls_are_text": True, "results_are_text": True},
    )
    learner.learn([_two_calls()], {"has_single_calls": True})
    learner.learn(
        [_sample(_user("U1"), *_called(result=""), _answer("A1"), _user("U2"))],
        *_fill("result_filler"),
    )
    learner.learn(
        [
            _sample(_user("U1"), *_called(thinking="T1")),
            _sample(_user("U1"), _answer("A1"), _user("U2")),
        ],
        {"has_thinking_parts": True},
    )
    with_text = [
        _sample(_user("U1"), *_called(text="C1")),
        _sample(_user("U1"), *_called(text="C1"), _answer("A1"), _user("U2")),
    ]
    if learner.is_rendered(_sample(_user("U1"), *_called(thinking="T1"))):
        again = _called(text="C1", name="N2")
        with_text.append(_sample(_user("U1"), *_called(thinking="T1", text="C1")))
        with_text.append(_sample(_user("U1"), *_called(thinking="T1"), *again))
    else:  # nothing but the text must be rendered, whatever happens to the thinking
        messages = (_user("U1"), *_called(text="C1", thinking="T1"))
        with_text.append(_Sample(messages, with_text[0].marks))
    learner.learn(
        with_text,
        {"text_beside_calls": "apart"},
        {"text_beside_calls": "joined_to_thinking"},
        {"text_beside_calls": "joined_to_result"},
    )


def _learn_order(learner: _Learner) -> None:
    learn = learner.learn
    learn([_sample(_system("S1"), _system("S2"), _user("U1"))], {"joins_systems": True})
    learn(
        [
            _sample(_answer("A1"), _user("U1")),
            _sample(_system("S1"), _answer("A1"), _user("U1")),
            _sample(_system("S1")),
            _sample(*_called(), _answer("A1"), _user("U1")),
        ],
        {"opens_with_user": True},
    )
    learn([_sample(_user("U1"), _user("U2"), _answer("A1"), _user("U3"))], {"joins_users": True})
    learn(
        [_sample(_user("U1"), _answer("A1"), _answer("A2"), _user("U2"))], {"joins_answers": True}
    )
    learn([_sample(_user("U1"), _answer(""), _user("U2"))], *_fill("filler"))
    learn(
        [
            _sample(_user("U1"), *_called(), _user("U2")),
            _sample(_user("U1"), *_called(), _user("U2"), _answer("A1"), _user("U3")),
        ],
        {"joins_results": True},
    )
    learn(
        [
            _sample(_user("U1"), _call(), _user("U2"), _answer("A1"), _user("U3")),
            _sample(_user("U1"), _call(), _answer("A1"), _user("U2")),
        ],
        {"closes_calls": True},
    )


def _sample(*messages: Message) -> _Sample:
    """Return a sample of which everything must be in the prompt."""
    marks: list[str] = []
    for message in messages:
        marks += [message.thinking, message.content]
        for call in message.tool_calls:
            marks += [call.name, json.loads(call.arguments)[_KEY]]
    return _Sample(messages, tuple(mark for mark in marks if mark))


def _mark(text: str) -> str:
    return _MARK + text if text else ""


def _system(text: str) -> Message:
    return Message("system", _mark(text))


def _user(text: str) -> Message:
    return Message("user", _mark(text))


def _answer(text: str) -> Message:
    return Message("assistant", _mark(text))


def _call(name: str = "N1", call_id: str = _ID, text: str = "", thinking: str = "") -> Message:
    value = _mark(name.replace("N", "V"))
    call = ToolCall(call_id, _mark(name), json.dumps({_KEY: value}))
    return Message("assistant", _mark(text), thinking=_mark(thinking), tool_calls=(call,))


def _result(text: str, call_id: str) -> Message:
    # Of another name, for the name of a tool has to be in its call: Kimi K2's templates show it in
    # the header of the result, too.
    return Message("tool", _mark(text), tool_call_id=call_id, name="answering")


def _called(
    *, name: str = "N1", call_id: str = _ID, text: str = "", thinking: str = "", result: str = "R1"
) -> tuple[Message, Message]:
    return _call(name, call_id, text, thinking), _result(result, call_id)


def _two_calls() -> _Sample:
    first, result = _called()
    second, other = _called(name="N2", call_id="call_fedcba9876543210", result="R2")
    both = replace(first, tool_calls=(*first.tool_calls, *second.tool_calls))
    sample = _sample(_user("U1"), both, result, other, _answer("A1"), _user("U2"))
    # Where each call has a turn of its own, its result stands before the next one.
    return sample._replace(is_ordered=False)


def _fill(field: str) -> Iterator[Mapping[str, str]]:
    return ({field: text} for text in _FILLERS[1:])
