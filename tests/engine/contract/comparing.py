"""Compares the product's result for a case with that of the reference."""

from dataclasses import fields

from engine.stopping.record import Channel
from engine.values.events import Finished
from tests.engine.contract.outcomes import Outcome
from tests.engine.contract.product import Run, run
from tests.engine.contract.reference import expected, shown_after_each_token
from tests.engine.contract.writing.case import Case

# Fields that the contract leaves open in some outcomes are None there.
_OPEN = ("channel", "text_offset", "token_index", "held", "dropped", "unfinished")


def outcome_of(made: Run) -> Outcome:
    end: Finished = made.finished
    stop = end.stop
    return Outcome(
        text=made.text,
        thinking=made.thinking,
        calls=made.calls,
        kind=stop.kind,
        value=stop.value,
        token_id=stop.token_id,
        token_text=stop.token_text,
        channel=stop.channel,
        text_offset=stop.text_offset,
        token_index=stop.token_index,
        rule_index=stop.rule_index,
        held=stop.held,
        dropped=stop.dropped,
        unfinished=end.unfinished_tool_call,
        output_tokens=end.usage.output_tokens,
        thinking_tokens=end.usage.thinking_tokens,
        repetition=end.details.repetition,
    )


def differences(case: Case, made: Run | None = None) -> list[str]:
    """Return the differences, one line each; empty for a correct case."""
    made = run(case) if made is None else made
    wanted, found = expected(case), outcome_of(made)
    lines = []
    for name in (item.name for item in fields(Outcome)):
        want, got = getattr(wanted, name), getattr(found, name)
        if want != got and not (want is None and name in _OPEN):
            lines.append(f"{name}: must be {want!r}, is {got!r}")
    if made.shown:
        must = shown_after_each_token(case)
        for index, (want, got) in enumerate(zip(must, made.shown, strict=False)):
            if want != got:
                lines.append(f"after token {index}: must have shown {want!r}, has {got!r}")
                break
    stop = made.finished.stop
    if wanted.text_offset is None and stop.channel is not Channel.TOOL:
        length = len(found.text if stop.channel is Channel.TEXT else found.thinking)
        if stop.text_offset != length:
            lines.append(f"text_offset: must be the length {length}, is {stop.text_offset}")
    return lines
