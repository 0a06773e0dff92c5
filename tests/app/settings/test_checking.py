"""The checks of files and command lines are made from the declaration of each setting."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import ValidationError

from app.settings.checks import checks_of
from engine.files.json_fields import from_values
from ui.preferences import declare


@dataclass(frozen=True)
class Inner:
    share: float | None = declare(None, minimum=0, maximum=1, exclusive_minimum=True)


@dataclass(frozen=True)
class Outer:
    count: int = declare(3, minimum=1, maximum=9)
    kind: Literal["a", "b"] = declare("a")
    names: tuple[str, ...] = declare(("x",))
    place: Path = declare(Path("/here"))
    other: Path | None = declare(None)
    inner: Inner = field(default_factory=Inner)


def read(values: dict[str, Any]) -> Outer:
    return from_values(Outer, checks_of(Outer).model_validate(values).model_dump())


def test_checks_use_defaults() -> None:
    assert read({}) == Outer()


def test_checks_return_declared_types() -> None:
    values = {"names": ["y"], "place": "~/x", "other": "/o", "inner": {"share": 0.5}, "count": 9}
    assert read(values) == Outer(
        9, "a", ("y",), Path.home() / "x", Path("/o"), inner=Inner(share=0.5)
    )


@pytest.mark.parametrize(
    "values",
    [
        {"count": 0},
        {"count": "many"},
        {"kind": "c"},
        {"inner": {"share": 0}},
        {"inner": {"shares": 0.5}},
        {"counts": 1},
    ],
)
def test_checks_refuse_undeclared_values(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        checks_of(Outer).model_validate(values)
