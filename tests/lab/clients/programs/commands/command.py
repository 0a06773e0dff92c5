"""Runs a client that is a program, once for each question, like a person at a terminal."""

import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

HOME = Path.cwd()
PROGRAMS = Path(os.environ["CLIENT_PROGRAMS"])
# What a program cannot be asked that takes no stops and prints answers when they have ended.
ONLY_WHOLE = {
    "stop": "a person cannot name a stop",
    "stream": "it asks for streams, but prints whole answers",
}
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_RUNNING = re.compile(r"^fullstop_running ([0-9.]+)", re.MULTILINE)


def work_folder():
    """Return the folder in which the program works; it has one file."""
    folder = HOME / "work"
    folder.mkdir(exist_ok=True)
    (folder / "note.txt").write_text("All notes.\n")
    return folder


def run(words, stdin="", **variables):
    """Run a program to its end; return its output."""
    done = subprocess.run(
        [PROGRAMS / words[0], *words[1:]],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=200,
        cwd=work_folder(),
        env={**os.environ, **variables},
        check=False,
    )
    said = plain(done.stdout)
    if done.returncode:
        raise RuntimeError(f"{said[-600:]} {plain(done.stderr)[-600:]}")
    return said


def interrupt(url, words, stdin="", **variables):
    """Run a program and press Ctrl-C once the server works for it."""
    with (work_folder() / "stdin").open("w+") as given:
        given.write(stdin)
        given.seek(0)
        process = subprocess.Popen(
            [PROGRAMS / words[0], *words[1:]],
            stdin=given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=work_folder(),
            env={**os.environ, **variables},
            start_new_session=True,
        )
        ends_at = time.monotonic() + 120
        while _running(url) < 1 and process.poll() is None and time.monotonic() < ends_at:
            time.sleep(0.05)
        for end in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            if process.poll() is None:
                os.killpg(process.pid, end)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                continue
            return


def plain(text):
    """Return a text without the escape sequences of terminals."""
    return _ESCAPES.sub("", text)


def objects(text):
    """Return the JSON objects that have a line of their own."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def _running(url):
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        found = _RUNNING.search(answer.read().decode())
    return float(found[1]) if found else 0.0
