"""`inquest rules`: look at, test and extend the catalogue."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from rules import coverage, drift, examples, lint, scaffold, schema, show
from rules.attempt import InputError
from rules.ruleset import CATALOGUE, Ruleset, load_ruleset
from rules.words import Domain, Maturity, Role, Source

Command = Callable[..., Any]


def layer_roots(site: str | None) -> list[Path]:
    """The directories of the layers in force."""
    site = site or os.environ.get("INQUEST_RULES_DIR")
    return [CATALOGUE, *([Path(site)] if site else [])]


def site_option(command: Command) -> Command:
    """The option that names a site's layer."""
    text = "A directory of site rules over the shipped ones (default: INQUEST_RULES_DIR)."
    return click.option("--site", type=click.Path(), help=text)(command)


def load(site: str | None) -> Ruleset:
    """The ruleset in force; one line and exit status 2 when a rule file is wrong."""
    try:
        return load_ruleset(site)
    except ValueError as error:
        click.echo(str(error), err=True)
        sys.exit(2)


@click.command("test")
@click.argument("only", nargs=-1)
@site_option
def test_command(only: tuple[str, ...], site: str | None) -> None:
    """Run every example of every rule, or of the rules and subjects named.

    A failure is printed as file:line. Exit status: 0 all passed, 1 some failed or none ran, 2 a file is wrong.
    """
    ruleset = load(site)
    ran = files = 0
    failures: list[examples.Failure] = []
    for path, raw in examples.rule_files(layer_roots(site)):
        if only and f"{path.parent.name}.{path.stem}" not in only and path.parent.name not in only:
            continue
        count, bad = examples.run_file(ruleset, path, raw)
        ran, files = ran + count, files + 1
        failures += bad
    for failure in failures:
        click.echo(str(failure))
    click.echo(f"{ran} examples of {files} rules: {ran - len(failures)} passed, {len(failures)} failed")
    if not ran:
        click.echo(f"no rule is called {', '.join(only)}" if only else "there are no examples", err=True)
    sys.exit(1 if failures or not ran else 0)


@click.command("lint")
@site_option
@click.argument("only", nargs=-1)
def lint_command(site: str | None, only: tuple[str, ...]) -> None:
    """Check the rule files: schema, ids, patterns, examples, references, reach, circles.

    A problem is printed as file:line. Exit status: 0 none, 1 some, 2 a file cannot be read at all.
    """
    problems = lint.lint(load(site), layer_roots(site))
    problems = [p for p in problems if not only or any(f"/{name.replace('.', '/')}" in p.file for name in only)]
    for problem in problems:
        click.echo(str(problem))
    click.echo(f"{len(problems)} problem{'s' if len(problems) != 1 else ''}")
    sys.exit(1 if problems else 0)


@click.command("list")
@click.option("--subject", help="Rules of one subject, such as gpu.")
@click.option("--domain", type=click.Choice([str(d) for d in Domain]), help="Rules that blame one domain.")
@click.option("--role", type=click.Choice([str(r) for r in Role]), help="Rules of one role.")
@click.option("--maturity", type=click.Choice([str(m) for m in Maturity]), help="Rules of one maturity.")
@click.option("--source", type=click.Choice([str(s) for s in Source]), help="Rules whose lines are normally there.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@site_option
def list_command(
    subject: str | None,
    domain: str | None,
    role: str | None,
    maturity: str | None,
    source: str | None,
    as_json: bool,
    site: str | None,
) -> None:
    """List the rules in force."""
    wanted = {"subject": subject, "domain": domain, "role": role, "maturity": maturity}
    chosen = [
        rule
        for rule in load(site).rules
        if all(value is None or str(getattr(rule, key)) == value for key, value in wanted.items())
        and (source is None or source in rule.match.sources)
    ]
    if as_json:
        click.echo(json.dumps([show.summary(rule) for rule in chosen], indent=2, ensure_ascii=False))
        return
    width = max((len(rule.id) for rule in chosen), default=0)
    for rule in chosen:
        click.echo(f"{rule.id:{width}}  {rule.role:12}  {rule.domain or '-':20}  {rule.maturity:6}  {rule.title}")
    click.echo(f"{len(chosen)} rule{'s' if len(chosen) != 1 else ''}")


@click.command("show")
@click.argument("rule_id")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@site_option
def show_command(rule_id: str, as_json: bool, site: str | None) -> None:
    """Show one rule as an operator reads it."""
    ruleset = load(site)
    rule = ruleset.by_id.get(rule_id)
    if rule is None:
        near = [r.id for r in ruleset.rules if rule_id in r.id or rule_id == r.symptom][:8]
        click.echo(f"there is no rule {rule_id!r}" + (f"; did you mean {', '.join(near)}?" if near else ""), err=True)
        sys.exit(2)
    origin = show.origin(rule_id, layer_roots(site))
    if as_json:
        click.echo(json.dumps(show.described(ruleset, rule, origin), indent=2, ensure_ascii=False))
    else:
        click.echo(show.text(ruleset, rule, origin))


@click.command("new")
@click.argument("line", required=False)
@click.option(
    "--from-verdict", type=click.Path(path_type=Path), help="Start from an unrecognised line of a verdict's JSON."
)
@click.option("--number", type=int, help="Which unrecognised line, counted from 1.")
@click.option("--site", type=click.Path(), help="Where to write it (default: INQUEST_RULES_DIR, else ./site-rules).")
@click.option("--id", "rule_id", default="", help="The rule's id, as subject.short-name.")
@click.option("--title", default="", help="What happened, in plain words.")
@click.option("--source", type=click.Choice([str(s) for s in Source]), help="The kind of evidence that has such lines.")
@click.option("--role", type=click.Choice([str(r) for r in Role]), default=str(Role.SYMPTOM), show_default=True)
@click.option("--domain", type=click.Choice([str(d) for d in Domain]), help="Where the cause lies, for a cause.")
@click.option("--force", is_flag=True, help="Write over a rule that is there.")
def new_command(
    line: str | None,
    from_verdict: Path | None,
    number: int | None,
    site: str | None,
    rule_id: str,
    title: str,
    source: str | None,
    role: str,
    domain: str | None,
    force: bool,
) -> None:
    """Draft a rule from LINE: a pasted log line, FILE:LINE, or "-" for the first line of standard input."""
    directory = Path(site or os.environ.get("INQUEST_RULES_DIR") or "site-rules")
    try:
        text, found = _starting_line(line, from_verdict, number)
        made = scaffold.draft(
            text,
            directory,
            rule_id=rule_id,
            source=Source(source) if source else found,
            role=Role(role),
            domain=Domain(domain) if domain else None,
            title=title,
        )
        if made.path.exists() and not force:
            raise InputError(f"{made.path} is there already; give --id or --force")
        made.path.parent.mkdir(parents=True, exist_ok=True)
        made.path.write_text(made.text, encoding="utf-8")
    except (InputError, OSError) as error:
        click.echo(f"inquest: {error}", err=True)
        sys.exit(2)
    click.echo(f"wrote {made.path}")
    click.echo(f"  pattern  {made.pattern}")
    click.echo(f"  source   {made.source}   groups  {', '.join(made.groups) or 'none'}")
    click.echo("Next:")
    click.echo(f"  1. edit {made.path}: role, meaning, check, now, later, and a real near-miss")
    click.echo(f"  2. inquest rules test --site {directory} {made.rule_id}")
    click.echo(f"  3. inquest rules lint --site {directory} {made.rule_id}")
    click.echo(f"  4. inquest explain --site {directory} LOGS")


def _starting_line(line: str | None, verdict: Path | None, number: int | None) -> tuple[str, Source | None]:
    if (line is None) == (verdict is None):
        raise InputError("give a line, FILE:LINE, or --from-verdict FILE")
    if verdict is not None:
        entries = scaffold.unrecognised(verdict)
        if not entries:
            raise InputError(f"{verdict}: every line that looks like an error was recognised")
        if number is None and len(entries) > 1:
            listed = "\n".join(f"  {i}. {e['count']} × {e['template'][:120]}" for i, e in enumerate(entries, 1))
            raise InputError(f"{verdict} has several; say --number N:\n{listed}")
        if not 1 <= (number or 1) <= len(entries):
            raise InputError(f"{verdict} has {len(entries)} unrecognised lines, none numbered {number}")
        entry = entries[(number or 1) - 1]
        return str(entry["example"]["text"]), Source(entry["source"])
    text = sys.stdin.readline() if line == "-" else line or ""
    return scaffold.from_reference(text) or text, None


@click.command("coverage")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@site_option
def coverage_command(as_json: bool, site: str | None) -> None:
    """Published failure classes and Xids, and the rules that know them."""
    table = coverage.coverage(load(site))
    click.echo(
        json.dumps(coverage.as_json(table), indent=2, ensure_ascii=False) if as_json else coverage.as_text(table)
    )


@click.command("drift")
@click.argument("before", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("after", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@site_option
def drift_command(before: Path, after: Path, as_json: bool, site: str | None) -> None:
    """Compare two folders of incident folders: rules gone silent, near-misses, new unknown lines.

    Exit status 1 when something drifted.
    """
    ruleset = load(site)
    found = drift.compare(ruleset, drift.read_window(before, ruleset), drift.read_window(after, ruleset))
    click.echo(json.dumps(drift.as_json(found), indent=2, ensure_ascii=False) if as_json else drift.as_text(found))
    sys.exit(1 if found else 0)


@click.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of attempt.json."""
    click.echo(schema.schema_text(), nl=False)


COMMANDS: dict[str, click.Command] = {
    str(command.name): command
    for command in (
        coverage_command,
        drift_command,
        lint_command,
        list_command,
        new_command,
        schema_command,
        show_command,
        test_command,
    )
}
