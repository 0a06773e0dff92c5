"""What every check is: its knowledge of the server, its requests, and the form of its results."""

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from api.conformance.captures.diagnosis import implausible, miscounted
from api.conformance.captures.values import (
    Capture,
    CapturedChoice,
    CapturedEnding,
    Finding,
    Severity,
    WireDialect,
)
from api.conformance.probe.catalogue import case_of
from api.conformance.probe.client import Client, again_and_again
from api.conformance.probe.dialects import Ask
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
        odd: Answers with a fault to requests that were also answered correctly.
    """

    client: Client
    options: ProbeOptions
    baselines: Sequence[Baseline]
    short_s: float
    broken_by: str = ""
    is_thinking_safe: bool = False
    shared: dict[str, Any] = field(default_factory=dict)
    found: set[str] = field(default_factory=set)
    odd: list[tuple[Exchange, Judgement]] = field(default_factory=list)

    @property
    def main(self) -> Baseline:
        """The first baseline."""
        return self.baselines[0]

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
        verdict.sentence,
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


_ONLY = {"streamed": "Only when streamed: ", "whole": "Only in whole answers: "}


class Findings:
    """Asks a check's questions and collects what is wrong with the answers.

    A faulty answer is asked for again, and only a fault that both answers show counts; of a
    single one only what no correct server ever sends.

    Args:
        setting: What is known of the server.
        situation: What all its requests have, as faults say it: "With tools"; empty for nothing.
    """

    def __init__(self, setting: CheckSetting, situation: str = "") -> None:
        self.faults: list[Fault] = []
        self._setting = setting
        self._situation = f"{situation}: " if situation else ""
        self._modes: set[str] = set()
        self._doubts: list[str] = []
        self._failed_once = ""

    def note(self, run: Exchange, verdicts: Iterable[Judgement], curl: str = "") -> None:
        """Record faults of one answer."""
        self._modes.add(run.mode)
        for verdict in verdicts:
            said = replace(verdict, sentence=self._situation + verdict.sentence)
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
        self._modes.add(run.mode)
        verdicts = judged(run)
        if not verdicts or run.problem or run.is_refusal:
            self.note(run, verdicts)
            return run
        again = await client.send(body)
        repeated = judged(again)
        if repeated:
            self.note(again, repeated)
            return again
        if certain := [verdict for verdict in verdicts if verdict.is_certain]:
            self.note(run, certain, again_and_again(client.curl(body)))
            for at in range(-len(certain), 0):
                self.faults[at] = now_and_then(self.faults[at])
        elif any(verdict.code != STOP_ONLY_HIDDEN for verdict in verdicts):
            self._setting.odd.append((run, verdicts[0]))
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
            if took_as_long(in_mode, run):
                # The machine may have become slower since the answer without stops.
                plain = await self._setting.client.send(self._setting.body(replace(ask, stops=())))
                full = in_mode.baseline
                full = replace(full, total_s=max(full.total_s, plain.total_s))
                in_mode = replace(in_mode, baseline=full)
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
            if len(self._modes) == 2 and len(faulty) == 1:
                where = _ONLY[faulty.pop()]
                self.faults = [
                    replace(fault, sentence=where + fault.sentence) for fault in self.faults
                ]
            return Seen(sentence, tuple(self.faults))
        if self._failed_once:
            said = f"One of two answers was wrong: {self._failed_once}"
            return Seen(said, outcome=CheckOutcome.FLAKY)
        return undecided(self._doubts[0]) if self._doubts else Seen(sentence)


# Checks the form of all answers of a probe, streamed and whole ones separately.
#
# Sends no requests.

# Reported by the checks of stops, calls and counts, each with its own evidence.
_JUDGED_ELSEWHERE = frozenset(
    {
        *("reason_missing", "empty", "arguments_broken"),
        *("usage_negative", "usage_zero", "usage_total"),
    }
)
# Each of these has a place of its own in an answer.
_OF_A_PLACE = ("field_form", "field_missing")
_MOST_PLACES = 5
# Of so many answers not all have the same id by chance.
_MANY_ANSWERS = 8


async def _form(setting: CheckSetting, *, is_streamed: bool) -> Seen:
    """Return each fault of form once, with the first answer that shows it."""
    client = setting.client
    answers = [run for run in client.exchanges if run.is_answer and run.is_streamed is is_streamed]
    if not answers:
        return skipped("There were no such answers.")
    faults: dict[str, Fault] = {}
    for run in answers:
        for finding in (*_findings_of(run.capture), *_too_many(run)):
            key = finding.code
            if key in _OF_A_PLACE and len(faults) < _MOST_PLACES:
                key = finding.sentence
            is_fault = finding.severity is Severity.ERROR
            if is_fault and finding.code not in _JUDGED_ELSEWHERE and key not in faults:
                got = finding.excerpt or finding.sentence
                verdict = Judgement(finding.code, finding.sentence, "the dialect's form", got)
                faults[key] = fault(client, run, verdict)
    ids = {run.capture.answer_id for run in answers}
    if len(answers) >= _MANY_ANSWERS and len(ids) == 1 and None not in ids:
        said = f"All {len(answers)} answers have the same id, by which clients tell them apart."
        verdict = Judgement("id_reused", said, "an id of its own", str(ids.pop()))
        faults["id_reused"] = fault(client, answers[-1], verdict)
    return Seen(f"{len(answers)} answers were read", tuple(faults.values()))


def _findings_of(capture: Capture) -> Iterator[Finding]:
    yield from capture.findings
    yield from implausible(capture)
    for choice in capture.choices:
        yield from implausible(capture.of_choice(choice))
    yield from miscounted(capture)


def _too_many(run: Exchange) -> Iterator[Finding]:
    """Yield that an answer has more choices than its request asks for."""
    asked = run.body.get("n") if isinstance(run.body, dict) else None
    came = 1 + len(run.capture.choices)
    if run.capture.choices and came > (asked or 1):
        said = f"The answer has {came} choices, though {asked or 1} was asked for."
        yield Finding("choices_unasked", Severity.ERROR, said)


# Compares streamed answers with whole ones to the same request.
#
# Sends no requests, unless an answer has to be asked for again.


async def _alike(setting: CheckSetting) -> Seen:
    """A stream says the same about its answer as the whole answer does."""
    if not setting.main.is_repeatable:
        return undecided(VARIES)
    client = setting.client
    faults: dict[str, Fault] = {}
    pairs = list(_pairs(client))
    for whole, streamed in pairs:
        new = [verdict for verdict in _unlike(whole, streamed) if verdict.code not in faults]
        if new:
            # Only what another look shows, too, is a fault.
            again = [await client.send(run.body) for run in (whole, streamed)]
            codes = {verdict.code for verdict in _unlike(*again)}
            kept = [verdict for verdict in new if verdict.code in codes]
            faults |= {verdict.code: fault(client, again[1], verdict) for verdict in kept}
    if not pairs:
        return skipped("No request was sent both whole and streamed.")
    return Seen(f"{len(pairs)} pairs of answers were compared", tuple(faults.values()))


def _pairs(client: Client) -> Iterator[tuple[Exchange, Exchange]]:
    """Yield a whole and a streamed answer to each request that got both."""
    runs: dict[str, dict[bool, Exchange]] = {}
    for run in client.exchanges:
        if run.is_answer and isinstance(run.body, dict) and not _is_random(run.body):
            asked = {
                name: value
                for name, value in run.body.items()
                if name not in ("stream", "stream_options")
            }
            key = json.dumps(asked, sort_keys=True)
            runs.setdefault(key, {}).setdefault(run.capture.is_streamed, run)
    for modes in runs.values():
        if len(modes) == 2:
            yield modes[False], modes[True]


def _is_random(body: dict[str, Any]) -> bool:
    holders = (body, *(value for value in body.values() if isinstance(value, dict)))
    return any(holder.get("temperature") for holder in holders)


def _unlike(whole: Exchange, streamed: Exchange) -> Iterator[Judgement]:
    """Yield in what a stream differs from the whole answer with the same text."""
    first, other = whole.capture, streamed.capture
    if not (whole.is_answer and streamed.is_answer) or first.text != other.text:
        return
    if first.model and other.model and first.model != other.model:
        said = "The stream names another model than the whole answer."
        yield Judgement("model_differs", said, first.model, other.model)
    yield from _unlike_choices(first, other)
    for one, same in zip(first.choices, other.choices, strict=False):
        if one.text == same.text:
            yield from _unlike_choices(one, same)
    yield from _unlike_counts(first, other)
    # In the others, a stream has counts only where they are asked for.
    is_always_counted = first.dialect not in (WireDialect.CHAT, WireDialect.COMPLETIONS)
    if is_always_counted and (first.usage is None) is not (other.usage is None):
        lacking, having = ("stream", "whole answer") if first.usage else ("whole answer", "stream")
        said = f"The {lacking} has no counts of tokens, which the {having} has."
        yield Judgement("usage_missing", said, f"counts, as in the {having}", "none")


def _unlike_choices(
    whole: Capture | CapturedChoice, streamed: Capture | CapturedChoice
) -> Iterator[Judgement]:
    if whole.reason is not None and streamed.reason is None:
        said = "The stream gives no reason for its end, which the whole answer gives."
        yield Judgement("reason_missing", said, whole.reason, "none")
    elif whole.reason != streamed.reason:
        said = "The stream gives another reason for its end than the whole answer."
        yield Judgement("wrong_reason", said, str(whole.reason), str(streamed.reason))
    elif whole.says_matched and streamed.says_matched and whole.matched != streamed.matched:
        said = "The stream names another stop than the whole answer."
        yield Judgement("wrong_sequence", said, repr(whole.matched), repr(streamed.matched))
    if whole.thinking.strip() != streamed.thinking.strip():
        code = "thinking_differs" if streamed.thinking.strip() else "thinking_missing"
        said = "The thinking of the stream is not the one of the whole answer."
        yield Judgement(code, said, whole.thinking, streamed.thinking or "none")
    calls, others = _calls_of(whole), _calls_of(streamed)
    if calls != others and calls and others:
        said = "The calls of the stream are not those of the whole answer."
        yield Judgement("call_differs", said, repr(calls), repr(others))


def _calls_of(choice: Capture | CapturedChoice) -> list[tuple[str, Any]]:
    calls: list[tuple[str, Any]] = []
    for call in choice.tool_calls:
        try:
            calls.append((call.name, json.loads(call.arguments or "{}")))
        except ValueError:
            calls.append((call.name, call.arguments))
    return calls


def _unlike_counts(whole: Capture, streamed: Capture) -> Iterator[Judgement]:
    first, other = whole.usage, streamed.usage
    if first is None or other is None:
        return
    # What is in a cache may be counted apart.
    is_cached = any(usage.cached_tokens for usage in (first, other))
    is_cached |= whole.dialect is WireDialect.OLLAMA
    prompts = (first.input_tokens, other.input_tokens)
    if not is_cached and None not in prompts and prompts[0] != prompts[1]:
        said = "The prompt has another count of tokens where the answer is streamed."
        wanted, got = (f"{tokens} tokens" for tokens in prompts)
        yield Judgement("usage_prompt_differs", said, wanted, got)
    # Where a stop ends an answer, a token more or less may be under way.
    is_stopped = whole.ending in (CapturedEnding.STOP, CapturedEnding.NATURAL_OR_STOP)
    is_alike = not is_stopped or bool(whole.tool_calls)
    made = (first.output_tokens, other.output_tokens)
    if is_alike and None not in made and made[0] != made[1]:
        said = "The same answer has another count of tokens when it is streamed."
        wanted, got = (f"{tokens} tokens" for tokens in made)
        yield Judgement("usage_differs", said, wanted, got)


FORM_CHECKS = (
    Check("form.streamed", partial(_form, is_streamed=True)),
    Check("form.whole", partial(_form, is_streamed=False)),
    Check("form.same", _alike),
)
