"""All cases of the probe, in the order in which a report lists them. Pure; any thread."""

from api.conformance.probe.cases import Case, Level
from api.conformance.probe.dialects.references import Topic

_EXACT = "The answer ends right before the stop, whole and streamed"
_REFUSED = "is refused with status 400 and the dialect's error object; the server lives on."

CASES: tuple[Case, ...] = (
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
        "limit",
        "A limit of tokens",
        "The limit ends the answer and is named as the reason.",
        Topic.LIMIT,
    ),
    Case(
        "thinking.off",
        "Thinking switched off",
        "With thinking switched off there is none, and no tag of it is in the text.",
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
    Case("errors.json", "A body that is not JSON", f"A broken body {_REFUSED}", Topic.ERRORS),
    Case("errors.prompt", "A number for the prompt", f"A wrong type {_REFUSED}", Topic.ERRORS),
    Case("errors.limit", "A word for the limit", f"A wrong type {_REFUSED}", Topic.ERRORS),
    Case("errors.stop_object", "An object for the stops", f"A wrong type {_REFUSED}", Topic.ERRORS),
    Case("errors.stop_number", "A number for the stops", f"A wrong type {_REFUSED}", Topic.ERRORS),
    Case("errors.stop_item", "A number among the stops", f"A wrong type {_REFUSED}", Topic.ERRORS),
)

_BY_CODE = {case.code: case for case in CASES}


def case_of(code: str) -> Case:
    """Return the case with an id."""
    return _BY_CODE[code]
