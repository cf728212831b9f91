"""What a run says of itself about recovery: an annotation of the object that a person made, and of its Workload.

A person writes it, so it is brought into one form: words of letters and digits with commas between them. What cannot
be such a word becomes one that is known to nobody, and that allows nothing.
"""

import re
from collections.abc import Iterator

import msgspec

from verdicts.collectors.ask import SourceError
from verdicts.collectors.kubernetes_client import Connection, NotThere
from verdicts.collectors.kubernetes_facts import QUEUE_LABELS
from verdicts.collectors.kubernetes_objects import RUNS, WORKLOADS, JobId, Meta, Resource, Run
from verdicts.collectors.sink import Sink

#: The annotation's key; its words are those of a Slurm job's `inquest=` comment.
ANNOTATION = "inquest/recovery"
#: Kueue's label on a Workload: the uid of what it is for.
WORKLOAD_OF = "kueue.x-k8s.io/job-uid"
MAX_WORDS = 200
TOO_LONG = "too-long"


def own_words(connection: Connection, job: JobId, out: Sink) -> None:
    """Keep the annotation of the attempt's run, and that of its Workload, each as a line. Raises SourceError."""
    resource = next((one for one in RUNS if one.kind.lower() == job.kind), None)
    if resource is None:
        return
    for run in _found(connection, resource, job.namespace, {"fieldSelector": f"metadata.name={job.name}"}):
        if JobId.of(resource.kind, run.namespace, run.name, run.uid) != job:
            continue
        _keep(run, resource, out)
        if run.label(QUEUE_LABELS[0]):
            for workload in _found(connection, WORKLOADS, job.namespace, {"labelSelector": f"{WORKLOAD_OF}={run.uid}"}):
                _keep(workload, WORKLOADS, out)


def _found(connection: Connection, resource: Resource, namespace: str, params: dict[str, str]) -> Iterator[Meta]:
    """The metadata of the objects that are asked for, in the first version that the server has."""
    right = f'apiGroups: ["{resource.group}"], resources: ["{resource.plural}"], verbs: ["list", "watch"]'
    for version in resource.versions:
        try:
            for page in connection.pages(resource.path(version, namespace), params, right=right):
                for raw in page.items or []:
                    yield msgspec.json.decode(raw, type=Run).metadata
            return
        except NotThere:
            # It has another version of the kind, or none of it at all any more.
            continue
        except msgspec.DecodeError as error:
            raise SourceError(f"an object of {resource.plural} that cannot be read: {error}") from error


def _keep(meta: Meta, resource: Resource, out: Sink) -> None:
    if said := plain_words((meta.annotations or {}).get(ANNOTATION, "")):
        out.keep(f"Annotation {ANNOTATION}={said}", f"{resource.kind.lower()}/{meta.name}")


def plain_words(text: str) -> str:
    """What an annotation says as words with commas between them, "" where it says nothing."""
    said = re.sub(r"\s*=\s*", "=", text.strip())
    said = re.sub(r"\s*[,+;]\s*|\s+", ",", said)
    said = re.sub(r"[^A-Za-z0-9_=,-]", "_", said)
    return said if len(said) <= MAX_WORDS else TOO_LONG
