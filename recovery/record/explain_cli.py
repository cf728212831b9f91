"""`inquest explain`: of logs as the engine reads them, and of a record, from which the verdict is concluded again.

What records need is loaded only for one: a login node's `inquest explain LOG` must start at once.
"""

import importlib
from pathlib import Path
from typing import Any

import click

from recovery.record import mark
from rules import cli


def _explain(paths: tuple[Path, ...], key_file: Path | None, number: int | None, **more: Any) -> None:
    if len(paths) == 1 and _is_record(paths[0]):
        again = importlib.import_module("recovery.record.again_cli")
        again.explain(paths[0], key_file, number, as_json=more["as_json"], proof=more["proof"], site=more["site"])
        return
    assert cli.explain.callback is not None
    cli.explain.callback(paths=paths, **more)


def _is_record(path: Path) -> bool:
    try:
        if not path.is_file():  # a pipe is no record, and opening one waits for whoever writes into it
            return False
        with path.open("rb") as file:
            return mark.looks_like(file.read(mark.HEAD))
    except OSError:
        # Not there, or a folder: the engine's reader says it in its own words.
        return False


explain = click.Command(
    "explain",
    params=[
        *cli.explain.params,
        click.Option(
            ["--public-key", "key_file"],
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Of a record: who may have signed it.",
        ),
        click.Option(
            ["--verdict", "number"], type=int, help="Of a record: which version; the current one if not said."
        ),
    ],
    callback=_explain,
    short_help=cli.explain.get_short_help_str(80),
    help="""Say why a job failed, from an incident folder, from loose log files, or from a record.

    Of a record (a file of `inquest export`) the verdict is concluded again with the record's own rules, and it is said
    whether that is the same byte for byte, and whether today's rules would conclude otherwise.

    The exit status is 0 whatever the verdict, 1 when a record's verdict is not the same again, and 2 when the input
    cannot be used.
    """,
)
