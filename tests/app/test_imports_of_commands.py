"""Imports of each command: none imports what it does not need."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

REPORT = """
import json, sys
loaded = [name for name in FORBIDDEN if name in sys.modules]
print("loaded:", json.dumps(loaded), file=sys.__stdout__, flush=True)
"""
WINDOW = ("PySide6", "qasync", "prompt_toolkit", "ui.window", "ui.chat")
MODEL = ("mlx", "mlx_lm", "numpy", "transformers", "tokenizers", "engine.inference.mlx_loading")
UNUSED_OF_MODELS = ("torch", "llguidance")
SEVERAL = ("engine.distributed.leader", "engine.distributed.follower")
SERVER = ("aiohttp", "api.server", "prometheus_client")
LIGHT = (
    *WINDOW,
    *MODEL,
    *UNUSED_OF_MODELS,
    *SERVER,
    "pydantic",
    "psutil",
    "asyncio",
    "huggingface_hub",
    "httpx2",
)

# Runs ``serve`` until it has answered one request, in its own process.
SERVE = """
import json, signal, sys, threading, urllib.request
import os
real = sys.stdout

def ask(address):
    said = {"role": "user", "content": "Count from 1 to 9"}
    body = {"model": "any", "messages": [said], "max_tokens": 3}
    request = urllib.request.Request(
        address + "/v1/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            print(json.load(answer)["usage"]["completion_tokens"], file=real, flush=True)
    finally:
        os.kill(os.getpid(), signal.SIGINT)

class AsksWhenReady:
    def write(self, text):
        if "listening" in text:
            threading.Thread(target=ask, args=(text.split()[-1].rstrip("/"),)).start()
    def flush(self):
        pass

from app.cli import main
sys.stdout = AsksWhenReady()
main(["serve", "--port", "0"])
"""


def loaded_of(forbidden: tuple[str, ...], program: str) -> tuple[str, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", f"{textwrap.dedent(program)}\nFORBIDDEN = {forbidden}{REPORT}"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=REPOSITORY,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed, _, loaded = done.stdout.rpartition("loaded: ")
    return printed, json.loads(loaded)


def command(*words: str) -> str:
    return f"from app.cli import main; main({list(words)})"


@pytest.mark.parametrize(
    "words",
    [("--help",), ("--version",), ("serve", "--help"), ("ask", "--help"), ("probe", "--help")],
    ids=" ".join,
)
def test_imports_of_help_and_version(words: tuple[str, ...]) -> None:
    printed, loaded = loaded_of(LIGHT, command(*words))
    assert printed
    assert loaded == []


def test_imports_of_ask() -> None:
    forbidden = (*WINDOW, *SERVER, *UNUSED_OF_MODELS, "pydantic")
    printed, loaded = loaded_of(forbidden, command("ask", "Count to 3", "--max-tokens", "4"))
    assert printed
    assert loaded == []


def test_imports_of_serve() -> None:
    unused = ("opentelemetry", *SEVERAL)
    forbidden = (*WINDOW, *UNUSED_OF_MODELS, *unused)
    printed, loaded = loaded_of(forbidden, SERVE)
    assert printed == "3\n"
    assert loaded == []


def test_imports_of_models() -> None:
    forbidden = (*WINDOW, *MODEL, *UNUSED_OF_MODELS, *SERVER, "pydantic", "huggingface_hub")
    printed, loaded = loaded_of(forbidden, command("models"))
    assert "demo-model" in printed
    assert loaded == []


def test_imports_of_probe() -> None:
    forbidden = (*WINDOW, *MODEL, *UNUSED_OF_MODELS, "api.server", "pydantic", "psutil")
    _, loaded = loaded_of(forbidden, command("probe", "http://127.0.0.1:9", "--timeout", "5"))
    assert loaded == []


@pytest.mark.parametrize("words", [("replay", "/nowhere"), ("inspect", "/nowhere")], ids=" ".join)
def test_imports_of_file_commands(
    words: tuple[str, ...],
) -> None:
    assert loaded_of((*WINDOW, *MODEL, *SERVER, "asyncio"), command(*words))[1] == []
