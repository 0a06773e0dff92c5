"""Combines all that makes answers faster: ``python -m tests.lab.endurance.mixture --answers 5000``.

Clients come and go at random in one engine with guesses of every kind, a draft model, kept prompts
in memory and on disk, shared beginnings, steps that fail and models that are unloaded. Each answer
has to be, event by event, the one of an engine that has none of this; after each scene nothing may
be left of it. Prints JSON.
"""

import argparse
import asyncio
import json
import logging
import sys

from tests.lab.endurance.mixture.scene import Outcome, play


def _tell(found: Outcome) -> None:
    print(f"{found.answers} answers, faults: {found.faults}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.ERROR)  # steps fail on purpose
    found = asyncio.run(play(options.answers, options.seed, _tell))
    print(json.dumps(vars(found), indent=1))


if __name__ == "__main__":
    main()
