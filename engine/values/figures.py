"""The figures of a finished generation, for people: each is made here, once. Pure; any thread."""

from dataclasses import dataclass

from engine.stopping.record import StopKind, describe_source
from engine.values.events import (
    BudgetEnd,
    EndDetails,
    Finished,
    PromptDifference,
    PromptPart,
    Speculation,
    tokens_per_s,
)
from engine.values.verdict import (
    UNKNOWN_CONTEXT,
    AnswerContext,
    describe_limit_source,
    position,
)
from engine.wording import counted, figure, seconds


@dataclass(frozen=True, slots=True)
class RunPhase:
    """A part of a generation's time; it begins that many seconds after submission."""

    name: str
    took_s: float
    begins_s: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class EndFact:
    """One fact about an end."""

    name: str
    value: str = ""
    text: str = ""
    is_cut: bool = False
    is_timing: bool = False


def describe_budget_end(end: BudgetEnd, details: EndDetails) -> str:
    """Return where a budget, or a cycle, ended the reasoning."""
    at = f"at token {end.token_index + 1:,}"
    if (cycle := end.repetition) is not None:
        return f"ended {at}, after {cycle.copies:,} copies of the same {cycle.period:,} tokens"
    by = ""
    if details.budget_from is not None:
        by = f", set by {describe_limit_source(details.budget_from, details.preset)},"
    return f"ended by its budget of {end.budget:,}{by} {at}"


_PARTS = {
    PromptPart.SYSTEM: "the system text differs",
    PromptPart.TOOLS: "the tools differ",
    PromptPart.MESSAGE: "{} differs",
    PromptPart.THINKING: "the thinking of {} differs",
    PromptPart.DATE: "the date in the template differs",
    PromptPart.TEMPLATE: "the template’s own text differs",
    PromptPart.ANSWER_OPENING: "the template opened the answer otherwise",
    PromptPart.TOKENS: "{} has the same text in other tokens",
    PromptPart.PROMPT: "the text differs",
    PromptPart.PICTURE: "a picture in {} differs",
}


def describe_difference(difference: PromptDifference) -> str:
    """Return how many tokens were read again and why: ``18,204 tokens read again: …``."""
    role = f" ({difference.role})" if difference.role else ""
    message = f"message {difference.message}{role}" if difference.message else "an earlier part"
    again = counted(difference.read_again, "token")
    return f"{again} read again: {_PARTS[difference.part].format(message)}"


def figures(finished: Finished, *, is_continued: bool = False) -> tuple[str, ...]:
    """Return the main figures of a generation, as far as they exist.

    For example ``("41 tok/s", "0.38 s to first token", "143 tokens, 62 drafted")``.
    """
    usage, timing = finished.usage, finished.timing
    parts: list[str] = []
    speed = tokens_per_s(usage, timing)
    if speed is not None:
        parts.append(f"{figure(speed)} tok/s")
    if timing.first_token_s is not None:
        parts.append(f"{seconds(timing.first_token_s)} to first token")
    tokens = []
    if has_counts(finished):
        tokens.append(counted(usage.output_tokens, "more token" if is_continued else "token"))
    if finished.speculation.accepted:
        tokens.append(f"{finished.speculation.accepted:,} drafted")
    if finished.speculation.forced:
        tokens.append(f"{finished.speculation.forced:,} forced")
    parts += [", ".join(tokens)] if tokens else []
    if (end := finished.details.budget_end) is not None:
        parts.append(f"thinking {describe_budget_end(end, finished.details)}")
    return tuple(parts)


def acceptance(speculation: Speculation) -> str:
    """Return how many drafts were accepted, such as ``9 of 12 (75%)``; empty without drafts."""
    if not speculation.guessed:
        return ""
    share = 100 * speculation.accepted / speculation.guessed
    return f"{speculation.accepted:,} of {speculation.guessed:,} ({share:.0f}%)"


def draft_sources(speculation: Speculation) -> str:
    """Return where accepted drafts came from, such as ``the own draft head (31)``."""
    given = (
        (speculation.lookup_accepted, "repetition"),
        (speculation.prediction_accepted, "the prediction"),
        (speculation.draft_accepted, "the draft model"),
        (speculation.head_accepted, "the model’s own draft head"),
    )
    text = [f"{source} ({tokens:,})" for tokens, source in given if tokens]
    return " and ".join([", ".join(text[:-1]), *text[-1:]] if len(text) > 2 else text)


def phases(finished: Finished) -> list[RunPhase]:
    """Return the phases of a finished generation that began, in order.

    The list is empty where the durations are not known.
    """
    timing, usage = finished.timing, finished.usage
    if not timing.total_s:
        return []
    waited = "for its turn" + (", and for the cache on disk" if usage.disk_tokens else "")
    phases: list[RunPhase] = []
    begin = timing.queued_s
    if begin > 0:  # another program's file does not have it
        phases.append(RunPhase("Waiting", begin, 0.0, waited))
    if timing.prefill_s > 0:
        phases.append(RunPhase("Reading", timing.prefill_s, begin, _read(finished)))
        begin += timing.prefill_s
    if timing.first_token_s is not None:
        begin = timing.first_token_s
        speed = tokens_per_s(usage, timing)
        rate = "" if speed is None else f", {figure(speed)} tokens/s"
        tokens = f"{counted(usage.output_tokens, 'token')}{rate}"
        phases.append(RunPhase("Writing", timing.decode_s, begin, tokens))
        begin += timing.decode_s
    rest = max(0.0, timing.total_s - begin)
    phases.append(RunPhase("Finishing", rest, begin, "deciding the reason, releasing held text"))
    return phases


def has_counts(finished: Finished) -> bool:
    """Return whether the tokens were counted, which files of other programs often do not tell."""
    stop = finished.stop
    is_written = stop.text_offset > 0 or stop.kind is StopKind.TOOL_CALL
    return finished.usage.output_tokens > 0 or not is_written


def end_facts(finished: Finished, context: AnswerContext = UNKNOWN_CONTEXT) -> list[EndFact]:
    """Return all facts about an end, for the panel, the report and whoever else lists them."""
    stop, usage, details = finished.stop, finished.usage, finished.details
    is_matched = stop.kind in (StopKind.STOP_STRING, StopKind.STOP_TOKEN)
    facts: list[EndFact] = []
    if stop.kind is StopKind.STOP_STRING and stop.value is not None:
        facts.append(EndFact("Matched", text=str(stop.value)))
    elif stop.kind is StopKind.STOP_TOKEN:
        facts.append(EndFact("Matched", f"token {stop.value}"))
    facts.append(EndFact("Where", position(finished, context)))
    if finished.context_length and stop.kind is StopKind.MEMORY_FULL:
        facts.append(EndFact("Context", f"{finished.context_length:,} tokens"))
    if details.limit_from is not None:
        source = describe_limit_source(details.limit_from, details.preset)
        facts.append(EndFact("Limit set by", source))
    if details.planned_call is not None:
        facts.append(EndFact("Call in thinking", f"{details.planned_call}, not made"))
    if (cycle := details.repetition) is not None:
        began = f"from token {cycle.token_index + 1:,}"
        facts.append(EndFact("Repetition", f"{cycle.copies:,} × {cycle.period:,} tokens, {began}"))
    if stop.token_id is not None:
        facts.append(EndFact("Last token", f"id {stop.token_id}", stop.token_text or ""))
    if stop.source is not None:
        facts.append(EndFact("Named by", describe_source(stop.source)))
    if not has_counts(finished):
        return facts  # nobody looked at its tokens
    if stop.held or not is_matched:  # text held before a match is the match
        facts.append(EndFact("Held at the end", "" if stop.held else "nothing", stop.held))
    nothing = "" if stop.dropped else "nothing"
    facts.append(EndFact("Cut off", nothing, stop.dropped, is_cut=True))
    if usage.prompt_tokens:
        cached = f", {usage.cached_tokens:,} cached" if usage.cached_tokens else ""
        facts.append(EndFact("Prompt", f"{counted(usage.prompt_tokens, 'token')}{cached}"))
    if usage.prompt_difference is not None:
        again, _, cause = describe_difference(usage.prompt_difference).partition(" read again: ")
        facts.append(EndFact("Read again", f"{again}, because {cause}"))
    if details.no_effect:
        facts.append(EndFact("No effect", ", ".join(details.no_effect)))
    if details.has_user_template:
        facts.append(EndFact("Chat template", "yours"))
    if usage.output_tokens:
        facts.append(EndFact("Answer", _written(finished)))
    drafts = finished.speculation
    if drafts.guessed:
        passes = counted(drafts.passes, "verification pass", "verification passes")
        text = f"{acceptance(drafts)} accepted, in {passes}"
        facts.append(EndFact("Draft tokens", text))
        if given := draft_sources(drafts):
            facts.append(EndFact("Drafted by", given))
    if drafts.forced:
        facts.append(EndFact("Forced tokens", f"{drafts.forced:,}"))
    speed, first = tokens_per_s(usage, finished.timing), finished.timing.first_token_s
    if speed is not None:
        facts.append(EndFact("Speed", f"{figure(speed)} tokens/s", is_timing=True))
    if first is not None:
        facts.append(EndFact("First token", f"after {seconds(first)}", is_timing=True))
    for phase in phases(finished):
        is_cut_short = phase.name == "Reading" and not _is_read(finished)
        ended = ", not to the end" if is_cut_short else ""
        facts.append(EndFact(phase.name, f"{seconds(phase.took_s)}{ended}", is_timing=True))
    if finished.timing.total_s:
        facts.append(EndFact("Total", seconds(finished.timing.total_s), is_timing=True))
    return facts


def _is_read(finished: Finished) -> bool:
    cut_short = finished.stop.kind in (StopKind.CANCELLED, StopKind.ERROR)
    return finished.timing.first_token_s is not None or not cut_short


def _read(finished: Finished) -> str:
    timing, usage = finished.timing, finished.usage
    read, tokens = usage.prompt_tokens - usage.cached_tokens, "prompt token"
    text, cached = counted(read, tokens), ""
    if usage.cached_tokens:
        text = f"{read:,} of {counted(usage.prompt_tokens, tokens)}"
        cached = f"; {usage.cached_tokens:,} were cached"
    if not _is_read(finished):
        return f"{text}, not read to the end{cached}"
    speed = f", {figure(read / timing.prefill_s)} tokens/s" if timing.prefill_s > 0 else ""
    return f"{text}{speed}{cached}"


def _written(finished: Finished) -> str:
    usage, end = finished.usage, finished.details.budget_end
    text = counted(usage.output_tokens, "token")
    if usage.thinking_tokens:
        text += f", {usage.thinking_tokens:,} of them thinking"
    if end is None:
        return text
    return f"{text}; the thinking {describe_budget_end(end, finished.details)}"
