"""Follows the references of a JSON schema within its document. Pure; any thread."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote


def pointed_at(root: Mapping[str, Any], reference: str) -> Any:
    """Return what a reference such as ``#/$defs/a`` leads to; None where there is nothing.

    See https://www.rfc-editor.org/rfc/rfc6901#section-6
    """
    found: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name[:9]) < len(found):
            found = found[int(name[:9])]
        else:
            return None
    return found
