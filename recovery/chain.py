"""The ledger's chain: what is hashed, byte for byte. The database computes the same (migration `ledger`)."""

from hashlib import sha256

#: What stands before the first entry.
START = "0" * 64
FORMAT = "inquest-ledger-1"


def body_hash(body: bytes) -> str:
    """SHA-256 of an entry's canonical JSON, as hex."""
    return sha256(body).hexdigest()


def link_hash(number: int, previous: str, body_sha256: str) -> str:
    """The hash of an entry's place in the chain."""
    return sha256(f"{FORMAT}\n{number}\n{previous}\n{body_sha256}\n".encode()).hexdigest()


def content_hash(salt: str, field: str, text: str) -> str:
    """The salted hash that the chain keeps of text that may be erased. A salt is 64 hex digits."""
    return sha256(f"{salt}\n{field}\n{text}".encode()).hexdigest()
