"""`inquest verify`: check a record anywhere. It loads neither Django nor a database."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import click

from recovery.ledger import keys as ledger_keys
from recovery.record import beside
from recovery.record.container import BadRecord
from recovery.record.read import Report, open_record
from rules.verdict import plain_text


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--public-key",
    "key_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Who may have signed: a public key as PEM, or lines of 64 hex digits.",
)
@click.option("--quiet", is_flag=True, help="Say nothing where all is well.")
def verify(file: Path, key_file: Path | None, quiet: bool) -> None:
    """Verify a record of an attempt, offline and in bounded memory, whatever is in it.

    The exit status is 0 when all is as it was written, 1 when the record is refused, 3 when a file cannot be read.
    """
    keys = keys_of(key_file)
    try:
        with file.open("rb") as opened:
            report = open_record(opened, keys, beside.near(file)).report
    except BadRecord as error:
        refuse(error)
    except OSError as error:
        fail(str(error))
    if not quiet:
        for line in said(report, known=bool(keys)):
            click.echo(plain_text(line))


def keys_of(file: Path | None) -> frozenset[str]:
    """The public keys of a file; none without one."""
    if file is None:
        return frozenset()
    try:
        return ledger_keys.public_keys(file.read_text())
    except (OSError, UnicodeDecodeError, ledger_keys.KeyFileError) as error:
        fail(f"{file}: {error}")


def refuse(error: BadRecord, status: int = 1) -> NoReturn:
    """Say why a record is refused, and end."""
    click.echo(f"BAD {plain_text(str(error))}", err=True)
    sys.exit(status)


def fail(why: str) -> NoReturn:
    """Say what could not be read, and end."""
    click.echo(f"inquest: {plain_text(why)}", err=True)
    sys.exit(3)


def said(report: Report, *, known: bool) -> list[str]:
    """What was found, in lines for a terminal."""
    dated, expires = report.info.get("Bagging-Date", ""), report.info.get("Inquest-Expires", "")
    key = report.public_key
    size = f"{report.files} files, {report.bytes:,} bytes, {report.verdicts} verdicts"
    if known:
        signed = f"Signed by {key}, one of the keys given."
    else:
        signed = f"Signed by {key}: compare with a key that you know, or give it with --public-key."
    lines = [
        f"ok: the record of attempt {report.attempt}, made {dated}: {size}",
        signed,
        f"Ledger: {report.entries} entries; {report.in_ledger} of {report.verdicts} verdicts stand in it as here.",
    ]
    if report.beside:
        lines.append(f"Beside it: {', '.join(report.beside)}, as when it was made.")
    if report.erased:
        lines.append(f"{report.erased} texts of the ledger were erased; their hashes stand.")
    if not report.covered:
        lines.append("Some of these entries are after the last checkpoint: the record's signature alone covers them.")
    if not report.sealed:
        lines.append("The zip was packed again; what is in it is what was signed.")
    lines += [f"Missing: {one.input}: {one.said}" for one in report.missing]
    if expires and expires < f"{datetime.now(UTC):%Y-%m-%d}":
        lines.append(f"It expired on {expires}: it should have been deleted.")
    elif expires:
        lines.append(f"It is to be deleted by {expires}.")
    if hold := report.info.get("Inquest-Hold"):
        lines.append(f"It is not to be deleted while a hold stands that stood when it was made: {hold}")
    return lines
