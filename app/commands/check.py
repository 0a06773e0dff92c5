"""``fullstop models check``: whether a model answers as it should, and what its drafts gain.

The model is loaded anew, one time after the other: by the engine, for mlx-lm's plain loop, and one
that sees for mlx-vlm's.
Results go to standard output, progress to standard error. Main thread, on an event loop of its own.
"""

import asyncio
import itertools
import statistics
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from difflib import unified_diff
from pathlib import Path
from typing import Any, TypeVar

from api.terminal_text import harmless, harmless_json
from app import exits, paths
from app.engines import base_of, open_engine, read_user_template
from app.exits import CommandError, did_you_mean
from app.printer import Printer, table
from app.terminal.status_line import LoadMeter, live_line
from engine import (
    SAMPLE_REQUEST,
    Engine,
    LoadCancelled,
    TemplateReport,
    compare_with_mlx_vlm,
    compare_with_plain_loop,
    draw_sample,
    mlx_in_use,
    preview_template,
)
from engine.errors import EngineError, ModelLoadFailed
from engine.library.model_info import ModelInfo
from engine.library.template_files import chat_template
from engine.stopping.record import StopKind, describe_source
from engine.stopping.rules import StopOptions, StopRules
from engine.values.events import Finished, TokenTrace, tokens_per_s
from engine.values.request import (
    PICTURE_MARK,
    GenerationRequest,
    Message,
    Sampling,
    TraceLevel,
)
from engine.values.tokens import Comparison, Difference, TokenOrigin
from engine.values.verdict import plain_cause
from engine.wording import counted, figure, format_size, visible
from ui.models.model_words import passed

_ROUNDS = 3
_PASSAGE = (
    "The harbour wakes before the town. Boats come in with the tide, their lamps still lit, and "
    "men in wet coats lift boxes of fish onto the stones. A cat sits on a coil of rope and waits. "
    "By six the baker opens her door, and the smell of bread drifts down to the water. Nobody "
    "speaks much. When the sun clears the hill, the gulls rise all at once, and the day has begun."
)
_FREE, _COPY = "free text", "copied text"
_TEXTS = {
    _FREE: "Tell the story of a lighthouse keeper and the longest storm of the year.",
    "a list": "Count from 1 to 100, one number per line.",
    _COPY: f"Repeat exactly: {_PASSAGE}",
}
_SOURCES = {
    TokenOrigin.LOOKUP: "prompt lookup",
    TokenOrigin.DRAFT: "draft model",
    TokenOrigin.HEAD: "own draft head",
}
_BROKEN = ("incomplete", "refused")
_NONE, _ALL = "none", "all of these"
_Result = TypeVar("_Result")
_Tokens = tuple[Sequence[int], Sequence[int]]
"""The token ids of a prompt and of its answer."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The effect of one draft source on one kind of text: medians of the rounds."""

    text: str
    drafts: str
    tokens_per_s: float
    gain: float  # a multiple of the speed without drafts in the same round
    guessed: int
    accepted: int


@dataclass(frozen=True, slots=True)
class Report:
    """The results of a check; the comparisons are keyed by how the answers were generated."""

    model: ModelInfo
    comparisons: dict[str, Comparison]
    measurements: tuple[Measurement, ...]
    template: TemplateReport | None = None
    # A unified diff of a sample's prompts, by the model's own template and by the user's.
    template_difference: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        return not any(_real(comparison) for comparison in self.comparisons.values())

    @property
    def broken_conversations(self) -> tuple[str, ...]:
        """The conversations that the chat template refuses or renders with something missing."""
        cases = () if self.template is None else self.template.cases
        return tuple(case.conversation for case in cases if case.outcome in _BROKEN)

    @property
    def verdict(self) -> str:
        if not self.is_right:
            return (
                f"{self.model.id} does not answer here as the plain loop does. Please report "
                "this with the output of --json."
            )
        if broken := self.broken_conversations:
            return (
                f"{self.model.id} answers as mlx-lm does, but its chat template cannot take "
                f"{', '.join(broken)}; agents that send such conversations lose that part."
            )
        good = [
            measured
            for measured in self.measurements
            # Measurements differ by as much.
            if measured.accepted and measured.gain >= 1.05
        ]
        if not good:
            return f"{self.model.id} works. Draft tokens gain nothing here, so few are used."
        best = max(good, key=lambda measured: measured.gain)
        return (
            f"{self.model.id} works. Draft tokens gain most for {best.text}: {best.gain:.1f} times "
            f"the tokens per second, by {best.drafts}."
        )


def run(options: Namespace) -> int:
    """Check the model, print the report, and return the exit code."""
    if not options.model.exists():
        near = did_you_mean(str(options.model), paths.model_names())
        raise CommandError(
            f"there is no model {options.model} on this computer.{near} fullstop models lists them."
        )
    printer = Printer()
    try:
        report = asyncio.run(_report(options, printer))
    except ModelLoadFailed as error:
        raise CommandError(f"the model cannot be loaded: {plain_cause(str(error))}") from error
    except EngineError as error:
        raise CommandError(plain_cause(str(error))) from error
    finally:
        printer.status("")
    print(_as_json(report) if options.is_json else harmless(_as_text(report)), flush=True)
    return exits.OK if report.is_right else exits.FAILURE


async def _report(options: Namespace, printer: Printer) -> Report:
    base = base_of(options.model)
    user_template = read_user_template(options.template, options.model, base)
    async with open_engine() as engine:
        async with live_line(LoadMeter(engine).text, sys.stderr):
            model = await engine.load(
                options.model, draft=options.draft, user_template=user_template, base=base
            )
        answers: dict[str, list[_Tokens]] = {}
        for text in (_FREE, _COPY):
            printer.status(f"answering: {text} …")
            answers[f"{text}, alone"] = [await _answer(engine, _request(text, options.tokens))]
        printer.status(f"answering {counted(len(_TEXTS), 'prompt')} at once …")
        requests = [_request(text, max(1, options.tokens // 4)) for text in _TEXTS]
        together = await asyncio.gather(*(_answer(engine, request) for request in requests))
        answers[f"{len(_TEXTS)} prompts at once"] = list(together)
        # mlx-vlm 0.7.10 scales no embedding of text in Gemma 3n (gemma3n.py, line 122).
        is_comparable = model.can_see and model.architecture != "gemma3n" and base is None
        picture = draw_sample() if is_comparable else None
        seen = None
        if picture is not None:
            printer.status("answering: a picture …")
            message = Message("user", PICTURE_MARK + "What do you see?", pictures=(picture,))
            request = replace(_request(_FREE, options.tokens), messages=(message,))
            seen = await _answer(engine, request)
        measurements = await _measure(engine, model, options.tokens, printer)
        template = await engine.check_template()
    # Only now, so that the model is never in memory twice.
    compared = await _compare(model, answers)
    if picture is not None and seen is not None:
        compared["a picture, beside mlx-vlm"] = await _watched(
            lambda check: compare_with_mlx_vlm(model.path, picture, seen, check)
        )
    difference = (
        () if user_template is None else _template_difference(model.model_folder, user_template)
    )
    return Report(model, compared, measurements, template, difference)


def _template_difference(folder: Path, user_template: str) -> tuple[str, ...]:
    previews = (
        preview_template(folder, source, SAMPLE_REQUEST)
        for source in (chat_template(folder), user_template)
    )
    prompts = (preview.prompt or str(preview.problem or "") for preview in previews)
    own, users = (prompt.splitlines() for prompt in prompts)
    return tuple(unified_diff(own, users, "the model's own", "yours", lineterm=""))


async def _measure(
    engine: Engine, model: ModelInfo, tokens: int, printer: Printer
) -> tuple[Measurement, ...]:
    sources = [TokenOrigin.LOOKUP]
    sources += [TokenOrigin.DRAFT] if model.draft is not None else []
    sources += [TokenOrigin.HEAD] if _has_head(model) else []
    ends: dict[tuple[str, str], list[Finished]] = {}
    for number, text in itertools.product(range(1, _ROUNDS + 1), _TEXTS):
        alone = {_SOURCES[source]: frozenset({source}) for source in sources}
        drafts = {_NONE: frozenset(), **alone, **({_ALL: None} if len(alone) > 1 else {})}
        for name, allowed in drafts.items():
            printer.status(f"measuring, round {number} of {_ROUNDS}: {text}, drafts by {name} …")
            request = replace(_request(text, tokens), drafts=allowed)
            end = (await (await engine.generate(request)).collect()).finished
            _check_finished(end)
            ends.setdefault((text, name), []).append(end)
    return tuple(_measurements(ends))


async def _answer(engine: Engine, request: GenerationRequest) -> _Tokens:
    prompt = await engine.prompt_pieces(request)
    generation = await engine.generate(replace(request, trace=TraceLevel.STOPS))
    tokens = []
    async for event in generation.events():
        if isinstance(event, TokenTrace):
            tokens.append(event.token_id)
        elif isinstance(event, Finished):
            _check_finished(event)
    return [token for token, _ in prompt], tokens


def _has_head(model: ModelInfo) -> bool:
    return model.own_head_problem == ""


def _request(text: str, tokens: int) -> GenerationRequest:
    # An answer that ends soon has too few tokens to compare or to measure.
    rules = StopRules().with_options(StopOptions(ignore_eos=True))
    return GenerationRequest(
        messages=(Message("user", _TEXTS[text]),),
        sampling=Sampling(temperature=0, repetition_penalty=1),
        stops=rules,
        max_tokens=tokens,
        thinking=False,
    )


def _check_finished(finished: Finished) -> None:
    if finished.stop.kind is StopKind.ERROR:
        raise CommandError(f"the model failed: {plain_cause(finished.error or 'no cause given')}")


def _measurements(ends: dict[tuple[str, str], list[Finished]]) -> Iterable[Measurement]:
    speeds = {
        key: [tokens_per_s(end.usage, end.timing) or 0.0 for end in finished]
        for key, finished in ends.items()
    }
    for (text, drafts), finished in ends.items():
        # Within a round, because other programs slow down one more than the next.
        pairs = zip(speeds[text, drafts], speeds[text, _NONE], strict=True)
        done = [end.speculation for end in finished]
        yield Measurement(
            text,
            drafts,
            statistics.median(speeds[text, drafts]),
            statistics.median(speed / plain if plain else 1.0 for speed, plain in pairs),
            sum(each.guessed for each in done),
            sum(each.accepted for each in done),
        )


async def _watched(compare: Callable[[Callable[[object], None]], _Result]) -> _Result:
    """Compare on a new thread, as one ends its use of MLX; the time is on the status line."""
    is_over, started_s = threading.Event(), time.monotonic()

    def check_cancelled(_: object) -> None:
        if is_over.is_set():
            raise LoadCancelled

    def status() -> str:
        return f"comparing with a plain loop  ·  {passed(time.monotonic() - started_s)}"

    with ThreadPoolExecutor(1, "comparison") as thread:
        try:
            async with live_line(status, sys.stderr):
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(thread, compare, check_cancelled)
        finally:
            is_over.set()


async def _compare(model: ModelInfo, answers: dict[str, list[_Tokens]]) -> dict[str, Comparison]:
    """Compare the answers with mlx-lm's plain loop; those generated together are added up."""
    pairs = [pair for several in answers.values() for pair in several]
    compared = iter(
        await _watched(
            lambda check: compare_with_plain_loop(model.path, pairs, check, check, model.base)
        )
    )
    comparisons = {}
    for name, several in answers.items():
        parts = [next(compared) for _ in several]
        comparisons[name] = Comparison(
            sum(part.tokens for part in parts),
            sum(part.near_ties for part in parts),
            tuple(difference for part in parts for difference in part.differences),
        )
    return comparisons


def _real(comparison: Comparison) -> list[Difference]:
    return [difference for difference in comparison.differences if not difference.is_near_tie]


def _as_text(report: Report) -> str:
    model = report.model
    facts = [model.architecture, format_size(model.size_bytes)]
    facts += [f"context {counted(model.context_length, 'token')}"]
    facts += [f"draft model {model.draft.id}"] if model.draft else []
    if (problem := model.own_head_problem) is not None:
        facts.append(f"own draft head is not used: {problem}" if problem else "own draft head")
    facts += [
        f"end token {visible(end.text)} (named by {describe_source(end.source)})"
        for end in model.eos
    ]
    head = ("ANSWERS", "TOKENS", "AS THE PLAIN LOOP", "NEAR TIES", "FIRST DIFFERENCE")
    compared = [
        (
            how,
            f"{comparison.tokens:,}",
            "yes"
            if not comparison.differences
            else "no"
            if _real(comparison)
            else "but for near ties",
            f"{comparison.near_ties:,}",
            _difference_text((_real(comparison) or comparison.differences)[:1]),
        )
        for how, comparison in report.comparisons.items()
    ]
    measured = [_cells(measurement) for measurement in report.measurements]
    return "\n".join(
        (
            f"{model.id}: {', '.join(facts)}; MLX {mlx_in_use()}\n",
            table(head, compared),
            table(("TEXT", "DRAFTS", "TOKENS/S", "GAIN", "GUESSED", "RIGHT"), measured),
            _template_text(report.template),
            *((*report.template_difference, "") if report.template_difference else ()),
            report.verdict,
        )
    )


def _template_text(template: TemplateReport | None) -> str:
    if template is None:
        return "It has no chat template: only raw prompts can be sent.\n"
    rows = [
        (
            case.conversation,
            case.outcome + (f": {', '.join(case.missing)}" if case.missing else ""),
        )
        for case in template.cases
    ]
    notes = [f"Adapted: {change}." for change in template.changes]
    notes.append(template.closing_sentence)
    if template.efforts:
        notes.append(f"Reasoning efforts: {', '.join(template.efforts)}.")
    return "\n".join([table(("CONVERSATION", "CHAT TEMPLATE"), rows), *notes, ""])


def _cells(measurement: Measurement) -> tuple[str, ...]:
    guessed, accepted = measurement.guessed, measurement.accepted
    cells = (measurement.text, measurement.drafts, figure(measurement.tokens_per_s))
    if measurement.drafts == _NONE:
        return (*cells, "", "", "")
    if not guessed:  # what the clock says of both is chance
        return (*cells, "", "0", "does not pay here")
    return (*cells, f"{measurement.gain:.2f}", f"{guessed:,}", f"{100 * accepted / guessed:.0f}%")


def _difference_text(first: Sequence[Difference]) -> str:
    if not first:
        return ""
    [difference] = first
    near = ", a near tie" if difference.is_near_tie else ""
    return (
        f"token {difference.index + 1:,}: {difference.token_id} instead of "
        f"{difference.expected_id}, logits {difference.distance:.2g} apart{near}"
    )


def _as_json(report: Report) -> str:
    model = report.model
    shown: dict[str, Any] = {
        "model": model.id,
        "architecture": model.architecture,
        "size_bytes": model.size_bytes,
        "draft_model": model.draft.id if model.draft else None,
        "own_draft_head": _has_head(model),
        "end_tokens": [asdict(end) for end in model.eos],
        "mlx": mlx_in_use(),
        "comparisons": [
            {"answers": how, **asdict(comparison)} for how, comparison in report.comparisons.items()
        ],
        "template": None if report.template is None else asdict(report.template),
        "template_difference": report.template_difference,
        "measurements": [asdict(measurement) for measurement in report.measurements],
        "is_right": report.is_right,
        "verdict": report.verdict,
    }
    return harmless_json(shown)
