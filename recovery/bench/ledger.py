"""How fast an export of the ledger is verified, in how much memory, and that tampering anywhere in it is named.

    python -m recovery.bench.ledger --entries 1000000

Makes an export of so many entries in a temporary folder, verifies it in a process of its own, then changes, deletes,
swaps, inserts and cuts at random places and asks each time which entry is the first bad one.
"""

import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from recovery.ledger import chain
from recovery.ledger import keys as ledger_keys
from recovery.ledger.canonical import canonical

CHECKPOINT_EVERY = 6000  # ten minutes at ten entries a second


def made(entries: int) -> Iterator[bytes]:
    """An export of so many entries, as a site with verdicts, proposals and reasons would have them."""
    chance = random.Random(1)
    key = Ed25519PrivateKey.generate()
    yield chain.header_line(1, chain.START)
    previous, signed = chain.START, 0
    for number in range(1, entries + 1):
        contents: dict[str, chain.Content | None] = {}
        erasable = {}
        if number % 5 == 0:
            content = chain.Content(f"{chance.getrandbits(256):064x}", "node is needed by the training run of tonight")
            contents["reason"] = content
            erasable["reason"] = chain.content_hash(content.salt, "reason", content.text)
        body = canonical(
            {
                "id": str(uuid.UUID(int=chance.getrandbits(128))),
                "kind": "verdict.issued",
                "at": "2026-11-30T12:00:00.000000Z",
                "actor": "system:attribution",
                "roles": [],
                "subject": {"kind": "verdict", "id": str(uuid.UUID(int=chance.getrandbits(128)))},
                "attempt": str(uuid.UUID(int=chance.getrandbits(128))),
                "facts": {
                    "number": 1,
                    "sha256": f"{chance.getrandbits(256):064x}",
                    "domain": "gpu_hardware",
                    "strength": "strong",
                    "state": "FAILED",
                    "mode": "slow",
                    "ruleset": "ab" * 32,
                    "engine": "1",
                },
                "erasable": erasable,
            }
        )
        digest = chain.link_hash(number, previous, chain.body_hash(body))
        yield chain.entry_line(number, previous, digest, body, contents)
        previous = digest
        if number % CHECKPOINT_EVERY == 0:
            signed += 1
            statement = chain.Statement(
                hash=digest,
                made_at="2026-11-30T12:00:00.000000Z",
                number=number,
                public_key=ledger_keys.public_hex(key),
            )
            yield chain.checkpoint_line(statement, ledger_keys.sign(key, statement.canonical()))
    yield chain.end_line(entries, previous, signed)


def tampered(path: Path, how: str, at: int) -> Iterator[bytes]:
    """The lines of an export with one thing done to entry `at`."""
    held = b""
    number = 0
    with path.open("rb") as file:
        for line in chain.lines_of(file):
            number += line.startswith(b'{"contents"')
            mine = number == at and line.startswith(b'{"contents"')
            if held:
                yield line
                yield held
                held = b""
            elif not mine:
                yield line
            elif how == "change":
                place = random.randrange(len(line) - 1)
                yield line[:place] + bytes([line[place] ^ 1]) + line[place + 1 :]
            elif how == "insert":
                yield line
                yield line
            elif how == "swap":
                held = line
            elif how == "cut":
                return


@click.command()
@click.option("--entries", default=100_000, show_default=True)
@click.option("--tampered", "times", default=12, show_default=True, help="Times that each kind of tampering is tried.")
def bench(entries: int, times: int) -> None:
    """Make, verify and tamper with an export of so many entries."""
    with tempfile.TemporaryDirectory(prefix="inquest-ledger-") as folder:
        path = Path(folder) / "export"
        start = time.perf_counter()
        with path.open("wb") as file:
            file.writelines(made(entries))
        click.echo(
            f"made      {entries} entries, {path.stat().st_size / 1e6:.0f} MB, {time.perf_counter() - start:.1f} s"
        )
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "attribution_site.cli", "ledger", "verify", str(path)], check=True)
        took = time.perf_counter() - start
        peak = getrusage(RUSAGE_CHILDREN).ru_maxrss / 1024
        click.echo(f"verified  {entries / took:,.0f} entries/s, {took:.1f} s, peak memory {peak:.0f} MB")
        for how in ("change", "delete", "swap", "insert", "cut"):
            places = [1, *(random.randrange(1, entries - 1) for _ in range(times - 1))]
            named = 0
            for at in places:
                bad = chain.verify(tampered(path, how, at), ledger_keys.check).bad
                # What was inserted is the second of the two.
                named += bad is not None and bad.number == (at + 1 if how == "insert" else at)
            click.echo(f"{how:9} {named} of {len(places)} named")


if __name__ == "__main__":
    bench()
