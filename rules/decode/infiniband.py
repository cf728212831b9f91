"""Completion status numbers of InfiniBand verbs, `enum ibv_wc_status`.

https://github.com/linux-rdma/rdma-core/blob/master/libibverbs/verbs.h
"""

#: number → (name, what it says, "peer" when the two ends cannot talk, "flush" when always secondary, else "local")
STATUSES = {
    "0": ("SUCCESS", "the work request completed", "none"),
    "1": ("LOC_LEN_ERR", "a local buffer was too small for the message", "local"),
    "2": ("LOC_QP_OP_ERR", "the queue pair was in no state for the operation", "local"),
    "3": ("LOC_EEC_OP_ERR", "local end-to-end context error", "local"),
    "4": ("LOC_PROT_ERR", "a local buffer is not registered for the access; often PCIe ACS or IOMMU", "local"),
    "5": ("WR_FLUSH_ERR", "flushed after another failure on the same queue pair", "flush"),
    "6": ("MW_BIND_ERR", "memory window bind error", "local"),
    "7": ("BAD_RESP_ERR", "the peer's answer had an unexpected opcode", "peer"),
    "8": ("LOC_ACCESS_ERR", "a local buffer does not allow the access", "local"),
    "9": ("REM_INV_REQ_ERR", "the peer refused the request as invalid", "peer"),
    "10": ("REM_ACCESS_ERR", "the peer's buffer does not allow the access", "peer"),
    "11": ("REM_OP_ERR", "the peer could not complete the operation", "peer"),
    "12": ("RETRY_EXC_ERR", "the peer did not acknowledge after all retries", "peer"),
    "13": ("RNR_RETRY_EXC_ERR", "the peer never had a receive buffer ready", "peer"),
    "14": ("LOC_RDD_VIOL_ERR", "local reliable-datagram domain violation", "local"),
    "15": ("REM_INV_RD_REQ_ERR", "invalid reliable-datagram request", "peer"),
    "16": ("REM_ABORT_ERR", "the peer aborted the operation", "peer"),
    "17": ("INV_EECN_ERR", "invalid end-to-end context number", "local"),
    "18": ("INV_EEC_STATE_ERR", "invalid end-to-end context state", "local"),
    "19": ("FATAL_ERR", "the adapter reported a fatal error", "local"),
    "20": ("RESP_TIMEOUT_ERR", "the peer did not answer in time", "peer"),
    "21": ("GENERAL_ERR", "an error of no other kind", "local"),
}


def decode_status(fields: dict[str, str], _message: str) -> dict[str, str] | None:
    """Add `status_name`, `means` and `side` for the group `status`; None for a number that is none."""
    status = STATUSES.get(fields.get("status", ""))
    if status is None:
        return None
    name, means, side = status
    return {"status_name": name, "means": means, "side": side}
