"""Standard streams whose reader is late."""

import os
import subprocess
import sys
import time

import pytest

_WRITES = """
import os, sys, time
from app.process.streams import drain_streams, prepare_streams, write_in_background
prepare_streams()
os.set_blocking(sys.stdout.fileno(), False)
os.set_blocking(sys.stderr.fileno(), False)
{begin}
began_s = time.process_time()
for _ in range(200):
    print("x" * 999, file={stream}, flush=True)
for _ in range(20):
    drain_streams()
print(f"{{time.process_time() - began_s}}", file={other}, flush=True)
drain_streams()
"""


@pytest.mark.parametrize("begin", ["", "write_in_background()"])
@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_full_stream_that_does_not_block_waits_for_its_reader(name: str, begin: str) -> None:
    other = {"stdout": "stderr", "stderr": "stdout"}[name]
    script = _WRITES.format(stream=f"sys.{name}", other=f"sys.{other}", begin=begin)
    reading, writing = os.pipe()
    pipes = {name: writing, other: subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script], **pipes) as process:
        os.close(writing)
        time.sleep(1.5)
        with open(reading, "rb") as late:
            content = late.read()
        cpu_s = process.communicate(timeout=20)[name == "stdout"]
    assert len(content) == 200_000
    assert float(cpu_s) < 0.5
