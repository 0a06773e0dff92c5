"""The stops of a request, and their limits, which are the same everywhere.

Pure values and checks; knows no model. Used on every thread.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, get_args, get_type_hints

from engine.errors import InvalidRequest
from engine.stopping.record import Channel
from engine.stopping.repetition import RepetitionDetection

MAX_STOPS = 64
MAX_STOP_CHARS = 4096
# No list may cost the engine thread more than 5 ms.
MAX_ALL_STOPS_CHARS = 65_536
MAX_STOP_TOKEN_IDS = 16_384
_SURROGATE = re.compile("[\ud800-\udfff]")


class StopScope(StrEnum):
    """The channels in which stop strings count."""

    TEXT = "text"
    TEXT_AND_THINKING = "text+thinking"
    ALL = "all"

    @property
    def channels(self) -> frozenset[Channel]:
        return _CHANNELS[self]


_CHANNELS = {
    StopScope.TEXT: frozenset({Channel.TEXT}),
    StopScope.TEXT_AND_THINKING: frozenset({Channel.TEXT, Channel.THINKING}),
    StopScope.ALL: frozenset(Channel),
}


def _option(default: Any, title: str, help_text: str) -> Any:
    return field(default=default, metadata={"title": title, "help": help_text})


@dataclass(frozen=True, slots=True)
class Stop:
    """One stop of a request: its text, and how it counts where it differs from the others.

    Every field but the text is an option of one stop: saved runs, stop lists, the object
    ``fullstop`` of every dialect and the random cases of the contract are made from the fields.
    What compares a stop with a text does so with ``find``; only the matcher has its own way.

    Attributes:
        text: Matched code point by code point on decoded text.
        scope: The channels in which it counts; None for the request's.
    """

    text: str
    scope: StopScope | None = _option(None, "Where it applies", "where this stop counts")

    def find(self, text: str, start: int = 0, chars: int | None = None) -> int:
        """Return where its first ``chars`` characters (None: all) are in a text, -1 if nowhere."""
        return text.find(self.text[:chars], start)

    def outruns(self, other: "Stop", scope: StopScope) -> bool:
        """Whether it is always complete before another stop of a request with this scope."""
        here, there = (self.scope or scope).channels, (other.scope or scope).channels
        return bool(self.text) and there <= here and self.find(other.text[:-1]) >= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOptions:
    """How the stops of one request count.

    The command line, saved runs, the window and the API take the options from here: each field is
    an option, with its ``title`` and ``help``.
    """

    scope: StopScope = _option(
        StopScope.TEXT,
        "Scope of stops",
        "where stops count: text, text+thinking, or all (tool calls as well)",
    )
    include_stop: bool = _option(
        False, "Keep the stop in the answer", "keep the stop that ends the answer in its text"
    )
    ignore_eos: bool = _option(
        False,
        "Go on after the end token",
        "go on where the model would end by itself; stops and limits still end it",
    )
    ignore_template_eos: bool = _option(
        False,
        "Go on after the template’s end tokens",
        "go on after an end token that the chat template names and no file of the model does",
    )
    min_tokens: int = _option(
        0, "Stops count after", "let no stop end the answer within its first N tokens"
    )


@dataclass(frozen=True, slots=True)
class StopRules(StopOptions):
    """The stops of one request, and how they count.

    Attributes:
        stops: The stops that are text, each text once.
        token_ids: Token ids that end generation beside the model's own EOS ids.
        repetition: The cycle of tokens that ends generation; None for none.
    """

    stops: tuple[Stop, ...] = ()
    token_ids: tuple[int, ...] = ()
    repetition: RepetitionDetection | None = None

    @classmethod
    def of(cls, *strings: str, **others: Any) -> "StopRules":
        """Return the rules of stops without options of their own; ``others`` are other fields."""
        return cls(tuple(map(Stop, strings)), **others)

    @property
    def strings(self) -> tuple[str, ...]:
        return tuple(stop.text for stop in self.stops)

    def with_options(self, options: StopOptions) -> "StopRules":
        """Return the same stops with other options."""
        return replace(
            self, **{option.name: getattr(options, option.name) for option in STOP_OPTIONS}
        )

    def with_strings(self, strings: Iterable[str]) -> "StopRules":
        """Return rules with these texts; a stop that is here already keeps its options."""
        known = {stop.text: stop for stop in self.stops}
        return replace(self, stops=tuple(known.get(text, Stop(text)) for text in strings))

    def scope_of(self, stop: Stop) -> StopScope:
        return stop.scope or self.scope

    def counting_in(self, channel: Channel) -> tuple[int, ...]:
        return tuple(
            number
            for number, stop in enumerate(self.stops)
            if channel in self.scope_of(stop).channels
        )


@dataclass(frozen=True, slots=True)
class StopOption:
    """An option of ``StopOptions`` or of one ``Stop``, for code that offers all of them."""

    name: str
    kind: type
    default: Any
    title: str
    help: str


def _options(owner: type) -> tuple[StopOption, ...]:
    kinds = get_type_hints(owner)
    return tuple(
        StopOption(
            option.name,
            next((kind for kind in get_args(kinds[option.name]) if kind), kinds[option.name]),
            option.default,
            option.metadata["title"],
            option.metadata["help"],
        )
        for option in fields(owner)
        if option.metadata
    )


STOP_OPTIONS = _options(StopOptions)
# Those of one stop.
OWN_STOP_OPTIONS = _options(Stop)


def checked_strings(values: Sequence[object], field: str) -> tuple[str, ...]:
    """Return the stop strings of a request, checked, without duplicates, in their order.

    Raises:
        InvalidRequest: The message names the item or the limit.
    """
    kept: dict[str, None] = {}
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise InvalidRequest(
                f"{field}[{index}]", f"must be a string, not {type(value).__name__}"
            )
        if value not in kept:
            _check_string(value, f"{field}[{index}]")
            kept[value] = None
            if len(kept) > MAX_STOPS:
                raise InvalidRequest(
                    field, f"at most {MAX_STOPS} stop sequences are accepted, got {len(values)}"
                )
    length = sum(map(len, kept))
    if length > MAX_ALL_STOPS_CHARS:
        raise InvalidRequest(
            field,
            f"all stop sequences together may have at most {MAX_ALL_STOPS_CHARS} characters, "
            f"these have {length}",
        )
    return tuple(kept)


def checked_token_ids(values: Sequence[int]) -> tuple[int, ...]:
    """Return the stop ids of a request without duplicates; raises ``InvalidRequest``.

    Whether they are in the vocabulary is checked once the model is known.
    """
    kept = tuple(dict.fromkeys(values))
    if len(kept) > MAX_STOP_TOKEN_IDS:
        raise InvalidRequest(
            "stops.token_ids",
            f"at most {MAX_STOP_TOKEN_IDS} stop token ids are accepted, got {len(kept)}",
        )
    return kept


def _check_string(value: str, where: str) -> None:
    if not value:
        raise InvalidRequest(where, "each stop sequence must be non-empty")
    if len(value) > MAX_STOP_CHARS:
        raise InvalidRequest(
            where,
            f"a stop sequence may have at most {MAX_STOP_CHARS} characters, "
            f"this one has {len(value)}",
        )
    if _SURROGATE.search(value):
        raise InvalidRequest(where, "contains a lone surrogate, which no text can match")
