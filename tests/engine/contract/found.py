"""Makes a case of tokens that are named by their pieces."""

from collections.abc import Iterable, Sequence

from engine.stopping.repetition import RepetitionDetection
from engine.stopping.rules import Stop, StopRules, StopScope
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
