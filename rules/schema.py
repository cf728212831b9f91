"""The JSON Schema of attempt.json, made from the types that read it.

`rules/attempt.schema.json` is the shipped copy; a test keeps it equal to what this makes.
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from rules.attempt import Attempt

SCHEMA_FILE = Path(__file__).parent / "attempt.schema.json"
SCHEMA_ID = "inquest:attempt/1"

#: What each field means, for the person who fills it in.
DESCRIPTIONS: dict[str, dict[str, str]] = {
    "Attempt": {
        "job_id": "The scheduler's id of the job. The only field that is needed.",
        "cluster": "The cluster's name.",
        "scheduler": "slurm, kubernetes or static (a fixed list of machines); empty when not known.",
        "workload": "What is being run, the same over its restarts.",
        "restart_count": "How often the workload was restarted before this attempt; 0 for the first.",
        "submit_time": "When it was submitted: RFC 3339, such as 2026-11-03T02:11:04+01:00.",
        "start": "When it began to run: RFC 3339.",
        "end": "When it ended: RFC 3339; leave it out while it runs.",
        "state": "The scheduler's own word for how it ended, in any case: FAILED, OUT_OF_MEMORY, CANCELLED by 1001.",
        "exit_code": 'The exit code: a number, or Slurm\'s "1:0".',
        "signal": "The signal that ended it, as a number.",
        "reason": "The scheduler's reason, such as TimeLimit or NodeFail.",
        "user": "Who ran it.",
        "account": "Who pays for it.",
        "partition": "The partition or queue.",
        "nodes": 'Its nodes; Slurm host lists such as "gpu-[01-04]" are expanded.',
        "ranks": "Where each rank ran, by rank number; without it the placement is read off the logs.",
        "image": "The container image.",
        "topology": "What nodes share: kind (switch, rail, rack, power, image, maintenance, driver), element, nodes.",
        "clock_bounds": "By source, by how many seconds its clocks can be wrong; overrides the usual bounds.",
        "utc_offset": 'The zone of stamps that carry none: "+01:00" or "Z".',
        "collectors": "What collectors said of their sources, when they ran before.",
    },
    "CollectorReport": {
        "source": "The kind of evidence.",
        "status": "ok, partial, empty, error or not_configured.",
        "reason": "Why it is not ok.",
        "collector": "Which collector says so.",
        "read": "Records read.",
        "kept": "Records kept.",
        "delivered": "Records handed over.",
        "bytes": "Bytes read.",
        "redacted": "Secrets taken out of what was kept.",
        "first": "The first time seen.",
        "last": "The last time seen.",
        "seconds": "How long it took; not part of the verdict.",
        "files": "The files read.",
    },
    "RankPlace": {
        "node": "The node that the rank ran on.",
        "gpu": "Its GPU: an index, a PCI address or a UUID.",
    },
}


def attempt_schema() -> dict[str, Any]:
    """The schema of attempt.json as a standalone JSON Schema document (draft 2020-12)."""
    (_,), components = msgspec.json.schema_components([Attempt], ref_template="#/$defs/{name}")
    definitions = {name: _described(name, body) for name, body in sorted(components.items())}
    root = definitions.pop("Attempt")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        **root,
        "title": "attempt.json: one execution of a workload",
        "$defs": definitions,
    }


def schema_text() -> str:
    """The schema as it is shipped and printed."""
    return json.dumps(attempt_schema(), indent=2, ensure_ascii=False) + "\n"


def _described(name: str, body: dict[str, Any]) -> dict[str, Any]:
    texts = DESCRIPTIONS.get(name, {})
    properties = {
        field: ({**schema, "description": texts[field]} if field in texts else schema)
        for field, schema in body.get("properties", {}).items()
    }
    return {**body, "properties": properties} if properties else body


def main() -> None:
    """Write the shipped copy: `python -m rules.schema`."""
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
