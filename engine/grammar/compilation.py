"""Compiles grammars with llguidance, within limits."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_POSITION = re.compile(r'^(at \d+\(\d+\): )?(failed to (compile JSON schema|parse "%json"): )?')
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

TOO_AMBIGUOUS = (
    "its grammar can read the same text in too many ways, or has too many alternatives in one "
    "place, so that following it takes too much computing: make it less ambiguous"
)


class _ModelTokens:
    """A model's vocabulary with the attributes and the call that llguidance reads."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(
        self,
        raw: Sequence[bytes],
        special: Sequence[int],
        eos: Sequence[int],
        encode: Callable[[str], list[int]],
    ) -> None:
        self.tokens = list(raw)
        self.special_token_ids = list(special)
        self.eos_token_ids = list(eos)
        self.eos_token_id = eos[0]
        self.library_tokenizer: Any = None
        self._encode = encode

    def __call__(self, text: str) -> list[int]:
        """Return the ids of exactly this text; some tokenizers put a space before it."""
        ids = self._encode(text)
        if b"".join([self.tokens[token_id] for token_id in ids]) == text.encode():
            return ids
        made = self.library_tokenizer
        return ids if made is None else list(made.greedy_tokenize(text))


def new_tokenizer(
    raw: Sequence[bytes],
    special: Sequence[int],
    eos: Sequence[int],
    encode: Callable[[str], list[int]] = lambda text: [],
) -> Any:
    """Return the library's form of a model's vocabulary.

    The library blocks all Python threads meanwhile, for 0.1 to 0.3 s with 150,000 tokens.
    """
    from llguidance import LLTokenizer

    tokens = _ModelTokens(raw, special, eos, encode)
    given: Any = tokens
    with _panics_as_errors("the library failed"):
        tokens.library_tokenizer = LLTokenizer(given, eos_token=tokens.eos_token_ids, slices=[])
    return tokens.library_tokenizer


@contextmanager
def _panics_as_errors(what: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        if not is_panic(error):
            raise
        raise ValueError(f"{what}: {explain_error(str(error))}") from error


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
    with _panics_as_errors("the compiler failed"):
        whole = grammar if is_own else LLMatcher.grammar_from_lark(grammar)
        matcher = LLMatcher(tokenizer, whole, log_level=0, limits=limits)
        # All copies share these results. Computing them for a schema with thousands of properties
        # takes longer than one token may. The forced text is computed on a copy: it changes the
        # matcher, which would then have no mask for reasoning before the answer.
        matcher.compute_bitmask()
        matcher.deep_copy().compute_ff_bytes()
        if matcher.is_error():
            raise ValueError(explain_error(matcher.get_error()))
        _check_openings(matcher.deep_copy(), tokenizer)
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
    raise ValueError(explain_error(f"it is neither Lark (with a rule start:) nor GBNF: {detail}"))


def is_panic(error: BaseException) -> bool:
    """Return whether an exception is a panic of a Rust library, which is not an ``Exception``."""
    return type(error).__name__ == "PanicException"


def explain_error(error: str) -> str:
    """Return the library's error about a grammar in plain words, without its quotation of it."""
    if _TOO_MANY_READINGS in error or f"max is {_MAX_ROW_ITEMS}" in error:
        return TOO_AMBIGUOUS
    if _TOO_WIDE in error:
        return (
            "it has too many optional properties or alternatives in one place (about 500 optional "
            "properties are supported): name more of them in required, or give fewer alternatives"
        )
    reason = " ".join(_POSITION.sub("", _QUOTATION.split(error)[0]).split())
    if reason in ("NoExtension", "NoExtensionBias", "Unsatisfiable schema: anyOf is empty"):
        return "no value can satisfy it"
    if "coerce_one_of" in reason:
        return "oneOf is supported only where its branches exclude each other; use anyOf"
    if reason.startswith("Unimplemented keys: "):
        return f"keywords that are not supported: {reason.removeprefix('Unimplemented keys: ')}"
    if len(reason) > 200:  # names and patterns of the schema, as long as the client's are
        reason = f"{reason[:100]}…{reason[-99:]}"
    return reason


def _check_openings(matcher: Any, tokenizer: Any, levels: int = 2) -> None:
    """Refuse a grammar whose first objects and lists have too many alternatives to begin.

    Otherwise its answer would begin and then end in an error.
    """
    bits = matcher.compute_bitmask()
    if matcher.is_error():
        raise ValueError(explain_error(matcher.get_error()))
    for text in "{[" if levels else "":
        token, *others = tokenizer.greedy_tokenize(text)
        if not others and bits[token >> 3] >> (token & 7) & 1:
            inner = matcher.deep_copy()
            inner.consume_token(token)
            _check_openings(inner, tokenizer, levels - 1)
