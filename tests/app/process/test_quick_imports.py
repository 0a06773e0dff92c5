"""A command is imported without the system's certificates; they are read before a connection."""

import json
import subprocess
import sys

PROGRAM = """
import json, ssl, sys
from app.process.quick_imports import importing_command
ordinary = ssl.create_default_context()
with importing_command():
    later = ssl.create_default_context()
before = later.cert_store_stats()["x509"]
WRAP
print(json.dumps([
    before,
    later.cert_store_stats() == ordinary.cert_store_stats(),
    later.verify_mode == ordinary.verify_mode == ssl.CERT_REQUIRED,
    later.check_hostname,
    type(ssl.create_default_context()) is ssl.SSLContext,
]))
"""
WRAPPED_BY = {
    "asyncio": 'later.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="x")',
    "socket": (
        "import socket\n"
        "one, other = socket.socketpair()\n"
        'later.wrap_socket(one, server_hostname="x", do_handshake_on_connect=False)'
    ),
}


def test_certificates_are_read_before_the_first_connection() -> None:
    for name, wrap in WRAPPED_BY.items():
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.replace("WRAP", wrap)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == [0, True, True, True, True], name
