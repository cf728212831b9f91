"""What `inquest explain` says of a record."""

import sys
from pathlib import Path

import click

from recovery.record import again, beside
from recovery.record.cli import keys_of, refuse
from recovery.record.container import BadRecord
from recovery.record.read import open_record
from rules.print_verdict import print_verdict
from rules.ruleset import load_ruleset
from rules.verdict import plain_text, verdict_digest


def explain(
    path: Path, key_file: Path | None, number: int | None, *, as_json: bool, proof: bool, site: str | None
) -> None:
    """Conclude a record's verdict again and say how it compares. Ends the process where it is not the same."""
    keys = keys_of(key_file)
    try:
        with path.open("rb") as file:
            record = open_record(file, keys, beside.near(path))
            found = again.conclude(record, number)
            today = load_ruleset(site)
            changed = again.otherwise(record, found, today)
    except again.Expired as error:
        click.echo(f"inquest: the record is as it was written; {plain_text(str(error))}", err=True)
        sys.exit(2)
    except BadRecord as error:
        refuse(error, status=2)
    except (OSError, ValueError) as error:
        click.echo(f"inquest: {plain_text(str(error))}", err=True)
        sys.exit(2)
    if as_json:
        sys.stdout.buffer.write(found.raw + b"\n")
    else:
        print_verdict(found.verdict, [])
        if proof:
            for step in found.verdict.proof:
                refs = ", ".join(step.evidence[:3])
                click.echo(plain_text(f"  {step.finding} {step.status}: {step.rule} ← {refs}: {step.because}"))
    lines = [_same(found), _today(found, today.digest, changed)]
    if not keys:
        lines.append(f"Signed by {record.report.public_key}: compare with a key that you know.")
    for line in lines:
        click.echo(plain_text(line), err=as_json)
    sys.exit(0 if found.same else 1)


def _same(found: again.Again) -> str:
    if found.same:
        return (
            f"Concluded again from the record, with its own rules {found.told.ruleset[:12]}: verdict"
            f" {found.told.number}, the same byte for byte (SHA-256 {verdict_digest(found.raw)})."
        )
    why = "; ".join(found.why) or "the record's evidence or this program is not what concluded it"
    return f"NOT THE SAME as verdict {found.told.number} of the record: {why}."


def _today(found: again.Again, digest: str, changed: list[str]) -> str:
    if digest == found.told.ruleset:
        return "These are today's rules."
    if not changed:
        return f"Today's rules ({digest[:12]}) conclude the same."
    return f"Today's rules ({digest[:12]}) would conclude otherwise: {' '.join(changed)}"
