"""Compares an answer of the mixture with that of the plain loop, and looks for what is left over.

Pure but for ``leftovers``, which reads an engine's parts while it is idle.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from engine.inference.mlx_backend import MlxBackend
from engine.stopping.record import StopKind
from engine.values.events import Event, Finished, PromptProgress, TextDelta, TokenTrace
from tests.support.models.guessing import timeless

_ROUNDING = 1e-3


def fault(expected: Sequence[Event], found: Sequence[Event], *, leaves: bool) -> str | None:
    """Return the fault of an answer; None if it has none."""
    last = found[-1]
    if not isinstance(last, Finished) or any(isinstance(one, Finished) for one in found[:-1]):
        return "it does not end with one Finished"
    if wrong := _progress_fault(found, last):
        return wrong
    ended_early = last.stop.kind is StopKind.ERROR or (
        leaves and last.stop.kind is StopKind.CANCELLED
    )
    if ended_early:
        return _beginning_fault(expected, found)
    if last.error is not None and not _same(expected, found):
        return f"it failed: {last.error}"
    return None if _same(expected, found) else _difference(expected, found)


def _progress_fault(found: Sequence[Event], last: Finished) -> str | None:
    usage = last.usage
    if not 0 <= usage.disk_tokens <= usage.cached_tokens <= max(0, usage.prompt_tokens - 1):
        return f"cached tokens are wrong: {usage}"
    told = [one for one in found if isinstance(one, PromptProgress)]
    for one in told:
        if not one.cached <= one.processed <= one.total:
            return f"progress is wrong: {one}"
    if told and told[-1].cached != usage.cached_tokens:
        return f"progress and usage differ: {told[-1]}, {usage}"
    counts = last.speculation
    if counts.prediction_accepted + counts.prediction_rejected > counts.guessed:
        return f"counts of guesses are wrong: {counts}"
    if counts.accepted + counts.forced > usage.output_tokens:
        return f"more tokens were guessed than there are: {counts}"
    return None


def _beginning_fault(expected: Sequence[Event], found: Sequence[Event]) -> str | None:
    whole = [one.token_id for one in expected if isinstance(one, TokenTrace)]
    part = [one.token_id for one in found if isinstance(one, TokenTrace)]
    return None if part == whole[: len(part)] else f"{part} does not begin {whole}"


def _same(expected: Sequence[Event], found: Sequence[Event]) -> bool:
    return are_equal(_comparable(expected), _comparable(found))


def are_equal(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Return whether events are equal, likelihoods but for rounding: batches sum in any order."""
    return len(left) == len(right) and all(map(_agree, left, right))


def _difference(expected: Sequence[Event], found: Sequence[Event]) -> str:
    left, right = _comparable(expected), _comparable(found)
    for place, (one, other) in enumerate(zip(left, right, strict=False)):
        if not _agree(one, other):
            return f"event {place}: {one} became {other}"
    return f"{len(left)} events became {len(right)}"


def _agree(one: Any, other: Any) -> bool:
    if not (isinstance(one, TokenTrace) and isinstance(other, TokenTrace)):
        return bool(one == other)
    if one.stats is None or other.stats is None:
        return bool(one == other)
    if abs(one.stats.logprob - other.stats.logprob) > _ROUNDING:
        return False
    tops = zip(one.stats.top, other.stats.top, strict=False)
    if any(abs(left - right) > _ROUNDING for (_, left), (_, right) in tops):
        return False
    return _without_likelihoods(one) == _without_likelihoods(other)


def _without_likelihoods(token: TokenTrace) -> TokenTrace:
    settled = tuple(replace(span, stats=None) for span in token.settled)
    return replace(token, stats=None, settled=settled)


def _comparable(events: Iterable[Event]) -> list[Any]:
    found: list[Any] = []
    for event in timeless(events):
        if isinstance(event, Finished):
            usage = replace(event.usage, cached_tokens=0, disk_tokens=0, cache_miss=None)
            settled = tuple(replace(span, stats=None) for span in event.settled)
            found.append(replace(event, usage=usage, settled=settled))
        elif not isinstance(event, PromptProgress):
            found.append(event)
    return found


def text_of(events: Iterable[Event]) -> str:
    return "".join(one.text for one in events if isinstance(one, TextDelta))


def leftovers(backend: MlxBackend) -> list[str]:
    """Return what an idle model still keeps of ended answers."""
    batch: Any = backend.batch
    sequences = batch.sequences
    held: dict[str, Any] = {
        "sequences": sequences.by_number,
        "sequences in lanes": sequences.reading,
        "sequences to be told": sequences._stopped_waiting,
        "scores": batch._generators.scores,
        "decoding rows": batch._lanes[0]._generation_batch.uids,
    }
    for number, lane in enumerate(batch._lanes):
        held[f"prompts of lane {number}"] = lane._prompt_batch.uids
        held[f"prompts before lane {number}"] = lane._unprocessed_sequences
    if backend._draft is not None:
        held["answers of the draft model"] = range(backend._draft._answers)
    found = [f"{name}: {list(what)}" for name, what in held.items() if len(what)]
    index = batch.prompts.index
    nodes = [node for share in index._shares.values() for node in share.root.down()]
    blocks = {node.block for node in nodes if node.block is not None}
    size = sum(block.segment.size_bytes for block in blocks)
    size += sum(node.snapshot.size_bytes for node in nodes if node.snapshot is not None)
    if size != index.size_bytes:
        found.append(f"cached prompts take {size} bytes, and {index.size_bytes} are counted")
    return found
