"""The shipped schema of attempt.json says what the types say."""

import json

import jsonschema
import pytest

from rules import schema
from rules.attempt import InputError, decode_attempt

GOOD = {
    "job_id": "4711",
    "scheduler": "slurm",
    "start": "2026-11-03T01:00:00Z",
    "state": "CANCELLED by 1001",
    "exit_code": "1:0",
    "nodes": ["gpu-[01-04]"],
    "ranks": {"0": {"node": "gpu-01", "gpu": "0"}},
    "topology": {"switch": {"leaf-1": ["gpu-01", "gpu-02"]}},
    "clock_bounds": {"syslog": 2.5},
    "collectors": [{"source": "syslog", "status": "ok", "read": 3}],
}
BAD = [
    {},
    {"job_id": ""},
    {"job_id": 1},
    {"job_id": "1", "unknown": True},
    {"job_id": "1", "scheduler": "pbs"},
    {"job_id": "1", "restart_count": -1},
    {"job_id": "1", "nodes": "gpu-01"},
    {"job_id": "1", "clock_bounds": {"syslog": -1}},
    {"job_id": "1", "utc_offset": "1h"},
    {"job_id": "1", "ranks": {"0": {"host": "a"}}},
    {"job_id": "1", "collectors": [{"source": "moon", "status": "ok"}]},
]


def test_the_shipped_copy_is_what_the_types_make() -> None:
    assert schema.SCHEMA_FILE.read_text(encoding="utf-8") == schema.schema_text()


def test_it_is_a_valid_schema_and_takes_a_good_attempt() -> None:
    document = schema.attempt_schema()
    jsonschema.Draft202012Validator.check_schema(document)
    jsonschema.validate(GOOD, document)
    assert decode_attempt(json.dumps(GOOD).encode()).job_id == "4711"


@pytest.mark.parametrize("bad", BAD, ids=json.dumps)
def test_what_the_schema_refuses_the_reader_refuses(bad: dict[str, object]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(bad, schema.attempt_schema())
    with pytest.raises(InputError):
        decode_attempt(json.dumps(bad).encode())


def test_every_field_is_described() -> None:
    document = schema.attempt_schema()
    parts = {"Attempt": document, **document["$defs"]}
    missing = [
        f"{name}.{field}"
        for name, part in parts.items()
        for field, body in part.get("properties", {}).items()
        if not body.get("description")
    ]
    assert missing == []


def test_it_describes_no_field_that_is_not_there() -> None:
    document = schema.attempt_schema()
    parts = {"Attempt": document, **document["$defs"]}
    gone = [
        f"{name}.{field}"
        for name, texts in schema.DESCRIPTIONS.items()
        for field in set(texts) - set(parts[name]["properties"])
    ]
    assert gone == []
