"""Writes a case down as a person reads it: tokens by their pieces."""

from collections.abc import Iterable, Sequence

from engine.stopping.rules import StopRules, StopScope
from tests.engine.contract.writing.case import Case
from tests.engine.contract.writing.vocabularies import model

OPTIONS = (
    ("prompt", ""),
    ("is_raw", False),
    ("is_prefill", False),
    ("max_tokens", None),
    ("room", 1000),
    ("cancel_after", None),
)


def found(
    kind: str,
    family: str,
    script: Iterable[str | bytes],
    *,
    strings: Sequence[str] = (),
    ids: Iterable[str | bytes] = (),
    scope: StopScope = StopScope.TEXT,
    scopes: Iterable[tuple[str, StopScope]] = (),
    include_stop: bool = False,
    ignore_eos: bool = False,
    min_tokens: int = 0,
    prompt: str = "",
    is_raw: bool = False,
    is_prefill: bool = False,
    max_tokens: int | None = None,
    room: int = 1000,
    cancel_after: int | None = None,
) -> Case:
    """Return a case whose tokens are named by their pieces.

    Args:
        kind: See ``Case``, as for the other fields that it has.
        family: Of model.
        script: The pieces that the model emits.
        strings: See ``StopRules``, as for the other fields that it has.
        ids: The pieces of ``StopRules.token_ids``.
    """
    made = model(kind, family)
    rules = StopRules(
        strings=tuple(strings),
        token_ids=tuple(made.ids[piece] for piece in ids),
        scope=scope,
        include_stop=include_stop,
        ignore_eos=ignore_eos,
        min_tokens=min_tokens,
        scopes=tuple(scopes),
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
    )


def as_test(case: Case) -> str:
    """Return a case as the text of a call of ``found``."""
    pieces = {i: piece for piece, i in case.model.ids.items() if isinstance(piece, bytes)}
    pieces |= {i: piece for piece, i in case.model.ids.items() if isinstance(piece, str)}

    def named(ids: Iterable[int]) -> str:
        return "[" + ", ".join(repr(pieces.get(token, token)) for token in ids) + "]"

    rules, usual = case.rules, StopRules()
    given = [repr(case.kind), repr(case.family), named(case.script)]
    if rules.strings:
        given.append(f"strings={list(rules.strings)!r}")
    if rules.token_ids:
        given.append(f"ids={named(rules.token_ids)}")
    if rules.scope is not usual.scope:
        given.append(f"scope=StopScope.{rules.scope.name}")
    if rules.scopes:
        pairs = ", ".join(f"({string!r}, StopScope.{scope.name})" for string, scope in rules.scopes)
        given.append(f"scopes=[{pairs}]")
    for name in ("include_stop", "ignore_eos", "min_tokens"):
        if getattr(rules, name) != getattr(usual, name):
            given.append(f"{name}={getattr(rules, name)!r}")
    for name, value in OPTIONS:
        if getattr(case, name) != value:
            given.append(f"{name}={getattr(case, name)!r}")
    return f"    found({', '.join(given)}),"
