"""Mixed traffic for a given time; checks every answer, and looks for leaks at the end.

    python -m tests.lab.endurance.soak [--minutes 10] [--clients 12] [--seed 1] [--attacks]

The whole program runs in this process, its window offscreen: clients of every dialect, some of
which leave or send nonsense, a person who chats, cancels, switches models and settings, and a
server that is started anew between two rounds. With ``--attacks``, others send it broken and heavy
bodies and random schemas all the while. Between rounds everything rests and what the
process holds is read. Exit code 0 only if every answer was right and nothing has grown since the
rounds that warm up, or what has grown was given back within a minute.
"""

import argparse
import asyncio
import os
import random
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import qasync
from PySide6.QtWidgets import QApplication

from app.paths import conversations_file, demo_model
from engine.values.request import Limits
from tests.lab.endurance.attacking.attackers import Attackers, Seen
from tests.lab.endurance.soaking.clients import Clients, RenderPrompt, raw_prompts
from tests.lab.endurance.soaking.house import KEPT_KB_PER_CHAT, House
from tests.lab.endurance.soaking.leaks import Reading, grown, read

_WARM_UP_ROUNDS = 2
_SHOWN_FAULTS = 20
_REST_S = 1.0
_MOST_REST_S = 60.0
_CACHE_BYTES = 1 << 25


def held() -> Reading:
    """Return the resources of this process; call it on the loop's thread."""
    return read([asyncio.get_running_loop()], conversations_file())


async def soak(application: QApplication, options: argparse.Namespace, folder: Path) -> int:
    """Run all rounds; return the number of faults."""
    models = (demo_model(), folder / "another-model")
    shutil.copytree(*models)
    rng = random.Random(options.seed)
    # Earlier prompts are kept on purpose, up to a limit, which is small here.
    house = House(application, models, Limits(prompt_cache_bytes=_CACHE_BYTES))
    prompts = raw_prompts(RenderPrompt(str(models[0])))
    clients = Clients(options.clients, options.seed, prompts, options.patience)
    attackers = Attackers(options.seed) if options.attacks else None
    await house.begin()
    seen = Seen()
    readings: list[tuple[Reading, int]] = []
    seconds = options.minutes * 60 / options.rounds
    try:
        for number in range(options.rounds):
            began = time.monotonic()
            is_over = asyncio.Event()
            chatting = asyncio.create_task(house.chat_until(is_over, rng))
            if attackers is not None:
                attackers.begin(house.url, seconds)
            await asyncio.to_thread(clients.run, house.url, "any", seconds)
            if attackers is not None:
                seen = await asyncio.to_thread(attackers.seen)
            is_over.set()
            await chatting
            await house.change_server(rng)
            # The resources after the warm-up are compared with those at the end: none may grow.
            await asyncio.sleep(_REST_S if number == _WARM_UP_ROUNDS else options.rest)
            readings.append((held(), house.chats))
            print(
                f"{time.monotonic() - began:5.0f} s  {sum(clients.counts.values()):6d} requests  "
                f"{house.chats:4d} chats  {len(clients.faults) + len(house.faults)} faults  "
                f"{readings[-1][0]}",
                flush=True,
            )
        (early, chats_before), (late, chats) = readings[_WARM_UP_ROUNDS], readings[-1]
        kept_kb = (chats - chats_before) * KEPT_KB_PER_CHAT
        leaks = partial(grown, early, kept_kb=kept_kb, is_attacked=options.attacks)
        ends_at_s = time.monotonic() + _MOST_REST_S
        while leaks(late) and time.monotonic() < ends_at_s:
            await asyncio.sleep(_REST_S)
            late = held()
    finally:
        await house.end()
        if attackers is not None:
            attackers.end()
    found = [
        *clients.faults,
        *house.faults,
        *seen.faults,
        *leaks(late),
    ]
    for what, count in sorted(clients.counts.items()):
        print(f"{what:<24} {count:6d}")
    if attackers is not None:
        print(f"answers to attacks by status: {dict(sorted(seen.statuses.items()))}")
    for one in found[:_SHOWN_FAULTS]:
        print(f"FAULT {one}")
    print(f"{len(found)} faults in {sum(clients.counts.values())} requests and {chats} chats")
    return len(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=10, help="at least four")
    parser.add_argument("--rest", type=float, default=_REST_S, help="after a round, in seconds")
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--attacks", action="store_true", help="others attack it all the while")
    parser.add_argument("--patience", type=float, default=60.0, help="a client's, in seconds")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["FULLSTOP_DATA_DIR"] = str(folder / "data")
        os.environ["FULLSTOP_CONFIG_DIR"] = str(folder / "config")
        application = QApplication([])
        application.setQuitOnLastWindowClosed(False)
        with asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(application)) as runner:
            return 1 if runner.run(soak(application, options, folder)) else 0


if __name__ == "__main__":
    sys.exit(main())
