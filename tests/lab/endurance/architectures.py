"""Proves the answers of every architecture: ``python -m tests.lab.endurance.architectures``.

Each one that mlx-lm has gives 500 answers in random batches, with drafts that are right or
wrong, over later turns, edits and caches on disk, and is compared with the bare model. Prints a
line for each: answers and tokens that were compared, near ties (the two best logits are closer than
1e-3), answers that go on otherwise from a near tie on, drafts that were verified and accepted,
tokens of prompts that came from caches, and what differs otherwise. Exits with 1 if anything does.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.support.models.architectures import (
    ARCHITECTURES,
    architecture_model,
)
from tests.support.models.random_batches import Outcome, RandomBatches

ANSWERS = 500
_IN_A_BATCH = 20
NAMES = sorted(ARCHITECTURES)


def outcome_of(name: str, answers: int, seed: int) -> Outcome:
    """Return the outcome of random batches of an architecture."""
    with tempfile.TemporaryDirectory() as folder:
        batches = RandomBatches(architecture_model(name), seed, disk=Path(folder))
        while batches.outcome.answers < answers:
            batches.run(min(_IN_A_BATCH, answers - batches.outcome.answers))
        return batches.outcome


def _line(name: str, outcome: Outcome) -> str:
    said = (
        f"{name}: {outcome.answers} answers, {outcome.tokens} tokens, "
        f"{outcome.near_ties} near ties ({outcome.turned} turned), "
        f"{outcome.drafts} drafts, {outcome.accepted} accepted, {outcome.foreseen} foreseen, "
        f"{outcome.cached} tokens from caches, {outcome.from_disk} of them from disk"
    )
    return "; ".join([said, *outcome.faults[:5]])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--answers", type=int, default=ANSWERS)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    failed = False
    for name in args.names or NAMES:
        # In a process of its own: the compiled kernels of a hundred models take memory.
        child = os.fork()
        if not child:
            outcome = outcome_of(name, args.answers, args.seed)
            print(_line(name, outcome), flush=True)
            os._exit(bool(outcome.faults) or outcome.accepted != outcome.foreseen)
        failed |= os.waitpid(child, 0)[1] != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
