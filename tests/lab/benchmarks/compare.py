"""Compares Fullstop with other servers on the same model: correctness of stops, and speed.

    python -m tests.lab.benchmarks.compare [--model FOLDER] [--servers FILE] [--rounds 3] …

Fullstop and ``mlx_lm.server`` always take part; others stand in a TOML file (compare.toml beside
this module shows how). First each server is probed; then, in every round, each in turn is started,
measured and ended, so that only one model is in memory at a time. The server has all cores but the
last, the client has that one. Values are medians over the rounds; only ratios of one run mean
anything. A server that is not installed is named and left out; one that fails is reported with the
last lines of its output. Nothing here passes or fails.
"""

import argparse
import asyncio
import functools
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from tokenizers import Tokenizer

from tests.lab.benchmarks.comparing.asking import Asker, NoAnswer
from tests.lab.benchmarks.comparing.configuration import (
    DIALECTS,
    MLX_LM,
    ConfigurationError,
    ServerCommand,
    filled,
    fullstop,
    read_servers,
)
from tests.lab.benchmarks.comparing.machine import machine
from tests.lab.benchmarks.comparing.measures import STEPS, Values, Visit, probed
from tests.lab.benchmarks.comparing.servers import (
    ROOT,
    Running,
    ServerFailed,
    is_installed,
    running,
    version_of,
)
from tests.lab.benchmarks.comparing.table import Comparison, Side, as_markdown, as_text
from tests.lab.benchmarks.reading import cores, pin

SERVERS = Path(__file__).with_name("compare.toml")
MODEL = ROOT / "assets" / "demo-model"


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of a comparison."""

    model: Path
    rounds: int
    is_probing: bool
    start_timeout_s: float
    answer_timeout_s: float
    probe_limit_s: float
    server_cores: Sequence[int]
    count: Callable[[str], int]


def tell(text: str) -> None:
    """Print progress, separate from the result."""
    print(text, file=sys.stderr, flush=True)


def taking_part(others: Sequence[ServerCommand]) -> list[ServerCommand]:
    """Return all servers: Fullstop, in each dialect that another is asked in, comes first."""
    asked = {MLX_LM.dialect, *(one.dialect for one in others)}
    return [*(fullstop(one) for one in DIALECTS if one in asked), MLX_LM, *others]


async def compare(commands: Sequence[ServerCommand], plan: Plan) -> Comparison:
    """Run all servers and return the result, which includes their failures."""
    present = [one for one in commands if is_installed(one, plan.model)]
    absent = [
        (one.name, filled(one.command[0], model=plan.model))
        for one in commands
        if one not in present
    ]
    for name, program in absent:
        tell(f"{name}: {program} is not installed; left out")
    sides = [Side(one, version_of(one, plan.model)) for one in present]
    if plan.is_probing:
        for side in sides:
            await _tried(side, plan, "probing stops", functools.partial(_probe, side, plan))
    for number in range(1, plan.rounds + 1):
        for side in sides:
            what = f"round {number} of {plan.rounds}"
            await _tried(side, plan, what, functools.partial(_measure, side, plan, number))
    return Comparison(sides, absent, machine(plan.model))


async def _tried(
    side: Side, plan: Plan, what: str, visit: Callable[[Running], Awaitable[None]]
) -> None:
    """Start a server and visit it; one that fails is not visited again."""
    if side.problem:
        return
    tell(f"{side.command.name}: {what} …")
    try:
        async with running(
            side.command, plan.model, timeout_s=plan.start_timeout_s, cores=plan.server_cores
        ) as server:
            await visit(server)
    except ServerFailed as failed:
        side.problem, side.tail = f"{what}: {failed}", failed.tail
        tell("\n".join([f"{side.command.name}: given up, {side.problem}", *side.tail]))


async def _probe(side: Side, plan: Plan, server: Running) -> None:
    name = filled(side.command.model_name, model=plan.model)
    side.correctness = await probed(server, side.command.dialect, name, limit_s=plan.probe_limit_s)


async def _measure(side: Side, plan: Plan, number: int, server: Running) -> None:
    values: Values = {}
    side.rounds.append(values)  # the measurements before a failure stay
    # One connection for each request: servers differ in how long they keep one.
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        asker = Asker(
            session,
            server.url,
            side.command.dialect,
            filled(side.command.model_name, model=plan.model),
            plan.count,
            plan.answer_timeout_s,
        )
        for what, step in STEPS:
            try:
                values.update(await step(Visit(server, asker, number)))
            except NoAnswer as none:
                raise server.failed(f"{what}: {none}") from none


def counter(model: Path) -> Callable[[str], int]:
    """Return what counts tokens with the model's own tokenizer."""
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=MODEL, help="folder of an MLX model")
    parser.add_argument("--servers", type=Path, default=SERVERS, help="TOML file of servers")
    parser.add_argument("--rounds", type=int, default=3, help="0 leaves speed out")
    parser.add_argument("--no-probe", action="store_true", help="leave correctness out")
    parser.add_argument(
        "--markdown", action="store_true", help="print the table for .github/COMPARISON.md"
    )
    parser.add_argument("--start-timeout-s", type=float, default=180)
    parser.add_argument("--answer-timeout-s", type=float, default=120)
    parser.add_argument("--probe-limit-s", type=float, default=300)
    options = parser.parse_args()
    model = options.model.expanduser().resolve()
    try:
        count = counter(model)
    except Exception as error:  # the library has no exception of its own
        parser.error(f"--model: {model} has no tokenizer.json that can be read: {error}")
    try:
        commands = taking_part(read_servers(options.servers))
    except ConfigurationError as error:
        parser.error(str(error))
    found = cores()
    plan = Plan(
        model=model,
        rounds=max(0, options.rounds),
        is_probing=not options.no_probe,
        start_timeout_s=options.start_timeout_s,
        answer_timeout_s=options.answer_timeout_s,
        probe_limit_s=options.probe_limit_s,
        server_cores=found[:-1],
        count=count,
    )
    pin(found[-1:])
    # Servers are in groups of their own: whoever ends the comparison must not leave them behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        comparison = asyncio.run(compare(commands, plan))
    except KeyboardInterrupt:
        tell("ended before there was a result")
        return 130
    print((as_markdown if options.markdown else as_text)(comparison), end="", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
