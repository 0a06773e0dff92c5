"""Splits a file or a pasted text into its answers. Pure; any thread."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from api.conformance.captures.framing import BodyForm, Framed, framed
from api.conformance.captures.opening import har
from api.conformance.captures.opening.content import opened
from api.conformance.captures.opening.record import Record
from api.conformance.captures.opening.segments import segments
from api.conformance.captures.opening.several import answers_of, recorded
from api.conformance.captures.opening.tracing import traced
from api.conformance.captures.opening.wrapping import unwrapped
from api.conformance.captures.parsing import read_framed
from api.conformance.captures.values import Capture, Decode, Finding, Severity, as_it_stands


def captures_of(content: bytes | str) -> Iterator[Capture]:
    """Yield the answers of a capture in order; one without a dialect if there are none.

    Args:
        content: A file's content, or a text.

    Raises:
        NotReadable: The file's compression is unknown, or it is damaged or too large.
    """
    nothing: Capture | None = None
    is_any = False
    framed_answers = _framed(content)
    del content  # free the bytes of a large file once its text is there
    for parts in framed_answers:
        capture = read_framed(parts)
        if not is_answer(capture):
            nothing = nothing or capture
            continue
        is_any = True
        yield capture
    if not is_any:
        yield nothing or read_framed(Framed(BodyForm.NONE))


def is_answer(capture: Capture) -> bool:
    """Whether a capture is an answer, even one of unknown format or a missing one."""
    return capture.dialect is not None or any(
        finding.code != "unknown_dialect" for finding in capture.findings
    )


def _framed(content: bytes | str) -> Iterator[Framed]:
    if isinstance(content, str):
        yield from _framed_text(content, as_it_stands)
        return
    found = opened(content)
    del content
    if found.records:
        yield from _framed_records(found.records)
    else:
        yield from _framed_text(found.text, found.decode)


def _framed_records(records: Iterable[Record]) -> Iterator[Framed]:
    for number, record in enumerate(records, 1):
        yield record.framed(number)


def _framed_text(text: str, decode: Decode) -> Iterator[Framed]:
    begin = har.entries_of(text)
    if begin is not None:
        yield from _framed_archive(text, begin, decode)
        return
    notes: tuple[Finding, ...] = ()
    trace = traced(text)
    if trace is not None:
        # The trace's characters are bytes: see ``traced``.
        text, decode, notes = trace.text, trace.decode, trace.notes
    stops: tuple[str, ...] = ()
    for part in unwrapped(text):
        for segment in segments(part):
            asked = segment.stops
            stops = stops if asked is None else tuple(map(decode, asked))
            body = framed(segment.text, decode)
            for one in recorded(body) or answers_of(body):
                yield replace(
                    one,
                    stops=one.stops or stops,
                    is_dump=_is_dump(one),
                    notes=(*one.notes, *notes),
                )


def _framed_archive(text: str, begin: int, decode: Decode) -> Iterator[Framed]:
    number = 0
    try:
        for record in har.records_of(text, begin, decode):
            number += 1
            yield record.framed(number)
    except ValueError:
        sentence = "The archive is cut off or damaged: the rest was not read."
        note = Finding("archive_damaged", Severity.WARNING, sentence)
        yield Framed(BodyForm.NONE, is_cut=True, label=f"{number + 1}", notes=(note,))


def _is_dump(parts: Framed) -> bool:
    """Whether a program wrote the events to a file: as JSON, without a head."""
    return parts.form is BodyForm.NDJSON and parts.status is None
