"""mlx-lm is imported without the parts that a model never uses, which still load when needed.

Each test runs in a process of its own, because a library is imported once.
"""

import json
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.long

IMPORTED = """
import json, sys
from engine.inference.loader import importing_mlx_lm
with importing_mlx_lm():
    import engine.inference.mlx_loading
"""


def result_of(program: str) -> Any:
    """Return the value that a program prints last as JSON, run by a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_what_a_model_never_uses_is_imported_when_it_is_first_used() -> None:
    program = """
import threading, transformers
seen = {}
before = len(transformers._class_to_module)
wanted = ["LlamaTokenizer", "Qwen2Tokenizer", "GemmaTokenizer", "GPT2Tokenizer"] * 2
begin = threading.Barrier(len(wanted))
found = []
def ask(name):
    begin.wait()
    found.append(getattr(transformers, name).__name__)
threads = [threading.Thread(target=ask, args=(name,)) for name in wanted]
for thread in threads: thread.start()
for thread in threads: thread.join()
seen["names on several threads"] = sorted(found) == sorted(wanted)
seen["names are more"] = before * 10 < len(transformers._class_to_module)
seen["unknown"] = [hasattr(transformers, "NoSuchThing"), hasattr(transformers.models, "none_such")]
print(json.dumps(seen))
"""
    assert result_of(IMPORTED + program) == {
        "unknown": [False, False],
        "names on several threads": True,
        "names are more": True,
    }
