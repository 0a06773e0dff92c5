"""Reads the certificate and the private key of a server.

Problems are reported when the server starts, with the name of the setting, instead of failing each
client's handshake. Blocks while it reads the files. Any thread.
"""

import re
import ssl
from pathlib import Path
from typing import NoReturn

from api.transport.config import ConfigError, ServerConfig
from engine.files.bounded import read_bounded
from engine.files.causes import os_cause

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_LARGEST_BYTES = 1 << 20
_TURNS = 16
# OpenSSL's numbers: https://docs.openssl.org/master/man3/X509_STORE_CTX_get_error/
_NOT_YET_VALID, _EXPIRED = 9, 10


class _HasPassphrase(Exception):
    """The private key is protected by a passphrase."""


def context_of(config: ServerConfig) -> ssl.SSLContext | None:
    """Return the TLS context of a server; None if it has no certificate."""
    cert, key = config.tls_cert, config.tls_key or config.tls_cert
    if cert is None or key is None:
        return None
    chain = _CERTIFICATE.findall(_text("tls_cert", cert))
    if not chain:
        raise ConfigError("tls_cert", f"{cert} contains no certificate in PEM form")
    key_setting = "tls_cert" if config.tls_key is None else "tls_key"
    if not _KEY.search(_text(key_setting, key)):
        remedy = "; name its file with --tls-key" if config.tls_key is None else " in PEM form"
        raise ConfigError(key_setting, f"{key} contains no private key{remedy}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert, key, password=_refuse_passphrase)
    except _HasPassphrase:
        raise ConfigError(
            key_setting,
            f"{key} is protected by a passphrase, which the server cannot ask for; write it to a "
            "file that only you can read: openssl pkey -in KEY -out KEY-WITHOUT",
        ) from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(key_setting, f"{key} is not the key of {cert}") from None
        why = (error.reason or "damaged").lower().replace("_", " ")
        raise ConfigError("tls_cert", f"{cert} and its key {key} cannot be used: {why}") from None
    _check_dates(context, cert, chain[0])
    return context


def _text(setting: str, file: Path) -> str:
    try:
        return read_bounded(file, _LARGEST_BYTES).decode("latin-1")
    except OSError as error:
        raise ConfigError(setting, f"{file} cannot be read: {os_cause(error)}") from None


def _refuse_passphrase() -> NoReturn:
    raise _HasPassphrase


def _check_dates(server: ssl.SSLContext, cert: Path, first: str) -> None:
    """Refuse a certificate that is expired or not valid yet, by a handshake with ourselves."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    # Only the certificate itself is checked, not who signed it.
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    try:
        client.load_verify_locations(cadata=first)
        _shake_hands(client, server)
    except ssl.SSLCertVerificationError as error:
        if error.verify_code == _EXPIRED:
            raise ConfigError("tls_cert", f"{cert} has expired; renew it") from None
        if error.verify_code == _NOT_YET_VALID:
            raise ConfigError(
                "tls_cert", f"{cert} is not valid yet; is this computer's clock right?"
            ) from None
        # Any other problem depends on which authorities the client trusts.
    except ssl.SSLError as error:
        why = (error.reason or "damaged").lower().replace("_", " ")
        raise ConfigError("tls_cert", f"{cert} cannot be used: {why}") from None


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(_TURNS):
        for side in list(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            sides.remove(side)
        if not sides:
            return
