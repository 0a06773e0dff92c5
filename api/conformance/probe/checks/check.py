"""What every check is: its knowledge of the server, its requests, and the form of its results."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from api.conformance.captures.values import CapturedEnding, WireDialect, text_before_stops
from api.conformance.probe.catalogue import case_of
from api.conformance.probe.client import Client, again_and_again
from api.conformance.probe.dialects import Ask, Driver
from api.conformance.probe.judgement import (
    STOP_ONLY_HIDDEN,
    Judgement,
    invariants,
    judge,
    took_as_long,
)
from api.conformance.probe.plan import Baseline, StopCase, simple_case
from api.conformance.probe.values import (
    Case,
    CheckOutcome,
    CheckResult,
    Exchange,
    Fault,
    ProbeOptions,
)

# Why a check is undecided if the server answered none of its requests.
NO_ANSWER = "There is no answer to compare."
VARIES = "The server answers differently each time."
NO_TEXT = "The answers contain no text for such a stop."
# Reports are for people, so very long texts of a server are shortened.
_SHOWN_CHARS = 20_000
_REPEATS = 2
# How often a server that varies is asked without stops until it gives a text.
_CONTROLS = 8

Judge = Callable[[Exchange], Sequence[Judgement]]


@dataclass(slots=True)
class CheckSetting:
    """What is known of the server while it is being checked.

    Attributes:
        client: Sends the requests.
        options: The options of the probe.
        baselines: The answers without stops.
        short_s: How long an answer of one token takes.
        broken_by: The check that showed that stops do not work at all; empty if they do.
        is_thinking_safe: Whether a stop that occurs in the thinking, too, ends the answer alone.
        shared: What several checks ask for, by its name.
        found: The codes of the faults that checks have found.
        odd: Answers with a fault, each with a correct answer to the same request.
        was_odd: Whether the same question without stops has had several answers.
    """

    client: Client
    options: ProbeOptions
    baselines: Sequence[Baseline]
    short_s: float
    broken_by: str = ""
    is_thinking_safe: bool = False
    shared: dict[str, Any] = field(default_factory=dict)
    found: set[str] = field(default_factory=set)
    odd: list[tuple[Exchange, Judgement, Exchange]] = field(default_factory=list)
    was_odd: bool = False

    @property
    def main(self) -> Baseline:
        """The first baseline."""
        return self.baselines[0]

    @property
    def is_varying(self) -> bool:
        """Whether the same request has had several answers."""
        return self.was_odd or bool(self.odd)

    def is_variation(self, run: Exchange, *, is_text_wrong: bool = True) -> bool:
        """Whether the same request without stops gets this text, too.

        Args:
            run: The answer.
            is_text_wrong: Whether its text is not the one that is expected; else it must be
                another one than that request usually gets.
        """
        if not isinstance(run.body, dict):
            return False
        driver, got = self.client.driver, run.capture.text
        asked, limit = asked_in(driver, run.body, _BESIDE_STOPS), driver.limit_in(run.body)
        groups: dict[tuple[bool, bool], Counter[str]] = {}
        for other in self.client.exchanges:
            body = other.body
            if other is run or not other.is_answer or not isinstance(body, dict):
                continue
            if driver.stops_in(body) is not None or asked_in(driver, body, _BESIDE_STOPS) != asked:
                continue
            has_limit = driver.limit_in(body) == limit
            # The beginning of an answer says nothing about the answers with more tokens.
            if has_limit or _is_whole(other):
                group = groups.setdefault((has_limit, other.is_streamed), Counter())
                group[other.capture.text] += 1
        is_whole = _is_whole(run)
        for (has_limit, _), texts in groups.items():
            # One text for all answers explains nothing.
            usual = {text for text, _ in texts.most_common(1)}
            for text in texts if len(texts) > 1 else ():
                cut = text_before_stops(text, driver.stops_of(run.body))
                is_other = text not in usual or (is_text_wrong and is_whole)
                is_begun = not is_whole and not has_limit and cut.startswith(got)
                if is_other and (cut == got or is_begun):
                    return True
        return False

    async def is_explained(self, run: Exchange, verdicts: Sequence[Judgement] = ()) -> bool:
        """Whether a text is a variation; the request is sent without stops until that shows."""
        if not run.is_answer or not isinstance(run.body, dict):
            return False
        is_text_wrong = not verdicts or any(one.got == run.capture.text for one in verdicts)
        if not is_text_wrong and not self.is_varying:
            return False
        plain = without(run.body, self.client.driver.stop_path)
        for _ in range(_CONTROLS if self.is_varying else 1):
            if self.is_variation(run, is_text_wrong=is_text_wrong):
                break
            await self.client.send(plain)
        is_variation = self.is_variation(run, is_text_wrong=is_text_wrong)
        self.was_odd |= is_variation
        return is_variation

    def is_certain(self, run: Exchange, verdict: Judgement) -> bool:
        """Whether a fault of one answer needs no second look on this server."""
        if not verdict.is_certain or not self.is_varying:
            return verdict.is_certain
        # What could have become a stop is released where the answer ends by itself.
        is_stopped = run.capture.ending is CapturedEnding.STOP
        if verdict.code == "prefix_leaked" and not is_stopped:
            return False
        return not self.is_variation(run, is_text_wrong=verdict.got == run.capture.text)

    def simple(self, *baselines: Baseline) -> StopCase | None:
        """Return the simplest case of the first answer that has one."""
        cases = (
            simple_case(baseline, is_thinking_safe=self.is_thinking_safe) for baseline in baselines
        )
        return next(filter(None, cases), None)

    def body(self, ask: Ask) -> dict[str, Any]:
        """Return the body of a request."""
        return self.client.driver.body(ask, self.client.model)


@dataclass(frozen=True, slots=True)
class Check:
    """One check: a case of the catalogue and how it is decided."""

    code: str
    run: Callable[[CheckSetting], Awaitable["Seen"]]


@dataclass(frozen=True, slots=True)
class Seen:
    """The result of a check."""

    sentence: str = ""
    faults: tuple[Fault, ...] = ()
    outcome: CheckOutcome | None = field(default=None)
    cause: str = ""

    def result(
        self, case: Case, dialect: WireDialect, exchanges: Sequence[Exchange] = ()
    ) -> CheckResult:
        """Return the row of the report."""
        outcome = self.outcome or (CheckOutcome.FAILED if self.faults else CheckOutcome.HELD)
        sentence = self.sentence
        if self.faults:
            sentences = dict.fromkeys(fault.sentence for fault in self.faults)
            sentence = " ".join(sentences)
        return CheckResult(
            code=case.code,
            title=case.title,
            outcome=outcome,
            sentence=sentence,
            faults=self.faults,
            level=case.level_in(dialect, [fault.code for fault in self.faults]),
            rule=case.rule,
            reference=case.reference_in(dialect),
            cause=self.cause,
            exchanges=tuple(exchanges),
        )


def skipped(sentence: str) -> Seen:
    """Return the result of a check that does not apply."""
    return Seen(sentence, outcome=CheckOutcome.SKIPPED)


def undecided(sentence: str) -> Seen:
    """Return the result of a check that could not be decided."""
    return Seen(sentence, outcome=CheckOutcome.UNDECIDED)


def not_asked(sentence: str) -> Seen:
    """Return the result of a check that was not run because the probe was cut short."""
    return Seen(sentence, outcome=CheckOutcome.NOT_ASKED)


def without_premise(setting: CheckSetting) -> Seen | None:
    """Return the result of a check that needs working stops, if stops are broken; else None."""
    if not setting.broken_by:
        return None
    return Seen(
        f"This needs stops that work: {case_of(setting.broken_by).title} failed.",
        outcome=CheckOutcome.UNDECIDED,
        cause=setting.broken_by,
    )


def working_case(setting: CheckSetting) -> StopCase | Seen:
    """Return the simplest stop that works on this server; else why nothing can be decided."""
    if (broken := without_premise(setting)) is not None:
        return broken
    return setting.simple(*setting.baselines) or undecided(NO_ANSWER)


def fault(client: Client, run: Exchange, verdict: Judgement, curl: str = "") -> Fault:
    """Return a verdict as a fault with its evidence."""
    return Fault(
        verdict.code,
        client.driver.with_reason_named(verdict.sentence),
        run.mode,
        verdict.expected[:_SHOWN_CHARS],
        verdict.got[:_SHOWN_CHARS],
        curl or client.curl(run.body),
        verdict.baseline[:_SHOWN_CHARS],
        next((at for at, exchange in enumerate(client.exchanges) if exchange is run), None),
    )


def now_and_then(fault: Fault) -> Fault:
    """Return a fault of an answer to a request that was also answered correctly."""
    said = f"{fault.sentence} The same request was also answered correctly."
    return replace(fault, sentence=said, is_intermittent=True)


# What changes an answer's form, but not its text.
_FORM = ("stream", "stream_options", "n", "logprobs", "top_logprobs", "fullstop", "stop_token_ids")
_BESIDE_STOPS = ("fullstop", "stream", "stream_options")


def asked_in(driver: Driver, body: dict[str, Any], form: Sequence[str] = _FORM) -> str:
    """Return what a request asks, without its stops, its limit, and the form of the answer."""
    rest = {name: value for name, value in body.items() if name not in form}
    for path in (driver.stop_path, driver.limit_path, driver.ids_path or ()):
        rest = without(rest, path)
    rest.pop("max_completion_tokens", None)
    return json.dumps(rest, sort_keys=True)


def without(body: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Return a body without a field."""
    if not path or path[0] not in body:
        return body
    if len(path) == 1:
        return {name: value for name, value in body.items() if name != path[0]}
    inner = body[path[0]]
    return {**body, path[0]: without(inner, path[1:])} if isinstance(inner, dict) else body


def _is_whole(run: Exchange) -> bool:
    return run.capture.ending is not CapturedEnding.LIMIT


# What of a request is about streams alone.
_OF_STREAMS = ("stream", "stream_options")


def question_of(body: Any) -> str:
    """Return what whole and streamed requests for the same answer have in common."""
    if not isinstance(body, dict):
        return repr(body)
    asked = {name: value for name, value in body.items() if name not in _OF_STREAMS}
    return json.dumps(asked, sort_keys=True)


_ONLY = {"streamed": "Only when streamed: ", "whole": "Only in whole answers: "}


class Findings:
    """Asks a check's questions and collects what is wrong with the answers.

    A faulty answer is asked for again, and only a fault that both answers show counts; of a
    single one only what no correct server ever sends.

    Args:
        setting: What is known of the server.
        situation: What all its requests have, as faults say it: "With tools"; empty for nothing.

    Attributes:
        situation: What the next requests have.
    """

    def __init__(self, setting: CheckSetting, situation: str = "") -> None:
        self.faults: list[Fault] = []
        self._setting = setting
        self.situation = situation
        # The modes in which each question was asked, and in which the answer had a fault.
        self._modes: dict[str, set[str]] = {}
        self._faulty: dict[str, set[str]] = {}
        self._doubts: list[str] = []
        self._failed_once = ""

    def note(self, run: Exchange, verdicts: Iterable[Judgement], curl: str = "") -> None:
        """Record faults of one answer."""
        question = question_of(run.body)
        self._modes.setdefault(question, set()).add(run.mode)
        for verdict in verdicts:
            self._faulty.setdefault(question, set()).add(run.mode)
            where = f"{self.situation}: " if self.situation else ""
            said = replace(verdict, sentence=where + verdict.sentence)
            self.faults.append(fault(self._setting.client, run, said, curl))

    def doubt(self, sentence: str) -> None:
        """Record why something could not be decided."""
        self._doubts.append(sentence)

    async def ask(
        self, body: Any, judged: Judge, *, may_refuse: bool = False, first: Exchange | None = None
    ) -> Exchange:
        """Send a request, and again if the answer has faults; record those that count."""
        client = self._setting.client
        run = first or await client.send(body)
        if may_refuse and run.is_refusal:
            return run
        self._modes.setdefault(question_of(run.body), set()).add(run.mode)
        verdicts = judged(run)
        if not verdicts or run.problem or run.is_refusal:
            self.note(run, verdicts)
            return run
        again = await client.send(body)
        repeated = judged(again)
        if repeated and self._setting.is_varying:
            again = await client.send(body)
            repeated = judged(again)
        certain = [verdict for verdict in verdicts if self._setting.is_certain(run, verdict)]
        if repeated and not certain and await self._setting.is_explained(again, repeated):
            self.doubt(VARIES)
        elif repeated:
            self.note(again, repeated)
        elif certain:
            self.note(run, certain, again_and_again(client.curl(body)))
            for at in range(-len(certain), 0):
                self.faults[at] = now_and_then(self.faults[at])
        elif any(verdict.code != STOP_ONLY_HIDDEN for verdict in verdicts):
            self._setting.odd.append((run, verdicts[0], again))
            # The cost of a single answer says nothing: the machine may have been slow.
            self._failed_once = self._failed_once or verdicts[0].sentence
        return again

    async def judge(self, case: StopCase, ask: Ask | None = None, *, is_streamed: bool) -> None:
        """Ask with the stops of a case and judge the answer; ``ask`` replaces its request."""
        in_mode = case.in_mode(is_streamed=is_streamed)
        if in_mode is None:
            self.doubt("Streams have another text, in which this stop says nothing.")
            return
        ask = replace(ask or case.baseline.ask, stops=case.stops, is_streamed=is_streamed)
        body = self._setting.body(ask)
        if case.baseline.is_repeatable:
            run = await self._setting.client.send(body)
            plain = self._setting.body(replace(ask, stops=()))
            in_mode = await self.in_this_minute(in_mode, run, plain)
            await self.ask(body, partial(self.verdicts, in_mode), first=run)
            return
        for _ in range(_REPEATS + 1):
            run = await self._setting.client.send(body)
            if not self.verdicts(in_mode, run):
                return
            if certain := invariants(in_mode, run):
                self.note(run, certain)
                return
        self.doubt("The server answers differently each time, so the text cannot be compared.")

    async def in_this_minute(self, case: StopCase, run: Exchange, plain: Any) -> StopCase:
        """Return a case whose answer without stops takes as long as it takes now.

        The machine may have become slower since it was asked for.
        """
        if not took_as_long(case, run):
            return case
        full, again = case.baseline, await self._setting.client.send(plain)
        return replace(case, baseline=replace(full, total_s=max(full.total_s, again.total_s)))

    def verdicts(self, case: StopCase, run: Exchange) -> list[Judgement]:
        """Return what is wrong with an answer, unless its thinking may explain that."""
        verdicts = judge(case, run, self._setting.client.driver) or took_as_long(case, run)
        thought, given = run.capture.thinking.strip(), case.baseline.thinking.strip()
        if verdicts and case.is_thought and len(thought) < len(given):
            self.doubt("The stop occurs in the thinking, too, and this server stops there.")
            return []
        return verdicts

    def seen(self, sentence: str) -> Seen:
        """Return the result; ``sentence`` says what held."""
        if self.faults:
            faulty = {fault.mode for fault in self.faults}
            compared = [
                question for question, modes in self._modes.items() if len(modes) == len(_ONLY)
            ]
            is_other_right = any(len(self._faulty.get(each, ())) == 1 for each in compared)
            if is_other_right and len(faulty) == 1:
                where = _ONLY[faulty.pop()]
                self.faults = [
                    replace(fault, sentence=where + fault.sentence) for fault in self.faults
                ]
            return Seen(sentence, tuple(self.faults))
        if self._failed_once:
            said = f"One of two answers was wrong: {self._failed_once}"
            return Seen(said, outcome=CheckOutcome.FLAKY)
        return undecided(self._doubts[0]) if self._doubts else Seen(sentence)
