"""All questions of the probe, as data.

Pure; any thread.
"""

from api.conformance.captures.values import WireDialect
from api.conformance.probe.references import Topic
from api.conformance.probe.values import Case, Level

# The probe's cases of stops, limits and thinking, in the order of a report.

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


# The cases of tools, counts, streams, form and errors, in their order.

_REFUSED = "is refused with status 400 and the dialect's error object; the server lives on."

ANSWER_CASES: tuple[Case, ...] = (
    Case(
        "choices.stop",
        "A stop in several choices",
        "Each of several choices ends at the stop.",
        Topic.CHOICES,
    ),
    Case(
        "logprobs.stop",
        "Logprobs beside a stop",
        "Logprobs are listed for the tokens of the text, not for those behind the stop.",
        Topic.LOGPROBS,
    ),
    Case(
        "tools.stop",
        "A stop inside the arguments of a call",
        "A stop inside the arguments of a call does not leave half a call.",
        Topic.TOOLS,
        Level.OPINION,
    ),
    Case(
        "structured.stop",
        "A stop in structured output",
        "A stop ends an answer of a given structure like any other.",
        Topic.STRUCTURED,
        Level.OPINION,
    ),
    Case(
        "usage.counts",
        "Counts of tokens",
        "No count is negative, an answer with text has output tokens, and totals are sums.",
        Topic.USAGE,
    ),
    Case(
        "usage.streamed",
        "Counts of streamed answers",
        "The same answer has the same count of tokens, whole or streamed.",
        Topic.USAGE,
    ),
    Case(
        "usage.stop",
        "Counts of tokens with a stop",
        "All tokens generated are counted, those of the stop included.",
        Topic.USAGE,
    ),
    Case(
        "stream.pace",
        "The pace of a stream",
        "The first piece of a stream comes long before the last.",
        Topic.STREAM,
    ),
    Case(
        "hang_up.streamed",
        "Clients that leave a stream",
        "After clients have left a stream the next one is answered as soon as ever.",
        Topic.STREAM,
        Level.OPINION,
    ),
    Case(
        "hang_up.whole",
        "Clients that do not wait for an answer",
        "After clients have left before their answer the next one is answered as soon as ever.",
        Topic.FORM,
        Level.OPINION,
    ),
    Case(
        "form.streamed",
        "Events of streamed answers",
        "Every stream has the events of its dialect, in their order, and ends.",
        Topic.STREAM,
    ),
    Case(
        "form.whole",
        "Fields of whole answers",
        "Every whole answer has the fields of its dialect.",
        Topic.FORM,
    ),
    Case(
        "stream.framing",
        "Streams as such",
        "A stream is sent where one is asked for, with its content type, and it ends.",
        Topic.STREAM,
    ),
    Case("errors.json", "A body that is not JSON", f"A broken body {_REFUSED}", Topic.ERRORS),
    Case("errors.prompt", "A number for the prompt", f"A wrong type {_REFUSED}", Topic.ERRORS),
    Case("errors.limit", "A word for the limit", f"A wrong type {_REFUSED}", Topic.ERRORS),
    Case("errors.stop_object", "An object for the stops", f"A wrong type {_REFUSED}", Topic.ERRORS),
    Case("errors.stop_number", "A number for the stops", f"A wrong type {_REFUSED}", Topic.ERRORS),
    Case("errors.stop_item", "A number among the stops", f"A wrong type {_REFUSED}", Topic.ERRORS),
)


# All cases of the probe, in the order in which a report lists them.

CASES: tuple[Case, ...] = (*STOP_CASES, *ANSWER_CASES)

_BY_CODE = {case.code: case for case in CASES}


def case_of(code: str) -> Case:
    """Return the case with an id."""
    return _BY_CODE[code]
