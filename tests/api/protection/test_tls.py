"""Encrypted connections: certificates that work, and the errors for those that do not."""

import contextlib
import http.client
import json
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from api.server.tls import context_of
from api.service.config import ConfigError, ServerConfig
from tests.support.outside.certificates import CertificateFiles, write_certificate

ASK = {"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture
def files(tmp_path: Path) -> CertificateFiles:
    return write_certificate(tmp_path)


def client_of(site: Any, files: CertificateFiles) -> http.client.HTTPSConnection:
    trust = ssl.create_default_context(cafile=str(files.cert))
    return http.client.HTTPSConnection("127.0.0.1", site.address.port, timeout=60, context=trust)


def post(client: http.client.HTTPSConnection, body: Any, **headers: str) -> Any:
    client.request("POST", "/v1/messages", json.dumps(body), headers)
    return client.getresponse()


def test_a_client_that_trusts_the_certificate_is_answered(
    serve: Callable[..., Any], files: CertificateFiles
) -> None:
    site = serve(tls_cert=files.cert, tls_key=files.key)
    assert site.url == f"https://127.0.0.1:{site.address.port}"
    client = client_of(site, files)
    answer = post(client, ASK)

    assert (answer.status, json.loads(answer.read())["type"]) == (200, "message")
    # The same connection again, as a stream.
    assert b"event: message_stop" in post(client, ASK | {"stream": True}).read()
    client.close()


def test_a_client_that_does_not_encrypt_gets_nothing_and_does_no_harm(
    serve: Callable[..., Any], files: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    site = serve(tls_cert=files.cert, tls_key=files.key)
    for sent in (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01", b"\0" * 999):
        with socket.create_connection(("127.0.0.1", site.address.port), timeout=60) as plain:
            plain.sendall(sent)
            plain.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                assert b"HTTP" not in plain.recv(65536)
    client = client_of(site, files)
    assert post(client, ASK).status == 200
    client.close()
    assert "Traceback" not in caplog.text


def complaint(cert: Path, key: Path | None) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        context_of(ServerConfig(tls_cert=cert, tls_key=key))
    assert "\n" not in str(refused.value)
    return refused.value


def test_a_key_of_another_certificate_is_refused(tmp_path: Path, files: CertificateFiles) -> None:
    other = write_certificate(tmp_path, name="other")
    error = complaint(files.cert, other.key)

    assert error.setting == "tls_key"
    assert f"{other.key} is not the key of {files.cert}" in str(error)


def test_files_that_cannot_be_read_or_contain_something_else_are_named(
    tmp_path: Path, files: CertificateFiles
) -> None:
    nowhere, empty, broken = tmp_path / "nowhere", tmp_path / "empty", tmp_path / "broken"
    empty.write_bytes(b"\xff\xfe\0")
    broken.write_bytes(files.cert.read_bytes().replace(b"\nMII", b"\nAAA"))
    cases = (
        (nowhere, files.key, "tls_cert", "no such file"),
        (files.cert, nowhere, "tls_key", "no such file"),
        (tmp_path, files.key, "tls_cert", "it is a folder"),
        (empty, files.key, "tls_cert", "contains no certificate"),
        (files.key, files.key, "tls_cert", "contains no certificate"),
        (files.cert, files.cert, "tls_key", "contains no private key"),
        (files.cert, None, "tls_cert", "--tls-key"),
        (broken, files.key, "tls_cert", "cannot be used"),
    )
    for cert, key, setting, words in cases:
        error = complaint(cert, key)
        assert (error.setting, words in str(error)) == (setting, True), str(error)


@pytest.mark.parametrize(
    ("settings", "is_readable"),
    [
        ({}, False),
        ({"host": "0.0.0.0", "api_key": "k"}, True),
        ({"host": "0.0.0.0", "api_key": "k", "tls_cert": Path("c")}, False),
        ({"host": "::1"}, False),
    ],
)
def test_unencrypted_server_on_the_network_warns(
    settings: dict[str, Any], is_readable: bool
) -> None:
    assert ServerConfig(**settings).is_readable_on_the_way is is_readable
