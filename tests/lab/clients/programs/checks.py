"""The checks of every client, inside its own environment: they use only Python's library.

A program gives ``main`` one function for each thing that its client can do. Each gets an address
of the server; what came of it is printed as one line of JSON for each check.
"""

import itertools
import json
import re
import signal
import subprocess
import sys
import time
import traceback
import urllib.request

URL, LOCKED = sys.argv[1:3]
COUNT = "Please COUNT_UP"
COUNTED = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10"
TALK = "Please TALK_ON"
SAID = "All is well."
CITY = {"city": "Oslo"}
CALL = 'Please CALL_TOOL {"name": "get_weather", "arguments": {"city": "Oslo"}}'
LONG = "word " * 50_000
EMBEDDED = ["Paris", "The weather in Oslo", "x"]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Name of a city"}},
    "required": ["city"],
}
_TALKS = "--talks"
_COUNTED = re.compile(r'fullstop_requests_total\{[^}]*status="(\d+)"\} ([0-9.]+)')
_CANCELLED = re.compile(r'fullstop_stops_total\{[^}]*"cancelled"\} ([0-9.]+)')


def get_weather(city: str) -> str:
    """Return the weather of a city.

    Args:
        city: Name of a city.
    """
    return f"sunny in {city}"


def main(ask, *, stop=None, stream=None, tools=None, abort=None, embed=None, without=None):
    """Run the checks and print the outcome of each.

    Args:
        ask: Sends a text to an address with a key; returns the answer's text.
        stop: Asks for ``COUNT`` with the stop 5; returns the text and the client's word for why.
        stream: Asks for ``COUNT`` as a stream; returns the pieces.
        tools: Asks for ``CALL`` with the tool ``get_weather``; returns its name and arguments, or
            the answer that follows the tool's result.
        abort: Asks for ``TALK`` and leaves in the middle.
        embed: Returns the vectors of texts, by each of the client's ways.
        without: Why the client cannot do a thing, by the thing.
    """
    _check("works", lambda: _worked(ask(URL, "unused", COUNT)))
    _check("stop", stop and (lambda: _stopped(*stop(URL))), without)
    _check("stream", stream and (lambda: _streamed(list(stream(URL)))), without)
    _check("tools", tools and (lambda: _called(tools(URL))), without)
    _check("abort", abort and (lambda: _aborted(abort)), without)
    _check("errors", lambda: _erred(ask))
    if embed:
        _check("embeddings", lambda: _embedded(embed(URL, EMBEDDED)))


def leave_by_interrupt(stream):
    """Return an ``abort`` of clients that hang up when their process ends, as by Ctrl-C.

    Args:
        stream: Yields the pieces of the answer to ``TALK``.
    """

    if _TALKS in sys.argv:
        for piece in stream(URL):
            if piece:
                print("heard", flush=True)
        sys.exit()

    def abort(url):
        # Not a fork: it would share open connections with this process.
        words = [sys.executable, *sys.argv, _TALKS]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout.readline() == "heard\n", "nothing was streamed"
            child.send_signal(signal.SIGINT)

    return abort


def _worked(text):
    return str(text).strip() == COUNTED, repr(text)


def _stopped(text, reason):
    return str(text).strip() == "1\n2\n3\n4", f"{text!r}, {reason}"


def _streamed(pieces):
    texts = [str(piece) for piece in pieces if piece]
    return "".join(texts).strip() == COUNTED and len(texts) > 1, f"{len(texts)} pieces"


def _called(found):
    if isinstance(found, str):
        return SAID in found, repr(found)
    name, arguments = found
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    return (name, dict(arguments)) == ("get_weather", CITY), repr(found)


def _aborted(abort):
    before = _number(_CANCELLED)
    abort(URL)
    ends_at = time.monotonic() + 60
    while _number(_CANCELLED) == before:
        if time.monotonic() > ends_at:
            return False, "the server went on"
        time.sleep(0.02)
    return True, "the server ended the answer"


def _erred(ask):
    shown = []
    for url, key, text, status, words in (
        (URL, "unused", LONG, "400", ("context", "too long", "tokens", "400 Client Error")),
        (LOCKED, "wrong", COUNT, "401", ("key", "401", "uthentic")),
    ):
        before = _statuses(url).get(status, 0)
        try:
            answer = ask(url, key, text)
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        else:
            return False, f"no error, but {answer!r}"
        times = _statuses(url).get(status, 0) - before
        places = [said.find(word) for word in words if word in said]
        if not places:
            return False, f"{said[:200]} (asked {times} times)"
        start = max(0, min(places) - 60)
        shown.append(f"{said[start : start + 120]} (asked {times} times)")
    return True, "; ".join(shown)


def _embedded(ways):
    """Compare a client's vectors with the server's own numbers for each of the texts alone."""
    expected = [_vector(text) for text in EMBEDDED]
    assert len({tuple(vector) for vector in expected}) == len(EMBEDDED), "all are the same"
    for vectors in ways:
        if [len(one) for one in vectors] != [len(one) for one in expected]:
            return False, f"vectors of {[len(one) for one in vectors]} numbers"
        pairs = zip(itertools.chain(*vectors), itertools.chain(*expected), strict=True)
        if (apart := max(abs(one - other) for one, other in pairs)) > 1e-4:
            return False, f"numbers are {apart} apart"
    return True, f"{len(expected)} vectors of {len(expected[0])} numbers, in {len(ways)} ways"


def _vector(text):
    sent = json.dumps({"model": "m", "input": text}).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{URL}/v1/embeddings", sent, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["data"][0]["embedding"]


def _metrics(url):
    request = urllib.request.Request(f"{url}/metrics", headers={"x-api-key": "right"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def _statuses(url):
    found = {}
    for status, count in _COUNTED.findall(_metrics(url)):
        found[status] = found.get(status, 0) + int(float(count))
    return found


def _number(pattern):
    found = pattern.search(_metrics(URL))
    return float(found[1]) if found else 0.0


def _check(name, act, without=None):
    if not act:
        reason = (without or {}).get(name, "the client cannot")
        print(json.dumps({"check": name, "passed": None, "said": reason}), flush=True)
        return
    try:
        passed, said = act()
    except BaseException as error:
        traceback.print_exc()
        passed, said = False, f"{type(error).__name__}: {error}"
    said = " ".join(str(said).split())[:300]
    print(json.dumps({"check": name, "passed": passed, "said": said}), flush=True)
