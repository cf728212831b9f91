"""The key pair that signs checkpoints (Ed25519). Pure: no database, no settings."""

import contextlib
import os
import re
import tempfile
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_HEX = re.compile(r"[0-9a-f]{64}")


class KeyFileError(Exception):
    """A key file that cannot be used; the message says why."""


def key_from(path: Path) -> Ed25519PrivateKey:
    """The private key kept in `path` (PEM), made on first use and readable by its owner alone.

    Two processes may come first at the same time: each links its own file into place, and the second link is ignored.
    Raises KeyFileError.
    """
    try:
        if not path.exists():
            _make(path)
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyFileError(f"{path} cannot be used as the ledger's key: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"{path} is not an Ed25519 key: openssl genpkey -algorithm ed25519 makes one")
    return key


def _make(path: Path) -> None:
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".ledger-key-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        Path(name).unlink()


def public_hex(key: Ed25519PrivateKey) -> str:
    """The public key as 64 hex digits."""
    return key.public_key().public_bytes_raw().hex()


def public_keys(text: str) -> frozenset[str]:
    """The public keys of a file: one of PEM, or a line of 64 hex digits for each. Raises KeyFileError."""
    if "-----BEGIN" in text:
        try:
            key = serialization.load_pem_public_key(text.encode())
        except (ValueError, UnsupportedAlgorithm) as error:
            raise KeyFileError(f"this is no public key: {error}") from error
        if not isinstance(key, Ed25519PublicKey):
            raise KeyFileError("this is not an Ed25519 key")
        return frozenset({key.public_bytes_raw().hex()})
    found = frozenset(line.split("#")[0].strip().lower() for line in text.splitlines()) - {""}
    if not found or not all(_HEX.fullmatch(key) for key in found):
        raise KeyFileError("give the public key as PEM, or as 64 hex digits a line")
    return found


def sign(key: Ed25519PrivateKey, said: bytes) -> str:
    """The signature as 128 hex digits."""
    return key.sign(said).hex()


def check(public_key: str, signature: str, said: bytes) -> bool:
    """Whether a signature is that of `said` by this key. What is no key or signature is not."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)).verify(bytes.fromhex(signature), said)
    except (InvalidSignature, ValueError):
        return False
    # One spelling only: a changed byte that reads as the same number is a changed byte.
    return public_key == public_key.lower() and signature == signature.lower() and len(signature) == 128
