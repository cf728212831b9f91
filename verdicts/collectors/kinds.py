"""Every kind of source and of discovery that there is; `kind` in the file picks one."""

from verdicts.collectors.kubernetes import Events, KubernetesDiscovery, PodLogs
from verdicts.collectors.loki import Loki
from verdicts.collectors.prometheus import Prometheus
from verdicts.collectors.slurm import SlurmDiscovery, SlurmRecords
from verdicts.collectors.static import StaticDiscovery

DiscoveryKind = KubernetesDiscovery | SlurmDiscovery | StaticDiscovery
SourceKind = Events | Loki | PodLogs | Prometheus | SlurmRecords
