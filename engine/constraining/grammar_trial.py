"""The process that compiles each grammar first, because compiling may crash a process.

Started as ``python -m engine.constraining.grammar_trial``.
Reads frames from its standard input and answers each on its standard output; ends with its input.
The content of each frame is a line of JSON; for a vocabulary, the sizes of its tokens (four bytes
each) and their bytes follow:

    {"tokens": n, "special": [ids], "eos": [ids]}                → {}
    {"tokens": 0, "grammar": text, "cpu_s": s, "most_bytes": n}  → {} or {"refused": reason}
    {"tokens": 0, "translate": text, …}                  → {"lark": text} or {"refused": reason}

Imports neither MLX nor Qt. It has limits that the program itself does not have (time, memory and a
small stack), so a grammar that compiles here also compiles safely in the program.
"""

import itertools
import os
import random
import sys
import threading
from array import array
from collections.abc import Sequence
from json import dumps, loads
from typing import Any

from engine.constraining.compiling import (
    ModelTokens,
    as_lark,
    in_words,
    is_panic,
    new_matcher,
    new_tokenizer,
)
from engine.processes.frames import read_frame, write_frame
from engine.processes.own_limits import CpuTimer, allow_memory, give_way

_TOKENIZER_CPU_S = 120.0
_STACK_BYTES = 3 << 19
# How many tokens are drawn from the grammar, as a model would: computing masks is native code that
# may crash, too.
_DRAWN = 48


def main() -> None:
    """Answer frames until the input ends."""
    give_way()
    threading.stack_size(_STACK_BYTES)
    # Output that a library prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    tokenizer: Any = None
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        head, _, rest = frame.partition(b"\n")
        asked = loads(head)
        if asked["tokens"]:
            allow_memory(None)
            tokenizer = None
            with CpuTimer(_TOKENIZER_CPU_S):
                raw = _cut(rest, asked["tokens"])
                tokenizer = new_tokenizer(ModelTokens(raw, asked["special"], asked["eos"]))
            answer: dict[str, Any] = {}
        else:
            allow_memory(asked["most_bytes"])
            with CpuTimer(asked["cpu_s"]):
                answer = _answer(tokenizer, asked)
        write_frame(answers, dumps(answer).encode())


def _cut(joined: bytes, count: int) -> list[bytes]:
    """Return the tokens whose sizes and bytes follow one another."""
    sizes = array("I", joined[: 4 * count])
    ends = itertools.accumulate(sizes, initial=4 * count)
    return [joined[start:end] for start, end in itertools.pairwise(ends)]


def _answer(tokenizer: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """Translate a grammar, or compile it and draw some tokens, on a thread with a small stack."""
    found: list[dict[str, Any]] = []

    def work() -> None:
        answer: dict[str, Any] = {}
        try:
            if "translate" in asked:
                answer["lark"] = as_lark(asked["translate"])
            else:
                _follow(new_matcher(tokenizer, asked["grammar"]), _openings(tokenizer))
        except ValueError as error:
            found.append({"refused": str(error)})
        except MemoryError:
            found.append({"refused": "it takes too much memory"})
        except BaseException as error:
            if not is_panic(error):
                raise
            found.append({"refused": "the compiler failed"})
        else:
            found.append(answer)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0]


def _openings(tokenizer: Any) -> list[int]:
    """Return the tokens that begin an object and a list, if such tokens exist."""
    written = (tokenizer.greedy_tokenize(text) for text in "{[")
    return [ids[0] for ids in written if len(ids) == 1]


def _follow(matcher: Any, openings: Sequence[int] = ()) -> None:
    """Follow a grammar at random, and a second time into every possible object and list."""
    second = matcher.deep_copy()
    _draw(matcher, openings, prefers=False)
    if openings:
        _draw(second, openings, prefers=True)


def _draw(matcher: Any, openings: Sequence[int], *, prefers: bool) -> None:
    draws = random.Random(0)
    for _ in range(_DRAWN):
        bits = matcher.compute_bitmask()
        matcher.compute_ff_bytes()
        if matcher.is_error() or matcher.is_stopped():
            return
        begun = [token for token in openings if bits[token >> 3] >> (token & 7) & 1]
        for token in begun:
            _open(matcher.deep_copy(), token, openings)
        if prefers and begun:
            token = begun[0]
        else:
            start = draws.randrange(len(bits))
            left = bits[start:].lstrip(b"\0") or bits.lstrip(b"\0")
            if not left:
                return
            within = draws.choice([bit for bit in range(8) if left[0] >> bit & 1])
            token = (len(bits) - len(left)) * 8 + within
        if not matcher.consume_token(token):
            return


def _open(matcher: Any, token: int, openings: Sequence[int], levels: int = 2) -> None:
    """Check that an object or a list can begin, and those that can begin within it."""
    matcher.consume_token(token)
    bits = matcher.compute_bitmask()
    if matcher.is_error():
        raise ValueError(in_words(matcher.get_error()))
    for inner in openings if levels > 1 else ():
        if bits[inner >> 3] >> (inner & 7) & 1:
            _open(matcher.deep_copy(), inner, openings, levels - 1)


if __name__ == "__main__":
    main()
