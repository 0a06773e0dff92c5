"""Probes one dialect of a server, or all that it answers; Ctrl-C keeps the results so far.

Main thread, on an event loop of its own.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from api.conformance.captures.values import WireDialect
from api.conformance.probe.reports.suite import Expected, ProbeSuite
from api.conformance.probe.running import ProbeRun
from api.conformance.probe.values import OnProgress, ProbeFailed, ProbeOptions, Report


def probed(
    options: ProbeOptions, *, is_all: bool, expected: Expected, on_progress: OnProgress
) -> ProbeSuite:
    """Probe a server and return the reports."""
    probing = _Probing(options, on_progress)
    asyncio.run(probing.run(is_all=is_all))
    return ProbeSuite(
        options.url,
        tuple(probing.reports),
        tuple(probing.problems),
        "" if probing.reports or probing.is_interrupted else probing.problem,
        probing.is_interrupted,
        expected,
    )


class _Probing:
    """The results so far."""

    def __init__(self, options: ProbeOptions, on_progress: OnProgress) -> None:
        self.reports: list[Report] = []
        self.problems: list[tuple[str, str]] = []
        self.problem = ""
        self.is_interrupted = False
        self._options = options
        self._on_progress = on_progress
        self._ends_at_s = time.monotonic() + options.time_limit_s

    async def run(self, *, is_all: bool) -> None:
        """Probe the first dialect, and all others that answered if requested."""
        await self._probe(self._options)
        if is_all and self.reports and not self.is_interrupted:
            await self._probe_others(self.reports[0].other_dialects)

    async def _probe_others(self, dialects: Sequence[WireDialect]) -> None:
        first = self.reports[0]
        # Dialects that a report lists as not probed may have a report of their own now.
        self.reports[0] = replace(first, other_dialects=())
        for dialect in dialects:
            left_s = self._ends_at_s - time.monotonic()
            if self.is_interrupted or left_s <= 0:
                why = "Ctrl-C" if self.is_interrupted else "the time limit was reached"
                self.problems.append((dialect, f"not asked: {why}"))
                continue
            await self._probe(replace(self._options, dialect=dialect, time_limit_s=left_s))

    async def _probe(self, options: ProbeOptions) -> None:
        run = ProbeRun(options, self._on_progress)
        try:
            self.reports.append(await run.run())
        except ProbeFailed as failed:
            self.problem = str(failed)
            if options.dialect is not None and self.reports:
                self.problems.append((options.dialect, str(failed)))
        except asyncio.CancelledError:
            # Ctrl-C: the results so far still make a report.
            self.is_interrupted = True
            if (report := run.report()) is not None:
                self.reports.append(report)
