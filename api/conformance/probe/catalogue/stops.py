"""The probe's cases of stops, limits and thinking, in the order of a report. Pure; any thread."""

from api.conformance.captures.values import WireDialect
from api.conformance.probe.cases import Case, Level
from api.conformance.probe.dialects.references import Topic

_EXACT = "The answer ends right before the stop, whole and streamed"

STOP_CASES: tuple[Case, ...] = (
    Case(
        "baseline",
        "The same question twice, and streamed",
        "At temperature 0 a streamed answer has the text of the whole one.",
        Topic.STREAM,
    ),
    Case(
        "stop.one_character",
        "Stop: one character",
        f"{_EXACT}, and the reason says that a stop ended it.",
        Topic.STOPS,
    ),
    Case(
        "stop.inside_token",
        "Stop: inside a piece of the stream",
        f"{_EXACT}, also where the stop is inside one token.",
        Topic.STOPS,
    ),
    Case(
        "stop.across_tokens",
        "Stop: across tokens",
        f"{_EXACT}, also where several tokens spell the stop.",
        Topic.STOPS,
    ),
    Case(
        "stop.across_newline",
        "Stop: across a line break",
        f"{_EXACT}, also where the stop contains a line break.",
        Topic.STOPS,
    ),
    Case(
        "stop.leading_space",
        "Stop: with a leading space",
        f"{_EXACT}; the white space of a stop belongs to it.",
        Topic.STOPS,
    ),
    Case(
        "stop.overlapping",
        "Stop: two that overlap",
        "Of stops that overlap, the one whose last character comes first ends the answer.",
        Topic.STOPS,
        Level.OPINION,
    ),
    Case(
        "stop.shadowed",
        "Stop: one that begins another",
        "A stop that begins a longer one ends the answer before the longer one is complete.",
        Topic.STOPS,
        Level.OPINION,
    ),
    Case(
        "stop.nested",
        "Stop: one inside a longer one",
        "A stop inside a longer one that is never complete ends the answer right before it.",
        Topic.STOPS,
    ),
    Case(
        "stop.after_space",
        "Stop: after white space",
        "White space before a stop is part of the answer.",
        Topic.STOPS,
    ),
    Case(
        "stop.among_others",
        "Stop: one in a list of four",
        f"{_EXACT}, whichever stop of a list it is.",
        Topic.STOPS,
    ),
    Case(
        "stop.recurring_prefix",
        "Stop: never complete, though its beginning recurs",
        "A stop that is never complete changes nothing, however often its beginning occurs.",
        Topic.STOPS,
    ),
    Case(
        "stop.held_at_the_end",
        "Stop: begun by the last characters, never complete",
        "Text that could have become a stop is part of the answer when the answer ends.",
        Topic.STOPS,
    ),
    Case(
        "stop.last_characters",
        "Stop: the last characters",
        f"{_EXACT}, also where the stop is the very end of the answer.",
        Topic.STOPS,
    ),
    Case(
        "stop.very_first",
        "Stop: the very beginning",
        "A stop at the beginning leaves an empty answer.",
        Topic.STOPS,
    ),
    Case(
        "stop.unicode",
        "Stop: beyond ASCII",
        f"{_EXACT}, also where the stop is not ASCII.",
        Topic.STOPS,
    ),
    Case(
        "reason.natural",
        "The reason without stops",
        "An answer to a request without stops is not said to be ended by one.",
        Topic.REASON,
    ),
    Case(
        "stops.sticky",
        "Stops of the request before",
        "A request without stops has none, whatever the request before it had.",
        Topic.STOPS,
    ),
    Case(
        "stops.concurrent",
        "Stops of requests at the same time",
        "Requests at the same time each have their own stops.",
        Topic.STOPS,
    ),
    Case(
        "limit",
        "A limit of tokens",
        "The limit ends the answer and is named as the reason.",
        Topic.LIMIT,
    ),
    Case(
        "limit.held",
        "Text held at the limit",
        "Text that could have become a stop is part of the answer when the limit ends it.",
        Topic.LIMIT,
    ),
    Case(
        "limit.stop_on_last_token",
        "A stop on the last allowed token",
        "A stop that the last allowed token completes is named as the reason.",
        Topic.REASON,
        Level.OPINION,
    ),
    Case(
        "thinking.off",
        "Thinking switched off",
        "With thinking switched off no tag of it is in the text, nor any thinking if it can be.",
        Topic.THINKING,
        Level.OPINION,
    ),
    Case(
        "thinking.stop",
        "A stop that occurs in thinking only",
        "A stop that occurs in the thinking alone does not take the answer away.",
        Topic.STOPS,
        Level.OPINION,
    ),
    Case(
        "stops.none",
        "No stops: an empty list, null",
        "An empty list, or null, means that there are no stops.",
        Topic.STOPS,
    ),
    Case(
        "stops.string",
        "A bare string for one stop",
        "One stop may stand without a list.",
        Topic.STOPS,
    ),
    Case(
        "stops.empty",
        "An empty stop",
        "An empty stop is refused or ignored, whole and streamed; it never matches.",
        Topic.STOPS,
    ),
    Case(
        "stops.blank",
        "A stop of white space",
        "A stop of white space is refused, or is a stop like any other.",
        Topic.STOPS,
    ),
    Case(
        "stops.token_ids",
        "Stop token ids",
        "A token whose id is listed ends the answer.",
        Topic.TOKEN_IDS,
    ),
    Case(
        "stops.many",
        "More stops than four",
        "Every stop of a list counts, or the list is refused.",
        Topic.STOPS,
        # Two vendors allow no more than four.
        weaker_in=frozenset({WireDialect.CHAT, WireDialect.COMPLETIONS}),
    ),
    Case(
        "stops.long",
        "A long stop",
        "A long stop ends the answer where it is complete, and only there.",
        Topic.STOPS,
    ),
    Case(
        "stops.literal",
        "Stops that resemble the text",
        "A stop is text: its case counts, and it is neither a pattern nor an escape.",
        Topic.STOPS,
    ),
    Case(
        "stops.code_points",
        "Stops of other code points",
        "A stop matches the same code points only: no normalisation, no other line breaks.",
        Topic.STOPS,
        Level.OPINION,
    ),
)
