"""How much is missing where a line states what there is and what there should be."""


def decode_shortfall(fields: dict[str, str], _message: str) -> dict[str, str] | None:
    """Add `missing`: "slight" when less than 3 % of the group `wanted` is missing from `reported`, else "much".

    Without both numbers it is "unknown". Kernels and firmware keep a percent or two of a node's memory for themselves.
    """
    reported, wanted = fields.get("reported", ""), fields.get("wanted", "")
    if not (reported.isdigit() and wanted.isdigit() and int(wanted) > 0):
        return {"missing": "unknown"}
    return {"missing": "slight" if 100 * (int(wanted) - int(reported)) < 3 * int(wanted) else "much"}
