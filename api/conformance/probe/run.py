"""Runs a probe: finds out how a server is asked, measures it, runs the checks one by one."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase

import aiohttp

from api.conformance.captures.values import Capture, CapturedEnding
from api.conformance.probe.catalogue import CASES, case_of
from api.conformance.probe.checks.answer_checks import (
    ANSWER_CHECKS,
    ERROR_CHECKS,
    FEATURE_CHECKS,
    FRAMING_CHECKS,
    PACE_CHECKS,
    REASON_CHECKS,
)
from api.conformance.probe.checks.check import (
    FORM_CHECKS,
    Check,
    CheckSetting,
    Seen,
    ServerGone,
    not_asked,
    undecided,
)
from api.conformance.probe.checks.limit_checks import (
    HANG_UP_CHECKS,
    ISOLATION_CHECKS,
    LIMIT_CHECKS,
    USAGE_CHECKS,
)
from api.conformance.probe.checks.stop_checks import (
    LIST_CHECKS,
    LITERAL_CHECKS,
    LONG_CHECKS,
    stop_checks,
)
from api.conformance.probe.client import TIME_IS_UP, Budget, Client, LimitReached, open_session
from api.conformance.probe.detection import Found, found_server
from api.conformance.probe.dialects import Ask
from api.conformance.probe.judgement import cause_of
from api.conformance.probe.plan import Baseline, Baselines, plan
from api.conformance.probe.values import (
    Access,
    CheckResult,
    Exchange,
    Fault,
    OnProgress,
    ProbeFailed,
    ProbeOptions,
    Progress,
    Report,
    tool_name,
)
from api.terminal_text import on_one_line

# Asks a server without stops, as the baseline for all other checks.

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


_BEGINNING = "Asking without stops"
_SIMPLEST = "stop.one_character"
# With these faults, the effect of a stop in special situations cannot be judged.
_BREAKING = frozenset(
    {
        "stop_ignored",
        "stop_cut_out",
        "stop_included",
        "text_after_stop",
        "text_differs",
        "no_answer",
        "server_error",
        "refused",
    }
)
_CANCELLED = "the probe was cancelled"


async def probe(options: ProbeOptions, on_progress: OnProgress | None = None) -> Report:
    """Probe a server and report which checks passed and failed.

    Args:
        options: The options of the probe.
        on_progress: Called before and after each check, on the caller's loop.

    Raises:
        ProbeFailed: Nothing answers there, or the answers allow no choice of stops.
    """
    return await ProbeRun(options, on_progress).run()


def selected(code: str, options: ProbeOptions) -> bool:
    """Return whether the options select a case."""
    is_wanted = not options.only or any(fnmatchcase(code, one) for one in options.only)
    return is_wanted and not any(fnmatchcase(code, one) for one in options.skip)


def all_checks(usable: Sequence[Baseline]) -> list[Check]:
    """Return the checks in the order in which they run, for the answers that a server gave."""
    # Form is judged before the checks on which some servers crash.
    return [
        *stop_checks(plan(usable)),
        *REASON_CHECKS,
        *ISOLATION_CHECKS,
        *LIMIT_CHECKS,
        *ANSWER_CHECKS,
        *LIST_CHECKS,
        *LONG_CHECKS,
        *LITERAL_CHECKS,
        *FEATURE_CHECKS,
        *USAGE_CHECKS,
        *PACE_CHECKS,
        *HANG_UP_CHECKS,
        *FORM_CHECKS,
        *FRAMING_CHECKS,
        *ERROR_CHECKS,
    ]


class ProbeRun:
    """One probe; its report is available at any time, even after it was cancelled.

    Args:
        options: The options of the probe.
        on_progress: Called before and after each check, on the caller's loop.
    """

    def __init__(self, options: ProbeOptions, on_progress: OnProgress | None = None) -> None:
        self._options = options
        self._on_progress = on_progress
        self._began_s = time.monotonic()
        self._began_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._budget = Budget(options.max_requests, self._began_s + options.time_limit_s)
        self._found: Found | None = None
        self._is_deterministic = True
        self._results: dict[str, CheckResult] = {}
        self._conclusions: tuple[str, ...] = ()
        self._cut_short = _CANCELLED
        self._codes = [case.code for case in CASES if selected(case.code, options)]

    async def run(self) -> Report:
        """Probe to the end, or to the limits.

        Raises:
            ProbeFailed: Nothing answers there, or the answers allow no choice of stops.
        """
        # A running request is cancelled, too, because its own time limit may be much later.
        limit = asyncio.timeout(self._budget.ends_at_s - time.monotonic())
        try:
            async with limit, _session(self._options) as session:
                self._found = await found_server(session, self._options, self._budget)
                await self._check_all(self._found)
                self._cut_short = ""
        except (LimitReached, ServerGone) as reached:
            self._cut_short = str(reached)
        except TimeoutError:
            if not limit.expired():
                raise
            self._cut_short = TIME_IS_UP
        report = self.report()
        if report is None:
            raise ProbeFailed(f"before the first check {self._cut_short}")
        return report

    def report(self) -> Report | None:
        """Return the report so far; None before the server has answered."""
        found = self._found
        if found is None:
            return None
        return Report(
            url=found.client.url,
            dialect=found.client.driver.dialect,
            model=found.model,
            server=found.server,
            is_deterministic=self._is_deterministic,
            results=tuple(self._results.get(code) or self._left_out(code) for code in self._codes),
            requests=self._budget.requests,
            duration_s=time.monotonic() - self._began_s,
            other_dialects=found.others,
            tool=tool_name(),
            began_at=self._began_at,
            conclusions=(*found.conclusions, *self._conclusions),
            cut_short=self._cut_short,
            waits=self._budget.waits,
            waited_s=self._budget.waited_s,
            levels=self._options.levels,
        )

    async def _check_all(self, found: Found) -> None:
        self._tell(0, 0, _BEGINNING)
        short = await found.client.ask_shortly()
        before = len(found.client.exchanges)
        measured = await baselines(found.client, self._options.max_tokens)
        if not measured.usable:
            raise ProbeFailed(_too_little(measured))
        self._is_deterministic = measured.is_deterministic
        self._conclusions = measured.conclusions
        setting = CheckSetting(found.client, self._options, measured.usable, short.total_s)
        self._note("baseline", _same(measured), before)
        checks = [check for check in all_checks(measured.usable) if check.code in self._codes]
        for number, check in enumerate(checks):
            title = case_of(check.code).title
            self._tell(number, len(checks), title)
            result = await self._result(check, setting)
            if check.code == _SIMPLEST and _stops_are_broken(result):
                setting.broken_by = check.code
            self._tell(number + 1, len(checks), title, result)

    async def _result(self, check: Check, setting: CheckSetting) -> CheckResult | None:
        """Run a check and record its result."""
        before = len(setting.client.exchanges)
        try:
            seen = await check.run(setting)
        except ServerGone as gone:
            self._note(check.code, gone.seen, before)
            raise
        return self._note(check.code, seen, before)

    def _note(self, code: str, seen: Seen, before: int) -> CheckResult | None:
        """Keep a result with the exchanges since ``before``, and note broken stops."""
        found = self._found
        if code not in self._codes or found is None:
            return None
        asked = found.client.exchanges
        shown = [fault.exchange for fault in seen.faults if fault.exchange is not None]
        places = sorted({*range(before, len(asked)), *shown})
        new_place = {old: new for new, old in enumerate(places)}
        faults = tuple(
            fault if fault.exchange is None else replace(fault, exchange=new_place[fault.exchange])
            for fault in seen.faults
        )
        result = replace(seen, faults=faults).result(
            case_of(code), found.client.driver.dialect, [asked[at] for at in places]
        )
        if not result.cause:
            result = replace(result, cause=cause_of(result, self._results.values()))
        self._results[code] = result
        return result

    def _left_out(self, code: str) -> CheckResult:
        assert self._found is not None
        seen = not_asked(f"Not asked: {self._cut_short}.")
        return seen.result(case_of(code), self._found.client.driver.dialect)

    def _tell(self, done: int, total: int, title: str, result: CheckResult | None = None) -> None:
        if self._on_progress is not None:
            self._on_progress(Progress(done, total, title, result))


def _stops_are_broken(result: CheckResult | None) -> bool:
    return result is not None and any(fault.code in _BREAKING for fault in result.faults)


def _session(access: Access) -> aiohttp.ClientSession:
    try:
        return open_session(access)
    except OSError as error:
        raise ProbeFailed(
            f"{access.ca_file} is not a file of certificates (PEM) that can be read"
        ) from error


def _same(measured: Baselines) -> Seen:
    if measured.faults:
        return Seen(faults=measured.faults)
    if not measured.is_deterministic:
        return undecided(
            "The server is not deterministic: at temperature 0 the same question got different "
            "answers. Texts are compared as far as they agree."
        )
    return Seen(f"{len(measured.usable)} prompts got the same answer each time")


def _too_little(measured: Baselines) -> str:
    failed = next((run for run in measured.runs if not run.is_answer), None)
    if failed is not None:
        return f"the server gives no answer to a plain question: {_said(failed)}"
    if not measured.is_deterministic:
        return "the answers to the same question share too little text to choose stops from"
    return "the answers are too short to choose stops from; try another model"


def _said(run: Exchange) -> str:
    return run.problem or f"status {run.status}, {on_one_line(run.text, 200)}"
