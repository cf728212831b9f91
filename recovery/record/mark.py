"""By what a record is told from other files: without loading anything."""

BASE = "inquest-record-"
DECLARATION = "bagit.txt"
#: So much of a file's beginning tells.
HEAD = 200


def looks_like(head: bytes) -> bool:
    """Whether a file begins as a record does."""
    return head[:4] == b"PK\3\4" and head[30:].startswith(BASE.encode()) and f"/{DECLARATION}".encode() in head[:HEAD]
