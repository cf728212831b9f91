"""Every kind of actuator that there is; `kind` in the file picks one."""

from recovery.actuators.kubernetes import KubernetesSettings
from recovery.actuators.observe import ObserveSettings
from recovery.actuators.slurm import SlurmSettings
from recovery.actuators.webhook import WebhookSettings

ActuatorKind = KubernetesSettings | ObserveSettings | SlurmSettings | WebhookSettings
