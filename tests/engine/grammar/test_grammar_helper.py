"""The process that compiles grammars first: which grammars it refuses, and how it is replaced."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from transformers import AutoTokenizer

from engine.errors import EngineClosed, HelperUnavailable
from engine.grammar.compilation import ModelTokens
from engine.grammar.form_compiler import GrammarHelper, Refusal, TrialLimits
from engine.grammar.grammars import schema_grammar
from engine.output.vocabulary import read_vocabulary
from tests.support.schemas import DEADLY, optional

ROOT = Path(__file__).parents[3]
GOOD = schema_grammar({"type": "integer"})


def raw(schema: dict[str, Any]) -> str:
    """Write a grammar as it is, with nothing closed: some schemas are too deep for that."""
    return f"start: %json {json.dumps(schema)}\n"


@pytest.fixture(scope="module")
def demo(demo_model_path: Path) -> ModelTokens:
    tokenizer = AutoTokenizer.from_pretrained(demo_model_path)
    vocabulary = read_vocabulary(demo_model_path, tokenizer, {0}, 0)
    assert vocabulary.raw is not None
    return ModelTokens(vocabulary.raw, sorted(vocabulary.special), [0])


@pytest.fixture
def helper() -> Iterator[GrammarHelper]:
    made = GrammarHelper()
    yield made
    made.close()


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_grammar_that_ends_the_process_is_refused_and_the_next_one_is_tried_anew(
    helper: GrammarHelper, demo: ModelTokens
) -> None:
    for number, schema in enumerate(DEADLY.values(), 1):
        assert helper.refusal(demo, GOOD) is None
        assert helper.starts == number
        refusal = helper.refusal(demo, raw(schema))
        assert refusal is not None
        assert refusal.reason.startswith("this form could not be compiled: the compiler crashed")
        assert refusal.is_lasting
    assert helper.refusal(demo, GOOD) is None


def test_one_process_tries_all_grammars(helper: GrammarHelper, demo: ModelTokens) -> None:
    assert helper.pid is None
    for number in range(20):
        assert helper.refusal(demo, schema_grammar({"const": number})) is None
    refusal = helper.refusal(demo, schema_grammar({"type": "objekt"}))
    assert refusal == Refusal("Invalid type: objekt")
    assert helper.starts == 1


def test_a_process_that_keeps_much_of_a_grammar_is_replaced_and_learns_the_vocabulary_again(
    helper: GrammarHelper, demo: ModelTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert helper.refusal(demo, GOOD) is None
    monkeypatch.setattr(helper, "_max_kept_bytes", 1)
    assert helper.refusal(demo, GOOD) is None
    assert helper.pid is None
    assert helper.refusal(demo, GOOD) is None
    assert helper.starts == 2
    assert helper.pid is not None, "the fresh process has as much room as the first one had"


def test_a_grammar_that_computes_too_long_is_refused(demo: ModelTokens) -> None:
    helper = GrammarHelper(TrialLimits(cpu_s=0.005))
    try:
        refusal = helper.refusal(demo, raw(optional(3000)))
    finally:
        helper.close()
    assert refusal is not None
    assert "of computing; make it smaller" in refusal.reason


@pytest.mark.skipif(sys.platform != "linux", reason="the system has no such limit")
def test_a_grammar_that_takes_too_much_memory_is_refused(demo: ModelTokens) -> None:
    helper = GrammarHelper(TrialLimits(max_bytes=2 << 20))
    try:
        refusal = helper.refusal(demo, raw(optional(3000)))
        assert helper.refusal(demo, GOOD) is None
    finally:
        helper.close()
    assert refusal is not None
    assert "memory" in refusal.reason


def test_a_process_that_does_not_answer_is_ended_and_its_grammar_may_be_tried_again(
    demo: ModelTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = GrammarHelper()
    try:
        assert helper.refusal(demo, GOOD) is None
        monkeypatch.setattr(helper, "_limits", TrialLimits(patience_s=0.5))
        pid = helper.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(HelperUnavailable, match=r"took longer than .* try again"):
            helper.refusal(demo, GOOD)
        assert is_gone(pid)
    finally:
        helper.close()


def test_a_process_that_somebody_else_ends_is_replaced(
    helper: GrammarHelper, demo: ModelTokens
) -> None:
    assert helper.refusal(demo, GOOD) is None
    first = helper.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert helper.refusal(demo, GOOD) is None

    second = helper.pid
    assert second is not None
    os.kill(second, signal.SIGSTOP)  # now in the midst of its work
    killer = threading.Timer(0.3, os.kill, (second, signal.SIGKILL))
    killer.start()
    assert helper.refusal(demo, GOOD) is None
    killer.join()
    assert helper.starts == 3


def test_closing_ends_the_process_and_the_calls_that_wait_for_it(demo: ModelTokens) -> None:
    helper = GrammarHelper()
    assert helper.refusal(demo, GOOD) is None
    pid = helper.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    caught: list[Exception] = []

    def ask() -> None:
        try:
            helper.refusal(demo, GOOD)
        except Exception as error:
            caught.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    helper.close()
    asking.join(60)
    assert isinstance(caught[0], EngineClosed)
    assert not psutil.pid_exists(pid)  # not even a zombie
    with pytest.raises(EngineClosed):
        helper.refusal(demo, GOOD)


PROGRAM = """
import sys
sys.path.insert(0, {root!r})
from engine.grammar.compilation import ModelTokens
from engine.grammar.form_compiler import GrammarHelper
tokens = ModelTokens([b"<end>", *(bytes([byte]) for byte in range(256))], [0], [0])
helper = GrammarHelper()
print(helper.refusal(tokens, "start: %json {{}}"), helper.pid, flush=True)
sys.stdin.read()
"""


def test_the_process_finds_its_modules_from_anywhere_and_ends_when_the_program_is_killed(
    tmp_path: Path,
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong module')")
    code = PROGRAM.format(root=str(ROOT))
    program = subprocess.Popen(
        [sys.executable, "-I", "-c", code],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with program:
        assert program.stdout is not None
        refusal, pid = program.stdout.readline().split()
        assert refusal == "None"
        assert not is_gone(int(pid))
        program.kill()
    until(lambda: is_gone(int(pid)))


def test_the_process_needs_no_model_and_no_window() -> None:
    code = (
        "import sys, engine.grammar.compilation;"
        "print(sorted({'mlx', 'mlx_lm', 'PySide6', 'transformers', 'aiohttp'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
