"""Bodies that an attacker would send: valid ones with random damage, and heavy ones.

Pure but for the random numbers, whose seed the caller gives.
"""

import copy
import gzip
import json
import random
import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

from api.server.routes import ROUTES
from tests.support.attacks.request_bodies import BODIES, MORE_BODIES

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**30, 0.5, 1e308, -0.0,
    "", "text", "required", "\u0000", "\ud83d\ude00", "x" * 5_000, [], {}, [[]], [{}], {"a": {}},
    {"type": "text"}, {"type": "json_object"}, ["\n"], [0], "none", "auto",
)  # fmt: skip
_SHARE_WITHOUT_BODY = 0.15
SCHEMA_TYPES = ("string", "number", "integer", "boolean", "null", "array", "object")


_EVERY_BODY = (*BODIES.items(), *MORE_BODIES)
# Every other route of the server, so that a new one is attacked at once.
_WITHOUT_BODY = tuple((one.method, one.path) for one in ROUTES if one.request is None)
_QUERIES = ("after", "limit", "order", "stream", "include", "timeout", "x")
_ODD_PARTS = (
    "resp_0", "..", "%2e%2e%2f", "a/b", "%00", "%ff", "\u00e9", "x" * 3_000, "input_items",
    "resp_" + "0" * 32, "-1", "%0d%0a", "~",
)  # fmt: skip


# Grammars that read the same text in many ways: each token takes more work than the one before.
_AMBIGUOUS = 'start: s\ns: s s s s | s s s | s s | "a"\n'
_SUMS = 'start: e\ne: e "+" e | e "*" e | "(" e ")" | "a"\n'


class Sent(NamedTuple):
    path: str
    body: bytes = b""
    encoding: str = ""
    method: str = "POST"
    key: str = ""


def broken(rng: random.Random) -> Sent:
    if rng.random() < _SHARE_WITHOUT_BODY:
        return _without_body(rng)
    path, right = rng.choice(_EVERY_BODY)
    body = copy.deepcopy(right)
    for _ in range(rng.randint(1, 4)):
        _change(body, rng)
    sent = json.dumps(body).encode()
    if rng.random() < 0.05:
        cut = rng.randrange(len(sent))
        sent = sent[:cut] + rng.randbytes(rng.randint(0, 3)) + sent[cut + rng.randint(0, 3) :]
    return Sent(path, sent)


def _without_body(rng: random.Random) -> Sent:
    """Return a request for a route without a body: odd parts of its path, and odd queries."""
    method, path = rng.choice(_WITHOUT_BODY)
    path = re.sub(r"\{\w+\}", lambda _: quote(rng.choice(_ODD_PARTS), safe="%/"), path)
    odd = [quote(str(rng.choice(ODD)), errors="surrogatepass") for _ in range(2)]
    asked = "&".join(map("=".join, zip(rng.sample(_QUERIES, 2), odd, strict=True)))
    return Sent(f"{path}?{asked}", method=method)


def constrained(rng: random.Random) -> Sent:
    """Return a Chat body with a random schema for the answer."""
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "max_completion_tokens": 3,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "s", "schema": _schema(rng, rng.randint(0, 3))},
        },
    }
    return Sent("/v1/chat/completions", json.dumps(body).encode())


def helped() -> list[Sent]:
    """Return small bodies that start each of the server's helper processes."""
    schema = {"name": "s", "schema": {"enum": ["yes", "no"]}}
    body = {"model": "m", "max_tokens": 1, "messages": _asked("Hi")}
    form = {"response_format": {"type": "json_schema", "json_schema": schema}}
    path = "/v1/chat/completions"
    return [Sent(path, _json(body | form))]


def costly() -> Iterator[tuple[str, list[Sent]]]:
    """Yield the name of an attack and its bodies: small ones that ask for much work."""
    chat = {"model": "m", "max_tokens": 400, "seed": 1, "messages": _asked("Hi")}
    path = "/v1/chat/completions"
    for name, grammar in (("ambiguous grammar", _AMBIGUOUS), ("grammar of sums", _SUMS)):
        for count in (1, 32):
            form = {"n": count, "structured_outputs": {"grammar": grammar}}
            yield f"{name}, n: {count}", [Sent(path, _json(chat | form))]
    prediction = {"type": "content", "content": "stop sequences " * 130_000}
    body = _json(chat | {"max_tokens": 2, "n": 128, "prediction": prediction})
    yield "2 MB of prediction, n: 128", [Sent(path, body)]
    for item in ({}, {"type": "message", "role": "user", "content": 1}):
        body = _json({"model": "m", "input": [item] * 300_000})
        yield "300,000 wrong items, /v1/responses", [Sent("/v1/responses", body)]


def secret(text: str, key: str = "") -> Sent:
    """Return a question with a long text that others must not find out."""
    body = {"model": "m", "max_tokens": 1, "messages": _asked(f"{'stop sequences ' * 20}{text}")}
    return Sent("/v1/chat/completions", _json(body), key=key)


def heavy() -> Iterator[tuple[str, list[Sent]]]:
    """Yield the name of an attack and its bodies, which are sent at once; some are very large."""
    for name, path, body in _heavy_bodies():
        yield f"{name}, {path}", [Sent(path, body)]
    for size in (10, 1_000, 30_000_000):
        packed = _packed(b"[" * size if size == 10 else bytes(size))
        for path in ("/v1/messages", "/generate"):
            yield f"20 × gzip of {size:,} bytes, {path}", [Sent(path, packed, "gzip")] * 20
    bomb = _packed(bytes(1 << 28))
    yield "20 × gzip of 256 MB, /v1/messages", [Sent("/v1/messages", bomb, "gzip")] * 20
    numbers = _packed(b'{"messages": [' + b"1.5," * 7_000_000 + b"1]}")
    yield "20 × gzip of 7 million numbers", [Sent("/v1/messages", numbers, "gzip")] * 20
    text = _json({"model": "m", "max_tokens": 1, "messages": _asked("a " * 65_000)})
    yield "20 × 130 KB of text, /v1/messages", [Sent("/v1/messages", text)] * 20
    many = _json({"model": "m", "max_tokens": 1, "messages": _asked("") * 3_500})
    yield "20 × 3,500 empty messages", [Sent("/v1/messages", many)] * 20
    objects = b'{"model":"m","messages":[' + b"{}," * 43_000 + b"{}]}"
    yield "20 × 43,000 empty objects", [Sent("/v1/messages", objects)] * 20
    large = _json({"model": "m", "max_tokens": 1, "messages": _asked("a " * 15_000_000)})
    yield "20 × 30 MB of text, /v1/messages", [Sent("/v1/messages", large)] * 20


def _heavy_bodies() -> Iterator[tuple[str, str, bytes]]:
    """Yield the name of an attack, its route and its body."""
    chat = {"model": "m", "max_tokens": 3}
    for megabytes in (2, 8, 31):
        text = "stop sequences " * (megabytes * 1_000_000 // 15)
        for path in ("/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions"):
            yield f"{megabytes} MB of prompt", path, _json(chat | {"messages": _asked(text)})
        yield f"{megabytes} MB of prompt", "/v1/completions", _json(chat | {"prompt": text})
    wide = "👋" + "stop sequences " * 2_000_000
    body = json.dumps(chat | {"messages": _asked(wide)}, ensure_ascii=False).encode()
    yield "30 MB of prompt and an emoji", "/v1/messages", body
    for count in (30_000, 100_001):
        many = _asked("Hi") * count
        for path in ("/v1/messages", "/v1/chat/completions"):
            yield f"{count:,} messages", path, _json(chat | {"messages": many})
    ids = {"input_ids": [1] * 8_000_000, "sampling_params": {"max_new_tokens": 1}}
    yield "8 million ids", "/generate", _json(ids)
    for path in ("/v1/messages", "/v1/chat/completions", "/v1/responses", "/api/chat"):
        wrong = _json(chat | {"messages": [1] * 2_700_000, "input": [1]})
        yield "8 MB of wrong items", path, wrong
    for item in ("{}", "[]", '{"a":1}', '""', "1.5"):
        items = ("[" + ",".join([item] * (31_000_000 // (len(item) + 1))) + "]").encode()
        yield f"31 MB of {item}", "/v1/completions", b'{"model":"m","prompt":' + items + b"}"
        few = ("[" + ",".join([item] * 300_000) + "]").encode()
        yield f"300,000 × {item}", "/v1/completions", b'{"model":"m","prompt":' + few + b"}"
    yield "8 MB of wrong stops", "/v1/chat/completions", _json(chat | {"stop": [1] * 2_700_000})
    yield (
        "31 MB of an unknown field",
        "/v1/messages",
        _json(chat | {"messages": _asked("Hi"), "x": "y" * 31_000_000}),
    )
    yield "deep JSON", "/v1/messages", b"[" * 2_000_000
    yield "31 MB of zeros", "/v1/messages", bytes(31_000_000)
    stops = ["a" * 4_000 + chr(97 + n % 26) + str(n) for n in range(16)]
    asked = _asked("Hi")
    yield "long stops", "/v1/chat/completions", _json(chat | {"messages": asked, "stop": stops})
    number = b'{"model":"m","max_tokens":' + b"9" * 5_000 + b',"messages":[]}'
    yield "a number of 5,000 digits", "/v1/messages", number
    # The first is refused; the second gets an answer.
    for count in (3_000, 490):
        wide_form = {f"p{n}": {"type": "string"} for n in range(count)}
        schema = {"name": "s", "schema": {"properties": wide_form}}
        form = {"type": "json_schema", "json_schema": schema}
        body = _json(chat | {"messages": asked, "response_format": form})
        yield f"{count:,} optional properties", "/v1/chat/completions", body


def _asked(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def _packed(body: bytes) -> bytes:
    return gzip.compress(body, 9)


def _json(body: Any) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def _change(body: Any, rng: random.Random) -> None:
    """Change, add or remove one value of a body, at any depth."""
    place = body
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = rng.choice(keys)
        inner = place[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.6:
            place = inner
            continue
        match rng.randrange(3):
            case 0:
                place[key] = copy.deepcopy(rng.choice(ODD))
            case 1 if isinstance(place, dict):
                del place[key]
            case _ if isinstance(place, list):
                place.append(copy.deepcopy(rng.choice(ODD)))
            case _:
                place[f"{key}_"] = copy.deepcopy(rng.choice(ODD))
        return


def _schema(rng: random.Random, depth: int) -> Any:
    kind = rng.choice(SCHEMA_TYPES)
    schema: dict[str, Any] = {"type": kind}
    if kind in ("number", "integer") and rng.random() < 0.5:
        for word in rng.sample(("minimum", "maximum", "exclusiveMinimum", "multipleOf"), 2):
            schema[word] = rng.choice((0, -1, 1, 0.1, 1e19, -1e19, 2**63, 1e-300, 7))
    elif kind == "string" and rng.random() < 0.5:
        schema["minLength"], schema["maxLength"] = rng.randint(0, 5), rng.choice((0, 3, 10**6))
        if rng.random() < 0.4:
            schema["pattern"] = rng.choice(("^a+$", "(a|b)*c", "[", "a{1000}", r"\d{3}-\d"))
    elif kind == "array" and depth:
        schema["items"] = _schema(rng, depth - 1)
        schema["minItems"] = rng.choice((0, 1, 10**6))
    elif kind == "object" and depth:
        names = [f"k{n}" for n in range(rng.randint(0, 4))]
        schema["properties"] = {name: _schema(rng, depth - 1) for name in names}
        schema["required"] = names[: rng.randint(0, len(names))]
    if depth and rng.random() < 0.2:
        word = rng.choice(("anyOf", "oneOf", "allOf"))
        return {word: [_schema(rng, depth - 1) for _ in range(rng.randint(0, 3))]}
    if rng.random() < 0.1:
        schema["enum"] = [copy.deepcopy(rng.choice(ODD)) for _ in range(3)]
    return schema
