"""Conversations as a chat template takes them.

Agents send what few templates take: Claude Code and opencode system messages behind user turns,
Codex a developer message when its mode changes, all of them calls that were cut, and user text
behind results.

The turns between two answers of the assistant, a segment, are changed without regard to later
turns. The prompt of a conversation is therefore the beginning of the prompt of the same
conversation with more turns, and its cached prefix is used.
"""

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from engine.conversation.template_rules import Ids, TemplateRules, TextBesideCalls
from engine.values.request import PICTURE_MARK, Message, Picture, ToolCall

# The field of arguments that are no JSON object: cut or broken ones, lists, and plain text.
RAW_ARGUMENTS = "arguments"
_BETWEEN = "\n\n"


def normalize(
    messages: Sequence[Message],
    rules: TemplateRules,
    *,
    call_marks: tuple[str, str] = ("", ""),
    thinking_keys: Sequence[str] = ("reasoning_content",),
    is_continued: bool = False,
) -> list[dict[str, Any]]:
    """Return a conversation as a template takes it, nothing of it lost."""
    turns = arrange(messages, rules, call_marks)
    begun = turns[-1] if is_continued else None
    return [
        _as_dict(turn if turn is begun else _filled(turn, rules), rules, thinking_keys)
        for turn in turns
    ]


def arrange(
    messages: Sequence[Message], rules: TemplateRules, call_marks: tuple[str, str] = ("", "")
) -> list[Message]:
    """Return the turns of a conversation in the order and the roles that a template takes."""
    given = [turn for turn in messages if turn.role != "system" or turn.content.strip()]
    turns = _move_systems(_move_results(_join_split_calls(given), rules), rules)
    if rules.calls_are_text:
        turns = [_with_calls_as_text(turn, call_marks) for turn in turns]
    turns = _order_roles(turns, rules)
    if rules.text_beside_calls != "kept":
        turns = list(_separate_text(turns, rules.text_beside_calls))
    if rules.has_single_calls:
        turns = list(_separate_calls(turns))
    return turns


def _join_split_calls(turns: Sequence[Message]) -> list[Message]:
    """Join assistant turns in a row where a result behind them belongs to an earlier one."""
    joined: list[Message] = []
    groups = [
        list(group)
        for _, group in itertools.groupby(turns, key=lambda turn: turn.role == "assistant")
    ]
    for group, behind in zip(groups, [*groups[1:], []], strict=True):
        answered = {turn.tool_call_id for turn in behind if turn.role == "tool"}
        early = {call.id for turn in group[:-1] for call in turn.tool_calls}
        joined += [_join(group)] if early & answered else group
    return joined


def _move_results(turns: Sequence[Message], rules: TemplateRules) -> list[Message]:
    """Put results directly behind their calls, in the order of the calls.

    Results without a call in the turn before become user turns: templates refuse them, drop them,
    or open no block for them. Calls without results get empty ones where the template needs that.
    """
    placed: list[Message] = []
    ids: set[str] = set()
    for calls, segment in _segments(turns):
        answers, others = _match_results(calls, segment)
        named = placed[-1].tool_calls if placed else ()
        for call, answer in zip(named, answers, strict=True):
            if answer:
                joined = replace(_join(answer), tool_call_id=call.id)
                placed.append(replace(joined, name=joined.name or call.name))
            elif rules.closes_calls and segment:
                placed.append(Message("tool", "", tool_call_id=call.id, name=call.name))
        for turn in others:
            if turn.role == "assistant":
                renamed = [
                    replace(call, id=_new_call_id(rules.ids, call.id, call.name, ids))
                    for call in turn.tool_calls
                ]
                turn = replace(turn, tool_calls=tuple(renamed))
            elif turn.role == "tool":
                turn = _as_user(turn)
            placed.append(turn)
    return placed


def _segments(turns: Sequence[Message]) -> Iterator[tuple[Sequence[ToolCall], list[Message]]]:
    """Yield the calls of each answer, none at first, with the other turns behind it.

    An answer itself is the last turn of the segment before its calls.
    """
    calls: Sequence[ToolCall] = ()
    segment: list[Message] = []
    for turn in turns:
        segment.append(turn)
        if turn.role == "assistant":
            yield calls, segment
            calls, segment = turn.tool_calls, []
    yield calls, segment


def _match_results(
    calls: Sequence[ToolCall], segment: Sequence[Message]
) -> tuple[list[list[Message]], list[Message]]:
    """Return the results of each call, and the other turns.

    A result of an unknown id belongs to the first call that has none.
    """
    answers: list[list[Message]] = [[] for _ in calls]
    known = {call.id for call in calls}
    # Results that name their call come first, so that no other takes its place.
    for is_named in (True, False):
        for turn in segment:
            if turn.role != "tool" or (turn.tool_call_id in known) is not is_named:
                continue
            same = [n for n, call in enumerate(calls) if call.id == turn.tool_call_id]
            free = [n for n in (same or range(len(calls))) if not answers[n]]
            if free or same:
                answers[(free or same)[0]].append(turn)
    placed = {id(turn) for answer in answers for turn in answer}
    others = [turn for turn in segment if id(turn) not in placed]
    return answers, others


def _new_call_id(kind: Ids, given: str, name: str, used: set[str]) -> str:
    """Return a call's id in the form of a template, none of the used ones."""
    call_id = _formed_id(kind, given, name, len(used))
    if call_id in used:
        call_id = _formed_id(kind, f"{given}-{len(used)}", name, len(used))
    used.add(call_id)
    return call_id


def _formed_id(kind: Ids, given: str, name: str, number: int) -> str:
    if kind == "named":
        return f"functions.{name}:{number}"
    if kind == "short":
        digest = hashlib.sha256(given.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()[:9]  # as Mistral's templates need
    return given


def _separate_text(turns: Sequence[Message], kind: TextBesideCalls) -> Iterator[Message]:
    """Yield turns with the text before calls where the template renders it."""
    answers = (
        n for n, turn in enumerate(turns) if turn.role == "assistant" and not turn.tool_calls
    )
    last_answer = max(answers, default=-1)
    thinks = False
    moved: Message | None = None
    for position, turn in enumerate(turns):
        thinks |= position > last_answer and bool(turn.thinking)
        has_result = [behind.role for behind in turns[position + 1 : position + 2]] == ["tool"]
        if moved is not None:  # the turn is the result
            text = _join_texts([f"<assistant>\n{moved.content}\n</assistant>", turn.content])
            yield replace(turn, content=text, pictures=(*moved.pictures, *turn.pictures))
            moved = None
        elif not turn.tool_calls or not turn.content:
            yield turn
        elif kind == "joined_to_thinking" and thinks and not turn.pictures:
            yield replace(turn, content=_join_texts([turn.thinking, turn.content]), thinking="")
        elif kind == "joined_to_result" and has_result:
            moved = turn
            yield replace(turn, content="", pictures=())
        else:
            yield replace(turn, tool_calls=(), thinking="")
            yield replace(turn, content="", pictures=())


def _separate_calls(turns: Sequence[Message]) -> Iterator[Message]:
    """Yield each call in a turn of its own, with its result behind it."""
    moved: set[int] = set()
    for position, turn in enumerate(turns):
        if position in moved:
            continue
        if len(turn.tool_calls) < 2:
            yield turn
            continue
        results = position + 1
        for number, call in enumerate(turn.tool_calls):
            begun = turn if number == 0 else replace(turn, content="", thinking="", pictures=())
            yield replace(begun, tool_calls=(call,))
            if results < len(turns) and turns[results].tool_call_id == call.id:
                yield turns[results]
                moved.add(results)
                results += 1


def _with_calls_as_text(turn: Message, marks: tuple[str, str]) -> Message:
    start, end = marks
    calls = [
        json.dumps({"name": call.name, "arguments": _arguments(call.arguments)}, ensure_ascii=False)
        for call in turn.tool_calls
    ]
    texts = [turn.content, *(f"{start}{call}{end}" for call in calls)]
    return replace(turn, content="\n".join(filter(None, texts)), tool_calls=())


def _as_user(result: Message) -> Message:
    content = f"<tool_result>\n{result.content}\n</tool_result>"
    return Message("user", content, pictures=result.pictures)


def _move_systems(turns: Sequence[Message], rules: TemplateRules) -> list[Message]:
    """Put system messages where the template renders them.

    Later ones go into the next user turn before the next answer, or into one of their own.
    """
    leading = list(itertools.takewhile(lambda turn: turn.role == "system", turns))
    placed: list[Message] = []
    pending: list[Message] = []
    if not rules.has_system:
        pending = [replace(turn, role="user") for turn in leading]
    elif leading:
        placed = [_join(leading)] if rules.joins_systems else leading
    for turn in turns[len(leading) :]:
        if turn.role == "system" and (rules.moves_systems or not rules.has_system):
            content = f"<system>\n{turn.content}\n</system>"
            pending.append(Message("user", content, pictures=turn.pictures))
        elif pending and turn.role == "user":
            placed.append(_join([*pending, turn]))
            pending = []
        else:
            if pending and turn.role == "assistant":
                placed.append(_join(pending))
                pending = []
            placed.append(turn)
    return [*placed, _join(pending)] if pending else placed


def _order_roles(turns: Iterable[Message], rules: TemplateRules) -> list[Message]:
    """Join turns, or put empty ones between them, as the template needs it."""
    ordered: list[Message] = []
    for turn in turns:
        if turn.role == "tool" and rules.results_are_text:
            turn = _as_user(turn)
        before = ordered[-1] if ordered else None
        is_first = before is None or before.role == "system"
        if is_first and rules.opens_with_user and turn.role in ("assistant", "tool"):
            ordered.append(Message("user", ""))
        elif before is None:
            pass
        elif before.role == "tool" and turn.role == "user":
            if rules.joins_results:
                ordered.pop()
                joined = _join([before, turn])
                turn = replace(before, content=joined.content, pictures=joined.pictures)
        elif before.role == turn.role and (
            (turn.role == "user" and rules.joins_users)
            # Calls stay before what follows them.
            or (turn.role == "assistant" and rules.joins_answers and not before.tool_calls)
        ):
            turn = _join([ordered.pop(), turn])
        ordered.append(turn)
    if rules.opens_with_user and all(turn.role == "system" for turn in ordered):
        ordered.append(Message("user", ""))
    return ordered


def _join(turns: Sequence[Message]) -> Message:
    return replace(
        turns[-1],
        content=_join_texts([turn.content for turn in turns]),
        thinking=_join_texts([turn.thinking for turn in turns]),
        tool_calls=tuple(call for turn in turns for call in turn.tool_calls),
        pictures=tuple(picture for turn in turns for picture in turn.pictures),
    )


def _join_texts(texts: Iterable[str]) -> str:
    return _BETWEEN.join(filter(None, texts))


def _filled(turn: Message, rules: TemplateRules) -> Message:
    """Return a turn whose text is not empty where the template needs that."""
    if turn.content or turn.tool_calls:
        return turn
    fillers = {"assistant": rules.filler, "user": rules.user_filler, "tool": rules.result_filler}
    return replace(turn, content=fillers.get(turn.role, ""))


def _as_dict(turn: Message, rules: TemplateRules, thinking_keys: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = {"role": turn.role, "content": turn.content}
    arguments_of = _arguments_text if rules.has_text_arguments else _arguments
    is_thinking_part = rules.has_thinking_parts and bool(turn.thinking)
    if turn.pictures:
        values["content"] = list(_parts(turn.content))
    elif rules.has_content_parts or is_thinking_part:
        values["content"] = [{"type": "text", "text": turn.content}]
    if is_thinking_part:
        values["content"].insert(0, {"type": "thinking", "thinking": turn.thinking})
    elif turn.thinking:
        values |= dict.fromkeys(thinking_keys, turn.thinking)
    if turn.tool_calls:
        values["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": arguments_of(call.arguments)},
            }
            for call in turn.tool_calls
        ]
    if turn.tool_call_id is not None:
        values["tool_call_id"] = turn.tool_call_id
    if turn.name is not None:
        values["name"] = turn.name
    return values


def behind_results(messages: Sequence[Message]) -> list[Message]:
    """Return a conversation with the pictures of tools' results in a user turn behind them."""
    moved: list[Message] = []
    waiting: list[Picture] = []
    for message in messages:
        if message.role == "tool":
            waiting += message.pictures
            text = message.content.replace(PICTURE_MARK, "")
            moved.append(replace(message, content=text or "(a picture)", pictures=()))
            continue
        if waiting:
            moved.append(Message("user", PICTURE_MARK * len(waiting), pictures=tuple(waiting)))
            waiting = []
        moved.append(message)
    if waiting:
        moved.append(Message("user", PICTURE_MARK * len(waiting), pictures=tuple(waiting)))
    return moved


def _parts(content: str) -> Iterator[dict[str, str]]:
    for number, text in enumerate(content.split(PICTURE_MARK)):
        if number:
            yield {"type": "image"}
        if text:
            yield {"type": "text", "text": text}


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _arguments(text: str) -> dict[str, Any]:
    """Return arguments as an object; text that is none is its only field."""
    value = _object(text)
    if value is not None:
        return value
    return {} if text.strip() in ("", "null") else {RAW_ARGUMENTS: text}


def _arguments_text(text: str) -> str:
    """Return arguments as JSON of an object, unchanged where they are one."""
    is_object = _object(text) is not None
    return text if is_object else json.dumps(_arguments(text), ensure_ascii=False)
