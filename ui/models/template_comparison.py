"""The prompts of two chat templates, and where they differ. Pure; any thread."""

from dataclasses import dataclass
from pathlib import Path

from engine import TemplatePreview, TemplateReport, preview_template, validate_template
from engine.errors import InvalidTemplate
from engine.values.request import GenerationRequest
from ui.differences import Span, differences


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
