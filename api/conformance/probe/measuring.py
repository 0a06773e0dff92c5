"""Asks a server without stops, as the baseline for all other checks.

Runs on the loop of whoever probes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from api.conformance.captures.values import Capture, CapturedEnding
from api.conformance.probe.client import Client
from api.conformance.probe.dialects import Ask
from api.conformance.probe.plan import Baseline, Baselines
from api.conformance.probe.values import Exchange, Fault

MAX_TOKENS = 128
# Limits for a server with a small context, and for a model that thinks long.
_FEWEST_TOKENS = 16
_MOST_TOKENS = 2048

_CHAT_PROMPTS = (
    "Count from 1 to 20, one number per line",
    "Repeat exactly: The quick brown fox jumps over the lazy dog",
    "Repeat exactly: Grüße, 数 and 👋 too",
)
# Without a template: one prompt that any model continues, two in the most common template.
_CHATML = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
_PLAIN_PROMPTS = (
    "Count from 1 to 20, one number per line\n1\n2\n3\n",
    *(_CHATML.format(prompt) for prompt in _CHAT_PROMPTS[1:]),
)


async def baselines(client: Client, max_tokens: int | None = None) -> Baselines:
    """Ask without stops: each prompt twice whole and once streamed."""
    prompts = _CHAT_PROMPTS if client.driver.has_chat_template else _PLAIN_PROMPTS
    found: list[Baseline] = []
    runs: list[Exchange] = []
    faults: list[Fault] = []
    opening = await _opening(client, prompts[0], max_tokens)
    for prompt in prompts:
        ask = replace(opening.ask, prompt=prompt)
        first = opening.run if prompt == prompts[0] else await client.ask(ask)
        if not first.is_answer:
            runs.append(first)
            continue
        again = await client.ask(ask)
        streamed = await client.ask(replace(ask, is_streamed=True))
        three = [first, again, streamed]
        other_text: str | None = None
        if not streamed.is_answer:
            faults.append(_not_streamed(client, streamed))
            three = [first, again]
        elif _texts(first, again) and not _texts(first, streamed):
            repeated = await client.ask(replace(ask, is_streamed=True))
            three.append(repeated)
            if _texts(streamed, repeated):
                faults.append(_differs(client, first, streamed))
                # The stream always has another text, so this is not a lack of determinism.
                three = [first, again]
                other_text = streamed.capture.text
        runs.extend(three)
        one = _baseline(ask, three, streamed)
        found.append(replace(one, streamed_text=other_text))
    return Baselines(
        usable=tuple(one for one in found if one.is_usable),
        runs=tuple(runs),
        faults=tuple(faults),
        conclusions=opening.conclusions,
    )


@dataclass(frozen=True, slots=True)
class _Opening:
    """The parameters of this server's ordinary requests, and the first answer."""

    ask: Ask
    run: Exchange
    conclusions: tuple[str, ...] = ()


async def _opening(client: Client, prompt: str, max_tokens: int | None) -> _Opening:
    """Find out whether the model reasons, and how many tokens an answer needs or may have."""
    ask = Ask(prompt, max_tokens=max_tokens or MAX_TOKENS)
    run = await client.ask(ask)
    conclusions: list[str] = []
    while max_tokens is None and run.is_refusal and ask.max_tokens > _FEWEST_TOKENS:
        ask = replace(ask, max_tokens=ask.max_tokens // 2)
        run = await client.ask(ask)
        if run.is_answer:
            conclusions.append(f"Answers are limited to {ask.max_tokens} tokens: more is refused.")
    if run.capture.thinking and client.driver.can_think:
        # Stops and costs are easier to judge without thinking, which has checks of its own.
        silent = await client.ask(replace(ask, is_thinking=False))
        if silent.is_answer and not silent.capture.thinking:
            return _Opening(replace(ask, is_thinking=False), silent, tuple(conclusions))
    while max_tokens is None and _thinks_only(run) and ask.max_tokens < _MOST_TOKENS:
        ask = replace(ask, max_tokens=ask.max_tokens * 4)
        run = await client.ask(ask)
        if run.is_answer and not _thinks_only(run):
            conclusions.append(f"Answers may have {ask.max_tokens} tokens: the model thinks long.")
    return _Opening(ask, run, tuple(conclusions))


def _thinks_only(run: Exchange) -> bool:
    """Return whether the limit was reached before the answer began."""
    text = run.capture.text
    is_inline = text.lstrip().startswith("<think") and "</think" not in text
    is_cut = run.is_answer and run.capture.ending is CapturedEnding.LIMIT
    # Not every dialect shows the thinking: an empty answer at the limit means hidden thinking.
    return is_cut and (is_inline or not text.strip())


def _baseline(ask: Ask, runs: Sequence[Exchange], streamed: Exchange) -> Baseline:
    first = runs[0].capture
    texts = [run.capture.text for run in runs if run.is_answer]
    usage = first.usage
    return Baseline(
        ask=ask,
        text=first.text,
        thinking=first.thinking,
        stable=_common_start(texts),
        bounds=_bounds(streamed.capture) if streamed.capture.text == first.text else (),
        tokens=usage.output_tokens if usage is not None else None,
        ending=first.ending,
        is_repeatable=len(set(texts)) == 1,
        total_s=runs[0].total_s,
        output_ids=first.output_ids,
        streamed_tokens=(
            streamed.capture.usage.output_tokens if streamed.capture.usage is not None else None
        ),
    )


def _common_start(texts: Sequence[str]) -> str:
    shortest, longest = min(texts), max(texts)
    for at, (one, other) in enumerate(zip(shortest, longest, strict=False)):
        if one != other:
            return shortest[:at]
    return shortest


def _bounds(capture: Capture) -> tuple[int, ...]:
    """Return the ends of a stream's pieces; a few large pieces say nothing about tokens."""
    ends: list[int] = []
    seen = 0
    for event in capture.events:
        if event.text:
            seen += len(event.text)
            ends.append(seen)
    return tuple(ends) if len(ends) >= 4 else ()


def _texts(one: Exchange, other: Exchange) -> bool:
    return one.capture.text == other.capture.text


def _not_streamed(client: Client, run: Exchange) -> Fault:
    return Fault(
        "no_answer",
        f"There is no streamed answer: {run.problem or f'status {run.status}'}.",
        run.mode,
        got=run.text[:200],
        curl=client.curl(run.body),
        exchange=_place(client, run),
    )


def _differs(client: Client, whole: Exchange, streamed: Exchange) -> Fault:
    return Fault(
        "stream_differs",
        "The streamed answer differs from the whole one, each time.",
        streamed.mode,
        whole.capture.text,
        streamed.capture.text,
        client.curl(streamed.body),
        baseline=whole.capture.text,
        exchange=_place(client, streamed),
    )


def _place(client: Client, run: Exchange) -> int | None:
    return next((at for at, one in enumerate(client.exchanges) if one is run), None)
