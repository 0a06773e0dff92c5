"""Compiles grammars with llguidance, and tries them out in a process that may die of them."""

import itertools
import os
import random
import re
import sys
import threading
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from json import dumps, loads
from typing import Any

from engine.processes import CpuTimer, allow_memory, give_way, read_frame, write_frame

_PLACE = re.compile(r'^(at \d+\(\d+\): )?(failed to (compile JSON schema|parse "%json"): )?')
_MAX_REASON = 200
# Part of the library's error where a place has too many alternatives: each optional property that
# may come next takes four of at most 2,000 items.
_TOO_WIDE = "Current row has"
# Of a grammar that reads the same text in many ways, each token takes more work than the one
# before, by the third power of the items in a row. A client's own grammar can be of that kind; one
# made from a JSON schema cannot, and has wide rows where an object has hundreds of optional
# properties. With these limits a token takes up to some 40 ms of processor time.
_MAX_ROW_ITEMS, _MAX_STEP_ITEMS = 800, 3_000
_TOO_MANY_READINGS = "Too many items"
_QUOTATION = re.compile(r"\n +\d+ \| |\n<")


@dataclass(frozen=True, slots=True, eq=False)
class ModelTokens:
    """A model's vocabulary in the form that the library needs."""

    raw: Sequence[bytes]
    special: Sequence[int]
    eos: Sequence[int]


class _LibraryVocabulary:
    """A vocabulary with the attributes that the library reads."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, tokens: ModelTokens, encode: Callable[[str], list[int]]) -> None:
        self.tokens = list(tokens.raw)
        self.special_token_ids = list(tokens.special)
        self.eos_token_id = tokens.eos[0]
        self._encode = encode

    def __call__(self, text: str) -> list[int]:
        return self._encode(text)


def new_tokenizer(tokens: ModelTokens, encode: Callable[[str], list[int]] | None = None) -> Any:
    """Return the library's form of a model's vocabulary.

    The library blocks all Python threads meanwhile, for 0.1 to 0.3 s with 150,000 tokens. (Passing
    the tokenizer as JSON would take more than a second. The library's slices, which save a tenth of
    a millisecond per token of an answer, would double the time.)
    """
    from llguidance import LLTokenizer

    made: list[Any] = []

    def exactly(text: str) -> list[int]:
        ids = [] if encode is None else encode(text)
        # Some tokenizers put a space before a text.
        if b"".join([tokens.raw[token_id] for token_id in ids]) != text.encode():
            ids = made[0].greedy_tokenize(text) if made else ids
        return ids

    try:
        made_of: Any = _LibraryVocabulary(tokens, exactly)
        made.append(LLTokenizer(made_of, eos_token=list(tokens.eos), slices=[]))
    except BaseException as error:
        if isinstance(error, Exception) or not is_panic(error):
            raise
        raise ValueError(f"the library failed: {error}") from error
    return made[0]


def new_matcher(tokenizer: Any, grammar: str) -> Any:
    """Compile a grammar; return a matcher at its beginning."""
    from llguidance import LLMatcher, LLParserLimits

    # Grammars as JSON contain a client's own; no rule of Lark begins with a brace.
    is_own = grammar.startswith("{")
    limits = LLParserLimits(
        verbose_errors=False,
        max_items_in_row=_MAX_ROW_ITEMS if is_own else None,
        step_max_items=_MAX_STEP_ITEMS if is_own else None,
    )
    try:
        whole = grammar if is_own else LLMatcher.grammar_from_lark(grammar)
        matcher = LLMatcher(tokenizer, whole, log_level=0, limits=limits)
        # All copies share these results. Computing them for a schema with thousands of properties
        # takes longer than one token may. The forced text is computed on a copy: it changes the
        # matcher, which would then have no mask for reasoning before the answer.
        matcher.compute_bitmask()
        matcher.deep_copy().compute_ff_bytes()
    except BaseException as error:
        if isinstance(error, Exception) or not is_panic(error):
            raise
        raise ValueError(f"the compiler failed: {in_words(str(error))}") from error
    if matcher.is_error():
        raise ValueError(in_words(matcher.get_error()))
    if matcher.is_stopped() and not matcher.is_accepting():
        raise ValueError("no value can satisfy it")
    return matcher


def as_lark(grammar: str) -> str:
    """Return a grammar of a request in Lark; one in GBNF is translated."""
    from llguidance.gbnf_to_lark import any_to_lark

    try:
        return str(any_to_lark(grammar))
    except Exception as error:  # the translator has a kind of error for each of its parts
        detail = str(error) or type(error).__name__
    raise ValueError(in_words(f"it is neither Lark (with a rule start:) nor GBNF: {detail}"))


def is_panic(error: BaseException) -> bool:
    """Return whether an exception is a panic of a Rust library, which is not an ``Exception``."""
    return type(error).__name__ == "PanicException"


TOO_AMBIGUOUS = (
    "its grammar can read the same text in too many ways, or has too many alternatives in one "
    "place, so that following it takes too much computing: make it less ambiguous"
)


def in_words(error: str) -> str:
    """Return the library's error about a grammar in plain words, without its quotation of it."""
    if _TOO_MANY_READINGS in error or f"max is {_MAX_ROW_ITEMS}" in error:
        return TOO_AMBIGUOUS
    if _TOO_WIDE in error:
        return (
            "it has too many optional properties or alternatives in one place (about 500 optional "
            "properties are supported): name more of them in required, or give fewer alternatives"
        )
    reason = " ".join(_PLACE.sub("", _QUOTATION.split(error)[0]).split())
    if reason in ("NoExtension", "NoExtensionBias", "Unsatisfiable schema: anyOf is empty"):
        return "no value can satisfy it"
    if "coerce_one_of" in reason:
        return "oneOf is supported only where its branches exclude each other; use anyOf"
    if reason.startswith("Unimplemented keys: "):
        return f"keywords that are not supported: {reason.removeprefix('Unimplemented keys: ')}"
    if len(reason) > _MAX_REASON:  # names and patterns of the schema, as long as the client's are
        reason = f"{reason[: _MAX_REASON // 2]}…{reason[1 - _MAX_REASON // 2 :]}"
    return reason


# The process that compiles each grammar of a client first. It reads frames from its standard input
# and answers each on its standard output. A frame is a line of JSON; for a vocabulary, the sizes of
# its tokens (four bytes each) and their bytes follow:
#
#   {"tokens": n, "special": [ids], "eos": [ids]}                        → {}
#   {"tokens": 0, "grammar": text, "cpu_s": s, "most_bytes": n}          → {} or {"refused": reason}
#   {"tokens": 0, "translate": text, "cpu_s": s, "most_bytes": n}        → {"lark": text} or refused
#
# It has limits that the program itself does not have (time, memory and a small stack), so a grammar
# that compiles here also compiles safely there.

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
    answers: list[dict[str, Any]] = []

    def work() -> None:
        answer: dict[str, Any] = {}
        try:
            if "translate" in asked:
                answer["lark"] = as_lark(asked["translate"])
            else:
                _follow(new_matcher(tokenizer, asked["grammar"]), _openings(tokenizer))
        except ValueError as error:
            answers.append({"refused": str(error)})
        except MemoryError:
            answers.append({"refused": "it takes too much memory"})
        except BaseException as error:
            if not is_panic(error):
                raise
            answers.append({"refused": "the compiler failed"})
        else:
            answers.append(answer)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return answers[0]


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
