"""Golden answers: what the server says to hundreds of requests, and the help of all commands.

    python -m tests.lab.golden record FOLDER [--code FOLDER] [--only TEXT]
    python -m tests.lab.golden compare BEFORE AFTER

``record`` starts ``fullstop serve`` on the demo model, asks it everything that
``tests.lab.golden_requests`` lists, one request after another, and writes a file for each. With
``--code`` the program in another folder answers, such as an earlier one in a work tree of its own.
``compare`` prints the differences between two such folders and exits 1 if there are any.

What differs from run to run is replaced: ids are numbered within an answer, times and durations get
a name, numbers with many decimals are rounded. Pieces of text that came one after another are
joined, because it depends on the machine how an answer is cut into pieces. Everything else is kept
as it was sent.
"""

import argparse
import difflib
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.lab.golden_requests import GENERATE, Request, guarded_requests, requests

REPOSITORY = Path(__file__).parents[2]
TIMEOUT_S = 120
_OPTIONS = ("--plain-decoding", "--keepalive-s", "3600", "--max-rows", "4")
_GUARDED = ("--api-key", "secret", "--strict", "--images", "refuse", "--max-body-bytes", "20000")
# Values that text may be split over, wherever they stand in an event.
_TEXTS = {
    "arguments", "content", "delta", "input", "partial_json", "reasoning", "reasoning_content",
    "response", "text", "thinking",
}  # fmt: skip
_LISTS = {"logprobs", "token_ids"}
_HIDDEN_HEADERS = {"content-length", "date", "connection", "keep-alive", "transfer-encoding"}
_ID = re.compile(r"(?<![0-9a-zA-Z])[0-9a-f]{16,}(?![0-9a-zA-Z])")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_WHEN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?")
_SECONDS = re.compile(r'("(?:created|completed|started|expires|modified)(?:_at)?": ?)\d+(?:\.\d+)?')
_DURATION = re.compile(r'("(?:[a-z_]+_duration|[a-z_]+_s|e2e_latency|tokens_per_s)": ?)-?[\d.e-]+')
_MEMORY = re.compile(r'("(?:cached_bytes|freed_bytes|size_vram)": ?)\d+')
_DECIMALS = re.compile(r"-?\d+\.\d{4,}(?:e-?\d+)?|-?\d+(?:\.\d+)?e-\d+")
_METRIC = re.compile(r"^(?!#|fullstop_requests_total)(\S+(?:\{.*\})?) \S+$", re.MULTILINE)


# -- recording ------------------------------------------------------------------------------------


def record(folder: Path, code: Path, only: str) -> int:
    """Write the answers of a program to a folder; return how many there are."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("*.txt"):
        file.unlink()
    count = 0
    for options, asked in ((_OPTIONS, requests()), ((*_OPTIONS, *_GUARDED), guarded_requests())):
        chosen = [request for request in asked if only in request.name]
        if chosen:
            with _server(code, options) as port:
                count += _record_answers(folder, port, chosen)
    if not only:
        helps = _help_texts(code)
        for command, text in helps.items():
            (folder / f"help{command and '.'}{command.replace(' ', '.')}.txt").write_text(text)
        count += len(helps)
    return count


def _record_answers(folder: Path, port: int, asked: list[Request]) -> int:
    names = [request.name for request in asked]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two requests are named {', '.join(sorted(twice))}")
    ids: dict[str, str] = {}
    for request in asked:
        sent, answer = _exchange(port, request, ids)
        # Ids that were sent are not repeated: they differ from run to run.
        shown = json.dumps(request.body, ensure_ascii=True) if request.body is not None else ""
        shown = shown if len(shown) < 3000 else f"{shown[:100]} … {len(shown)} characters"
        lines = [f"{request.method} {request.path}", *(f"{k}: {v}" for k, v in
                 request.headers.items()), shown, "", answer]  # fmt: skip
        text = "\n".join(lines).replace(f"127.0.0.1:{port}", "HOST").replace(f":{port}", ":PORT")
        (folder / f"{request.name}.txt").write_text(text, encoding="utf-8", errors="replace")
        ids.update(sent)
    return len(asked)


def _exchange(port: int, request: Request, ids: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Return the ids that later requests may use, and the answer as it is kept."""

    def filled(text: str) -> str:
        return re.sub(r"\{\{(.+?)\}\}", lambda found: ids.get(found[1], "missing"), text)

    body = request.body if isinstance(request.body, str | None) else json.dumps(request.body)
    raw = None if body is None else filled(body).encode(errors="surrogateescape")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        headers = {"content-type": "application/json", **request.headers}
        connection.request(request.method, filled(request.path), raw, headers)
        response = connection.getresponse()
        answer = response.read().decode()
    finally:
        connection.close()
    found = {}
    if id_ := re.search(r'"id": ?"([^"]+)"', answer):
        found[request.name] = id_[1]
    if call := re.search(r'"call_id": ?"([^"]+)"', answer):
        found[f"{request.name}:call"] = call[1]
    kept = sorted(
        f"{name.lower()}: {value}"
        for name, value in response.getheaders()
        if name.lower() not in _HIDDEN_HEADERS
    )
    media_type = response.headers.get_content_type()
    if media_type == "text/event-stream":
        answer = "\n\n".join(_joined(answer.split("\n\n"), request.path))
    elif media_type == "application/x-ndjson":
        answer = "\n".join(_joined(answer.split("\n"), request.path))
    elif request.path == "/metrics":
        answer = _METRIC.sub(r"\1 …", answer)
    elif request.path == "/openapi.json" and response.status == 200:
        answer = json.dumps(json.loads(answer), indent=1, sort_keys=True)
    return found, _stable("\n".join((f"{response.status}", *kept, "", answer)))


def _stable(text: str) -> str:
    """Return a text without what differs from run to run."""
    numbers: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        return numbers.setdefault(found[0], f"<{len(numbers) + 1}>")

    text = _SECONDS.sub(r"\1<time>", _WHEN.sub("<time>", text))
    text = _MEMORY.sub(r"\1<bytes>", _DURATION.sub(r"\1<duration>", text))
    text = _DECIMALS.sub(lambda found: f"{float(found[0]):.3g}", text)
    return _ID.sub(number, _UUID.sub(number, text))


# -- streams --------------------------------------------------------------------------------------


def _joined(frames: list[str], path: str) -> Iterator[str]:
    """Join frames that differ only by the piece of text that they bring."""
    kept = [frame for frame in frames if not frame.startswith(":")]
    if path == GENERATE:
        yield from _last_of_each(kept)
        return
    for _, group in groupby(_by_choice(kept), _shape):
        same = list(group)
        first = _data(same[0])
        if len(same) > 1 and isinstance(first, dict):
            for frame in same[1:]:
                first = _added(first, _data(frame))
        yield (
            same[0]
            if first is None or (len(same) == 1 and not _is_numbered(first))
            else (_with_data(same[0], first))
        )


def _by_choice(frames: list[str]) -> Iterator[str]:
    """Put the frames of one choice after those of another, which depend on the machine."""

    def choice(frame: str) -> int | None:
        data = _data(frame)
        choices = data.get("choices") if isinstance(data, dict) else None
        return choices[0].get("index") if choices else None

    for _, group in groupby(frames, lambda frame: choice(frame) is None):
        yield from sorted(group, key=lambda frame: choice(frame) or 0)


def _is_numbered(data: Any) -> bool:
    return isinstance(data, dict) and "sequence_number" in data


def _data(frame: str) -> Any:
    lines = [line for line in frame.split("\n") if not line.startswith("event:")]
    try:
        return json.loads("\n".join(lines).removeprefix("data:"))
    except ValueError:
        return None


def _with_data(frame: str, data: Any) -> str:
    data.pop("sequence_number", None)  # it counts the pieces
    head, mark, _ = frame.partition("data:")
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"{head}data: {text}" if mark else text


def _shape(frame: str) -> str:
    """Return a frame without its text; frames that bring none, or end a text, are alone."""
    data = _data(frame)
    if not isinstance(data, dict):
        return frame
    head, mark, _ = frame.partition("data:")
    blank = _blank(data, "")
    is_piece = json.dumps(blank) != json.dumps(data)
    is_end = str(data.get("type", "")).endswith((".done", ".completed", ".added", "_start"))
    if not is_piece or is_end or data.get("done") is True:
        return frame
    return f"{head if mark else ''}{json.dumps(blank)}"


def _blank(value: Any, name: str) -> Any:
    if name in _LISTS and value is not None:
        return None
    if isinstance(value, str):
        return "…" if name in _TEXTS and value else value
    if isinstance(value, dict):
        left_out = ("sequence_number", "created_at", "obfuscation")
        return {key: _blank(part, key) for key, part in value.items() if key not in left_out}
    if isinstance(value, list):
        return [_blank(part, name) for part in value]
    return value


def _added(first: Any, second: Any, name: str = "", *, is_list: bool = False) -> Any:
    if is_list or name in _LISTS:
        if isinstance(first, list) and isinstance(second, list):
            return [*first, *second]
        if isinstance(first, dict) and isinstance(second, dict):
            return {key: _added(first[key], second[key], key, is_list=True) for key in first}
        return first
    if isinstance(first, str) and name in _TEXTS:
        return first + second
    if isinstance(first, dict):
        return {key: _added(part, second[key], key) for key, part in first.items()}
    if isinstance(first, list):
        return [_added(one, two, name) for one, two in zip(first, second, strict=True)]
    return first


def _last_of_each(frames: list[str]) -> Iterator[str]:
    """Yield the last frames of texts that are sent again and again as they grow."""
    grown: dict[int, str] = {}
    for frame in frames:
        data = _data(frame)
        if not isinstance(data, dict) or "meta_info" not in data:
            yield frame
        elif data["meta_info"]["finish_reason"] is None:
            if not data["text"].startswith(grown.get(data.get("index", 0), "")):
                yield f"it does not grow: {frame}"
            grown[data.get("index", 0)] = data["text"]
        else:
            yield frame


# -- the program ----------------------------------------------------------------------------------


@contextmanager
def _server(code: Path, options: tuple[str, ...]) -> Iterator[int]:
    with tempfile.TemporaryDirectory() as home:
        process = subprocess.Popen(
            [sys.executable, "-m", "app", "serve", "--port", "0", *options],
            cwd=code, env=_environment(code, home), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line.startswith("listening on http://"):
                raise RuntimeError(f"the server did not start: {line}")
            yield int(line.rpartition(":")[2].strip().strip("/"))
        finally:
            process.terminate()
            process.wait(timeout=60)
            process.stdout.close()


def _environment(code: Path, home: str) -> dict[str, str]:
    names = ("HOME", "FULLSTOP_CONFIG_DIR", "XDG_DATA_HOME", "XDG_CACHE_HOME", "HF_HOME")
    folders = dict.fromkeys(names, home)
    return {**os.environ, **folders, "PYTHONPATH": str(code), "COLUMNS": "100"}


def _help_texts(code: Path) -> dict[str, str]:
    """Return the help of the program and of each of its commands, and of theirs."""

    def ask(command: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "app", *command.split(), "--help"],
            cwd=code, env=_environment(code, home), capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        return f"{done.returncode}\n{done.stdout}{done.stderr}"

    texts: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as home, ThreadPoolExecutor(2) as pool:
        left = [""]
        while left:
            texts |= zip(left, answers := list(pool.map(ask, left)), strict=True)
            left = [
                f"{command} {name}".strip()
                for command, text in zip(left, answers, strict=True)
                for name in _commands_in(text)
            ]
    return texts


def _commands_in(text: str) -> list[str]:
    _, _, listed = text.partition("\ncommands:\n")
    return re.findall(r"^    ([a-z][a-z-]*)  ", listed.partition("\n\n")[0], re.MULTILINE)


# -- comparing ------------------------------------------------------------------------------------


def differences(before: Path, after: Path) -> list[str]:
    """Return what differs between two folders, a text for each file."""
    names = sorted({file.name for folder in (before, after) for file in folder.glob("*.txt")})
    if not names:
        return [f"there is nothing in {before}"]
    found = []
    for name in names:
        old, new = (_lines(folder / name) for folder in (before, after))
        if old != new:
            lines = difflib.unified_diff(old, new, "before", "after", lineterm="", n=1)
            found.append("\n".join((f"== {name}", *list(lines)[2:40])))
    return found


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").split("\n") if file.is_file() else ["(no such file)"]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.golden", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    actions = parser.add_subparsers(dest="action", required=True)
    recording = actions.add_parser("record")
    recording.add_argument("folder", type=Path)
    recording.add_argument("--code", type=Path, default=REPOSITORY, help="the program's folder")
    recording.add_argument("--only", default="", help="requests with this in their name")
    comparing = actions.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args(words)
    if given.action == "record":
        count = record(given.folder, given.code.resolve(), given.only)
        print(f"{count} answers and help texts")
        return 0
    found = differences(given.before, given.after)
    print("\n".join(found) or "equal")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
