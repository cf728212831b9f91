"""NVSwitch error numbers (SXid): what they stop.

NVIDIA Fabric Manager user guide, DU-09883: https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/
"""

CORRECTED = frozenset(
    "11012 11021 11022 11023 12021 12023 15008 15011 19049 19055 19057 19059 19062 19065 19068 19071 "
    "24001 24002 24003".split()
)
NON_FATAL = frozenset("11004 20001 12028 19084 22013 20012".split())
FATAL_PORT = frozenset(
    "11001 11009 11013 11018 11019 11020 12001 12002 12022 12024 12025 12026 12027 12030 12031 12032 14017 "
    "15001 15006 15009 15010 15012 15013 19047 19048 19054 19056 19058 19060 19061 19063 19064 19066 19067 "
    "19069 19070 20034 22012 24004 24005 24006 24007".split()
)
FATAL_FABRIC = frozenset(
    "12020 22003 22011 23001 23002 23003 23004 23005 23006 23007 23008 23009 23010 23011 23012 23013 23014 "
    "23015 23016 23017".split()
)
THERMAL = frozenset("10004 10005".split())


def decode_sxid(fields: dict[str, str], message: str) -> dict[str, str] | None:
    """Add `scope` (corrected, non_fatal, fatal_port, fatal_fabric, thermal, unlisted) for the group `sxid`.

    Continuation lines repeat the number with "Severity" or "Data" and are no new error: None.
    """
    number = fields.get("sxid", "")
    tail = message.partition(f"{number},")[2].lstrip()
    if tail.startswith(("Severity ", "Data {")):
        return None
    for scope, numbers in (
        ("corrected", CORRECTED),
        ("non_fatal", NON_FATAL),
        ("fatal_port", FATAL_PORT),
        ("fatal_fabric", FATAL_FABRIC),
        ("thermal", THERMAL),
    ):
        if number in numbers:
            return {"scope": scope}
    return {"scope": "unlisted_fatal" if tail.startswith("Fatal") else "unlisted"}
