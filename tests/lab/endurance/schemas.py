"""Random schemas against an engine: ``python -m tests.lab.endurance.schemas --count 50000``.

With ``--forms``, regular expressions, Lark grammars and lists of texts in their place.

The engine runs in a process of its own, which must survive: each schema is either refused in words
or holds a short answer of the demo model. Prints what became of them as JSON.
"""

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from engine.errors import InvalidRequest
from engine.scheduling.service import Engine
from engine.values.request import GenerationRequest, Message, OutputConstraint, Sampling
from tests.lab.endurance.attacking import forms

ROOT = Path(__file__).parents[3]
DEMO = ROOT / "assets" / "demo-model"
AT_ONCE = 16
TOKENS = 24

_KEYS = ("a", "b", "c", "a b", "é", "")
_PATTERNS = ("^a+$", "[a-z]{2,5}", "^(a|b)*$", ".", "", "(", r"\d+", "^.{0,200}$", "(a?){30}a{30}")
_FORMATS = ("date", "date-time", "email", "uri", "uuid", "ipv4", "ipv6", "hostname", "nonsense")
_NUMBERS = (
    *range(-9, 30), 0, 1, -1, 0.5, 3, -7, 10, 100, 0.1, -0.0, 1e-9, 1e15, -1e15, 2**53, -(2**53),
    2**63, 2**63 - 1, -(2**63), -(2**63) + 1, -(2**63) + 1024, -(2**63) + 1025, 2**64, 1e18, -1e18,
    1e19, -1e19, 1e20, -1e30, 1e100, 1e308, -1e308, 5e-324, "1", None, True,
)  # fmt: skip
_COUNTS = (*range(20), 40, 1000, 10**6, 2**31 - 1, 2**31, 10**12, -1, 1.0, 1.5, "2")
_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
_VALUES = (
    1, 0, -1, 1.5, "x", "", 'é"\\', None, True, [], [1, "a"], {}, {"a": [None]}, 1e19, -1e19,
    2**63, -(2**63), 1e308,
)  # fmt: skip


class Draws:
    """Draws small schemas, most of them sensible, some absurd."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def schema(self) -> dict[str, Any]:
        draws = self._random
        schema = self._part(draws.choice((1, 2, 2, 3, 4)))
        if draws.random() < 0.4:
            names = [f"d{n}" for n in range(draws.choice((1, 2, 3, 5)))]
            schema["$defs"] = {name: self._part(2) for name in names}
        return schema

    def _part(self, depth: int) -> dict[str, Any]:
        draws = self._random
        schema: dict[str, Any] = {}
        if draws.random() < 0.85:
            schema["type"] = draws.choice(_TYPES)
            if draws.random() < 0.1:
                schema["type"] = draws.sample(_TYPES, draws.randint(1, 3))
        kind = schema.get("type")
        kinds = [kind] if isinstance(kind, str) else list(kind or ())
        if draws.random() < 0.15:
            kinds = list(_TYPES)  # keywords of other types beside it
        for one in kinds:
            self._add(schema, one, depth)
        if draws.random() < 0.08:
            schema["enum"] = draws.choices(_VALUES, k=draws.randint(0, 4))
        if draws.random() < 0.05:
            schema["const"] = draws.choice(_VALUES)
        if draws.random() < 0.12:
            schema["$ref"] = draws.choice(
                ("#", "#/$defs/d0", "#/$defs/d1", "#/$defs/d2", "#/properties/a", "#/nowhere")
            )
        if depth and draws.random() < 0.15:
            key = draws.choice(("anyOf", "oneOf", "allOf"))
            schema[key] = [self._part(depth - 1) for _ in range(draws.randint(0, 3))]
        if draws.random() < 0.03:
            schema[draws.choice(("not", "if", "contains", "propertyNames"))] = self._part(0)
        return schema

    def _add(self, schema: dict[str, Any], kind: str, depth: int) -> None:
        draws = self._random
        if kind in ("integer", "number"):
            for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
                if draws.random() < 0.35:
                    schema[key] = draws.choice(_NUMBERS)
            if draws.random() < 0.2:
                schema["minimum"] = schema["maximum"] = draws.choice(_NUMBERS)
        elif kind == "string":
            self._count(schema, "minLength", "maxLength")
            if draws.random() < 0.2:
                schema["pattern"] = draws.choice(_PATTERNS)
            if draws.random() < 0.2:
                schema["format"] = draws.choice(_FORMATS)
        elif kind == "array":
            self._count(schema, "minItems", "maxItems")
            if depth and draws.random() < 0.8:
                schema["items"] = self._part(depth - 1)
            if depth and draws.random() < 0.2:
                schema["prefixItems"] = [self._part(depth - 1) for _ in range(draws.randint(0, 3))]
        elif kind == "object":
            self._count(schema, "minProperties", "maxProperties")
            names = draws.sample(_KEYS, draws.randint(0, 4))
            if depth:
                schema["properties"] = {name: self._part(depth - 1) for name in names}
            if draws.random() < 0.5:
                schema["required"] = draws.sample(_KEYS, draws.randint(0, 3))
            if depth and draws.random() < 0.3:
                schema["additionalProperties"] = draws.choice((True, False, self._part(depth - 1)))
            if depth and draws.random() < 0.1:
                schema["patternProperties"] = {draws.choice(_PATTERNS): self._part(depth - 1)}

    def _count(self, schema: dict[str, Any], *keys: str) -> None:
        for key in keys:
            if self._random.random() < 0.25:
                schema[key] = self._random.choice(_COUNTS)


async def _ask_all(count: int, seed: int, *, is_forms: bool = False) -> dict[str, Any]:
    """Ask for answers to a number of schemas, some at once; return the outcomes."""
    engine = Engine()
    await engine.load(DEMO)
    draws, form_draws = Draws(seed), random.Random(seed)
    ends: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    left = iter(range(count))

    async def ask() -> None:
        for number in left:
            if is_forms:
                wanted = OutputConstraint(text_form=forms.form(form_draws))
            else:
                wanted = OutputConstraint(draws.schema())
            request = GenerationRequest(
                messages=(Message("user", "Say: x"),),
                constraint=wanted,
                sampling=Sampling(temperature=1.5, seed=number),
                max_tokens=TOKENS,
                allows_more_keys=bool(number % 2),
            )
            try:
                answer = await (await engine.generate(request)).collect()
            except InvalidRequest as refusal:
                ends["refused"] += 1
                reasons[re.sub(r"\d+|'[^']*'|\"[^\"]*\"", "…", refusal.reason)[:90]] += 1
            else:
                ends[answer.finished.stop.kind.value] += 1
                if answer.finished.error:
                    reasons[f"ERROR {answer.finished.error[:120]}"] += 1

    await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
    await engine.aclose()
    return {
        "schemas": count,
        "seed": seed,
        "ends": dict(ends),
        "reasons": dict(reasons.most_common(40)),
    }


def outcome(
    count: int, seed: int, *, timeout_s: float | None = None, is_forms: bool = False
) -> dict[str, Any]:
    """Run the schemas, or the forms, in a process of its own; return the outcomes."""
    words = [
        sys.executable,
        "-m",
        __name__ if __name__ != "__main__" else "tests.lab.endurance.schemas",
    ]
    words += ["--inside", "--count", str(count), "--seed", str(seed)]
    words += ["--forms"] * is_forms
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, timeout=timeout_s, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=12)
    parser.add_argument("--forms", action="store_true", help="other forms than JSON")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        print(json.dumps(asyncio.run(_ask_all(given.count, given.seed, is_forms=given.forms))))
    else:
        found = outcome(given.count, given.seed, is_forms=given.forms)
        print(json.dumps(found, indent=2, ensure_ascii=True))


if __name__ == "__main__":
    main()
