"""Measures a server's answers without stops, the baseline of all other checks."""

import os.path
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from api.conformance.captures.frames import parse_object
from api.conformance.captures.values import CapturedEnding
from api.conformance.probe.client import Client
from api.conformance.probe.dialects import Ask
from api.conformance.probe.judgement import stream_differs
from api.conformance.probe.plan import CHATML, KINDS, MIN_CHARS, Baseline, bounds, plan
from api.conformance.probe.values import Exchange, Fault, ProbeOptions

# A Fullstop server sends both vendors' names of a request's id.
_OWN_HEADERS = frozenset({"request-id", "x-request-id"})
_CHAT_PROMPTS = (
    "Count from 1 to 20, one number per line",
    "Repeat exactly: The quick brown fox jumps over the lazy dog",
    "Repeat exactly: Grüße, 数, 👋 and 👩\u200d💻 too",
)
_MORE_CHAT_PROMPTS = (
    "Count from 1 to 60, one number per line",
    "Write the names of the months, one per line, each followed by its number of days in brackets",
)
# Without a template: one prompt that any model continues, two in the most common template.
_PLAIN_PROMPTS = (
    "Count from 1 to 20, one number per line\n1\n2\n3\n",
    *(CHATML.format(prompt) for prompt in _CHAT_PROMPTS[1:]),
)
_MORE_PLAIN_PROMPTS = ("Count from 1 to 60, one number per line\n1\n2\n3\n",)


async def measure_baselines(client: Client, options: ProbeOptions) -> "Baselines":
    """Send each prompt without stops, twice for a whole answer and once for a stream."""
    has_template = client.driver.has_chat_template
    prompts = _CHAT_PROMPTS if has_template else _PLAIN_PROMPTS
    prompts = (*options.prompts, *(prompts[:1] if options.is_quick else prompts))
    more = _MORE_CHAT_PROMPTS if has_template else _MORE_PLAIN_PROMPTS
    measuring = Baselines(client)
    ask, first, conclusions = await _choose_limit(client, prompts[0], options)
    for prompt in prompts:
        await measuring.measure(
            replace(ask, prompt=prompt), first if prompt == prompts[0] else None
        )
    for prompt in () if options.is_quick else more:
        cases = plan(measuring.usable)
        thought = sum(case.is_thought for case in cases)
        # A further prompt is sent if more kinds of stops than these have no text.
        if len(KINDS) - len(cases) + thought > 5:
            await measuring.measure(replace(ask, prompt=prompt))
    measuring.conclusions = (*conclusions, *await _end_token_conclusion(client, ask, first))
    return measuring


class Baselines:
    """The answers to the prompts so far, and the faults in them."""

    def __init__(self, client: Client) -> None:
        self.usable: list[Baseline] = []
        self.exchanges: list[Exchange] = []
        self.faults: list[Fault] = []
        self.variations: list[str] = []
        self.conclusions: tuple[str, ...] = ()
        self._client = client

    @property
    def is_deterministic(self) -> bool:
        return all(baseline.is_repeatable for baseline in self.usable)

    async def measure(self, ask: Ask, first: Exchange | None = None) -> None:
        """Request two whole answers and a stream; where one differs, request it again."""
        client, streaming = self._client, replace(ask, is_streamed=True)
        first = first or await client.ask(ask)
        self.exchanges.append(first)
        if not first.is_answer:
            return
        wholes = [first, await client.ask(ask)]
        if not _agree(*wholes):
            wholes.append(await client.ask(ask))
        agreed = self._agreed_answer(wholes)
        streams = [await client.ask(streaming)]
        self.exchanges += [*wholes[1:], *streams]
        modes: tuple[bool, ...] = (False, True)
        if not streams[0].is_answer:
            problem = streams[0].problem or f"status {streams[0].status}"
            fault = Fault("no_answer", f"There is no streamed answer: {problem}.")
            self.faults.append(self._shown(replace(fault, got=streams[0].text[:200]), streams[0]))
            streams = []
        elif agreed is not None and not _agree(agreed, streams[0]):
            again, whole, third = [await client.ask(each) for each in (streaming, ask, streaming)]
            right = next(
                (exchange for exchange in (again, third) if _agree(agreed, exchange)), None
            )
            if _agree(streams[0], again, third) and _agree(agreed, whole):
                modes = (False,)
                fault = stream_differs(agreed.capture.text, again.capture.text)
                self.faults.append(self._shown(fault, streams[0]))
            elif right is not None:
                self.variations.append("one of two streams had another text")
                streams = [right]
            else:
                streams += [again, third]
        alike = [agreed] if agreed is not None else wholes
        counted = [*alike, *streams] if True in modes else alike
        baseline = self._baseline(ask, counted, streams[0] if streams else None)
        if baseline.is_usable:
            self.usable.append(replace(baseline, modes=modes))

    def _agreed_answer(self, wholes: Sequence[Exchange]) -> Exchange | None:
        """Return an answer with the most common text, by majority; None if no two agree."""
        texts = Counter(exchange.capture.text for exchange in wholes if exchange.is_answer)
        text, times = texts.most_common(1)[0]
        if times < 2:
            return None
        if len(texts) > 1:
            self.variations.append("one of three answers had another text")
        return next(
            exchange for exchange in wholes if exchange.is_answer and exchange.capture.text == text
        )

    def _shown(self, fault: Fault, exchange: Exchange) -> Fault:
        client = self._client
        index = client.index_of(exchange)
        return replace(fault, mode=exchange.mode, curl=client.curl(exchange.body), exchange=index)

    def _baseline(
        self, ask: Ask, exchanges: Sequence[Exchange], streamed: Exchange | None
    ) -> Baseline:
        first = exchanges[0].capture
        stream = streamed.capture if streamed is not None else None
        texts = [exchange.capture.text for exchange in exchanges if exchange.is_answer]
        return Baseline.of(
            ask,
            first,
            stable=os.path.commonprefix(texts),  # noqa: RUF071 - no paths
            bounds=bounds(stream) if stream is not None and stream.text == first.text else (),
            is_repeatable=len(set(texts)) == 1,
            output_ids=first.output_ids,
            streamed_tokens=stream.output_tokens if stream is not None else None,
        )


def _agree(*exchanges: Exchange) -> bool:
    return (
        all(exchange.is_answer for exchange in exchanges)
        and len({exchange.capture.text for exchange in exchanges}) == 1
    )


async def _choose_limit(
    client: Client, prompt: str, options: ProbeOptions
) -> tuple[Ask, Exchange, list[str]]:
    """Return the parameters of ordinary requests, the first answer, and conclusions."""
    max_tokens = options.max_tokens
    ask = Ask(prompt, max_tokens=max_tokens or (40 if options.is_quick else 128))
    exchange = await client.ask(ask)
    conclusions: list[str] = []
    while max_tokens is None and exchange.is_refusal and ask.max_tokens > 16:
        ask = replace(ask, max_tokens=ask.max_tokens // 2)
        exchange = await client.ask(ask)
        if exchange.is_answer:
            conclusions.append(f"Answers are limited to {ask.max_tokens} tokens: more is refused.")
    if exchange.capture.thinking and client.driver.can_think:
        # Stops and costs are easier to judge without thinking, which has checks of its own.
        silent = await client.ask(replace(ask, is_thinking=False))
        if silent.is_answer and not silent.capture.thinking:
            return replace(ask, is_thinking=False), silent, conclusions
    while max_tokens is None and _is_cut_short(exchange) and ask.max_tokens < 2048:
        ask = replace(ask, max_tokens=ask.max_tokens * 4)
        exchange = await client.ask(ask)
        if exchange.is_answer and not _is_cut_short(exchange):
            conclusions.append(f"Answers may have {ask.max_tokens} tokens: the model thinks long.")
    return ask, exchange, conclusions


def _is_cut_short(exchange: Exchange) -> bool:
    """Whether the limit was reached before the answer had enough text for stops."""
    text = exchange.capture.text
    is_inline = text.lstrip().startswith("<think") and "</think" not in text
    is_cut = exchange.is_answer and exchange.capture.ending is CapturedEnding.LIMIT
    # Not every server shows the thinking: little text for so many tokens means hidden thinking.
    return is_cut and (is_inline or len(text.strip()) < MIN_CHARS)


async def _end_token_conclusion(client: Client, ask: Ask, first: Exchange) -> tuple[str, ...]:
    """Return where the end token of the first answer is named, if a Fullstop server reports it."""
    if not (first.is_answer and first.headers.keys() >= _OWN_HEADERS):
        return ()
    body = client.driver.body(ask, client.model)
    exchange = await client.send({**body, "fullstop": {"report": True}})
    stop = _find_stop(parse_object(exchange.text))
    if stop.get("source") != "template":
        return ()
    token = stop.get("token_text")
    return (f"Answers end at {token}, which the chat template names and no file of the model.",)


def _find_stop(answer: Any) -> dict[str, Any]:
    """Return the stop in the object ``fullstop``, wherever a dialect has it."""
    if isinstance(answer, dict):
        own = answer.get("fullstop")
        if isinstance(own, dict) and isinstance(own.get("stop"), dict):
            return dict(own["stop"])
        answer = list(answer.values())
    found = (_find_stop(part) for part in answer) if isinstance(answer, list) else ()
    return next(filter(None, found), {})
