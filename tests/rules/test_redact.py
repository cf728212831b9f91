"""Secrets are taken out of evidence, prose is not, and no rule reads another line than before."""

import io
import os
import random
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules import redact as module
from rules.attempt import decode_attempt
from rules.collect import collect
from rules.engine import attribute
from rules.examples import rule_files
from rules.extract import sightings
from rules.incident import open_incident
from rules.observation import Observation
from rules.print_verdict import Paint, render
from rules.redact import PLAIN, Extra, Redactor, marks, redact, untagged
from rules.rule import Rule, parse_rule
from rules.ruleset import CATALOGUE
from rules.verdict import Verdict
from rules.words import Source
from tests.planted import PLANTED, Planted
from tests.rules.builders import shipped

KEYED = Redactor(key=b"a key of this test")
TOKEN = "a1B2c3D4e5" * 4
PROSE = [
    "error: password: authentication refused",
    "ada@gpu-017's password: ",
    "wandb: ERROR api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
    "tokens=4096 eos_token=2 PAD_TOKEN=<pad> pad_token_id=0 image_token='<image>' bos_token: <s>",
    "PASSWORD=*** SECRET_KEY=$SECRET_KEY password=${PASS} api_key=None password: null secret=xxxxxxxx",
    "    api_key=os.environ['WANDB_API_KEY'], password=self.password, token=args.token)",
    "Warning: a bearer token is missing; authorization: required",
    "tcp://10.0.0.1:29500 http://user@host:80/x?y=a@b tcp://10.0.0.1:29500,n2@x",
    "--token --verbose --tokenizer-model /m/tokenizer.json --eos-token </s>",
    "risk-free disk-1 sk-learn wandb login failed",
    "NCCL INFO ncclCommInitRank comm 0x55d0 commId 0x9f2c3e5a7b1d4f60 - Init START",
    "GPU-8f6a2c1e-3b4d-5e6f-7a8b-9c0d1e2f3a4b MIG-GPU-8f6a2c1e/3/0 0000:65:00.0 fe80::e42:a1ff:fe12:3456%eth0",
    "GID 3 fe80:0000:0000:0000:0e42:a1ff:fe12:3456 LID 0x12 GUID 0x0c42a10300123456",
    "pulled nvcr.io/nvidia/pytorch@sha256:" + "0123456789abcdef" * 4,
    "commit 0123456789abcdef0123456789abcdef01234567 md5 d41d8cd98f00b204e9800998ecf8427e",
    "git@github.com:lab/repo.git: Permission denied (publickey). ada@gitlab.example.org: Permission denied (publickey).",
    "pdsh@login.example.org: gpu-2: ssh exited with exit code 255",
    "[mpiexec@login.example.org] Sending Ctrl-C  [proxy:0:1@c2.example.org] HYD_pmcd",
    "Job deleted at request of ada@login1.example.org",
    "modprobe@fuse.service: Deactivated. user@1000.service: Failed. 10.0.0.8@o2ib 10.0.0.9@tcp",
    "rsync ada@data.example.org:/ckpt/ . host/gpu-1.example.org@EXAMPLE.ORG",
    "Reason=Not responding [slurm@2024-05-01T02:20:10] rack7@localhost req@ffff880eb14da700",
    "api_key=/run/secrets/wandb --private-key ~/.ssh/id_ed25519 private_key=/etc/ssl/key1.pem PASSWORD=%s SECRET_KEY=…",
    'MountVolume.SetUp failed for volume "x" : secret "wandb-key" not found; couldn\'t find key WANDB_API_KEY in Secret a/b-1',
    "cookie: none; secretKeyRef: name; privateKeyPath=; monkey=banana; passed=3 bypass=1",
    "key=ckpt/iter_0001/model.pt Key: value session_id=77 partition_key=2026-11-03",
]


class Nothing(Redactor):
    """Takes nothing out."""

    def redact(self, text: str) -> str:
        return text


@cache
def example_lines() -> list[str]:
    rules = [parse_rule(raw, name=str(path)) for path, raw in rule_files([CATALOGUE])]
    return [line for rule in rules for line in _lines(rule)]


def _lines(rule: Rule) -> list[str]:
    whole = [line for incident in rule.incident for lines in incident.files.values() for line in lines]
    return [*(line for test in rule.test for line in test.lines), *whole]


def fired(body: str) -> list[object]:
    """What the rules see in a line, the secret itself aside."""
    found = sightings(shipped(), Observation(source=Source.SYSLOG, body=body))
    return [(s.rule.id, sorted(s.locus.items())) for s in found]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_a_secret_is_replaced_by_its_kind(planted: Planted) -> None:
    clean = redact(planted.line)
    assert planted.secret not in clean
    assert f"[redacted: {planted.kind}]" in clean


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_what_was_taken_out_stays_as_it_is(planted: Planted) -> None:
    clean, tagged = redact(planted.line), KEYED.redact(planted.line)
    assert redact(clean) == KEYED.redact(clean) == clean
    assert redact(tagged) == KEYED.redact(tagged) == tagged
    assert untagged(tagged) == clean
    assert marks(clean) == marks(tagged) > 0


@pytest.mark.parametrize("line", PROSE)
def test_prose_and_what_rules_read_stays(line: str) -> None:
    assert redact(line) == line


def test_equal_secrets_stay_equal_and_others_differ() -> None:
    def tag(redactor: Redactor, line: str) -> str:
        return re.findall(r" ([0-9a-f]{6})\]", redactor.redact(line))[0]

    first = tag(KEYED, f"PASSWORD={TOKEN}")
    assert first == tag(KEYED, f"train.py --db-password {TOKEN}") == tag(KEYED, f"postgres://ada:{TOKEN}@db/x")
    assert first != tag(KEYED, f"PASSWORD={TOKEN}x")
    assert first != tag(Redactor(key=b"another site"), f"PASSWORD={TOKEN}")


def test_the_form_of_a_secret_says_more_than_its_name() -> None:
    assert redact(f"HF_TOKEN={'hf' + '_' + TOKEN}") == "HF_TOKEN=[redacted: Hugging Face token]"
    assert redact(f"PASSWORD=x{TOKEN}") == "PASSWORD=[redacted: secret]"


def test_a_bare_value_of_json_ends_where_its_object_does() -> None:
    assert redact('{"password":12345}') == '{"password":[redacted: secret]}'


def test_addresses_of_people_stay_where_the_site_says_so() -> None:
    line = "mail to ada@example.org"
    assert redact(line) == "mail to [redacted: e-mail address]"
    assert Redactor(emails=False).redact(line) == line


def test_a_site_has_patterns_of_its_own() -> None:
    redactor = Redactor(extra=(Extra("badge", r"(?i)badge-[0-9]{4,}"),))
    assert redactor.redact("é BADGE-123456, badge-7777 İ badge-1") == "é [redacted: badge], [redacted: badge] İ badge-1"


def test_a_private_key_without_an_end_takes_no_other_line_with_it() -> None:
    body = f"-----BEGIN PRIVATE KEY-----\n{TOKEN}\n{TOKEN}\nCUDA error: out of memory"
    assert redact(body) == "[redacted: private key]\nCUDA error: out of memory"


def test_no_example_of_any_rule_is_touched() -> None:
    lines = example_lines()
    assert len(lines) > 4670
    assert [line for line in lines if KEYED.redact(line) != line] == []


def test_rules_read_the_same_of_accounts_on_hosts_with_long_names() -> None:
    long = [re.sub(r"(\w@[a-z][\w-]*)(?![\w.@-])", r"\1.example.org", line) for line in example_lines()]
    for line in (line for line in long if ".example.org" in line):
        assert fired(KEYED.redact(line)) == fired(line), line


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_the_same_rules_fire_beside_a_secret(planted: Planted) -> None:
    some = random.Random(planted.name).sample([line for line in example_lines() if len(line) < 400], 20)
    for line in some:
        for body in (f"{line} {planted.line}", f"{planted.line} {line}"):
            if not planted.kind.endswith(("key line", "cookie")):  # of these the end of the line is a part
                assert fired(KEYED.redact(body)) == fired(body), body


def verdict_of(folder: Path, redactor: Redactor) -> Verdict:
    incident = open_incident([folder], redactor=redactor)
    collected = collect(incident, shipped(), redactor=redactor)
    return attribute(incident.attempt, collected.observations, collected.reports, shipped())


def said(verdict: Verdict) -> object:
    """The verdict without the lines that it quotes, and with what would have been taken out of its words taken out."""
    found = [verdict.causes, verdict.candidates, verdict.demoted, verdict.interesting]
    words = [
        verdict.attributed_domain,
        verdict.strength,
        verdict.terminal_state,
        verdict.headline,
        verdict.affected_nodes,
        verdict.shared_element,
        verdict.advice,
        [[msgspec.structs.replace(finding, evidence=[]) for finding in kind] for kind in found],
        [(step.finding, step.status, step.rule, step.because) for step in verdict.proof],
    ]
    return _clean(msgspec.to_builtins(words))


def _clean(value: object) -> object:
    if isinstance(value, str):
        return KEYED.redact(value)
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    return [_clean(item) for item in value] if isinstance(value, list) else value


CASES = [path.parent for path in Path(os.environ.get("INQUEST_CASES") or "-").glob("*/label.json")]
SAMPLES = [path for path in Path("verdicts/samples").iterdir() if path.is_dir()]


@pytest.mark.parametrize("folder", [*SAMPLES, *sorted(CASES)], ids=lambda folder: folder.name)
def test_the_verdict_is_the_same_before_and_after(folder: Path) -> None:
    assert said(verdict_of(folder, KEYED)) == said(verdict_of(folder, Nothing()))


def test_the_verdict_is_the_same_with_secrets_all_over(tmp_path: Path) -> None:
    lines = []
    for number, line in enumerate(Path("verdicts/samples/two-causes/applog/slurm-563001.out").read_text().splitlines()):
        planted = PLANTED[number % len(PLANTED)]
        lines += [line, planted.line, f"ERROR: {planted.line}"]
    (tmp_path / "applog").mkdir()
    (tmp_path / "applog" / "train.out").write_text("\n".join(lines))
    before, after = verdict_of(tmp_path, Nothing()), verdict_of(tmp_path, KEYED)
    assert said(before) == said(after)
    report = next(report for report in after.coverage if report.source is Source.APPLOG)
    assert report.redacted > 0


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from([planted.line for planted in PLANTED])
        | st.sampled_from([planted.secret for planted in PLANTED])
        | st.sampled_from(["[redacted: secret]", "[redacted: x 0a1b2c]", "[redacted: ", "password=", "'", '"', "@", "://a:", "\n", " ", "=", "AKIA"])
        | st.text(max_size=12),
        max_size=8,
    ).map("".join)
)  # fmt: skip
def test_done_twice_it_changes_nothing_more(text: str) -> None:
    clean, tagged = redact(text), KEYED.redact(text)
    assert redact(clean) == KEYED.redact(clean) == clean
    assert redact(tagged) == KEYED.redact(tagged) == tagged


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(PLANTED), st.text(max_size=20), st.text(max_size=20))
def test_without_the_automaton_the_answer_is_the_same(planted: Planted, before: str, after: str) -> None:
    text = f"{before} {planted.line} {after}"
    automaton = module._hint_automaton
    try:
        module._hint_automaton = lambda: None  # type: ignore[assignment]
        one_by_one = redact(text)
    finally:
        module._hint_automaton = automaton
    assert one_by_one == redact(text)


#: Texts made to make patterns go back and forth: beginnings without ends, ends without beginnings.
HOSTILE = [
    "eyJ-", "eyJaaaaaaaa.", "://a:", "://a:b@", "password=", "password = ", "password: a1 ", "password='", "bearer ",
    "sk-", "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\\n", "-----BEGIN ", "--token ", "--a-", "xoxb-", "A_",
    "A_TOKEN=", "authorization: basic ", "--a-b-token=", "a@", "a.", "a.a@a.", "@", "'token': '", "'auth': '", "cookie: a=",
    "login a password ", "login -p ", "curl -u a:", "mysql -p", "?sig=", "a-token", "_", "[redacted: ", "[redacted: a]",
    "[redacted: a] AKIA", "0Q~", "aaaaaaaaaaaaaa.atlasv1.", "12345678:AA", "SG.aaaaaaaaaaaaaaaa.", "aB3+" * 16 + "\n", "İ",
    "role a password '", "wandb login --a ", 'api_key: \\"', " \n", "\\n",
]  # fmt: skip
PROGRAM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
from rules.redact import Redactor, _HINTS
from tests.rules.test_redact import HOSTILE
redactor = Redactor(key=b"k")
for pieces, size in ((_HINTS, 1 << 15), (HOSTILE, 1 << 17), (("://a:b@", "--token", "-----BEGIN PRIVATE KEY-----", "a.a@a."), 1 << 19)):
    for piece in pieces:
        redactor.redact((piece * size)[:size])
"""


def test_the_time_is_linear_whatever_the_text() -> None:
    """A quadratic pattern would need minutes to hours for one of these; the system ends the program after one of work."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_collected_evidence_and_attempts_have_no_secrets(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(f"RuntimeError: CUDA error: out of memory WANDB_API_KEY={TOKEN}\n")
    collected = collect(open_incident([tmp_path]), shipped())
    assert collected.observations
    assert all(TOKEN not in o.body for o in collected.observations)
    assert [report.redacted for report in collected.reports] == [1]
    attempt = decode_attempt(b'{"job_id": "1", "image": "docker://ada:s3cret@registry/x", "collectors": '
                             b'[{"source": "syslog", "status": "error", "reason": "ssh://ada:s3cret@n1 refused"}]}')  # fmt: skip
    assert attempt.image == "docker://ada:[redacted: password]@registry/x"
    assert "s3cret" not in attempt.collectors[0].reason


def test_a_secret_where_a_long_line_is_cut_is_not_kept_by_half(tmp_path: Path) -> None:
    begins = f"RuntimeError: CUDA error: out of memory {'x' * 16_315} "
    (tmp_path / "train.log").write_text(f"{begins}{'hf' + '_' + TOKEN} and more\n")
    [observation] = collect(open_incident([tmp_path]), shipped()).observations
    assert observation.body == (begins + "[redacted: Hugging Face token] and more")[:16_384]
    assert "hf" + "_" not in observation.body


def test_the_terminal_says_how_many_were_taken_out(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(f"RuntimeError: CUDA error: out of memory WANDB_API_KEY={TOKEN}\n")
    lines = render(verdict_of(tmp_path, PLAIN), [], Paint(io.StringIO()))
    assert "  Taken out of the lines: 1 secret" in lines
    assert TOKEN not in "\n".join(lines)
