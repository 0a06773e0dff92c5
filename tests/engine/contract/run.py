"""Runs random cases by hand: ``python -m tests.engine.contract.run --cases N --seed S``.

A case that differs from the reference is made small and printed; it belongs in
``test_found_cases``.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from engine.stopping.rules import OWN_STOP_OPTIONS
from tests.engine.contract.comparing import differences
from tests.engine.contract.found import OPTIONS
from tests.engine.contract.writing.case import Case
from tests.engine.contract.writing.cases import random_case


def problems(case: Case) -> list[str]:
    """Return what is wrong with a case, an exception of the product among it."""
    try:
        return differences(case)
    except Exception as error:
        return [f"raised {type(error).__name__}: {error}"]


def shrunk(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Return a smaller case that fails as well: fewer tokens, fewer stops, fewer options."""
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate in _smaller(case):
            if fails(candidate):
                case, is_smaller = candidate, True
                break
    return case


def _smaller(case: Case) -> list[Case]:
    found: list[Case] = []
    length = len(case.script)
    width = max(length // 2, 1)
    while width >= 1 and length:
        for at in range(0, length, width):
            script = case.script[:at] + case.script[at + width :]
            found.append(replace(case, script=script))
            if case.max_tokens is not None and case.max_tokens > width:
                found.append(replace(case, script=script, max_tokens=case.max_tokens - width))
        width //= 2
    rules = case.rules
    for at, stop in enumerate(rules.stops):
        before, after = rules.stops[:at], rules.stops[at + 1 :]
        plainer = [
            replace(stop, **{option.name: option.default})
            for option in OWN_STOP_OPTIONS
            if getattr(stop, option.name) != option.default
        ]
        for changed in ((), *((one,) for one in plainer)):
            stops = (*before, *changed, *after)
            found.append(replace(case, rules=replace(rules, stops=stops)))
    for at in range(len(rules.token_ids)):
        ids = rules.token_ids[:at] + rules.token_ids[at + 1 :]
        found.append(replace(case, rules=replace(rules, token_ids=ids)))
    plain = type(rules)()
    for name in ("scope", "include_stop", "ignore_eos", "min_tokens", "repetition"):
        if getattr(rules, name) != getattr(plain, name):
            found.append(replace(case, rules=replace(rules, **{name: getattr(plain, name)})))
    if case.is_prefill and case.prompt:
        found.append(replace(case, is_prefill=False))
    for name, value in OPTIONS:
        is_needed = (name == "max_tokens" and rules.ignore_eos) or (
            name == "prompt" and (case.is_raw or case.is_prefill)
        )
        if getattr(case, name) != value and not is_needed:
            found.append(replace(case, **{name: value}))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    started = time.monotonic()
    failures = 0
    for number in range(given.cases):
        case = random_case(random.Random(f"{given.seed}/{number}"))
        if not problems(case):
            continue
        failures += 1
        if failures <= 10:
            small = shrunk(case, lambda candidate: bool(problems(candidate)))
            print(f"# seed {given.seed}/{number}", *problems(small), small, sep="\n", flush=True)
    spent = time.monotonic() - started
    print(f"{given.cases} cases in {spent:.1f} s, {failures} differ from the reference")
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
