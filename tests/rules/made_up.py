"""A small made-up ruleset and a generator of incidents, for properties of the engine alone."""

from functools import cache

from hypothesis import strategies as st

from rules.observation import Observation
from rules.ruleset import Ruleset, load_files
from tests.rules.builders import a_rule, at, seen

DEFAULTS = b"""
[[explains]]
roles = ["cause", "either"]
symptoms = ["@collective", "@connection", "@process_death", "@teardown"]
on = "job"
within = "3h"

[[explains]]
roles = ["cause"]
symptoms = ["@scheduler_end"]
on = "job"
within = "30d"
only_if_earlier = true
"""


APP, SCHED = '["applog"]', '["scheduler"]'


@cache
def made_up() -> Ruleset:
    """Causes, eithers, consequences, a state and a noise, with the shipped defaults."""
    rules = [
        a_rule("gpu.dead", r"GPU (?P<pci>[0-9a-f:.]+) is dead", locus='gpu = "pci"',
               tail='[[explains]]\nsymptoms = ["@cuda_error", "app.oom"]\non = "node"\nwithin = "1h"'),
        a_rule("kern.oom", r"Killed process \d+", domain='"resource_exhaustion"', node_fault="false", state='"out_of_memory"',
               tail='[[explains]]\nsymptoms = ["@memory_kill"]\non = "node"'),
        a_rule("app.key", sources=APP, pattern=r"^KeyError: ", domain='"application_code"', groups='["python_exception"]'),
        a_rule("app.oom", sources=APP, pattern=r"CUDA out of memory", domain='"resource_exhaustion"', role='"either"', groups='["cuda_error"]'),
        a_rule("nccl.remote", sources=APP, pattern=r"NCCL WARN .*remote peer (?P<peer>[a-z0-9]+)", role='"symptom"', groups='["collective"]',
               locus='peer = "peer"'),
        a_rule("srun.exit", sources=SCHED, pattern=r"task \d+: Exited", role='"symptom"', groups='["process_death"]'),
        a_rule("srun.kill", sources=SCHED, pattern=r"task \d+: Killed", role='"symptom"', groups='["process_death", "memory_kill"]'),
        a_rule("slurm.limit", sources=SCHED, pattern=r"DUE TO TIME LIMIT", domain='"scheduler"', groups='["scheduler_end"]', state='"timed_out"',
               locus="job = true"),
        a_rule("gpu.remap", r"row remapped", role='"state"'),
        a_rule("nccl.info", sources=APP, pattern=r"NCCL INFO error is harmless", role='"noise"'),
    ]  # fmt: skip
    return load_files(dict(rules) | {"defaults.toml": DEFAULTS})


def fault(kind: str, node: str, minute: int) -> list[Observation]:
    """The lines by which one independent cause shows itself."""
    lines = {
        "gpu": ("syslog", f"{at(minute)} {node} kernel: GPU 0000:65:00.0 is dead"),
        "oom": ("syslog", f"{at(minute)} {node} kernel: Killed process 12 (python)"),
        "key": ("applog", f"{at(minute)} [rank1]: KeyError: 'x'"),
        "limit": ("scheduler", f"{at(minute)} slurmstepd: error: *** STEP 1234.0 CANCELLED DUE TO TIME LIMIT ***"),
    }
    source, line = lines[kind]
    return seen(source, line, node=node if source != "scheduler" else "", start=minute * 10)


def consequences(minute: int, nodes: list[str], peer: str) -> list[Observation]:
    """What the other ranks and the launcher print once something has failed."""
    out = []
    for index, node in enumerate(nodes):
        out += seen(
            "applog", f"{at(minute, 10 + index)} [rank{index}]: NCCL WARN closed by remote peer {peer}", node=node,
            start=1000 + index,
        )  # fmt: skip
    return out + seen("scheduler", f"{at(minute, 40)} srun: error: {peer}: task 3: Exited with exit code 1", start=2000)


DOMAIN = {"gpu": "gpu_hardware", "oom": "resource_exhaustion", "key": "application_code", "limit": "scheduler"}
NODES = ["n1", "n2", "n3", "n4"]


@st.composite
def incidents(draw: st.DrawFn) -> list[Observation]:
    """One cause on one node, its consequences, and states, eithers and noise around it."""
    kind = draw(st.sampled_from(sorted(DOMAIN)))
    node = draw(st.sampled_from(NODES))
    minute = draw(st.integers(5, 20))
    out = fault(kind, node, minute) + consequences(minute + draw(st.integers(1, 8)), NODES, node)
    if draw(st.booleans()):
        out += seen("syslog", f"{at(1)} {node} kernel: row remapped", node=node, start=3)
    if draw(st.booleans()):
        out += seen(
            "applog", f"{at(minute + 9)} [rank2]: CUDA out of memory", node=draw(st.sampled_from(NODES)), start=500
        )
    return out
