"""The report of a run, as Markdown for a bug tracker."""

from engine.values.events import Finished
from engine.values.figures import end_facts
from engine.values.verdict import AnswerContext
from engine.wording import counted, visible
from ui.records.runs import Run


def markdown_report(run: Run, question: str = "") -> str:
    """Return everything that is known about a run's end, as Markdown."""
    lines = ["### Why the answer stopped", ""]
    if run.state == "refused":
        lines += [f"The request was refused: {run.refusal}", ""]
    elif (ended := run.verdict) is None:
        lines += ["The answer is still running.", ""]
    else:
        lines += [" ".join(filter(None, (ended.text.sentence, ended.text.detail))), ""]
    lines += ["| | |", "| --- | --- |"]
    lines += [f"| {name} | {value} |" for name, value in _rows(run)]
    if question:
        lines += ["", "**Question**", "", _fenced(question)]
    if run.thinking:
        lines += ["", "**Thinking**", "", _fenced(run.thinking)]
    lines += ["", "**Answer**", "", _fenced(run.text)]
    return "\n".join(lines) + "\n"


def _rows(run: Run) -> list[tuple[str, str]]:
    rows = [("Model", run.model_id or "unknown")]
    listed = ", ".join(_code(stop) for stop in run.stops)
    rows.append(("Stop sequences", listed or "none"))
    rows.append(("Limit", "none" if run.max_tokens is None else counted(run.max_tokens, "token")))
    if run.continued_chars:
        earlier = counted(run.continued_chars, "character")
        rows.append(("Continues", f"an earlier answer of {earlier}"))
    if run.forked_from is not None:
        rows.append(("Fork of", run.forked_from.sentence))
    if run.finished is not None:
        rows += _finished_rows(run.finished, run.context)
    rows += [("Tool call", _code(f"{call.name}({call.arguments})")) for call in run.tool_calls]
    return rows


def _finished_rows(finished: Finished, context: AnswerContext) -> list[tuple[str, str]]:
    rows = [("Reason", f"`{finished.stop.kind}`")]
    if finished.error:
        rows.append(("Error", _code(finished.error)))  # unchanged: developers need it as it is
    for fact in end_facts(finished, context):
        parts = (_code(fact.text) if fact.text else "", fact.value)
        rows.append((fact.name, ", ".join(filter(None, parts))))
    return rows


def _code(text: str) -> str:
    """Return text as inline code in a table cell; the signs for white space keep it on one line."""
    shown = visible(text).replace("|", "\\|")
    fence = "``" if "`" in shown else "`"
    pad = " " if fence == "``" else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}text\n{text}\n{fence}"
