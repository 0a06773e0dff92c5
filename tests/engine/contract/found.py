"""Writes a case down as a person reads it: tokens by their pieces."""

from collections.abc import Iterable, Sequence
from enum import Enum

from engine.stopping.repetition import RepetitionDetection
from engine.stopping.rules import OWN_STOP_OPTIONS, Stop, StopRules, StopScope
from tests.engine.contract.writing.case import Case
from tests.engine.contract.writing.vocabularies import model

OPTIONS = (
    ("prompt", ""),
    ("is_raw", False),
    ("is_prefill", False),
    ("max_tokens", None),
    ("room", 1000),
    ("cancel_after", None),
    ("has_tools", True),
)


def found(
    kind: str,
    family: str,
    script: Iterable[str | bytes],
    *,
    strings: Sequence[str | Stop] = (),
    ids: Iterable[str | bytes] = (),
    scope: StopScope = StopScope.TEXT,
    include_stop: bool = False,
    ignore_eos: bool = False,
    min_tokens: int = 0,
    repetition: RepetitionDetection | None = None,
    prompt: str = "",
    is_raw: bool = False,
    is_prefill: bool = False,
    max_tokens: int | None = None,
    room: int = 1000,
    cancel_after: int | None = None,
    has_tools: bool = True,
) -> Case:
    """Return a case whose tokens are named by their pieces.

    Args:
        kind: See ``Case``, as for the other fields that it has.
        family: Of model.
        script: The pieces that the model emits.
        strings: The stops: those with options of their own, and the texts of the others.
        ids: The pieces of ``StopRules.token_ids``.
    """
    made = model(kind, family)
    rules = StopRules(
        tuple(stop if isinstance(stop, Stop) else Stop(stop) for stop in strings),
        token_ids=tuple(made.ids[piece] for piece in ids),
        scope=scope,
        include_stop=include_stop,
        ignore_eos=ignore_eos,
        min_tokens=min_tokens,
        repetition=repetition,
    )
    return Case(
        kind,
        family,
        tuple(made.ids[piece] for piece in script),
        rules,
        prompt=prompt,
        is_raw=is_raw,
        is_prefill=is_prefill,
        max_tokens=max_tokens,
        room=room,
        cancel_after=cancel_after,
        has_tools=has_tools,
    )


def stop_as_test(stop: Stop) -> str:
    """Return a stop as it is written in a call of ``found``."""
    given = [repr(stop.text)]
    for option in OWN_STOP_OPTIONS:
        value = getattr(stop, option.name)
        if value != option.default:
            text = (
                f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)
            )
            given.append(f"{option.name}={text}")
    return given[0] if len(given) == 1 else f"Stop({', '.join(given)})"


def as_test(case: Case) -> str:
    """Return a case as the text of a call of ``found``."""
    pieces = {i: piece for piece, i in case.model.ids.items() if isinstance(piece, bytes)}
    pieces |= {i: piece for piece, i in case.model.ids.items() if isinstance(piece, str)}

    def named(ids: Iterable[int]) -> str:
        return "[" + ", ".join(repr(pieces.get(token, token)) for token in ids) + "]"

    rules, usual = case.rules, StopRules()
    given = [repr(case.kind), repr(case.family), named(case.script)]
    if rules.stops:
        given.append(f"strings=[{', '.join(map(stop_as_test, rules.stops))}]")
    if rules.token_ids:
        given.append(f"ids={named(rules.token_ids)}")
    if rules.scope is not usual.scope:
        given.append(f"scope=StopScope.{rules.scope.name}")
    for name in ("include_stop", "ignore_eos", "min_tokens", "repetition"):
        if getattr(rules, name) != getattr(usual, name):
            given.append(f"{name}={getattr(rules, name)!r}")
    for name, value in OPTIONS:
        if getattr(case, name) != value:
            given.append(f"{name}={getattr(case, name)!r}")
    return f"    found({', '.join(given)}),"
