"""What a request leaves out or says otherwise is judged, and so is how a stream is spelled."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from aiohttp import web

from api.conformance.captures.values import WireDialect
from api.conformance.probe.markdown import as_text
from api.conformance.probe.values import CheckOutcome, Report
from tests.api.conformance.probe.family.openai_wires import sse
from tests.api.conformance.probe.family.probing import report_on
from tests.api.conformance.probe.family.server import FamilyServer
from tests.api.conformance.probe.family.talk import Query, Said

CHAT, COMPLETIONS, OLLAMA = WireDialect.CHAT, WireDialect.COMPLETIONS, WireDialect.OLLAMA


class Echoes(FamilyServer):
    """Knows echo and several prompts."""

    is_deaf_in_streams = False
    is_mixed_up = False

    def answer(self, query: Query) -> Said:
        """Return an answer after its prompt."""
        said = super().answer(query)
        is_hit = query.body.get("echo") and not (self.is_deaf_in_streams and query.is_streamed)
        return replace(said, text=query.prompt + said.text) if is_hit else said

    def read(self, body: dict[str, Any]) -> Query:
        """Read a request with several prompts."""
        prompts = body.get("prompt")
        if not isinstance(prompts, list):
            return super().read(body)
        return replace(super().read({**body, "prompt": prompts[0]}), body=body)

    def answers(self, query: Query) -> list[Said]:
        """Return an answer to each prompt."""
        prompts = query.body.get("prompt")
        if not isinstance(prompts, list):
            return super().answers(query)
        order = prompts[::-1] if self.is_mixed_up else prompts
        return [self.answer(replace(query, prompt=prompt)) for prompt in order]


class EchoesWholeAnswersOnly(Echoes):
    """Ignores echo where a request wants a stream."""

    is_deaf_in_streams = True


class MixesPrompts(Echoes):
    """Gives two prompts each other's answer."""

    is_mixed_up = True


class IgnoresSeeds(FamilyServer):
    """Never gives the same answer twice at a temperature."""

    def __init__(self, dialect: WireDialect) -> None:
        super().__init__(dialect)
        self._number = count()

    def script(self, query: Query) -> str:
        """Return another answer each time where answers are sampled."""
        is_sampled = (query.body.get("options") or {}).get("temperature")
        return (
            f"{super().script(query)} {next(self._number)}" if is_sampled else super().script(query)
        )


class RefusesNulls(FamilyServer):
    """Refuses fields that are null."""

    def check(self, request: web.Request, query: Query) -> web.Response | None:
        """Refuse a null."""
        return self.refusal("seed: must be a number") if None in query.body.values() else None


class SpellsParts(FamilyServer):
    """Takes the parts of a prompt for its text."""

    def script(self, query: Query) -> str:
        """Return an answer to the prompt as it stands in the request."""
        raw = json.dumps(query.body)
        return "[object Object]" if '"content": [' in raw else super().script(query)


class _Rewrites(FamilyServer):
    """Writes the frames of a stream otherwise."""

    def rewritten(self, frame: bytes, at: int, last: int) -> bytes:
        """Return a frame as it is sent."""
        raise NotImplementedError

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        """Return the frames as they are sent."""
        frames = super().frames(said, query)
        return [self.rewritten(frame, at, len(frames) - 1) for at, frame in enumerate(frames)]


class LeavesNoBlankLines(_Rewrites):
    """Ends each event with one line end."""

    def rewritten(self, frame: bytes, at: int, last: int) -> bytes:
        """Return a frame with one line end."""
        return frame.replace(b"\n\n", b"\n")


class EndsWithoutABlankLine(_Rewrites):
    """Does not end the last event."""

    def rewritten(self, frame: bytes, at: int, last: int) -> bytes:
        """Return a frame, the last one without its end."""
        return frame.rstrip() if at == last else frame


class TearsEventsApart(_Rewrites):
    """Writes a blank line between the name of an event and its data."""

    def rewritten(self, frame: bytes, at: int, last: int) -> bytes:
        """Return a frame in two parts."""
        return frame.replace(b"\ndata:", b"\n\ndata:")


class StreamsPlainLines(_Rewrites):
    """Streams one JSON object a line where events are due."""

    def rewritten(self, frame: bytes, at: int, last: int) -> bytes:
        """Return a frame without the name of its field."""
        return frame.replace(b"data: {", b"{")


class MovesInTime(_Rewrites):
    """Gives every chunk its own time."""

    def rewritten(self, frame: bytes, at: int, last: int) -> bytes:
        """Return a frame of a later time."""
        if b'"created"' not in frame:
            return frame
        value = json.loads(frame.removeprefix(b"data: "))
        return sse(value | {"created": value["created"] + at})


def sentences(report: Report) -> str:
    return " ".join(fault.sentence for failure in report.failed for fault in failure.faults)


@pytest.mark.parametrize(
    ("make", "dialect", "only", "said"),
    [
        (EchoesWholeAnswersOnly, COMPLETIONS, "request.echo", "Echo is ignored"),
        (MixesPrompts, COMPLETIONS, "request.prompts", "those of other prompts"),
        (IgnoresSeeds, OLLAMA, "request.seed", "the same seed gets another answer"),
        (RefusesNulls, CHAT, "request.nulls", "With null for the optional fields"),
        (SpellsParts, CHAT, "request.parts", "With the prompt in parts"),
        (LeavesNoBlankLines, CHAT, "stream.framing", "No blank line is between"),
        (EndsWithoutABlankLine, WireDialect.MESSAGES, "stream.framing", "No blank line ends"),
        (TearsEventsApart, WireDialect.RESPONSES, "stream.framing", "has a name and no data"),
        (StreamsPlainLines, WireDialect.GENERATE, "stream.framing", "is no field"),
        (MovesInTime, CHAT, "form.streamed", "created changes within an answer"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_wrong_with_it_is_said(
    make: type[FamilyServer], dialect: WireDialect, only: str, said: str
) -> None:
    report = report_on(make(dialect), only=("stop.one_character", only))
    assert said in sentences(report), as_text(report)


def test_echo_and_several_prompts_hold_where_a_server_knows_them() -> None:
    report = report_on(Echoes(COMPLETIONS), only=("stop.one_character", "request.*"))
    assert report.failed == (), as_text(report)
    outcomes = {result.code: result.outcome for result in report.results}
    assert outcomes["request.echo"] is outcomes["request.prompts"] is CheckOutcome.HELD
