"""Servers with one fault each, in the reasons or the usage that they report."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from api.conformance.captures.values import WireDialect
from tests.api.conformance.probe.family.faulty.fault import NAMING, OPENAI, Faulty
from tests.api.conformance.probe.family.talk import Query, Said, pieces


class NamesTheFirstStop(Faulty):
    # The one is an opinion, the other is not.
    finds: ClassVar = {
        "stop.overlapping": {"wrong_sequence"},
        "stop.nested": {"wrong_sequence"},
    }
    dialects: ClassVar = (*NAMING, *OPENAI)

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        return replace(said, matched=query.stops[0])


class CallsNaturalEndsStops(Faulty):
    finds: ClassVar = {"reason.natural": {"natural_end_misnamed"}}
    dialects: ClassVar = (WireDialect.MESSAGES,)

    def ended(self, said: Said, query: Query) -> Said:
        return replace(said, ending="stop")


class CallsStopsNaturalEnds(Faulty):
    finds: ClassVar = {"stop.one_character": {"wrong_reason"}}
    dialects: ClassVar = (WireDialect.MESSAGES,)

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        return replace(said, ending="natural", matched=None)


class NamesNoSequence(Faulty):
    finds: ClassVar = {"stop.one_character": {"sequence_null"}}
    dialects: ClassVar = NAMING

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        return replace(said, matched=None)


_REASONS = {
    WireDialect.MESSAGES: rb'"stop_reason": "\w+"',
    WireDialect.CHAT: rb'"finish_reason": "\w+"',
    WireDialect.COMPLETIONS: rb'"finish_reason": "\w+"',
    WireDialect.RESPONSES: rb'"status": "completed"',
    WireDialect.GENERATE: rb'"finish_reason": \{[^}]*\}',
    WireDialect.OLLAMA: rb'"done_reason": "\w+"',
}


class GivesNoReason(Faulty):
    finds: ClassVar = {"stop.one_character": {"reason_missing"}}
    shows: ClassVar = {
        WireDialect.MESSAGES: {**finds, "form.streamed": {"sequence_without_reason"}},
        WireDialect.RESPONSES: {
            **finds,
            "form.streamed": {"field_missing"},
            "limit.stop_on_last_token": {"reason_missing"},
        },
    }

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        if said[0].ending not in ("stop", "natural"):
            return super().frames(said, query)
        reason = re.compile(_REASONS[self.dialect])

        def nothing(found: re.Match[bytes]) -> bytes:
            return found[0].split(b":")[0] + b": null"

        return [reason.sub(nothing, one) for one in super().frames(said, query)]


class ErasesTheReason(Faulty):
    finds: ClassVar = {"form.streamed": {"reason_erased"}}
    dialects: ClassVar = NAMING

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        *frames, last, end = super().frames(said, query)
        reason = re.compile(_REASONS[self.dialect])
        erased = reason.sub(lambda found: found[0].split(b":")[0] + b": null", last)
        erased = re.sub(rb'"stop_sequence": "[^}]*', b'"stop_sequence": null', erased)
        return [*frames, last, erased, end]


class ReachesTheLimitByStep(Faulty):
    """Makes several tokens a step, and reports the limit where a step reaches it, too."""

    finds: ClassVar = {"limit.stop_before": {"stop_lost_to_limit"}}
    width = 2

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        steps = -(-said.tokens // self.width)
        if said.tokens < query.limit <= steps * self.width:
            return replace(said, ending="limit", matched=None)
        return said


class CountsNothingOut(Faulty):
    finds: ClassVar = {"usage.counts": {"usage_zero"}}
    shows: ClassVar = {WireDialect.MESSAGES: {**finds, "form.streamed": {"usage_falls"}}}

    def answer(self, query: Query) -> Said:
        return replace(super().answer(query), tokens=0)


class CountsWhatIsSeen(Faulty):
    finds: ClassVar = {"usage.stop": {"usage_visible_only"}}

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        return replace(said, tokens=max(1, len(pieces(said.text))))


class CountsStreamsOtherwise(Faulty):
    finds: ClassVar = {"usage.streamed": {"usage_differs"}}

    def answer(self, query: Query) -> Said:
        said = super().answer(query)
        return replace(said, tokens=max(1, said.tokens - 1)) if query.is_streamed else said


class GeneratesOn(Faulty):
    finds: ClassVar = {"stop.one_character": {"stop_only_hidden"}}

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        return replace(said, tokens=len(pieces(full)))
