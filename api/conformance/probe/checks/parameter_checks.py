"""Checks of what a request may leave out or say otherwise, and of features beside each other."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from api.conformance.captures.frames import items, mapping, parse_json
from api.conformance.captures.values import CapturedEnding, WireDialect
from api.conformance.probe.checks.check import (
    VARIES,
    Check,
    CheckSetting,
    Findings,
    Judge,
    Seen,
    skipped,
    undecided,
)
from api.conformance.probe.checks.feature_checks import (
    MANY_TOKENS,
    first_call,
    has_logprobs,
    judged_call,
    judged_json,
    logged_tokens,
    of_several,
    tool_ask,
    tool_body,
)
from api.conformance.probe.checks.request_checks import sent_before
from api.conformance.probe.dialects import (
    STRUCTURE_PROMPT,
    Ask,
    Body,
    with_json,
    with_logprobs,
    with_nulls,
    with_parts,
    with_structure,
)
from api.conformance.probe.judgement import STOP_ONLY_HIDDEN, Judgement, no_answer
from api.conformance.probe.plan import Baseline, StopCase
from api.conformance.probe.values import Exchange

# Checks requests that leave something to its default, or write it in another way.

_SYSTEM = "You are a helpful assistant."


async def _default(setting: CheckSetting) -> Seen:
    """A request that does not say whether it wants a stream gets what the API's default is."""
    driver = setting.client.driver
    findings = Findings(setting)
    body = setting.body(replace(setting.main.ask, max_tokens=max(8, driver.least_tokens)))
    del body["stream"]
    run = await findings.ask(body, partial(_as_by_default, driver.streams_by_default))
    return findings.seen("a stream" if run.capture.is_streamed else "a whole answer")


def _as_by_default(is_due: bool, run: Exchange) -> list[Judgement]:
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    is_event_stream = run.headers.get("content-type", "").startswith("text/event-stream")
    if is_due is (run.capture.is_streamed or is_event_stream):
        return []
    got, wanted = ("a stream", "one JSON object")[:: -1 if is_due else 1]
    said = f"A request that does not say stream gets {got}, where {wanted} is the default."
    return [Judgement("stream_default", said, wanted, run.text[:200])]


async def _parts(setting: CheckSetting) -> Seen:
    """A prompt in parts is the same prompt."""
    given = setting.main
    body = with_parts(setting.client.driver.dialect, setting.body(given.ask), given.ask.prompt)
    if body is None:
        return skipped("The prompts of this dialect have no parts.")
    return await _alike(setting, body, "With the prompt in parts")


async def _nulls(setting: CheckSetting) -> Seen:
    """Optional fields that are null are as if they were not there."""
    body = with_nulls(setting.client.driver.dialect, setting.body(setting.main.ask))
    if body is None:
        return skipped("The dialect has no fields that may be null.")
    return await _alike(setting, body, "With null for the optional fields")


async def _alike(setting: CheckSetting, body: Body, situation: str) -> Seen:
    """Ask in another way, with a stop where stops work; the answer has to be the same."""
    driver, case = setting.client.driver, None
    if not setting.broken_by:
        case = setting.simple(setting.main)
    findings = Findings(setting, situation)
    judged = partial(_same_text, setting.main)
    if case is not None:
        body = driver.with_stop(body, list(case.stops))
        judged = partial(_stopped_alike, findings, case)
    await findings.ask(body, judged if setting.main.is_repeatable else _answered)
    return findings.seen("the same answer")


def _answered(run: Exchange) -> list[Judgement]:
    broken = no_answer(run)
    return [broken] if broken is not None else []


def _same_text(given: Baseline, run: Exchange) -> list[Judgement]:
    broken = no_answer(run)
    if broken is None and run.capture.text != given.text:
        said = "The answer has another text."
        broken = Judgement("text_differs", said, given.text, run.capture.text, given.text)
    return [broken] if broken is not None else []


def _stopped_alike(findings: Findings, case: StopCase, run: Exchange) -> list[Judgement]:
    return [one for one in findings.verdicts(case, run) if one.code != STOP_ONLY_HIDDEN]


async def _echo(setting: CheckSetting) -> Seen:
    """With echo the text is the prompt and the answer, whole and streamed; no stop is in it."""
    given, driver = setting.main, setting.client.driver
    if driver.dialect is not WireDialect.COMPLETIONS:
        return skipped("The dialect has no echo.")
    if not given.is_repeatable:
        return undecided(VARIES)
    case = None if setting.broken_by else setting.simple(given)
    findings, asked = Findings(setting, "With echo"), []
    for is_streamed in (False, True) if given.streamed_text is None else (False,):
        ask = replace(given.ask, is_streamed=is_streamed)
        if is_streamed and case is not None:
            ask = replace(ask, stops=case.stops)
        wanted = given.text if not ask.stops or case is None else case.text
        body = {**setting.body(ask), "echo": True}
        run = await findings.ask(body, partial(_echoed, given.ask.prompt, wanted), may_refuse=True)
        if run.is_refusal:
            return skipped(f"Echo is refused with status {run.status}.")
        asked.append((run, run.capture.text == wanted))
    if all(is_ignored for _, is_ignored in asked):
        return skipped("The server ignores echo.")
    for run in (run for run, is_ignored in asked if is_ignored and not findings.faults):
        said = "Echo is ignored, which other answers heed."
        findings.note(run, [Judgement("echo_ignored", said, "the prompt", run.capture.text)])
    return findings.seen("the prompt and the answer")


def _echoed(prompt: str, wanted: str, run: Exchange) -> list[Judgement]:
    broken, got = no_answer(run), run.capture.text
    if broken is not None:
        return [broken]
    # What ignores echo everywhere is not judged.
    if got in (wanted, prompt + wanted):
        return []
    said = "The text is not that of the prompt, followed by the answer."
    return [Judgement("echo_differs", said, prompt + wanted, got)]


async def _prompts(setting: CheckSetting) -> Seen:
    """Each of several prompts gets its own answer, in the order of the prompts."""
    driver, main = setting.client.driver, setting.main
    is_list = driver.dialect is WireDialect.GENERATE
    if driver.dialect is not WireDialect.COMPLETIONS and not is_list:
        return skipped("The dialect has one prompt only.")
    others = (given for given in setting.baselines if given.text != main.text)
    other = next((given for given in others if given.is_repeatable), None)
    if other is None or not main.is_repeatable:
        return undecided(VARIES)
    body = driver.with_prompt(setting.body(main.ask), [main.ask.prompt, other.ask.prompt])
    findings = Findings(setting, "With two prompts")
    judged = partial(_answers_each, (main.text, other.text))
    run = await findings.ask(body, judged, may_refuse=True)
    if run.is_refusal:
        return skipped(f"Several prompts are refused with status {run.status}.")
    return findings.seen("two prompts")


def _answers_each(wanted: Sequence[str], run: Exchange) -> list[Judgement]:
    if run.problem or run.status >= 400:
        broken = no_answer(run)
        return [broken] if broken is not None else []
    try:
        body = parse_json(run.text)
    except ValueError:
        body = None
    # A list of answers, or of an answer's choices.
    answers = [mapping(answer) for answer in items(body) or items(mapping(body).get("choices"))]
    answers.sort(key=lambda answer: answer.get("index") or 0)
    got = [answer.get("text") for answer in answers]
    if got == list(wanted):
        return []
    said = f"{len(wanted)} prompts got {len(got)} answers, or those of other prompts."
    return [Judgement("prompts_mixed_up", said, repr(list(wanted)), repr(got))]


async def _seed(setting: CheckSetting) -> Seen:
    """The same seed makes the same answer, where the vendor says so."""
    driver = setting.client.driver
    if driver.dialect is not WireDialect.OLLAMA or "temperature" in driver.left_out:
        return skipped("The dialect's vendor does not promise the same answer to the same seed.")
    if not setting.main.is_repeatable:
        return undecided(VARIES)
    body = setting.body(replace(setting.main.ask, temperature=1.0, seed=11))
    runs = [await setting.client.send(body) for _ in range(3)]
    findings = Findings(setting, "With a seed")
    for run in runs:
        findings.note(run, _answered(run))
    texts = [run.capture.text for run in runs]
    if len(set(texts)) == len(texts) and not findings.faults:
        said = "The same request with the same seed gets another answer each time."
        findings.note(runs[1], [Judgement("seed_ignored", said, texts[0], texts[1])])
    return findings.seen("three answers")


# Checks features beside each other: what works alone works together.

_THINKING_TOKENS = 512


def _beside(setting: CheckSetting, ask: Ask) -> Iterator[tuple[str, Ask]]:
    """Yield a request with what else it may have, each with its name, and in one of the modes."""
    driver, is_streamed = setting.client.driver, setting.main.streamed_text is None
    if driver.can_think:
        yield "With thinking switched off", replace(ask, is_thinking=False)
        tokens = max(ask.max_tokens, _THINKING_TOKENS)
        thinking = replace(ask, is_thinking=True, max_tokens=tokens)
        yield "With thinking", replace(thinking, is_streamed=is_streamed)
    if driver.has_chat_template:
        yield "With a system message", replace(ask, system=_SYSTEM, is_streamed=is_streamed)


async def _structures(setting: CheckSetting) -> Seen:
    """An answer for which JSON is asked is JSON, whatever else the request has."""
    dialect = setting.client.driver.dialect
    tokens = max(MANY_TOKENS, setting.main.ask.max_tokens)
    ask = replace(setting.main.ask, prompt=STRUCTURE_PROMPT, max_tokens=tokens)
    plain = with_structure(dialect, setting.body(ask))
    if plain is None:
        return skipped("The probe knows no structured output of this dialect.")
    first = sent_before(setting.client, plain) or await setting.client.send(plain)
    if not first.is_answer or judged_json(first):
        return skipped("The server gives no JSON.")
    bodies = {
        name: with_structure(dialect, setting.body(each)) for name, each in _beside(setting, ask)
    }
    bodies["With any JSON asked for"] = with_json(dialect, setting.body(ask))
    if setting.main.streamed_text is None:
        streamed = setting.body(replace(ask, is_streamed=True))
        bodies["With any JSON asked for in a stream"] = with_json(dialect, streamed)
    return await _each_asked(setting, bodies, _is_json)


async def _each_asked(
    setting: CheckSetting, bodies: Mapping[str, Body | None], judged: Judge
) -> Seen:
    """Ask each body; its name is the situation that a fault has."""
    findings, names = Findings(setting), []
    for name, body in bodies.items():
        if body is not None:
            findings.situation = name
            run = await findings.ask(body, judged, may_refuse=True)
            names += [] if run.is_refusal else [name]
    return findings.seen("; ".join(names))


def _is_json(run: Exchange) -> list[Judgement]:
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    is_cut, text = run.capture.ending is CapturedEnding.LIMIT, run.capture.text.strip()
    if not judged_json(run) or (is_cut and text[:1] in ("{", "")):
        return []
    said = "The answer is not the JSON that its format asks for."
    return [Judgement("format_ignored", said, "a JSON object", run.capture.text or "no text")]


async def _scores(setting: CheckSetting) -> Seen:
    """Logprobs are listed for the tokens of the text, whatever else the request has."""
    dialect, main = setting.client.driver.dialect, setting.main
    plain = with_logprobs(dialect, setting.body(main.ask), 2)
    if plain is None:
        return skipped("The probe knows no logprobs of this dialect.")
    first = sent_before(setting.client, plain) or await setting.client.send(plain)
    if not first.is_answer or not logged_tokens(first):
        return skipped("The answer has no logprobs with tokens in words.")
    bodies = {
        name: with_logprobs(dialect, setting.body(ask), 2)
        for name, ask in _beside(setting, main.ask)
    }
    bodies["Without alternatives"] = with_logprobs(dialect, setting.body(main.ask), 0)
    several = of_several(setting, replace(main.ask, is_streamed=main.streamed_text is None))
    bodies["With several choices"] = several and with_logprobs(dialect, several, 2)
    # Some servers spell tokens as their vocabulary does, with other characters for white space.
    is_spelled = not _lists(True, first)
    return await _each_asked(setting, bodies, partial(_lists, is_spelled))


def _lists(is_spelled: bool, run: Exchange) -> list[Judgement]:
    broken, text = no_answer(run), run.capture.text
    if broken is not None or not text.strip():
        return [broken] if broken is not None else []
    logged = "".join(logged_tokens(run))
    if text.rstrip("\ufffd").strip() in logged:
        return []
    if has_logprobs(run) and not (is_spelled and logged):
        return []
    said = "The logprobs lack tokens of the text."
    return [Judgement("logprobs_missing", said, text, logged or "none")]


async def _tools(setting: CheckSetting) -> Seen:
    """A call is the same whole and streamed, whatever else the request has."""
    called = await first_call(setting)
    if isinstance(called, Seen):
        return called
    if any(code.startswith(("call", "arguments")) for code in setting.found):
        return undecided("A call has a fault also where the request has nothing beside it.")
    _, is_forced = called
    findings, names = Findings(setting), []
    for name, ask in _beside(setting, tool_ask(setting)):
        bodies = [
            tool_body(setting, replace(ask, is_streamed=is_streamed), is_forced=is_forced)
            for is_streamed in (False, True)
        ]
        runs = [await setting.client.send(body) for body in bodies]
        plain = next((run for run in runs if run.is_answer and run.capture.tool_calls), None)
        if plain is None or any(run.is_refusal for run in runs):
            continue
        names.append(name)
        findings.situation = name
        judged = partial(judged_call, setting.client.driver, plain, is_forced)
        for body, run in zip(bodies, runs, strict=True):
            await findings.ask(body, judged, first=run)
    return findings.seen("; ".join(names))


PARAMETER_CHECKS = (
    Check("request.default", _default),
    Check("request.parts", _parts),
    Check("request.nulls", _nulls),
    Check("request.echo", _echo),
    Check("request.prompts", _prompts),
    Check("request.seed", _seed),
    Check("structured.beside", _structures),
    Check("logprobs.beside", _scores),
    Check("tools.beside", _tools),
)
