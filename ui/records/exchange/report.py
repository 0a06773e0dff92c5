"""A run as a Markdown report, ready for a bug tracker. Pure; any thread."""

from engine import (
    Finished,
    StopKind,
    budget_words,
    channel_name,
    counted,
    figure,
    position,
    seconds,
    tokens_per_s,
)
from ui.records.runs import Run, RunState
from ui.words.guesses import acceptance, passes
from ui.words.visible import escaped


def markdown_report(run: Run, question: str = "") -> str:
    """Return everything that is known about a run's end, as Markdown."""
    lines = ["### Why the answer stopped", ""]
    if run.state is RunState.REFUSED:
        lines += [f"The request was refused: {run.refusal}", ""]
    elif (said := run.verdict) is None:
        lines += ["The answer is still running.", ""]
    else:
        lines += [" ".join(filter(None, (said.words.sentence, said.words.detail))), ""]
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
    if run.finished is not None:
        rows += _finished_rows(run.finished, run.max_tokens)
    return rows


def _finished_rows(finished: Finished, max_tokens: int | None) -> list[tuple[str, str]]:
    stop, usage, timing = finished.stop, finished.usage, finished.timing
    rows = [("Reason", f"`{stop.kind}`")]
    if finished.error:
        rows.append(("Error", _code(finished.error)))  # unchanged: developers need it as it is
    if stop.kind is StopKind.STOP_STRING:
        rows.append(("Matched", _code(str(stop.value))))
    elif stop.value is not None:
        rows.append(("Matched", str(stop.value)))
    rows.append(
        (
            "Where",
            f"{position(stop, usage.output_tokens, max_tokens)}, character "
            f"{stop.text_offset} of the {channel_name(stop.channel)}",
        )
    )
    if stop.token_id is not None:
        rows.append(("Last token", f"{stop.token_id} {_code(stop.token_text or '')}"))
    rows.append(("Held", _code(stop.held) if stop.held else "nothing"))
    rows.append(("Dropped", _code(stop.dropped) if stop.dropped else "nothing"))
    rows.append(("Prompt tokens", f"{usage.prompt_tokens} ({usage.cached_tokens} cached)"))
    rows.append(("Output tokens", f"{usage.output_tokens} ({usage.thinking_tokens} thinking)"))
    if (end := finished.budget_end) is not None:
        rows.append(("Thinking", budget_words(end)))
    guesses = finished.speculation
    if guesses.guessed:
        rows.append(("Guessed tokens", f"{acceptance(guesses)} confirmed, in {passes(guesses)}"))
    if guesses.forced:
        rows.append(("Forced tokens", f"{guesses.forced}"))
    speed = tokens_per_s(usage, timing)
    rows.append(("Speed", "unknown" if speed is None else f"{figure(speed)} tokens/s"))
    first = timing.first_token_s
    rows.append(("First token", "none" if first is None else f"after {seconds(first)}"))
    rows.append(("Total", seconds(timing.total_s)))
    if finished.error:
        rows.append(("Error", finished.error.replace("\n", " ").replace("|", "\\|")))
    return rows


def _code(text: str) -> str:
    """Return text as inline code in a table cell; its escapes keep it on one line."""
    shown = escaped(text).replace("|", "\\|")
    fence = "``" if "`" in shown else "`"
    pad = " " if fence == "``" else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}text\n{text}\n{fence}"
