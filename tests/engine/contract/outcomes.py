"""The outcome of an answer's end: the text that is sent or dropped, and the record."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.stopping.record import Channel, StopKind
from engine.stopping.repetition import Repetition
from tests.engine.contract.reading import Reading
from tests.engine.contract.reading_state import Char, Tag
from tests.engine.contract.writing.calls import Calls
from tests.engine.contract.writing.case import Case
from tests.engine.contract.writing.ends import End, Match, find_match, held_back
from tests.engine.contract.writing.vocabularies import Model


@dataclass(frozen=True)
class Outcome:
    """What an answer is; None in a field that the contract leaves open."""

    text: str
    thinking: str
    calls: tuple[tuple[str, Any], ...]
    kind: StopKind
    value: str | int | None
    token_id: int | None
    token_text: str | None
    channel: Channel | None
    text_offset: int | None
    token_index: int | None
    rule_index: int | None
    held: str | None
    dropped: str | None
    unfinished: str | None
    output_tokens: int
    thinking_tokens: int
    repetition: Repetition | None


def token_text(made: Model, token: int) -> str:
    """Return a token's own text, in the middle of an answer."""
    if token in made.special:
        return made.special[token]
    if made.raw is not None:
        return made.raw[token].decode("utf-8", "replace")
    if token in made.added:
        return made.added[token]
    anchor = made.ids["a"]
    return made.decode([anchor, token])[len(made.decode([anchor])) :]


@dataclass
class _Sum:
    """The parts of an outcome, while they are worked out."""

    kind: StopKind
    value: str | int | None
    rule_index: int | None
    channel: Channel | None
    offset: int | None
    held: str | None
    dropped: str | None
    calls: tuple[tuple[str, Any], ...]
    chars: tuple[Char, ...]
    kept: str = ""
    unfinished: str | None = ""


def outcome_of(case: Case, end: End) -> Outcome:
    """Return the outcome of an answer with this end."""
    made = case.model
    if end.match is not None:
        found = _matched(case, end, end.base, end.match)
    elif end.tag is not None:
        found = _ended_by_tag(case, end, end.tag)
    else:
        found = _ended(case, end)
    if found.kind is StopKind.TOOL_CALL:
        # The page says nothing of these for a call.
        found.value = found.rule_index = None
        found.channel = found.offset = found.dropped = found.held = None
    text, thinking = text_of(found.chars, Channel.TEXT), text_of(found.chars, Channel.THINKING)
    if found.kept and found.channel is Channel.TEXT:
        text += found.kept
    elif found.kept and found.channel is Channel.THINKING:
        thinking += found.kept
    elif found.kept and found.unfinished is not None:
        found.unfinished += found.kept
    reasoned = set(end.base.thinking)
    before = end.before
    if end.token is not None and not before.in_header and before.channel is Channel.THINKING:
        reasoned.add(end.count - 1)
    return Outcome(
        text=text,
        thinking=thinking,
        calls=found.calls,
        kind=found.kind,
        value=found.value,
        token_id=end.token,
        token_text=None if end.token is None else token_text(made, end.token),
        channel=found.channel,
        text_offset=found.offset,
        token_index=None if end.token is None else end.count - 1,
        rule_index=found.rule_index,
        held=found.held,
        dropped=found.dropped,
        unfinished=found.unfinished,
        output_tokens=end.count,
        thinking_tokens=len(reasoned),
        repetition=end.cycle,
    )


def text_of(chars: Sequence[Char], channel: Channel) -> str:
    return "".join(char.char for char in chars if char.channel is channel)


def _matched(case: Case, end: End, state: Reading, match: Match) -> _Sum:
    """The answer ends in a stop string that was found in its text."""
    keeps = case.rules.include_stop
    chars = state.chars
    first = chars[match.start]
    cut = match.end if keeps else match.start
    before = chars[: match.start]
    calls = end.before.calls
    kind, unfinished = StopKind.STOP_STRING, ""
    if first.channel is Channel.TOOL:
        within = [char for char in before if char.part == first.part]
        offset = len(within)
        text = "".join(char.char for char in within)
        own, rest = _cut_calls(state, text, match.string if keeps else "")
        calls += own
        if own and not rest:
            kind = StopKind.TOOL_CALL
        else:
            unfinished = rest + "".join(char.char for char in chars[match.start : cut])
    else:
        offset = len(text_of(before, first.channel))
        if len(end.base.calls) > len(calls):
            calls = end.base.calls
            kind = kind if end.base.has_rest else StopKind.TOOL_CALL
    return _Sum(
        kind=kind,
        value=match.string,
        rule_index=match.number,
        channel=first.channel,
        offset=offset,
        held="",
        dropped="".join(char.char for char in chars[cut:]) + state.undecided_text,
        calls=calls,
        chars=chars[:cut],
        unfinished=unfinished,
    )


def _cut_calls(state: Reading, text: str, kept: str) -> tuple[Calls, str]:
    """Return the calls in a call's text that a stop ends, and the text that is none."""
    if not (state.begun + text).strip():
        return (), text
    found = state.parsed(text, is_cut=True)
    if kept and (found is None or found[1]):
        whole = state.parsed(text + kept, is_cut=True)
        found = whole if whole and not whole[1] else found
    return found or ((), text)


def _ended_by_tag(case: Case, end: End, tag: Tag) -> _Sum:
    """The answer ends in a stop that is a tag."""
    state = end.base
    cut = tag.known
    calls = state.calls
    if not state.in_header and state.channel is Channel.TOOL and state.part == end.before.part:
        # A marker that neither opens nor closes anything: the call ends here as by any stop.
        calls += _cut_calls(state, state.part_text, "")[0]
    is_new = len(calls) > len(end.before.calls) and not state.has_rest
    is_open = tag.channel is Channel.TOOL or bool(end.before.undecided)
    closes = tag.channel is Channel.TOOL and end.before.channel is Channel.TOOL
    no_call = tag.offset if closes and not is_new else 0
    keeps = case.rules.include_stop and not end.before.in_header
    return _Sum(
        kind=StopKind.TOOL_CALL if is_new else end.kind,
        value=end.value,
        rule_index=end.rule_index,
        channel=tag.channel,
        offset=tag.offset,
        held=None if is_open else held_back(end.before, case.rules),
        dropped="" if keeps else tag.text + _after(state, cut + no_call),
        calls=calls,
        chars=state.chars[:cut],
        kept=tag.text if keeps and not is_new else "",
        unfinished=None if tag.channel is Channel.TOOL else "",
    )


def _after(state: Reading, cut: int) -> str:
    return "".join(char.char for char in state.chars[cut:]) + state.undecided_text


def _ended(case: Case, end: End) -> _Sum:
    """The answer ends in another way: held text is released, and an open call is judged."""
    rules, made = case.rules, case.model
    state = end.base.flushed()
    held: str | None = held_back(end.base, rules)
    kind, calls, unfinished = end.kind, state.calls, ""
    is_stop = kind in (StopKind.STOP_TOKEN, StopKind.STOP_STRING)
    is_eos = kind is StopKind.EOS or (is_stop and end.token in made.eos)
    own_text = "" if end.token is None else token_text(made, end.token)
    counts = end.count - 1 >= rules.min_tokens
    known = len(end.base.chars)
    match = find_match(state, rules, known) if counts else None
    channel: Channel | None = state.channel
    offset: int | None = state.length_of(state.channel)
    is_open = not state.in_header and state.channel is Channel.TOOL
    is_partial = False
    if is_open and match is None:
        raw = state.part_text
        is_text = bool((state.begun + raw).strip())
        ends_by_tag = made.family.is_harmony or bool(made.family.tool and made.family.tool[1])
        is_cut = kind in (StopKind.CANCELLED, StopKind.MAX_TOKENS, StopKind.CONTEXT_FULL)
        if is_eos:
            found, rest = state.parsed(raw) or ((), raw)
        elif not is_text or (is_cut and (ends_by_tag or kind is StopKind.CANCELLED)):
            found, rest = (), raw
        else:
            keeps_stop = is_stop and rules.include_stop
            found, rest = _cut_calls(state, raw, own_text if keeps_stop else "")
        if found and not rest:
            calls += found
        elif is_eos:
            # Whether the rest of a half character counts as held there, the page does not say.
            held = None if end.base.half else held_back(end.base.closed(), rules)
            known = len(state.chars)
            state = state.closed()
            match = find_match(state, rules, known) if counts else None
            if raw:
                channel, offset = state.channel, state.length_of(state.channel)
            else:
                channel = offset = None
            calls += found
        else:
            unfinished = rest
            is_partial = bool(found)
            calls += found
    if match is not None:
        found = _matched(case, end, state, match)
        is_in_call = found.channel is Channel.TOOL and kind is not StopKind.CANCELLED
        if found.kind is StopKind.STOP_STRING and not is_in_call:
            found.calls = state.calls
        if kind is StopKind.CANCELLED:
            found.kind, found.value, found.rule_index = kind, None, None
            found.channel = found.offset = None
        return found
    is_new = len(calls) > len(end.before.calls) and not (is_partial or state.has_rest)
    if (is_eos and calls) or (is_new and kind is not StopKind.CANCELLED):
        kind = StopKind.TOOL_CALL
    if not is_stop:
        channel = offset = None
    own = own_text if is_stop else ""
    keeps = rules.include_stop and is_stop and kind is not StopKind.TOOL_CALL
    keeps = keeps and not state.in_header
    return _Sum(
        kind=kind,
        value=end.value,
        rule_index=end.rule_index,
        channel=channel,
        offset=offset,
        held=held,
        dropped="" if keeps else own,
        calls=calls,
        chars=state.chars,
        kept=own if keeps else "",
        unfinished=unfinished,
    )
