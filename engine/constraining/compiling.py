"""Compiles grammars with llguidance, and puts its errors into words.

Needs no other part of the program, so that the trial process starts fast. Any thread; the library
lets other threads run meanwhile.
"""

import re
from typing import Any

_PLACE = re.compile(r'^(at \d+\(\d+\): )?(failed to (compile JSON schema|parse "%json"): )?')
_MOST_WORDS = 120
_QUOTATION = re.compile(r"\n +\d+ \| |\n<")


def new_tokenizer(text: str, size: int, eos: list[int]) -> Any:
    """Return the library's form of a model's vocabulary; takes a second for a large one.

    Args:
        text: The Hugging Face tokenizer, as JSON.
        size: The number of ids.
        eos: The ids that end an answer.

    Raises:
        ValueError: The library cannot use it.
    """
    from llguidance import LLTokenizer

    try:
        return LLTokenizer(text, n_vocab=size, eos_token=eos)
    except BaseException as error:
        if isinstance(error, Exception) or not is_panic(error):
            raise
        raise ValueError(f"the library failed: {error}") from error


def new_matcher(tokenizer: Any, grammar: str) -> Any:
    """Return a matcher at the beginning of a grammar.

    Args:
        tokenizer: What ``new_tokenizer`` returned.
        grammar: In llguidance's Lark dialect.

    Raises:
        ValueError: The grammar is wrong, or too large; the message is one line.
    """
    from llguidance import LLMatcher, LLParserLimits

    limits = LLParserLimits(verbose_errors=False)
    try:
        lark = LLMatcher.grammar_from_lark(grammar)
        matcher = LLMatcher(tokenizer, lark, log_level=0, limits=limits)
        matcher.compute_bitmask()
    except BaseException as error:
        if isinstance(error, Exception) or not is_panic(error):
            raise
        raise ValueError(f"the compiler failed: {in_words(str(error))}") from error
    if matcher.is_error():
        raise ValueError(in_words(matcher.get_error()))
    if matcher.is_stopped() and not matcher.is_accepting():
        raise ValueError("no value can satisfy it")
    return matcher


def is_panic(error: BaseException) -> bool:
    """Say whether an exception is a Rust library's panic, which is no ``Exception``."""
    return type(error).__name__ == "PanicException"


def in_words(error: str) -> str:
    """Return the library's error about a grammar, without its quotation of the grammar."""
    reason = " ".join(_PLACE.sub("", _QUOTATION.split(error)[0]).split())
    if len(reason) > _MOST_WORDS:  # names and patterns of the schema, however long they are
        reason = f"{reason[: _MOST_WORDS - 1]}…"
    if reason in ("NoExtension", "NoExtensionBias"):
        return "no value can satisfy it"
    if "coerce_one_of" in reason:
        return "oneOf is supported only where its branches exclude each other; use anyOf"
    if reason.startswith("Unimplemented keys: "):
        return f"keywords that are not supported: {reason.removeprefix('Unimplemented keys: ')}"
    return reason
