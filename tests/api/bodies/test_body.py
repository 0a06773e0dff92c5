from typing import Annotated, Literal

import pytest
from pydantic import Field

from api.dialects.shared.parsing import WireModel, parse_body
from api.service.errors import ApiError, ErrorKind


class Cat(WireModel):
    kind: Literal["cat"]
    lives: int


class Dog(WireModel):
    kind: Literal["dog"]
    dog: str


class Zoo(WireModel):
    name: str
    area: float | None = None
    animals: list[Annotated[Cat | Dog, Field(discriminator="kind")]] = Field(default_factory=list)


def refused(raw: bytes | str) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parse_body(raw.encode() if isinstance(raw, str) else raw, Zoo)
    assert caught.value.kind is ErrorKind.INVALID_REQUEST
    return caught.value


def test_unknown_fields_are_ignored() -> None:
    assert parse_body(b'{"name": "Oslo", "colour": "red"}', Zoo) == (Zoo(name="Oslo"), ("colour",))


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("", "empty"),
        ('{"name": ', "line 1 column 10"),
        ('{\n "name": Oslo}', "line 2 column 10"),
        (b'{"name": "\xff"}', "byte 10"),
        ('{"area": NaN}', "NaN"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "a JSON object"),
    ],
)
def test_a_body_that_is_not_an_object_is_refused_with_the_position(
    raw: bytes | str, words: str
) -> None:
    error = refused(raw)

    assert words in error.message
    assert error.field == ()


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ("{}", ("name",)),
        ('{"name": 1}', ("name",)),
        ('{"name": "Oslo", "area": "1"}', ("area",)),
        ('{"name": "Oslo", "animals": [1]}', ("animals", 0)),
        ('{"name": "Oslo", "animals": [{}]}', ("animals", 0, "kind")),
        ('{"name": "Oslo", "animals": [{"kind": "cow"}]}', ("animals", 0, "kind")),
        ('{"name": "Oslo", "animals": [{"kind": "cat"}]}', ("animals", 0, "lives")),
        ('{"name": "Oslo", "animals": [{"kind": "dog", "dog": 1}]}', ("animals", 0, "dog")),
        ('{"name": "\\ud800"}', ()),
    ],
)
def test_a_wrong_field_is_named_as_the_request_spells_it(
    raw: str, path: tuple[str | int, ...]
) -> None:
    assert refused(raw).field == path


@pytest.mark.parametrize("number", ["9" * 5000, "1e999"])
def test_number_that_is_too_large_is_refused(number: str) -> None:
    assert refused(f'{{"name": "a", "area": {number}}}').field == ()
    assert "64" not in refused('{"name": "a", "animals": [{"kind": "cat", "lives": 1e30}]}').message
