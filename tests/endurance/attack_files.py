"""Opens thousands of damaged files and databases as the product does, and counts what it said.

    python -m tests.endurance.attack_files --files 20000 --databases 1500

Ends with 1 where an exception came that is not in the product's own words. A fault names its
kind and its seed; ``--kind run.json --first 1234 --files 1`` repeats one.
"""

import argparse
import collections
import logging
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.support.file_attacks import ATTACKS

_SHOWN_FAULTS = 12


def main() -> int:
    """Carry out the attacks and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000, help="damaged files in all")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--kind", help="attack files of this kind only")
    options = parser.parse_args()
    logging.disable()  # a line for each file would hide the faults
    faults = 0
    attacks = [one for one in ATTACKS if options.kind in (None, one.name)]
    with tempfile.TemporaryDirectory() as folder:
        for attack in attacks:
            count = -(-options.files // len(attacks))
            faults += _carry_out(attack, range(options.first, options.first + count), Path(folder))
    print(f"{faults} faults")
    return 1 if faults else 0


def _carry_out(attack, seeds: range, folder: Path) -> int:  # type: ignore[no-untyped-def]
    began_s = time.monotonic()
    outcomes: collections.Counter[str] = collections.Counter()
    places: collections.Counter[str] = collections.Counter()
    for seed in seeds:
        try:
            outcomes[attack.carry_out(seed, folder)] += 1
        except Exception as error:  # any exception is a finding here
            for left in folder.iterdir():
                left.unlink()
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{type(error).__name__} at {frame.filename}:{frame.lineno}"
            places[place] += 1
            if places[place] == 1 and len(places) <= _SHOWN_FAULTS:
                print(f"{attack.name}, seed {seed}:")
                traceback.print_exception(error, limit=-6)
    said = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))
    print(f"{attack.name}: {said} in {time.monotonic() - began_s:.0f} s; faults: {dict(places)}")
    sys.stdout.flush()
    return sum(places.values())


if __name__ == "__main__":
    raise SystemExit(main())
