import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from app import __version__
from tests.support.outside.collector import AT_ONCE, collecting, plain

REPOSITORY = Path(__file__).parents[3]
ASKED = {"model": "m", "max_tokens": 3, "messages": [{"role": "user", "content": "Count to 9"}]}


def test_serve_sends_telemetry() -> None:
    with collecting() as collector:
        named = {**os.environ, **AT_ONCE}
        named["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.url
        process = subprocess.Popen(
            [sys.executable, "-m", "app", "serve", "--port", "0"],
            cwd=REPOSITORY,
            env=named,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        with process.stdout as said:
            try:
                url = said.readline().split()[-1]
                request = urllib.request.Request(
                    f"{url}/v1/messages",
                    json.dumps(ASKED).encode(),
                    {"content-type": "application/json"},
                )
                with urllib.request.urlopen(request, timeout=120) as answer:
                    assert answer.status == 200
                collector.wait_until(lambda: collector.spans)
            finally:
                process.send_signal(signal.SIGINT)
                assert process.wait(timeout=120) == 0
    (span,) = collector.spans
    assert plain(span.attributes)["fullstop.stop.kind"] == ["max_tokens"]
    assert collector.resource["service.version"] == __version__
