"""Every kind of source and of discovery that there is; `kind` in the file picks one."""

from verdicts.collectors.loki import Loki
from verdicts.collectors.prometheus import Prometheus
from verdicts.collectors.slurm import SlurmDiscovery, SlurmRecords
from verdicts.collectors.static import StaticDiscovery

DiscoveryKind = SlurmDiscovery | StaticDiscovery
SourceKind = Loki | Prometheus | SlurmRecords
