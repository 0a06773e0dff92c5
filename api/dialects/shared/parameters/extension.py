"""The product's own object ``fullstop`` in requests, the same in every dialect.

A request's ``fullstop`` chooses where stops are searched for and asks for the full stop record.
Without it, answers contain only the vendor's fields. Pure; knows no vendor and no web framework.
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
    """The object ``fullstop`` of a request; it also accepts every stop option.

    Attributes:
        stop_scopes: Where to search for single stop strings, by stop string.
        report: Whether the answer includes the stop record.
        images: How to treat images, and documents that are not text, which no model here can read:
            refuse the request, or put a note in their place.
        additional_properties: Whether JSON that must follow a schema may have keys that the schema
            neither names nor forbids, as JSON Schema defines it. If not, only named keys are
            allowed.
    """

    stop_scopes: dict[str, _Scope] = Field(default_factory=dict)
    report: bool = False
    images: Literal["refuse", "note"] = "refuse"
    additional_properties: bool = False


def scoped(rules: StopRules, options: FullstopOptions | None) -> StopRules:
    """Return a request's stops with the scopes that its ``fullstop`` sets.

    Raises:
        InvalidRequest: It names a stop that is not among them.
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
    """Whether a request asks for notes in place of images."""
    return options is not None and options.images == "note"


def allows_more_keys(options: FullstopOptions | None) -> bool:
    """Whether JSON that must follow a schema may have keys that the schema does not name."""
    return options is not None and options.additional_properties
