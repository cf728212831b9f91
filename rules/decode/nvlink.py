"""NVLink error words: Xid 144 to 150 (NVLink 5) and Xid 74 (NVLink 3 and 4).

Table of https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html as of 2025-10; a unit is
found by its name in the line, or by the low bits of the first word (layout V1 uses ten, V2 seven).
"""

import re
from typing import NamedTuple


class Row(NamedTuple):
    """One row of the catalogue: severity, immediate action, investigation, whose fault, what it leads to."""

    severity: str
    action: str
    investigate: str
    side: str
    effect: str = ""


_48 = "Xid 48 here, the application crashes with Xid 45; the peer may lose packets"
_APP = "the application crashes with Xid 45"
_LOSS = "packets are lost on both ends, late"
_IGNORE = Row("Non-fatal", "IGNORE", "IGNORE", "HW")
_IGNORE_SUPPORT = Row("Non-fatal", "IGNORE", "CONTACT_SUPPORT", "SW")
_RESET_48 = Row("Fatal", "RESET_GPU", "CONTACT_SUPPORT", "HW", _48)
_RESET_LOSS = Row("Fatal", "RESET_GPU", "CONTACT_SUPPORT", "HW", "Xid 48 here; both ends may lose packets")
_POISON = Row("Non-fatal", "IGNORE", "CONTACT_SUPPORT", "HW", "Xid 48, then poison or Xid 94/95")
_TLW = {0: _IGNORE, 1: _POISON, 2: _RESET_LOSS, 31: _IGNORE_SUPPORT}

#: unit → set bit of the error status → row
BIT_ROWS: dict[str, dict[int, Row]] = {
    "SAW_MVB": {
        **dict.fromkeys((0, 3), _POISON),
        **dict.fromkeys((1, 4), _RESET_48),
        **dict.fromkeys((2, 5), _IGNORE),
    },
    "RLW_CTRL": {31: _IGNORE_SUPPORT},
    "RLW_REMAP": {
        **dict.fromkeys((0, 1), Row("Non-fatal", "XID_154_EVAL", "CONTACT_SUPPORT", "SW", _APP)),
        **dict.fromkeys((2, 3, 4, 5), Row("Non-fatal", "XID_154_EVAL", "CHECK_NVLINK_FAILURE_FLOW", "SW", _APP)),
        **dict.fromkeys((6, 7), _RESET_48),
        **dict.fromkeys((8, 9), _IGNORE),
        31: _IGNORE_SUPPORT,
    },
    "RLW_RSPCOL": {0: _IGNORE, 1: _RESET_48, 31: _IGNORE_SUPPORT},
    "RLW_RXPIPE": {
        **dict.fromkeys((0, 1, 2), Row("Non-fatal", "IGNORE", "CONTACT_SUPPORT", "SW", "packet loss at one end")),
        3: Row("Non-fatal", "IGNORE", "CONTACT_SUPPORT", "HW/SW"),
        31: _IGNORE_SUPPORT,
    },
    "RLW_SRC_TRACK": {
        **dict.fromkeys((0, 4, 5), _RESET_48),
        1: _IGNORE,
        **dict.fromkeys((2, 3), Row("Non-fatal", "XID_154_EVAL", "IGNORE", "HW/SW", _APP)),
        31: _IGNORE_SUPPORT,
    },
    "RLW_TAGSTATE": {
        **dict.fromkeys((0, 16), _IGNORE),
        **dict.fromkeys((1, 17, 20), _RESET_48),
        31: _IGNORE_SUPPORT,
    },
    "TLW_CTRL": {
        0: _IGNORE,
        1: Row("Non-fatal", "IGNORE", "CONTACT_SUPPORT", "HW", "Xid 48 here; poison or Xid 94 at the peer"),
        2: _RESET_LOSS,
        31: _IGNORE_SUPPORT,
    },
    "TLW_RX": _TLW,
    "TLW_TX": _TLW,
    "TREX": dict.fromkeys((0, 31), _IGNORE_SUPPORT),
    "NVLPW": {31: _IGNORE_SUPPORT},
    "NETIR_BER_EVENT": {},
    "NETIR_MFDE_EVENT": {},
}

_DOWN = "Link Fatal"
_SUBCODES: dict[int, Row] = {
    0: Row(_DOWN, "RESET_GPU", "SYMPATHETIC_REPORT_SOLO", "HW/SW", _LOSS),
    1: Row(_DOWN, "RESET_GPU", "REPORT_ISSUE", "HW/SW", _LOSS),
    2: Row(_DOWN, "RESET_GPU", "INVESTIGATE_LINK_SI", "HW/SW", _LOSS),
    38: Row(_DOWN, "IGNORE", "INVESTIGATE_SW_USER", "HW/SW", _LOSS),
    40: Row("Fatal", "IGNORE", "INVESTIGATE_HOST", "SW", "fatal here; the peer loses packets, late"),
    **dict.fromkeys((4, 10), Row(_DOWN, "RESET_GPU", "INVESTIGATE_LINK_SI", "HW", _LOSS)),
    **dict.fromkeys((15, 17, 22), Row(_DOWN, "RESET_GPU", "INVESTIGATE_SW_USER", "SW", _LOSS)),
    **dict.fromkeys((16, 18), Row(_DOWN, "RESET_GPU", "INVESTIGATE_SW_USER_LINK_SI", "SW", _LOSS)),
    **dict.fromkeys((21, 32, 33, 34, 35, 36, 37), Row(_DOWN, "RESET_GPU", "INVESTIGATE_PEER_DEVICE", "HW/SW", _LOSS)),
    **dict.fromkeys((42, 43), Row(_DOWN, "RESET_GPU", "INVESTIGATE_LINK_SI_AND_CABLES", "HW", _LOSS)),
}

#: What an investigation word says of the culprit, in plain words.
MEANS = {
    "INVESTIGATE_LINK_SI": "the signal integrity of this link failed",
    "INVESTIGATE_LINK_SI_AND_CABLES": "the signal integrity of this link or its cable failed",
    "INVESTIGATE_PEER_DEVICE": "the other end of the link is the source",
    "INVESTIGATE_SW_USER": "software or a user took the link down",
    "INVESTIGATE_SW_USER_LINK_SI": "software, a user or the link's signal integrity took it down",
    "INVESTIGATE_HOST": "look at the host",
    "SYMPATHETIC_REPORT_SOLO": "follows another device's fault, unless it stands alone",
    "REPORT_ISSUE": "to be reported when it comes more than once a day",
    "CONTACT_SUPPORT": "an internal error of this GPU's link unit",
    "CHECK_NVLINK_FAILURE_FLOW": "a link's address map failed; the NVLink flow tells further",
    "IGNORE": "no effect",
}

_LOW_BITS = {
    0b0000100001: "SAW_MVB", 0b0001100010: "RLW_CTRL", 0b0010000010: "RLW_REMAP", 0b0010100010: "RLW_RSPCOL",
    0b0011000010: "RLW_RXPIPE", 0b0011100010: "RLW_SRC_TRACK", 0b0100000010: "RLW_TAGSTATE",
    0b0100100011: "TLW_CTRL", 0b0101000011: "TLW_RX", 0b0101100011: "TLW_TX", 0b0110000100: "TREX",
    0b0000000101: "NVLPW", 0b0000000110: "NETIR", 0b1000100110: "NETIR_BER_EVENT",
    0b0111000110: "NETIR_LINK_EVT", 0b1001000110: "NETIR_MFDE_EVENT",
}  # fmt: skip
_WORDS = re.compile(r"0x[0-9a-fA-F]{1,8}")


def _unit(name: str, info: int) -> str:
    name = name.upper()
    for known in ("TLW_RX", "TLW_TX", "NVLPW", "SAW_MVB"):
        if name.startswith(known):
            return known
    if name in ("NETIR_LINK_EVT", "NETIR_LINK_DOWN"):
        return "NETIR_LINK_EVT"
    if name in ("NETIR", "NETIR_INT"):
        return "NETIR"
    if name in BIT_ROWS or name == "MSE_WATCHDOG":
        return name
    return _LOW_BITS.get(info & 0x3FF, name)


def _rows(unit: str, info: int, status: int) -> list[Row]:
    if unit == "NETIR_LINK_EVT":
        row = _SUBCODES.get((info >> 20) & 0x3F)
        return [row] if row else []
    if unit == "NETIR":
        return [Row(_DOWN, "RESET_GPU", "SYMPATHETIC_REPORT_SOLO", "HW/SW", _LOSS)]
    if unit == "NETIR_BER_EVENT":
        return [Row("Non-fatal", "IGNORE", "INVESTIGATE_LINK_SI_AND_CABLES", "HW")]
    if unit == "NETIR_MFDE_EVENT":
        return [_IGNORE if status == 3 else Row("Fatal", "RESET_GPU", "CONTACT_SUPPORT", "HW/SW", "fatal here")]
    if unit == "MSE_WATCHDOG":
        return [Row("Fatal", "RESET_GPU", "CONTACT_SUPPORT", "FW", "fatal here")]
    return [row for bit, row in BIT_ROWS.get(unit, {}).items() if status >> bit & 1]


_WORST = ("IGNORE", "XID_154_EVAL", "RESET_GPU")


def decode_nvlink5(fields: dict[str, str], message: str) -> dict[str, str] | None:
    """Decode Xid 144 to 150 from groups `unit`, `link` and the hex words of the message.

    Adds `severity` (fatal, non_fatal, unknown), `action`, `investigate`, `means`, `side`, `effect`, and
    `subcode` where the unit has one; `culprit` is "link", "peer", "software", "host", "sympathetic",
    "device", "none" or "unknown", which is what rules ask for. Injected errors (i1) say so in `injected`.
    """
    words = [int(word, 16) for word in _WORDS.findall(message)]
    out = {"culprit": "unknown", "severity": "unknown", "means": "the error words are not in the catalogue"}
    if re.search(r"\bi1\b", message):
        out["injected"] = "yes"
    if not words:
        return out | {"means": "the line carries no error words to decode"}
    if "[0x" in message:  # an older driver's form, whose words have another layout
        return out
    info, status = words[0], words[1] if len(words) > 1 else 0
    unit = _unit(fields.get("unit", ""), info)
    rows = _rows(unit, info, status)
    if unit == "NETIR_LINK_EVT":
        out["subcode"] = str((info >> 20) & 0x3F)
    if not rows:
        return out
    row = max(rows, key=lambda r: (_WORST.index(r.action), r.severity))
    out |= {
        "unit": unit,
        "severity": "non_fatal" if row.severity == "Non-fatal" else "fatal",
        "action": row.action,
        "investigate": row.investigate,
        "means": MEANS[row.investigate],
        "side": row.side,
        "culprit": _culprit(row),
    }
    return out | ({"effect": row.effect} if row.effect else {})


def _culprit(row: Row) -> str:
    word = row.investigate
    if row.severity == "Non-fatal" and row.action == "IGNORE" and "LINK_SI" not in word:
        return "none"
    if "PEER" in word:
        return "peer"
    if "LINK_SI" in word and "SW_USER" not in word:
        return "link" if row.severity != "Non-fatal" else "none"
    if "SW_USER" in word:
        return "software"
    return {"INVESTIGATE_HOST": "host", "SYMPATHETIC_REPORT_SOLO": "sympathetic"}.get(word, "device")


#: Xid 74, register by register: bits that blame the device, the link's signal, the other end, or nobody.
#: https://docs.nvidia.com/deploy/xid-errors/ (NVLink workflow, Hopper and before: registers 1, 3, 4 and 5 are valid).
_74_BITS: dict[int, dict[str, frozenset[int]]] = {
    1: {
        "none": frozenset({0, 23, 30}),
        "peer": frozenset({1, 20}),
        "device": frozenset({4, 5, 8, 9, 12, 16, 17, 24, 27, 28, 29}),
        "link": frozenset({21, 22}),
    },
    # Bits 16 to 19 of register 3 count only when they repeat, so that one line leaves the culprit open.
    3: {"device": frozenset({0, 1, 2, 6})},
    4: {"peer": frozenset({16, 17, 18})},
    5: {"device": frozenset({18, 19, 21, 22, 24, 25, 27, 28}), "none": frozenset({20, 23, 26, 29})},
}
_74_MEANS = {
    "link": "marginal signal integrity of the link",
    "device": "link hardware: parity, ECC, mechanical",
    "peer": "the other end of the link reported first",
    "none": "no effect",
}


def decode_xid74(_fields: dict[str, str], message: str) -> dict[str, str] | None:
    """Decode Xid 74 from its hex registers: adds `culprit` (link, device, peer, none, unknown) and `means`."""
    words = [int(word, 16) for word in _WORDS.findall(message)]
    if not words:
        return {"culprit": "unknown", "means": "the line carries no registers to decode"}
    found = {
        culprit
        for register, table in _74_BITS.items()
        if register <= len(words)
        for culprit, bits in table.items()
        if any(words[register - 1] >> bit & 1 for bit in bits)
    }
    for culprit in ("link", "device", "peer", "none"):
        if culprit in found:
            return {"culprit": culprit, "means": _74_MEANS[culprit]}
    return {"culprit": "unknown", "means": "the registers' bits are not in the catalogue"}
