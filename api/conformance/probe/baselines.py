"""Asks a server without stops, as the baseline for all other checks."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from api.conformance.captures.values import CapturedEnding
from api.conformance.probe.client import Client
from api.conformance.probe.dialects import Ask
from api.conformance.probe.judgement import stream_differs
from api.conformance.probe.plan import (
    LEAST_CHARACTERS,
    Baseline,
    Baselines,
    bounds,
    missing,
    plan,
)
from api.conformance.probe.values import Exchange, Fault, ProbeOptions

MAX_TOKENS = 128
# A Fullstop server sends both vendors' names of a request's id.
_OWN_HEADERS = frozenset({"request-id", "x-request-id"})
_QUICK_TOKENS = 40
# Limits for a server with a small context, and for a model that thinks long.
_FEWEST_TOKENS = 16
_MOST_TOKENS = 2048

_CHAT_PROMPTS = (
    "Count from 1 to 20, one number per line",
    "Repeat exactly: The quick brown fox jumps over the lazy dog",
    "Repeat exactly: Grüße, 数, 👋 and 👩\u200d💻 too",
)
# Asked where the answers to the others have too little text for stops.
_MORE_CHAT_PROMPTS = (
    "Count from 1 to 60, one number per line",
    "Write the names of the months, one per line, each followed by its number of days in brackets",
)
# Without a template: one prompt that any model continues, two in the most common template.
_CHATML = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
_PLAIN_PROMPTS = (
    "Count from 1 to 20, one number per line\n1\n2\n3\n",
    *(_CHATML.format(prompt) for prompt in _CHAT_PROMPTS[1:]),
)
_MORE_PLAIN_PROMPTS = ("Count from 1 to 60, one number per line\n1\n2\n3\n",)
# Of the kinds of stops, so many may lack a text before more prompts are asked.
_MOST_MISSING = 5


async def baselines(client: Client, options: ProbeOptions, short_s: float = 0.0) -> Baselines:
    """Ask without stops: each prompt twice whole and once streamed."""
    has_template = client.driver.has_chat_template
    prompts = _CHAT_PROMPTS if has_template else _PLAIN_PROMPTS
    prompts = (*options.prompts, *(prompts[:1] if options.is_quick else prompts))
    more = _MORE_CHAT_PROMPTS if has_template else _MORE_PLAIN_PROMPTS
    asking = _Asking(client, short_s)
    opening = await _opening(client, prompts[0], options)
    for prompt in prompts:
        first = opening.run if prompt == prompts[0] else None
        await asking.ask(replace(opening.ask, prompt=prompt), first)
    for prompt in () if options.is_quick else more:
        cases = plan(asking.usable)
        unthought = [case for case in cases if not case.is_thought]
        if len(missing(cases)) + len(cases) - len(unthought) > _MOST_MISSING:
            await asking.ask(replace(opening.ask, prompt=prompt))
    return Baselines(
        usable=tuple(asking.usable),
        runs=tuple(asking.runs),
        faults=tuple(asking.faults),
        conclusions=(*opening.conclusions, *await _end_token(client, opening)),
        odd=tuple(asking.odd),
    )


class _Asking:
    """Asks the prompts and compares their answers."""

    def __init__(self, client: Client, short_s: float) -> None:
        self.usable: list[Baseline] = []
        self.runs: list[Exchange] = []
        self.faults: list[Fault] = []
        self.odd: list[str] = []
        self._client = client
        self._short_s = short_s

    async def ask(self, ask: Ask, first: Exchange | None = None) -> None:
        """Ask twice whole and once streamed; where one answer is odd, ask again."""
        client = self._client
        first = first or await client.ask(ask)
        if not first.is_answer:
            self.runs.append(first)
            return
        wholes = [first, await client.ask(ask)]
        if not _agree(wholes):
            wholes.append(await client.ask(ask))
        streams = [await client.ask(replace(ask, is_streamed=True))]
        self.runs += [*wholes, *streams]
        if not streams[0].is_answer:
            self.faults.append(_not_streamed(client, streams[0]))
            streams = []
        agreed = self._agreed(wholes)
        other_text: str | None = None
        if agreed is not None and streams and streams[0].capture.text != agreed.capture.text:
            again = await client.ask(replace(ask, is_streamed=True))
            self.runs.append(again)
            is_other = _agree([streams[0], again])
            if is_other:
                # The whole answers could be the odd ones, or both of the streams.
                wholes.append(await client.ask(ask))
                is_other = _agree([again, await client.ask(replace(ask, is_streamed=True))])
            if any(_agree([streams[0], run]) for run in wholes):
                self.odd.append("one of two streams had another text")
                streams = [again] if _agree([agreed, again]) else []
            elif is_other:
                self.faults.append(_differs(client, agreed, streams[0]))
                # The stream always has another text, so this is not a lack of determinism.
                other_text = again.capture.text
            elif _agree([agreed, again]):
                self.odd.append("one of two streams had another text")
                streams = [again]
            else:
                streams.append(again)
        alike = [agreed] if agreed is not None else wholes
        counted = alike if other_text is not None else [*alike, *streams]
        baseline = _baseline(ask, counted, streams[0] if streams else None, self._short_s)
        baseline = replace(baseline, streamed_text=other_text)
        if baseline.is_usable:
            self.usable.append(baseline)

    def _agreed(self, wholes: Sequence[Exchange]) -> Exchange | None:
        """Return an answer with the text that most have; None if no two agree."""
        texts = Counter(run.capture.text for run in wholes if run.is_answer)
        text, times = texts.most_common(1)[0]
        if times < 2:
            return None
        if len(texts) > 1:
            self.odd.append("one of three answers had another text")
        return next(run for run in wholes if run.is_answer and run.capture.text == text)


def _agree(runs: Sequence[Exchange]) -> bool:
    return all(run.is_answer for run in runs) and len({run.capture.text for run in runs}) == 1


@dataclass(frozen=True, slots=True)
class _Opening:
    """The parameters of this server's ordinary requests, and the first answer."""

    ask: Ask
    run: Exchange
    conclusions: tuple[str, ...] = ()


async def _opening(client: Client, prompt: str, options: ProbeOptions) -> _Opening:
    """Find out whether the model reasons, and how many tokens an answer needs or may have."""
    max_tokens = options.max_tokens
    ask = Ask(prompt, max_tokens=max_tokens or (_QUICK_TOKENS if options.is_quick else MAX_TOKENS))
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
    while max_tokens is None and _is_cut_short(run) and ask.max_tokens < _MOST_TOKENS:
        ask = replace(ask, max_tokens=ask.max_tokens * 4)
        run = await client.ask(ask)
        if run.is_answer and not _is_cut_short(run):
            conclusions.append(f"Answers may have {ask.max_tokens} tokens: the model thinks long.")
    return _Opening(ask, run, tuple(conclusions))


async def _end_token(client: Client, opening: _Opening) -> tuple[str, ...]:
    """Return where the end token of the first answer is named, if a Fullstop server reports it."""
    if not (opening.run.is_answer and opening.run.headers.keys() >= _OWN_HEADERS):
        return ()
    body = client.driver.body(opening.ask, client.model)
    run = await client.send({**body, "fullstop": {"report": True}})
    try:
        stop = _find_stop(json.loads(run.text))
    except ValueError:
        return ()
    if stop.get("source") != "template":
        return ()
    token = stop.get("token_text")
    return (f"Answers end at {token}, which the chat template names and no file of the model.",)


def _find_stop(answer: Any) -> dict[str, Any]:
    """Return the stop in the object ``fullstop``, which dialects put in different places."""
    if isinstance(answer, dict):
        own = answer.get("fullstop")
        if isinstance(own, dict) and isinstance(own.get("stop"), dict):
            return dict(own["stop"])
        answer = list(answer.values())
    for part in answer if isinstance(answer, list) else ():
        if found := _find_stop(part):
            return found
    return {}


def _is_cut_short(run: Exchange) -> bool:
    """Return whether the limit was reached before the answer had enough text for stops."""
    text = run.capture.text
    is_inline = text.lstrip().startswith("<think") and "</think" not in text
    is_cut = run.is_answer and run.capture.ending is CapturedEnding.LIMIT
    # Not every server shows the thinking: little text for so many tokens means hidden thinking.
    return is_cut and (is_inline or len(text.strip()) < LEAST_CHARACTERS)


def _baseline(
    ask: Ask, runs: Sequence[Exchange], streamed: Exchange | None, short_s: float
) -> Baseline:
    first = runs[0].capture
    texts = [run.capture.text for run in runs if run.is_answer]
    stream = streamed.capture if streamed is not None else None
    return Baseline(
        ask=ask,
        text=first.text,
        thinking=first.thinking,
        stable=_common_start(texts),
        bounds=bounds(stream) if stream is not None and stream.text == first.text else (),
        tokens=first.usage.output_tokens if first.usage is not None else None,
        ending=first.ending,
        is_repeatable=len(set(texts)) == 1,
        total_s=runs[0].total_s,
        wait_s=short_s,
        output_ids=first.output_ids,
        streamed_tokens=(
            stream.usage.output_tokens if stream is not None and stream.usage is not None else None
        ),
    )


def _common_start(texts: Sequence[str]) -> str:
    shortest, longest = min(texts), max(texts)
    for at, (one, other) in enumerate(zip(shortest, longest, strict=False)):
        if one != other:
            return shortest[:at]
    return shortest


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
    verdict = stream_differs(whole.capture.text, streamed.capture.text)
    return Fault(
        verdict.code,
        verdict.sentence,
        streamed.mode,
        verdict.expected,
        verdict.got,
        client.curl(streamed.body),
        verdict.baseline,
        _place(client, streamed),
    )


def _place(client: Client, run: Exchange) -> int | None:
    return next((at for at, exchange in enumerate(client.exchanges) if exchange is run), None)
