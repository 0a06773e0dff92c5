"""Kills writers of caches: ``python -m tests.lab.endurance.disk_cache --kills 100``.

Prints one line per kill and a summary; ends with 1 if anything was wrong. ``--write`` is for the
processes that are killed.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.lab.endurance.disk_cache.killing import MODEL, killed, write_for_ever
from tests.support.models.hybrid_model import write_hybrid_model


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hybrid", action="store_true", help="a model whose caches have snapshots")
    parser.add_argument("--model", type=Path, default=MODEL, help=argparse.SUPPRESS)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write is not None:
        asyncio.run(write_for_ever(given.write, given.seed, given.model))
    with tempfile.TemporaryDirectory(prefix="fullstop-disk-") as name:
        model, folder = given.model, Path(name)
        if given.hybrid:
            model = write_hybrid_model(folder / "hybrid", hidden_size=64)
        results = asyncio.run(killed(given.kills, given.seed, folder / "caches", model))
    faults = [fault for one in results for fault in one.faults]
    wrong = sum(fault.startswith("wrong") for fault in faults)
    refused = sum(fault.startswith("refused") for fault in faults)
    writing = sum(one.unfinished > 0 for one in results)
    went_on = sum(one.from_disk > 0 for one in results)
    print(
        f"{len(results)} kills, {writing} of them while a file was being written: {wrong} answers "
        f"with wrong tokens, {refused} refused starts, {len(faults) - wrong - refused} warnings; "
        f"after {went_on} of them an answer went on from disk"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
