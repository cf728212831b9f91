"""Decoders: numbers in a message to their documented meaning.

A decoder takes the named groups of the match and the message, and returns fields to add to them
(text only), or None when the message is not what the rule speaks of.
"""

from collections.abc import Callable

from rules.decode import infiniband, nvlink, shortfall, sxid

Decoder = Callable[[dict[str, str], str], dict[str, str] | None]

DECODERS: dict[str, Decoder] = {
    "nvlink5": nvlink.decode_nvlink5,
    "nvlink74": nvlink.decode_xid74,
    "sxid": sxid.decode_sxid,
    "ib_status": infiniband.decode_status,
    "shortfall": shortfall.decode_shortfall,
}
