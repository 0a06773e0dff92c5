"""The prompts of two chat templates, and where they differ. Pure; any thread."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from engine import TemplatePreview, TemplateReport, preview_template, validate_template
from engine.errors import InvalidTemplate
from engine.values.request import GenerationRequest

Span = tuple[int, int]
"""Begin and end in a text."""

# Special tokens as in most vocabularies, words, and single characters.
_PIECE = re.compile(r"<\|?[^<>|\s]+\|?>|\w+|\W")
# Longer parts are marked as a whole: comparing takes the square of their pieces.
_MAX_PIECES = 2_000


@dataclass(frozen=True, slots=True)
class Comparison:
    """The prompts of a conversation by the model's template and by the user's.

    Attributes:
        problem: Why the user's template cannot be used.
        report: What the user's template takes; None if it cannot be used.
        differences: The differing parts of both prompts, in order; one of two may be empty.
    """

    own: TemplatePreview
    users: TemplatePreview
    problem: InvalidTemplate | None = None
    report: TemplateReport | None = None
    differences: tuple[tuple[Span, Span], ...] = ()


def compare_templates(folder: Path, own: str, users: str, request: GenerationRequest) -> Comparison:
    """Render a request with both templates; takes up to some seconds."""
    own_preview = preview_template(folder, own, request) if own else TemplatePreview("")
    try:
        report = validate_template(folder, users)
    except InvalidTemplate as problem:
        return Comparison(own_preview, TemplatePreview(""), problem)
    preview = preview_template(folder, users, request)
    is_whole = own_preview.problem is None and preview.problem is None and own
    pairs = tuple(differences(own_preview.prompt, preview.prompt)) if is_whole else ()
    return Comparison(own_preview, preview, report=report, differences=pairs)


def differences(first: str, second: str) -> Iterator[tuple[Span, Span]]:
    """Yield the parts in which two texts differ."""
    lines = first.splitlines(keepends=True), second.splitlines(keepends=True)
    for one, other in _changed(*lines):
        begins = one[0], other[0]
        parts = first[slice(*one)], second[slice(*other)]
        pieces = [_PIECE.findall(part) for part in parts]
        if not all(pieces) or max(map(len, pieces)) > _MAX_PIECES:
            yield one, other
            continue
        for inner, opposite in _changed(*pieces):
            yield _moved(inner, begins[0]), _moved(opposite, begins[1])


def _changed(first: Sequence[str], second: Sequence[str]) -> Iterator[tuple[Span, Span]]:
    """Yield the differing parts of two sequences, as spans of their joined texts."""
    offsets = [_offsets(first), _offsets(second)]
    matcher = SequenceMatcher(None, first, second)
    for kind, begin, end, other_begin, other_end in matcher.get_opcodes():
        if kind != "equal":
            one, other = offsets
            yield (one[begin], one[end]), (other[other_begin], other[other_end])


def _offsets(parts: Sequence[str]) -> list[int]:
    offsets = [0]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    return offsets


def _moved(span: Span, by: int) -> Span:
    return span[0] + by, span[1] + by


def describe_report(report: TemplateReport) -> str:
    """Return what a template takes, in a few sentences."""
    cases = report.cases
    by_outcome = {
        outcome: [case.conversation for case in cases if case.outcome == outcome]
        for outcome in ("adapted", "incomplete", "refused")
    }
    rendered = len(cases) - len(by_outcome["refused"])
    sentences = [f"Renders {rendered} of {len(cases)} kinds of conversation."]
    labels = {"refused": "Refused", "incomplete": "Incomplete", "adapted": "Adapted to it"}
    sentences += [
        f"{text}: {', '.join(by_outcome[outcome])}."
        for outcome, text in labels.items()
        if by_outcome[outcome]
    ]
    return " ".join([*sentences, report.closing_sentence])
