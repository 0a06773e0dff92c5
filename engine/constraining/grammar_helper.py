"""Starts the trial process, asks it, and reports how it ended.

A grammar that crashes the process is refused; the next one gets a new process. Blocks; one thread
asks at a time, any thread may close.
"""

import signal
import threading
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from json import dumps, loads
from typing import Any

from engine.constraining import grammar_trial
from engine.constraining.compiling import ModelTokens
from engine.errors import EngineClosed, HelperUnavailable
from engine.processes.helper_process import (
    HelperClosed,
    HelperDied,
    HelperNotStarted,
    HelperProcess,
)

_START_PATIENCE_S = 180.0
_MEBIBYTE = 1 << 20
# Memory that the process may keep for compiled grammars, beyond the vocabulary.
_MOST_KEPT_BYTES = 64 << 20
_NOT_STARTED = (
    "forms of answers cannot be compiled: the process that compiles them first did not start"
)
_AT_THE_MOMENT = "forms of answers cannot be compiled at the moment"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a grammar must not be compiled."""

    reason: str
    is_lasting: bool = True


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """The limits for one grammar."""

    cpu_s: float = 3.0
    most_bytes: int = 256 << 20
    patience_s: float = 30.0


class GrammarHelper:
    """At most one trial process, started by the first grammar."""

    def __init__(self, limits: TrialLimits | None = None) -> None:
        self._limits = limits or TrialLimits()
        self._asking = threading.Lock()
        self._process = HelperProcess(grammar_trial.__name__)
        self._why_closed = ""
        # The number of the last process that got a vocabulary, and that vocabulary.
        self._knows: tuple[int, ModelTokens] | None = None
        self._most_kept_bytes = _MOST_KEPT_BYTES

    @property
    def starts(self) -> int:
        """How many processes were started."""
        return self._process.starts

    @property
    def pid(self) -> int | None:
        """The process's id, None while there is none."""
        return self._process.pid

    def refusal(self, tokens: ModelTokens, grammar: str) -> Refusal | None:
        """Try a grammar; return why it is refused, None where it can be compiled."""
        found = self._tried(tokens, {"grammar": grammar})
        return found if isinstance(found, Refusal) else None

    def translated(self, tokens: ModelTokens, grammar: str) -> str | Refusal:
        """Return a request's own grammar in Lark, or why it cannot be translated.

        Has the same arguments and errors as ``refusal``.
        """
        found = self._tried(tokens, {"translate": grammar})
        return found if isinstance(found, Refusal) else str(found["lark"])

    def close(self, why: str = "the engine has been shut down") -> None:
        """End the process at once; later calls fail with the reason given."""
        self._why_closed = why
        self._process.close()
        with self._asking:
            self._process.forget()

    def _tried(self, tokens: ModelTokens, question: dict[str, Any]) -> dict[str, Any] | Refusal:
        with self._asking:
            try:
                try:
                    return self._asked(tokens, question)
                except HelperDied as death:
                    if death.code is None or not death.is_foreign:
                        raise
                    return self._asked(tokens, question)
            except HelperDied as death:
                if death.code is None:  # it hangs, or the machine is too busy
                    raise HelperUnavailable(
                        f"{_AT_THE_MOMENT} ({_cause(death, self._limits)}); try again"
                    ) from death
                reason = f"this form could not be compiled: {_cause(death, self._limits)}"
                return Refusal(reason, not death.is_foreign)
            except HelperNotStarted as error:
                raise HelperUnavailable(f"{_NOT_STARTED} ({error})") from error
            except HelperClosed:
                raise EngineClosed(self._why_closed) from None

    def _asked(self, tokens: ModelTokens, question: dict[str, Any]) -> dict[str, Any] | Refusal:
        self._prepare(tokens)
        limits = self._limits
        bounds = {"cpu_s": limits.cpu_s, "most_bytes": limits.most_bytes}
        answer = self._ask(question | bounds, limits.patience_s)
        if self._process.memory_bytes > self._most_kept_bytes:
            self._process.rest()  # the next grammar gets a new process
        reason = answer.get("refused")
        return answer if reason is None else Refusal(str(reason))

    def _prepare(self, tokens: ModelTokens) -> None:
        """Make sure that a process runs and knows the vocabulary."""
        number = self._process.start()
        if self._knows is None or self._knows[0] != number or self._knows[1] is not tokens:
            given = {"special": list(tokens.special), "eos": list(tokens.eos)}
            sizes = array("I", map(len, tokens.raw)).tobytes()
            try:
                self._ask(given, _START_PATIENCE_S, (sizes, *tokens.raw))
            except HelperDied as death:
                cause = _cause(death, TrialLimits(patience_s=_START_PATIENCE_S))
                raise HelperUnavailable(f"{_NOT_STARTED} ({cause})") from death
            self._knows = number, tokens
            self._most_kept_bytes = self._process.memory_bytes + _MOST_KEPT_BYTES

    def _ask(
        self, question: dict[str, Any], patience_s: float, more: Sequence[bytes] = ()
    ) -> dict[str, Any]:
        head = dumps(question | {"tokens": max(len(more) - 1, 0)}).encode() + b"\n"
        parts = (head, b"".join(more))
        found: dict[str, Any] = loads(self._process.ask(sum(map(len, parts)), parts, patience_s))
        return found


def _cause(death: HelperDied, limits: TrialLimits) -> str:
    """Return in plain words how a process ended."""
    if death.code is None:
        return f"it took longer than {limits.patience_s:.0f} s"
    if death.took_too_much_time:
        return f"it takes more than {limits.cpu_s:.0f} s of computing; make it smaller"
    if death.code == -signal.SIGABRT:
        most = limits.most_bytes // _MEBIBYTE
        return (
            f"the compiler failed, or needed more than {most} MB of memory; make the form smaller"
        )
    if death.code < 0:
        return f"the compiler crashed ({death.signal_name}); make it simpler"
    return f"the compiler ended (exit code {death.code})"
