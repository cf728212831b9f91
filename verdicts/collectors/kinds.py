"""Every kind of source and of discovery that there is; `kind` in the file picks one."""

from verdicts.collectors.elasticsearch import Elasticsearch
from verdicts.collectors.files import Files
from verdicts.collectors.kubernetes import Events, KubernetesDiscovery, PodLogs
from verdicts.collectors.loki import Loki
from verdicts.collectors.prometheus import Prometheus
from verdicts.collectors.slurm import SlurmDiscovery, SlurmRecords
from verdicts.collectors.static import StaticDiscovery
from verdicts.collectors.victorialogs import VictoriaLogs

DiscoveryKind = KubernetesDiscovery | SlurmDiscovery | StaticDiscovery
SourceKind = Elasticsearch | Events | Files | Loki | PodLogs | Prometheus | SlurmRecords | VictoriaLogs
