"""``fullstop ask --times``: counts how several answers to one prompt ended. Main thread."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace

from api.terminal_text import harmless_json
from app import exits
from app.engines import folder_and_base, load, open_engine, read_user_template
from app.exits import CommandError
from app.printer import Printer, table
from app.process.signals import Interrupts
from app.settings.options import AskOptions
from app.terminal.status_line import LoadMeter, live_line
from engine import Engine, Generation
from engine.errors import EngineError, InvalidRequest
from engine.recording.ends import (
    SeededAnswer,
    Side,
    compare_sides,
    make_sides,
    sides_to_json,
)
from engine.values.limits import Limits
from engine.values.request import GenerationRequest, TraceLevel
from engine.values.verdict import plain_cause, shortest
from engine.wording import counted, percent
from ui.records.messages import ConversationMessage
from ui.records.prompt_fit import MakeRequest, TokenCounter


def repeat(
    options: AskOptions, request: GenerationRequest, asked: ConversationMessage, make: MakeRequest
) -> int:
    """Answer a prompt several times, print how the answers ended, and return the exit code."""
    if options.saved_run is not None:
        raise CommandError("--times saves no run; leave --save-run out", exits.USAGE)
    return asyncio.run(_repeat(options, request, asked, make))


async def _repeat(
    options: AskOptions, request: GenerationRequest, asked: ConversationMessage, make: MakeRequest
) -> int:
    is_interrupted = False
    folder, base = folder_and_base(options)
    template = read_user_template(options.template, folder, base)
    async with open_engine(Limits(plain_decoding=options.is_plain)) as engine:
        async with live_line(LoadMeter(engine).text, sys.stderr):
            model = await load(engine, folder, options.draft, template, base)
        if asked.attached_chars:
            from app.terminal.documents import read_documents  # with the store

            request = await read_documents(asked, make, TokenCounter(engine, model), Printer())
        sides = _sides(options, request)
        try:
            async with live_line(lambda: _progress(sides), sys.stderr):
                with Interrupts() as interrupts:
                    for side in sides:
                        if not is_interrupted:
                            is_interrupted = await answer_side(engine, side, interrupts)
        except InvalidRequest as error:
            reason = f"--times: {error.reason}" if error.field == "n" else str(error)
            raise CommandError(reason, exits.USAGE) from error
        except EngineError as error:
            raise CommandError(plain_cause(str(error))) from error
    if options.is_json:
        print(harmless_json(sides_to_json(sides, is_complete=not is_interrupted)), flush=True)
    else:
        print(report(sides), end="", flush=True)
    return exits.INTERRUPTED if is_interrupted else exits.OK


def _sides(options: AskOptions, request: GenerationRequest) -> list[Side]:
    assert options.times is not None, "the answers are counted"
    request = replace(request, trace=TraceLevel.FULL, top_logprobs=0)
    first = 1 if options.answer.seed is None else options.answer.seed
    other = request
    if options.versus_stops:
        other = replace(other, stops=other.stops.with_strings(options.versus_stops))
    if options.versus_temperature is not None:
        sampling = replace(other.sampling, temperature=options.versus_temperature)
        other = replace(other, sampling=sampling)
    return make_sides(request, other, range(first, first + options.times))


async def answer_side(engine: Engine, side: Side, interrupts: Interrupts) -> bool:
    """Generate all answers of a side together; return whether Ctrl-C ended some of them."""
    is_interrupted = False
    generations: list[Generation] = []

    def cancel() -> None:
        nonlocal is_interrupted
        is_interrupted = True
        for generation in generations:
            generation.cancel()

    with interrupts.calling(cancel):
        generations += await engine.generate_together(side.requests())
        if is_interrupted:
            cancel()
        await asyncio.gather(*map(_collect, side.answers, generations))
    return is_interrupted


async def _collect(answer: SeededAnswer, generation: Generation) -> None:
    async for event in generation.events():
        answer.take(event)


def _progress(sides: Sequence[Side]) -> str:
    ended = sum(answer.finished is not None for side in sides for answer in side.answers)
    return f"{ended:,} of {counted(sum(len(side.answers) for side in sides), 'answer')} ended"


def report(sides: Sequence[Side]) -> str:
    """Return the ends of each side, and of two sides seed by seed."""
    parts = [_counts_text(side, is_named=len(sides) > 1) for side in sides]
    if len(sides) > 1:
        parts.append(_side_by_side(*sides))
        if sentence := compare_sides(*sides):
            parts.append(f"{sentence}\n")
    return "\n".join(parts)


def _counts_text(side: Side, *, is_named: bool) -> str:
    counts, all_answers = side.counts, len(side.answers)
    missing = all_answers - counts.answers
    ended = (
        f"{counts.answers:,} of {all_answers:,} answers"
        if missing
        else counted(all_answers, "answer")
    )
    lines = [f"{side.name}: {ended}" if is_named else ended]
    if missing:
        lines[0] += "; the others were cancelled and do not count"
    if counts.lengths is None:
        return f"{lines[0]}\n"
    rows = [(f"{len(group.seeds):,}", group.label, *group.tokens.cells) for group in counts.ends]
    rows.append((f"{counts.answers:,}", "all", *counts.lengths.cells))
    text = table(("answers", "end", "tokens: min", "1/4", "median", "3/4", "max"), rows)
    if side.request.stops.strings:
        text += table(("stop", "fired", "cut behind it"), [stop.cells for stop in counts.stops])
    if (odds := counts.eos_odds) is not None:
        text += (
            f"Odds of an end token in the last place: {percent(odds.min)} to {percent(odds.max)}, "
            f"median {percent(odds.median)}\n"
        )
    if side.are_equal:
        text += "All answers are equal; a higher --temperature lets them differ.\n"
    return f"{lines[0]}\n{text}"


def _side_by_side(one: Side, other: Side) -> str:
    rows = []
    for first, second in zip(one.answers, other.answers, strict=True):
        cells = [_end_cell(answer) for answer in (first, second)]
        rows.append((str(first.seed), *cells, "" if cells[0] == cells[1] else "differs"))
    return table(("seed", one.name, other.name, ""), rows)


def _end_cell(answer: SeededAnswer) -> str:
    if not answer.is_whole:
        return "cancelled"
    return f"{shortest(answer.stop)}, {counted(answer.output_tokens, 'token')}"
