"""The traces of the newest runs: each token and what the stop matcher made of it, in memory only.

Main thread. Bounded by runs, by tokens a run and by tokens altogether; nothing is written to disk.
"""

from collections import OrderedDict, deque
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from engine import (
    Event,
    Finished,
    Generation,
    GenerationRequest,
    RunSetting,
    Speculation,
    StopInfo,
    StopRules,
    TokenTrace,
    ToolCall,
    ToolCallDelta,
    TraceLevel,
    Vocabulary,
)
from engine.recording.replay import RecordedToken, Recording, replay

MAX_RUNS = 64
MAX_RUN_TOKENS = 20_000
# A traced token takes about half a kilobyte: 64 long runs would be more than half a gigabyte.
MAX_TOKENS = 200_000
TOP_LOGPROBS = 5


class RunTrace:
    """The trace of one run, while it grows and afterwards.

    Attributes:
        setting: The model's side of the run.
        rules: Its stops.
        max_tokens: Its limit, None for none.
        tokens: Its newest tokens.
        stop: Why it ended, once it has.
        residue: Text that appeared only at the end.
        speculation: What guessing did for the run.
        calls: Parsed tool calls by the raw text that held them.
        vocabulary: What token ids stand for; None for a saved run.
        request: What was asked; None for a saved run.
    """

    def __init__(
        self,
        setting: RunSetting,
        rules: StopRules,
        max_tokens: int | None,
        most_tokens: int = MAX_RUN_TOKENS,
    ) -> None:
        self.setting = setting
        self.rules = rules
        self.max_tokens = max_tokens
        self.tokens: deque[TokenTrace] = deque(maxlen=most_tokens)
        self.stop: StopInfo | None = None
        self.residue = ""
        self.speculation = Speculation()
        self.calls: dict[str, tuple[ToolCall, ...]] = {}
        self.vocabulary: Vocabulary | None = None
        self.request: GenerationRequest | None = None
        self._raw = ""

    @property
    def is_whole(self) -> bool:
        """Whether no token is missing; only then can the run be replayed."""
        return bool(self.tokens) and self.tokens[0].index == 0

    @property
    def can_be_replayed(self) -> bool:
        """Whether the run has ended and no token of it is missing."""
        return self.stop is not None and self.is_whole

    def take(self, event: Event) -> None:
        """Note an event of the run."""
        if isinstance(event, TokenTrace):
            self.tokens.append(event)
        elif isinstance(event, ToolCallDelta):
            self._raw = event.raw or self._raw
            self.calls[self._raw] = (*self.calls.get(self._raw, ()), event.call)
        elif isinstance(event, Finished):
            self.stop = event.stop
            self.residue = event.residue
            self.speculation = event.speculation

    def recording(self) -> Recording | None:
        """Return the run for a replay; None before its end and where tokens are missing."""
        if self.stop is None or not self.can_be_replayed:
            return None
        return Recording(
            setting=self.setting,
            rules=self.rules,
            max_tokens=self.max_tokens,
            tokens=tuple(
                RecordedToken(t.token_id, t.raw, t.piece, t.special, t.time_s, t.origin)
                for t in self.tokens
            ),
            residue=self.residue,
            calls=self.calls,
            stop=self.stop,
            speculation=self.speculation,
        )


def trace_of(recording: Recording) -> RunTrace:
    """Return the trace of a saved run: its own stops, played over its tokens once more."""
    played = replay(recording, is_traced=True)
    most = max(1, len(recording.tokens))
    trace = RunTrace(recording.setting, recording.rules, recording.max_tokens, most)
    for event in played.events:
        if isinstance(event, TokenTrace):
            trace.take(event)
    trace.calls = recording.calls
    trace.residue = recording.residue
    trace.speculation = recording.speculation
    trace.stop = played.stop or recording.stop
    return trace


class Traces(QObject):
    """Keeps the traces of the newest runs, by the run's id.

    Signals:
        forgotten: All traces have gone.

    Attributes:
        level: How much of the next runs is recorded.
        top_logprobs: How many alternatives of each token, at the full level.
    """

    forgotten = Signal()

    def __init__(self, parent: QObject | None = None, most_runs: int = MAX_RUNS) -> None:
        super().__init__(parent)
        self.level = TraceLevel.STOPS
        self.top_logprobs = TOP_LOGPROBS
        self._most_runs = most_runs
        self._traces: OrderedDict[str, RunTrace] = OrderedDict()

    def __len__(self) -> int:
        return len(self._traces)

    def get(self, run_id: str) -> RunTrace | None:
        """Return the trace of a run, if it is still kept."""
        return self._traces.get(run_id)

    def traced(self, request: GenerationRequest) -> GenerationRequest:
        """Return a request that asks for as much as is recorded now."""
        level, count = self.wanted
        return replace(request, trace=level, top_logprobs=count)

    @property
    def wanted(self) -> tuple[TraceLevel, int]:
        """How much of each token is recorded now, and how many alternatives of it."""
        return self.level, self.top_logprobs if self.level is TraceLevel.FULL else 0

    def keep(self, run_id: str, trace: RunTrace) -> None:
        """Keep the trace of a run that has ended elsewhere; the oldest ones make room."""
        self._traces[run_id] = trace
        self._prune()

    def begin(self, run_id: str, generation: Generation) -> RunTrace | None:
        """Keep the trace of a run that was accepted; the oldest ones make room.

        Returns:
            The trace; None where the run asks for none.
        """
        request = generation.request
        if request.trace is TraceLevel.OFF:
            return None
        trace = RunTrace(generation.setting, request.stops, request.max_tokens)
        trace.vocabulary = generation.vocabulary
        trace.request = request
        self._traces[run_id] = trace
        self._prune()
        return trace

    def forget_all(self) -> None:
        """Drop every trace; a run under way keeps writing to its own, which nobody sees."""
        self._traces.clear()
        self.forgotten.emit()

    def _prune(self) -> None:
        kept = sum(len(trace.tokens) for trace in self._traces.values())
        while len(self._traces) > 1 and (len(self._traces) > self._most_runs or kept > MAX_TOKENS):
            _, gone = self._traces.popitem(last=False)
            kept -= len(gone.tokens)
