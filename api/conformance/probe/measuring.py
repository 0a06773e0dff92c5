"""Asks a server without stops: the measure for everything else.

Runs on the loop of whoever probes.
"""

from collections.abc import Sequence
from dataclasses import replace

from api.conformance.captures.values import Capture
from api.conformance.probe.asking.client import Client
from api.conformance.probe.asking.exchange import Exchange
from api.conformance.probe.baseline import Baseline, Baselines
from api.conformance.probe.dialects.asks import Ask
from api.conformance.probe.values import Fault

MAX_TOKENS = 128

_CHAT_PROMPTS = (
    "Count from 1 to 20, one number per line",
    "Repeat exactly: The quick brown fox jumps over the lazy dog",
    "Repeat exactly: Grüße, 数 and 👋 too",
)
# Without a template: one that any model goes on with, two as the commonest template has them.
_CHATML = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
_PLAIN_PROMPTS = (
    "Count from 1 to 20, one number per line\n1\n2\n3\n",
    *(_CHATML.format(prompt) for prompt in _CHAT_PROMPTS[1:]),
)


async def baselines(client: Client) -> Baselines:
    """Ask without stops, each prompt whole twice and streamed.

    Raises:
        LimitReached: The probe may ask no more.
    """
    prompts = _CHAT_PROMPTS if client.driver.has_chat_template else _PLAIN_PROMPTS
    found: list[Baseline] = []
    runs: list[Exchange] = []
    faults: list[Fault] = []
    is_thinking: bool | None = None
    for prompt in prompts:
        ask = Ask(prompt, max_tokens=MAX_TOKENS, is_thinking=is_thinking)
        first = await client.ask(ask)
        if first.capture.thinking and is_thinking is None and client.driver.can_think:
            # Stops and costs are easier to judge without; thinking has checks of its own.
            silent = await client.ask(replace(ask, is_thinking=False))
            if silent.is_answer and not silent.capture.thinking:
                is_thinking, first = False, silent
                ask = replace(ask, is_thinking=False)
        if not first.is_answer:
            runs.append(first)
            continue
        again = await client.ask(ask)
        streamed = await client.ask(replace(ask, is_streamed=True))
        three = [first, again, streamed]
        if not streamed.is_answer:
            faults.append(_not_streamed(client, streamed))
            three = [first, again]
        elif _texts(first, again) and not _texts(first, streamed):
            repeated = await client.ask(replace(ask, is_streamed=True))
            three.append(repeated)
            if _texts(streamed, repeated):
                faults.append(_differs(client, first, streamed))
                # The stream always says something else: that is no lack of determinism.
                three = [first, again]
        runs.extend(three)
        found.append(_baseline(ask, three, streamed))
    return Baselines(tuple(one for one in found if one.is_usable), tuple(runs), tuple(faults))


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
    )


def _common_start(texts: Sequence[str]) -> str:
    shortest, longest = min(texts), max(texts)
    for at, (one, other) in enumerate(zip(shortest, longest, strict=False)):
        if one != other:
            return shortest[:at]
    return shortest


def _bounds(capture: Capture) -> tuple[int, ...]:
    """Return where the pieces of a stream end; few large pieces say nothing about tokens."""
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
    )


def _differs(client: Client, whole: Exchange, streamed: Exchange) -> Fault:
    return Fault(
        "stream_differs",
        "The streamed answer differs from the whole one, each time.",
        streamed.mode,
        whole.capture.text,
        streamed.capture.text,
        client.curl(streamed.body),
    )
