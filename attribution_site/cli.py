"""The `inquest` command.

Each subcommand is named by the module that has it and is imported only when it is called: `inquest explain`
must start in well under half a second on a login node, and so loads neither Django nor Celery.
"""

from __future__ import annotations

import importlib
from typing import NamedTuple

import click


class Entry(NamedTuple):
    """Where a subcommand lives, and its line in the list (known without importing it)."""

    target: str
    summary: str


COMMANDS: dict[str, Entry] = {
    "bench": Entry("rules.bench:bench", "Measure the engine: its speed, and its verdicts on labelled incidents."),
    "drill": Entry("recovery.drill.cli:drill", "Check that records can be had, are right, and go when they should."),
    "drift": Entry("verdicts.rulebook.drift_cli:drift", "Say whether the rules see in stored attempts what they saw."),
    "explain": Entry("recovery.record.explain_cli:explain", "Say why a job failed, from its logs or a record alone."),
    "export": Entry(
        "recovery.record.store_cli:export", "Write the record of an attempt, or of many: one signed file each."
    ),
    "import": Entry("recovery.record.store_cli:import_record", "Load a record of another site, marked as imported."),
    "ingest": Entry("verdicts.cli:ingest", "Store an incident folder and ask for its verdict."),
    "ledger": Entry("recovery.ledger.cli:ledger", "Verify the decision ledger, or export it."),
    "recovery": Entry("recovery.acting.cli:recovery", "Stop what acts on schedulers, let it go on, look at it."),
    "retention": Entry("recovery.retention.cli:retention", "Say what expires when, let it expire, hold it."),
    "replay": Entry("recovery.replay.cli:replay", "Conclude stored attempts or records again under other rules."),
    "sources": Entry("verdicts.sources.cli:sources", "Check the systems that evidence is read from."),
    "rules": Entry("rules.cli:rules", "List, lint and test the rules."),
    "verify": Entry("recovery.record.cli:verify", "Verify a record of an attempt, anywhere."),
}


class LazyGroup(click.Group):
    """A group that imports a subcommand when it is used, not when it is listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        try:
            command = getattr(importlib.import_module(module), attribute)
        except Exception as error:
            # A setting or a file that is wrong is told in its own words; Django is not loaded just to know its error.
            if type(error).__name__ != "ImproperlyConfigured":
                raise
            click.echo(f"inquest: {error}", err=True)
            ctx.exit(3)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="inquest")
def main() -> None:
    """Inquest says why a distributed training job failed, and how sure it is."""


if __name__ == "__main__":
    main()
