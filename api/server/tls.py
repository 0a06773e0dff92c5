"""Reads the certificate and the private key of a server.

Problems are reported when the server starts, with the name of the setting, instead of failing each
client's handshake. Blocks while it reads the files.
"""

import re
import ssl
from pathlib import Path
from typing import NoReturn

from api.service.config import ConfigError, ServerConfig
from engine.files.causes import os_cause
from engine.files.safe_files import read_bounded

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----")
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")


def context_of(config: ServerConfig) -> ssl.SSLContext | None:
    """Return the TLS context of a server; None if it has no certificate."""
    cert, key = config.tls_cert, config.tls_key or config.tls_cert
    if cert is None or key is None:
        return None
    if not _CERTIFICATE.search(_text("tls_cert", cert)):
        raise ConfigError("tls_cert", f"{cert} contains no certificate in PEM form")
    key_setting = "tls_cert" if config.tls_key is None else "tls_key"
    if not _KEY.search(_text(key_setting, key)):
        remedy = "; name its file with --tls-key" if config.tls_key is None else " in PEM form"
        raise ConfigError(key_setting, f"{key} contains no private key{remedy}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert, key, password=_refuse_passphrase)
    except ValueError:
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
    return context


def _text(setting: str, file: Path) -> str:
    try:
        return read_bounded(file, 1 << 20).decode("latin-1")
    except OSError as error:
        raise ConfigError(setting, f"{file} cannot be read: {os_cause(error)}") from None


def _refuse_passphrase() -> NoReturn:
    raise ValueError("the key is protected by a passphrase")
