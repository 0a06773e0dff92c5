"""What a request leaves out or says otherwise is judged, and so is how a stream is spelled."""

import json
from collections.abc import Sequence

import pytest

from api.conformance.captures.values import WireDialect
from api.conformance.probe.markdown import as_text
from api.conformance.probe.values import Report
from tests.api.conformance.probe.family.openai_wires import sse
from tests.api.conformance.probe.family.probing import report_on
from tests.api.conformance.probe.family.server import FamilyServer
from tests.api.conformance.probe.family.talk import Query, Said

CHAT, COMPLETIONS, OLLAMA = WireDialect.CHAT, WireDialect.COMPLETIONS, WireDialect.OLLAMA


class _Rewrites(FamilyServer):
    def rewritten(self, frame: bytes, at: int, last: int) -> bytes:
        raise NotImplementedError

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        frames = super().frames(said, query)
        return [self.rewritten(frame, at, len(frames) - 1) for at, frame in enumerate(frames)]


class LeavesNoBlankLines(_Rewrites):
    def rewritten(self, frame: bytes, at: int, last: int) -> bytes:
        return frame.replace(b"\n\n", b"\n")


class EndsWithoutABlankLine(_Rewrites):
    def rewritten(self, frame: bytes, at: int, last: int) -> bytes:
        return frame.rstrip() if at == last else frame


class TearsEventsApart(_Rewrites):
    def rewritten(self, frame: bytes, at: int, last: int) -> bytes:
        return frame.replace(b"\ndata:", b"\n\ndata:")


class StreamsPlainLines(_Rewrites):
    def rewritten(self, frame: bytes, at: int, last: int) -> bytes:
        return frame.replace(b"data: {", b"{")


class WritesOtherLines(_Rewrites):
    def rewritten(self, frame: bytes, at: int, last: int) -> bytes:
        return b"more\n" + frame if at else frame


class MovesInTime(_Rewrites):
    def rewritten(self, frame: bytes, at: int, last: int) -> bytes:
        if b'"created"' not in frame:
            return frame
        value = json.loads(frame.removeprefix(b"data: "))
        return sse(value | {"created": value["created"] + at})


def sentences(report: Report) -> str:
    return " ".join(fault.sentence for failure in report.failed for fault in failure.faults)


@pytest.mark.parametrize(
    ("make", "dialect", "only", "said"),
    [
        (LeavesNoBlankLines, CHAT, "stream.framing", "No blank line is between"),
        (EndsWithoutABlankLine, WireDialect.MESSAGES, "stream.framing", "No blank line ends"),
        (TearsEventsApart, WireDialect.RESPONSES, "stream.framing", "has a name and no data"),
        (StreamsPlainLines, WireDialect.GENERATE, "stream.framing", "is no field"),
        (WritesOtherLines, WireDialect.OLLAMA, "stream.framing", "is not one JSON object"),
        (MovesInTime, CHAT, "form.streamed", "created changes within an answer"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_wrong_with_it_is_said(
    make: type[FamilyServer], dialect: WireDialect, only: str, said: str
) -> None:
    report = report_on(make(dialect), only=("stop.one_character", only))
    assert said in sentences(report), as_text(report)
