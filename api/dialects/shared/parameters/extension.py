"""The product's own object ``fullstop`` in requests, the same in every dialect.

A request's ``fullstop`` chooses where stops are searched for and asks for the full stop record.
Without it, answers contain only the vendor's fields. Pure; knows no vendor and no web framework.
"""

import json
from dataclasses import replace
from typing import Literal, TypeVar

from pydantic import Field

from api.dialects.shared.body import WireModel
from api.dialects.shared.parameters.stop_options import own_stop_options, with_own_stop_options
from api.transport.config import ImageRule
from engine import InvalidRequest, StopRules, StopScope

_Params = TypeVar("_Params", bound=WireModel)
_Scope = Literal["text", "text+thinking", "all"]


@with_own_stop_options
class FullstopOptions(WireModel):
    """The object ``fullstop`` of a request; it also accepts every stop option."""

    stop_scopes: dict[str, _Scope] = Field(default_factory=dict)
    report: bool = False
    images: ImageRule | None = None
    additional_properties: bool = False


def scoped(rules: StopRules, options: FullstopOptions | None) -> StopRules:
    """Return a request's stops with the scopes that its ``fullstop`` sets."""
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


def with_image_rule(params: _Params, rule: ImageRule) -> _Params:
    """Return a request with the server's rule for images, unless it has one of its own."""
    if "fullstop" not in type(params).model_fields:
        return params
    options: FullstopOptions = getattr(params, "fullstop", None) or FullstopOptions()
    if options.images is not None:
        return params
    return params.model_copy(update={"fullstop": options.model_copy(update={"images": rule})})


def wants_image_notes(options: FullstopOptions | None, *, is_new: bool) -> bool:
    """Whether a note is put in the place of an image."""
    rule = None if options is None else options.images
    return rule == "note" or (rule == "refuse-new" and not is_new)


def allows_more_keys(options: FullstopOptions | None) -> bool:
    """Whether JSON that must follow a schema may have keys that the schema does not name."""
    return options is not None and options.additional_properties
