"""The product's own object ``fullstop`` in requests, the same in every dialect.

A request's ``fullstop`` chooses where stops are looked for and asks for the whole stop record;
without it nothing of ours is in an answer. Pure; knows no vendor and no web framework.
"""

import json
from dataclasses import replace
from typing import Literal

from pydantic import Field

from api.dialects.shared.body import WireModel
from api.dialects.shared.parameters.stop_options import own_stop_options, with_own_stop_options
from engine import InvalidRequest, StopRules, StopScope

_Scope = Literal["text", "text+thinking", "all"]


@with_own_stop_options
class FullstopOptions(WireModel):
    """The object ``fullstop`` of a request; it takes every option of stops as well.

    Attributes:
        stop_scopes: Stop strings, each with where it is looked for instead.
        report: Whether the answer carries the stop record.
        images: What becomes of an image, or of a document that is not text, which no model here
            can see: the request is refused, or a note takes its place in the prompt.
        additional_properties: Whether JSON that is held to a schema may have keys that the schema
            neither names nor rules out, as JSON Schema has it; otherwise it has no others.
    """

    stop_scopes: dict[str, _Scope] = Field(default_factory=dict)
    report: bool = False
    images: Literal["refuse", "note"] = "refuse"
    additional_properties: bool = False


def scoped(rules: StopRules, options: FullstopOptions | None) -> StopRules:
    """Return a request's stops, counting where its ``fullstop`` says.

    Raises:
        InvalidRequest: It speaks of a stop that is not among them.
    """
    if options is None:
        return rules
    for string in options.stop_scopes:
        if string not in rules.strings:
            raise InvalidRequest(
                "fullstop.stop_scopes",
                f"{json.dumps(string, ensure_ascii=False)} is not among the stop sequences",
            )
    return replace(
        rules,
        **own_stop_options(options),
        scopes=tuple((one, StopScope(scope)) for one, scope in options.stop_scopes.items()),
    )


def is_report_wanted(options: FullstopOptions | None) -> bool:
    """Whether a request asks for the stop record."""
    return options is not None and options.report


def wants_image_notes(options: FullstopOptions | None) -> bool:
    """Whether a request wants a note in the place of an image."""
    return options is not None and options.images == "note"


def allows_more_keys(options: FullstopOptions | None) -> bool:
    """Whether JSON that is held to a schema may have keys that the schema does not name."""
    return options is not None and options.additional_properties
