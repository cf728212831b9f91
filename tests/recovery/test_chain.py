"""An export of the ledger: whatever is changed in it is found, and the first bad entry is named."""

import tracemalloc
from collections.abc import Iterator

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from recovery.ledger import keys as ledger_keys
from recovery.ledger.canonical import NotCanonical, canonical
from recovery.ledger.chain import (
    START,
    Content,
    Report,
    Statement,
    body_hash,
    checkpoint_line,
    content_hash,
    end_line,
    entry_line,
    header_line,
    link_hash,
    sealed_line,
    verify,
)

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))


def a_checkpoint(number: int, digest: str, key: Ed25519PrivateKey = KEY) -> bytes:
    statement = Statement(
        hash=digest, made_at="2026-11-30T12:00:00.000000Z", number=number, public_key=ledger_keys.public_hex(key)
    )
    return checkpoint_line(statement, ledger_keys.sign(key, statement.canonical()))


def an_export(
    entries: int, *, every: int = 0, sealed: frozenset[int] = frozenset(), word: str = "drained"
) -> Iterator[bytes]:
    """A ledger of so many entries, with a checkpoint after each `every` of them."""
    yield header_line(1, START)
    previous, signed = START, 0
    for number in range(1, entries + 1):
        contents: dict[str, Content | None] = {}
        erasable = {}
        if number % 3 == 0:
            content = Content(salt=f"{number:064x}", text="“too risky”, said the operator")
            contents["reason"] = content
            erasable["reason"] = content_hash(content.salt, "reason", content.text)
            if number % 6 == 0:
                contents["reason"] = None
        body = canonical(
            {
                "id": f"{number:032x}",
                "kind": "proposal.made",
                "at": "2026-11-30T12:00:00.000000Z",
                "actor": "user:ada",
                "roles": ["operator"],
                "subject": {"kind": "proposal", "id": str(number)},
                "attempt": None,
                "facts": {"nodes": [f"gpu-{number}"], "said": word, "share": 0.5},
                "erasable": erasable,
            }
        )
        digest = link_hash(number, previous, body_hash(body))
        if number in sealed:
            yield sealed_line(number, digest, body_hash(body))
        else:
            yield entry_line(number, previous, digest, body, contents)
        previous = digest
        if every and number % every == 0:
            signed += 1
            yield a_checkpoint(number, digest)
    yield end_line(entries, previous, signed)


def verified(lines: list[bytes], **more: object) -> Report:
    return verify(lines, ledger_keys.check, **more)  # type: ignore[arg-type]


def named(lines: list[bytes], **more: object) -> int | None:
    """The entry that is named as the first bad one; something must be."""
    report = verified(lines, **more)
    assert report.bad is not None, "not found"
    return report.bad.number


def test_a_whole_export_verifies() -> None:
    report = verified(list(an_export(100, every=10)), keys=[ledger_keys.public_hex(KEY)])
    assert report.bad is None
    assert (report.entries, report.last, report.erased, report.checkpoints, report.signed_to) == (100, 100, 16, 10, 100)


def test_any_changed_byte_is_found_and_its_entry_named() -> None:
    lines = list(an_export(4, every=3))
    whole = b"".join(lines)
    allowed: list[set[int]] = []
    number = 1
    for line in lines:
        is_entry = line.startswith(b'{"contents"')
        allowed += [{number} if is_entry else {number - 1, number}] * len(line)
        number += is_entry
    for place, byte in enumerate(whole):
        for other in {byte ^ 1, byte ^ 0x20, 0x0A} - {byte}:
            changed = whole[:place] + bytes([other]) + whole[place + 1 :]
            bad = named(changed.splitlines(keepends=True))
            # Lines between entries speak of the one before them.
            assert bad in allowed[place], (place, other)


def test_any_byte_taken_out_or_put_in_is_found() -> None:
    whole = b"".join(an_export(4, every=2))
    for place in range(len(whole)):
        assert verified((whole[:place] + whole[place + 1 :]).splitlines(keepends=True)).bad, place
        assert verified((whole[:place] + b" " + whole[place:]).splitlines(keepends=True)).bad, place


def test_entries_deleted_swapped_or_inserted_are_named() -> None:
    lines = list(an_export(2000))
    assert named(lines[:1000] + lines[1001:]) == 1000
    assert named([*lines[:700], lines[701], lines[700], *lines[702:]]) == 700
    assert named([*lines[:500], lines[499], *lines[500:]]) == 500
    forged = list(an_export(2000, word="undrained"))
    assert named([*lines[:500], forged[500], *lines[501:]]) == 500
    assert named([*lines[:500], *forged[500:]]) == 500


def test_a_cut_export_is_found_with_or_without_its_last_line() -> None:
    lines = list(an_export(50, every=10))
    for cut in range(len(lines)):
        assert verified(lines[:cut]).bad, cut
    assert named(b"".join(lines)[:-1].splitlines(keepends=True)) == 51


def test_a_history_made_anew_or_cut_short_is_told_by_a_checkpoint_from_outside() -> None:
    kept = [line for line in an_export(50, every=10) if line.startswith(b'{"checkpoint"')]
    right = verified(list(an_export(60)), outside=kept, keys=[ledger_keys.public_hex(KEY)])
    assert right.bad is None
    assert (right.from_outside, right.signed_to) == (5, 50)
    assert named(list(an_export(44)), outside=kept) == 45
    anew = list(an_export(60, word="undrained"))
    assert verified(anew).bad is None  # nothing inside it is wrong
    assert named(anew, outside=kept) == 1
    assert named(list(an_export(60)), outside=[kept[1], kept[0]]) == 10
    assert named(list(an_export(60)), outside=[kept[0], kept[1].replace(b"12:00", b"13:00")]) == 20


def test_a_checkpoint_by_another_key_is_refused() -> None:
    lines = [line for line in an_export(3) if not line.startswith(b'{"end"')]
    digest = msgspec.json.decode(lines[-1])["hash"]
    lines += [a_checkpoint(3, digest, OTHER), end_line(3, digest, 1)]
    assert verified(lines).bad is None
    assert named(lines, keys=[ledger_keys.public_hex(KEY)]) == 3


def test_the_chain_goes_through_entries_that_were_left_out() -> None:
    lines = list(an_export(30, every=30, sealed=frozenset(range(5, 25))))
    report = verified(lines)
    assert report.bad is None
    assert (report.entries, report.sealed) == (10, 20)
    assert named([line.replace(b'"number":7}', b'"number":8}') for line in lines]) == 7
    body = list(an_export(30))[7]
    assert named([*lines[:7], body.replace(b"gpu-7", b"gpu-8"), *lines[8:]]) == 7


def test_hostile_files_are_refused_and_nothing_is_raised() -> None:
    for text in (
        b"",
        b"\n",
        b"{}\n",
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        header_line(0, START),
        header_line(2, START),
    ):
        assert verified(text.splitlines(keepends=True)).bad
    body = canonical({"kind": "x", "at": "", "actor": "", "erasable": {}})
    for hostile in (b'{"a":1}', b"[]", b'"\\ud800"', b"[" * 5000 + b"]" * 5000):
        digest = link_hash(1, START, body_hash(hostile))
        assert named([header_line(1, START), entry_line(1, START, digest, hostile, {})]) == 1
    surrogate = b'{"contents":{"a":{"salt":"","text":"\\ud800"}},"entry":{},"hash":"","number":1,"previous":""}\n'
    assert named([header_line(1, START), surrogate]) == 1
    twice = entry_line(1, START, link_hash(1, START, body_hash(body)), body, {}).replace(
        b'{"contents":{}', b'{"contents":{},"contents":{}'
    )
    assert named([header_line(1, START), twice]) == 1


def test_memory_does_not_grow_with_the_export() -> None:
    tracemalloc.start()
    try:
        verify(an_export(200, every=10), ledger_keys.check)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        assert verify(an_export(4000, every=10), ledger_keys.check).last == 4000
        assert tracemalloc.get_traced_memory()[1] - before < 200_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (5e-324, "5e-324"),
        (-1.7976931348623157e308, "-1.7976931348623157e+308"),
        (9007199254740992.0, "9007199254740992"),
        (295147905179352830000.0, "295147905179352830000"),
        (9.999999999999997e22, "9.999999999999997e+22"),
        (1e23, "1e+23"),
        (1e21, "1e+21"),
        (999999999999999900000.0, "999999999999999900000"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (333333333.3333332, "333333333.3333332"),
        (1424953923781206.2, "1424953923781206.2"),
        (4.50, "4.5"),
        (2e-3, "0.002"),
        (1e30, "1e+30"),
        (100, "100"),
        ('€$\u000f\nA\'B"\\\\"/', '"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"'),
        (
            {"€": 1, "\r": 2, "\ufb33": 3, "1": 4, "😀": 5, "\x80": 6, "ö": 7},
            '{"\\r":2,"1":4,"\x80":6,"ö":7,"€":1,"😀":5,"\ufb33":3}',
        ),
        ([None, True, False, [], {}, (1, 2)], "[null,true,false,[],{},[1,2]]"),
    ],
)
def test_canonical_json_is_that_of_rfc_8785(value: object, spelled: str) -> None:
    assert canonical(value).decode() == spelled


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), 2**53, -(2**53), {1: 2}, "\ud800", b"", object(), {1, 2}]
)
def test_what_has_no_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(NotCanonical):
        canonical({"deep": [value]})
