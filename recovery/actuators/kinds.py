"""Every kind of actuator that there is; `kind` in the file picks one."""

from recovery.actuators.observe import ObserveSettings
from recovery.actuators.slurm import SlurmSettings

ActuatorKind = ObserveSettings | SlurmSettings
