"""The other side of the trial process: starts it, asks it, and tells how it died.

A grammar that ends the process there is refused; the next one gets a fresh process. Blocks; one
thread asks at a time, any thread may close.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from json import dumps, loads
from typing import Any

from engine.constraining import grammar_trial
from engine.constraining.grammar_trial import HEAD, write_frame
from engine.errors import EngineClosed, EngineError

_START_PATIENCE_S = 180.0
# Ends that somebody else may have chosen: the grammar is tried once more.
_FOREIGN = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT})
_MEBIBYTE = 1 << 20
_NOT_STARTED = "no schema can be compiled: the process that tries them first did not start"


@dataclass(frozen=True, eq=False)
class TokenizerText:
    """A model's tokenizer, as another process can read it.

    Attributes:
        text: The Hugging Face tokenizer as JSON.
        size: The number of ids.
        eos: The ids that end an answer.
    """

    text: str
    size: int
    eos: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a grammar must not be compiled.

    Attributes:
        reason: In words.
        is_lasting: Whether it is the grammar's own fault, and so would be refused again.
    """

    reason: str
    is_lasting: bool = True


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """What one grammar may take.

    Attributes:
        cpu_s: Processor time.
        most_bytes: Memory, beyond what the vocabulary takes.
        patience_s: Time by the clock, however busy the machine is.
    """

    cpu_s: float = 3.0
    most_bytes: int = 256 << 20
    patience_s: float = 30.0


class HelperUnavailable(EngineError):
    """The trial process cannot be started, so no grammar can be tried."""


class _Died(Exception):
    """The process ended, or was ended, before it answered.

    Attributes:
        code: Its exit code, negative for a signal; None where it took too long.
    """

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code

    @property
    def is_foreign(self) -> bool:
        """Whether the cause may lie outside."""
        return self.code is None or -self.code in _FOREIGN


class GrammarHelper:
    """At most one trial process, started by the first grammar.

    Args:
        limits: What one grammar may take.
    """

    def __init__(self, limits: TrialLimits | None = None) -> None:
        self._limits = limits or TrialLimits()
        self._asking = threading.Lock()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._knows: TokenizerText | None = None
        self._is_closed = False
        self.starts = 0
        """How many processes were started."""

    @property
    def pid(self) -> int | None:
        """The process's id, None while there is none."""
        process = self._process
        return None if process is None else process.pid

    def refusal(self, tokenizer: TokenizerText, grammar: str) -> Refusal | None:
        """Try a grammar; return why it is refused, None where it can be compiled.

        Args:
            tokenizer: The model's.
            grammar: In llguidance's Lark dialect.

        Raises:
            HelperUnavailable: The process does not start.
            EngineClosed: It has been closed.
        """
        with self._asking:
            try:
                try:
                    return self._tried(tokenizer, grammar)
                except _Died as death:
                    if death.code is None or not death.is_foreign:
                        raise
                    return self._tried(tokenizer, grammar)
            except _Died as death:
                cause = _cause(death.code, self._limits)
                reason = f"this schema could not be compiled: {cause}"
                return Refusal(reason, not death.is_foreign)

    def close(self) -> None:
        """End the process, whatever it does; nothing is tried any more."""
        with self._lock:
            self._is_closed = True
            process = self._process
            if process is not None:
                process.kill()
        if process is not None:
            process.wait()
        with self._asking:
            self._forget()

    def _tried(self, tokenizer: TokenizerText, grammar: str) -> Refusal | None:
        self._prepare(tokenizer)
        limits = self._limits
        asked = {"grammar": grammar, "cpu_s": limits.cpu_s, "most_bytes": limits.most_bytes}
        reason = self._ask(asked, limits.patience_s).get("refused")
        return None if reason is None else Refusal(str(reason))

    def _prepare(self, tokenizer: TokenizerText) -> None:
        """See to a process that lives and knows the tokenizer."""
        if self._process is not None and self._process.poll() is not None:
            self._forget()
        if self._process is None:
            self._start()
        if self._knows is not tokenizer:
            given = {"tokenizer": tokenizer.text, "size": tokenizer.size, "eos": tokenizer.eos}
            try:
                self._ask(given, _START_PATIENCE_S)
            except _Died as death:
                cause = _cause(death.code, TrialLimits(patience_s=_START_PATIENCE_S))
                raise HelperUnavailable(f"{_NOT_STARTED} ({cause})") from death
            self._knows = tokenizer

    def _start(self) -> None:
        if not sys.executable:
            raise HelperUnavailable(f"{_NOT_STARTED} (this program has no Python to start)")
        words = [sys.executable, "-P", "-m", grammar_trial.__name__]
        if sys.dont_write_bytecode:  # it may be part of a signed app
            words.insert(1, "-B")
        with self._lock:
            if self._is_closed:
                raise EngineClosed("the engine has been shut down")
            try:
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=_environment(),
                    start_new_session=True,
                )
            except OSError as error:
                raise HelperUnavailable(f"{_NOT_STARTED} ({error})") from error
            self.starts += 1

    def _ask(self, question: dict[str, Any], patience_s: float) -> dict[str, Any]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            write_frame(process.stdin, dumps(question).encode())
            answer = self._read(process, time.monotonic() + patience_s)
        except TimeoutError:  # before OSError, which it is
            process.kill()
            raise self._end(None) from None
        except (OSError, EOFError):
            process.kill()  # it has closed its output, and so has nothing left to do
            raise self._end(process.wait()) from None
        found: dict[str, Any] = loads(answer)
        return found

    def _read(self, process: subprocess.Popen[bytes], deadline_s: float) -> bytes:
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        received = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while True:
                if len(received) >= HEAD.size:
                    whole = HEAD.size + HEAD.unpack_from(received)[0]
                    if len(received) >= whole:
                        return bytes(received[HEAD.size : whole])
                if not selector.select(max(0.0, deadline_s - time.monotonic())):
                    raise TimeoutError
                part = os.read(descriptor, 65536)
                if not part:
                    raise EOFError
                received += part

    def _forget(self) -> None:
        """Let go of a process that has ended."""
        process, self._process, self._knows = self._process, None, None
        if process is not None:
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):  # what was not sent has no reader
                        stream.close()

    def _end(self, code: int | None) -> Exception:
        """Let go of a process that did not answer; return what to raise."""
        self._forget()
        return EngineClosed("the engine has been shut down") if self._is_closed else _Died(code)


def _environment() -> dict[str, str]:
    """Return what the process finds: the modules of this one, wherever they come from."""
    # What else a person sets for Python, warnings say, is not meant for it.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    # Arenas of its threads would count as memory that its grammars take.
    return {**kept, "PYTHONPATH": path, "MALLOC_ARENA_MAX": "1"}


def _cause(code: int | None, limits: TrialLimits) -> str:
    """Return how a process ended, in words."""
    if code is None:
        return f"it took longer than {limits.patience_s:.0f} s"
    if code in (-signal.SIGPROF, -signal.SIGXCPU):
        return f"it takes more than {limits.cpu_s:.0f} s of computing; make it smaller"
    if code == -signal.SIGABRT:
        most = limits.most_bytes // _MEBIBYTE
        return f"the compiler gave up, or needed more than {most} MB of memory; make it smaller"
    if code < 0:
        return f"the compiler crashed ({_signal_name(-code)}); make it simpler"
    return f"the compiler ended (exit code {code})"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
