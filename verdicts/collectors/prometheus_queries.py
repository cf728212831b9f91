"""What is asked of a metrics store for each kind of evidence, and why: the defaults, which a site may add to.

`states` say how something is, `events` hold the last thing that happened, `counters` only grow. `conditions` are
expressions as an alert has them: what they return is the finding. `$nodes` stands for the attempt's nodes.
"""

from dataclasses import dataclass, field

from rules.words import Source

#: Interfaces that come and go with containers, and the loopback: their counters say nothing of the fabric.
VIRTUAL = (
    "lo|veth.*|cali.*|cni.*|docker.*|br-.*|virbr.*|flannel.*|cilium.*|lxc.*|tap.*|tun.*|vxlan.*|kube-.*|nodelocaldns"
)
#: File systems that are full by nature: packed images, and what is no disk.
PACKED = "squashfs|iso9660|erofs|cramfs|overlay|ramfs"


@dataclass(frozen=True)
class Watched:
    """The names and expressions of one kind of evidence; `matchers` go into every selector of names."""

    states: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()
    conditions: dict[str, str] = field(default_factory=dict)
    matchers: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Every metric that is asked for by its name."""
        return tuple(dict.fromkeys((*self.states, *self.events, *self.counters)))


#: https://github.com/prometheus/node_exporter, thresholds from its alerts in docs/node-mixin.
_NODE = Watched(
    # An exporter that was never there is down for ever: only the change is an event.
    events=("up",),
    counters=(
        "node_boot_time_seconds",  # it grows when the node starts again
        "node_vmstat_oom_kill",
        "node_edac_uncorrectable_errors_total",
        "node_edac_correctable_errors_total",
    ),
    conditions={
        "node_memory_almost_full": "node_memory_MemAvailable_bytes{$nodes} / node_memory_MemTotal_bytes{$nodes} < 0.1",
        "node_filesystem_almost_full": (
            f'node_filesystem_avail_bytes{{$nodes,fstype!~"{PACKED}"}}'
            f' / node_filesystem_size_bytes{{$nodes,fstype!~"{PACKED}"}} < 0.03'
            f' and node_filesystem_readonly{{$nodes,fstype!~"{PACKED}"}} == 0'
        ),
        "node_filesystem_almost_out_of_files": (
            f'node_filesystem_files_free{{$nodes,fstype!~"{PACKED}"}}'
            f' / node_filesystem_files{{$nodes,fstype!~"{PACKED}"}} < 0.03'
            f' and node_filesystem_readonly{{$nodes,fstype!~"{PACKED}"}} == 0'
        ),
        "node_filefd_almost_full": "node_filefd_allocated{$nodes} / node_filefd_maximum{$nodes} > 0.9",
        "node_clock_not_synchronising": (
            "node_timex_sync_status{$nodes} == 0 and node_timex_maxerror_seconds{$nodes} >= 16"
        ),
        "node_clock_skew": "abs(node_timex_offset_seconds{$nodes}) > 0.05",
    },
)

#: https://github.com/NVIDIA/dcgm-exporter, its default and commented-out counters.
_GPU = Watched(
    states=(
        "DCGM_FI_DEV_ROW_REMAP_FAILURE",
        "DCGM_FI_DEV_ROW_REMAP_PENDING",
        "DCGM_FI_DEV_RETIRED_PENDING",
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
        "DCGM_FI_DEV_FABRIC_MANAGER_STATUS",
    ),
    # The last Xid stays until the driver or the exporter starts again: only its change is an event.
    events=("DCGM_FI_DEV_XID_ERRORS",),
    counters=(
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
        "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL",
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
        "DCGM_FI_DEV_RETIRED_SBE",
        "DCGM_FI_DEV_RETIRED_DBE",
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
        "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
        "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
        "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
        "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
        "DCGM_FI_DEV_THERMAL_VIOLATION",
    ),
)

#: https://github.com/prometheus/node_exporter (infiniband and netclass), from the adapters' counters in sysfs.
_NETWORK = Watched(
    # A port that nobody uses is down for ever: only the change of its state is an event.
    events=("node_infiniband_state_id", "node_infiniband_physical_state_id"),
    counters=(
        "node_infiniband_link_downed_total",
        "node_infiniband_link_error_recovery_total",
        "node_infiniband_symbol_error_total",
        "node_infiniband_local_link_integrity_errors_total",
        "node_infiniband_port_errors_received_total",
        "node_infiniband_port_discards_transmitted_total",
        "node_network_carrier_down_changes_total",
        "node_network_receive_errs_total",
        "node_network_transmit_errs_total",
    ),
    conditions={
        # The same port of the other nodes is the measure: which speed is right depends on the port.
        "node_infiniband_rate_below_siblings": (
            "node_infiniband_rate_bytes_per_second{$nodes} < on (device, port) group_left ()"
            " max by (device, port) (node_infiniband_rate_bytes_per_second{$nodes})"
        ),
    },
    matchers=f'device!~"{VIRTUAL}"',
)

#: No exporter of progress is common enough for a default: a site names its own.
DEFAULTS = {
    Source.NODE_METRICS: _NODE,
    Source.GPU_EVENTS: _GPU,
    Source.NETWORK_METRICS: _NETWORK,
    Source.PROGRESS: Watched(),
}
