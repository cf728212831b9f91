"""Secrets are taken out of evidence, prose is not, and no rule reads another line than before."""

import time
from pathlib import Path

import pytest

from rules.attempt import decode_attempt
from rules.collect import collect
from rules.examples import rule_files
from rules.extract import sightings
from rules.incident import open_incident
from rules.observation import Observation
from rules.redact import redact
from rules.rule import parse_rule
from rules.ruleset import CATALOGUE
from rules.words import Source
from tests.rules.builders import shipped

#: None of these is anybody's; put together here so that no scanner takes this file for a leak.
TOKEN = "a1B2c3D4e5" * 4
SECRETS = {
    "AWS_ACCESS_KEY_ID=" + "AKIA" + "IOSFODNN7EXAMPLE": ("AKIA" + "IOSFODNN7EXAMPLE", "AWS key"),
    f"aws_secret_access_key={TOKEN}": (TOKEN, "secret"),
    f'{{"headers": {{"Authorization": "Bearer {TOKEN}"}}}}': (TOKEN, "token"),
    f"curl -H 'Authorization: Basic {TOKEN}=' x": (TOKEN, "credentials"),
    "cloning https://ada:s3cret!x@git.example.org/r.git failed": ("s3cret!x", "password"),
    "connect postgresql://ada:pa:ss@db/x": ("pa:ss", "password"),
    f"remote: ghp_{TOKEN} denied": (TOKEN, "GitHub token"),
    f"token glpat-{TOKEN[:20]}": (TOKEN[:20], "GitLab token"),
    f"HF_TOKEN=hf_{TOKEN}": (TOKEN, "Hugging Face token"),
    f"using sk-proj-{TOKEN}": (TOKEN, "API key"),
    f"NGC: nvapi-{TOKEN}": (TOKEN, "NVIDIA key"),
    f"jwt eyJhbGciOiJI.eyJzdWIiOiIx.{TOKEN} expired": (TOKEN, "JSON web token"),
    f"WANDB_API_KEY={TOKEN}": (TOKEN, "secret"),
    f"SITE_TOKEN={TOKEN}": (TOKEN, "token"),
    '{\\"password\\": \\"hunter2x\\"}': ("hunter2x", "secret"),
    "train.py --registry-password hunter2x --steps 10": ("hunter2x", "secret"),
    "PGPASSWORD=hunter2x psql": ("hunter2x", "secret"),
    f"-----BEGIN RSA PRIVATE KEY-----\n{TOKEN}\n{TOKEN}": (TOKEN, "private key"),
}
PROSE = [
    "error: password: authentication refused",
    "wandb: ERROR api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
    "tokens=4096 eos_token=2 PAD_TOKEN=<pad> pad_token_id=0",
    "PASSWORD=*** SECRET_KEY=$SECRET_KEY password=${PASS}",
    "Warning: a bearer token is missing; authorization: required",
    "tcp://10.0.0.1:29500 http://user@host:80/x?y=a@b",
    "--token --verbose",
    "risk-free disk-1 sk-learn",
]


@pytest.mark.parametrize(("line", "secret", "kind"), [(line, *rest) for line, rest in SECRETS.items()])
def test_a_secret_is_replaced_by_its_kind(line: str, secret: str, kind: str) -> None:
    clean = redact(line)
    assert secret not in clean
    assert f"[redacted: {kind}]" in clean
    assert redact(clean) == clean


@pytest.mark.parametrize("line", PROSE)
def test_prose_stays(line: str) -> None:
    assert redact(line) == line


def test_no_example_of_any_rule_is_touched() -> None:
    paths = list(rule_files([CATALOGUE]))
    lines = [line for path, raw in paths for test in parse_rule(raw, name=str(path)).test for line in test.lines]
    assert len(lines) > 1000
    assert [line for line in lines if redact(line) != line] == []


@pytest.mark.parametrize("line", SECRETS)
def test_the_same_rules_fire_beside_a_secret(line: str) -> None:
    for body in (
        f"RuntimeError: CUDA error: out of memory {line}",
        f"kernel: NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus. {line}",
    ):
        fired = [
            [(s.rule.id, s.locus) for s in sightings(shipped(), Observation(source=Source.SYSLOG, body=text))]
            for text in (body, redact(body))
        ]
        assert fired[0] == fired[1]
        assert fired[0]


@pytest.mark.parametrize(
    "piece",
    ["eyJ-", "eyJaaaaaaaa.", "://a:", "password=", "bearer ", "sk-", "-----BEGIN PRIVATE KEY-----", "--token ", "xoxb-",
     "A_", "authorization: basic ", "--a-b-token=", "hf_", "akia"],
)  # fmt: skip
def test_the_time_is_linear_whatever_the_text(piece: str) -> None:
    began = time.process_time()
    redact((piece * 65_536)[:65_536])
    assert time.process_time() - began < 1


def test_collected_evidence_and_attempts_have_no_secrets(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(f"RuntimeError: CUDA error: out of memory WANDB_API_KEY={TOKEN}\n")
    collected = collect(open_incident([tmp_path]), shipped())
    assert collected.observations
    assert all(TOKEN not in o.body for o in collected.observations)
    attempt = decode_attempt(b'{"job_id": "1", "image": "docker://ada:s3cret@registry/x", "collectors": '
                             b'[{"source": "syslog", "status": "error", "reason": "ssh://ada:s3cret@n1 refused"}]}')  # fmt: skip
    assert attempt.image == "docker://ada:[redacted: password]@registry/x"
    assert "s3cret" not in attempt.collectors[0].reason
