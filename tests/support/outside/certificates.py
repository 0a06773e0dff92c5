"""Certificates for tests, made on demand: self-signed, and valid for loopback."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

_NAMES = (
    x509.DNSName("localhost"),
    x509.IPAddress(ip_address("127.0.0.1")),
    x509.IPAddress(ip_address("::1")),
)


@dataclass(frozen=True)
class CertificateFiles:
    """A certificate and its key, in files."""

    cert: Path
    key: Path


def write_certificate(
    folder: Path,
    *,
    passphrase: bytes | None = None,
    name: str = "server",
) -> CertificateFiles:
    """Make a key and a certificate that it signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=-1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName(_NAMES), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = CertificateFiles(folder / f"{name}.pem", folder / f"{name}-key.pem")
    files.cert.write_bytes(made.public_bytes(Encoding.PEM))
    protection = NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase)
    files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection))
    return files
