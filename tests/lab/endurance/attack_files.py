"""Opens thousands of damaged files, databases and models as the product does, and counts.

    python -m tests.lab.endurance.attack_files --files 20000 --databases 1500 --models 3000

Then opens what unpacks to very much, and meets hostile hubs and tool servers; ``--heavy NAME`` does
only that, for the names that begin like this. Ends with 1 if an exception occurs that is not in the
product's own words, if an input takes more than 200 MB, or if a process is left behind. A fault
names its kind and its seed; ``--kind run.json --first 1234 --files 1`` repeats one.
"""

import argparse
import asyncio
import collections
import logging
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.lab.endurance.attacking.inputs import INPUTS, harm_of
from tests.support.attacks import database_attacks, model_attacks
from tests.support.attacks.file_attacks import ATTACKS
from tests.support.attacks.stored_attacks import STORED

_SHOWN_FAULTS = 12
# Thousands of databases with a sync each would only measure the disk.
_IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000, help="damaged files in all")
    parser.add_argument("--databases", type=int, default=1_500, help="damaged databases")
    parser.add_argument("--models", type=int, default=3_000, help="damaged model folders")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--kind", help="attack files of this kind only")
    parser.add_argument("--heavy", metavar="NAME", help="only the inputs that unpack to very much")
    options = parser.parse_args()
    logging.disable()  # a line for each file would hide the faults
    if options.heavy is not None:
        return 1 if _meet_inputs(options.heavy) else 0
    faults = 0
    attacks = [one for one in (*ATTACKS, *STORED) if options.kind in (None, one.name)]
    for attack in attacks:
        count = -(-options.files // len(attacks))
        faults += _carry_out(attack.name, attack.carry_out, options.first, count)
    with tempfile.TemporaryDirectory() as folder:
        sound = Path(folder) / "sound.db"
        asyncio.run(database_attacks.fill_file(sound))
        faults += _carry_out(
            "databases",
            lambda seed, place: database_attacks.attack(seed, sound, place),
            options.first,
            options.databases,
        )
    faults += _carry_out("models", model_attacks.attack, options.first, options.models)
    faults += _meet_inputs("") if options.kind is None else 0
    print(f"{faults} faults")
    return 1 if faults else 0


def _meet_inputs(beginning: str) -> int:
    """Carry out the attacks whose names begin like this; return the number of faults."""
    faults = 0
    for name, attack in INPUTS.items():
        if not name.startswith(beginning):
            continue
        began_s = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                harm = harm_of(attack, Path(folder))
            except Exception as error:  # any exception is a finding here
                traceback.print_exception(error, limit=-6)
                faults += 1
                continue
        print(
            f"{name:<42} {time.monotonic() - began_s:5.1f} s   gap {harm.gap_s * 1000:4.0f} ms   "
            f"here {harm.peak_bytes / 1e6:+4.0f} MB   helper {harm.helper_bytes / 1e6:3.0f} MB   "
            f"{harm.outcome[:90]}",
            flush=True,
        )
        for fault in harm.faults:
            print(f"FAULT {name}: {fault}")
            faults += 1
    return faults


def _carry_out(name: str, attack: Callable[[int, Path], str], first: int, count: int) -> int:
    began_s = time.monotonic()
    outcomes: collections.Counter[str] = collections.Counter()
    places: collections.Counter[str] = collections.Counter()
    for seed in range(first, first + count):
        folder = Path(tempfile.mkdtemp(dir=_IN_MEMORY))
        try:
            outcomes[attack(seed, folder)] += 1
        except Exception as error:  # any exception is a finding here
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{type(error).__name__} at {frame.filename}:{frame.lineno}"
            places[place] += 1
            if places[place] == 1 and len(places) <= _SHOWN_FAULTS:
                print(f"{name}, seed {seed}:")
                traceback.print_exception(error, limit=-6)
        finally:
            shutil.rmtree(folder)
    said = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))
    print(f"{name}: {said} in {time.monotonic() - began_s:.0f} s; faults: {dict(places)}")
    sys.stdout.flush()
    return sum(places.values())


if __name__ == "__main__":
    raise SystemExit(main())
