"""Every kind of source and of discovery that there is; `kind` in the file picks one."""

from verdicts.collectors.source import SourceSettings
from verdicts.collectors.static import StaticDiscovery

DiscoveryKind = StaticDiscovery
SourceKind = SourceSettings
