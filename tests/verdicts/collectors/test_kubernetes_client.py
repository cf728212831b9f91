"""Who we are to an API server, that only reading is done, and that the fields read are those of the API."""

import base64
import importlib
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.verdicts.collectors.kube import api_server, kubeconfig
from verdicts.collectors import kubernetes_objects as objects
from verdicts.collectors.ask import Budget, SourceError
from verdicts.collectors.kubernetes import Events, KubernetesDiscovery, PodLogs
from verdicts.collectors.kubernetes_client import Api, Connection, _remove, server_of

SECRET = "s3cr3t-0f-the-kubeconfig"


def credentials(folder: Path, **user: Any) -> dict[str, str]:
    return server_of(Api(kubeconfig=str(kubeconfig(folder, "https://k8s.example:6443", **user)))).credentials()


def test_a_token_of_a_kubeconfig_is_sent(tmp_path: Path) -> None:
    assert credentials(tmp_path, token=SECRET) == {"Authorization": f"Bearer {SECRET}"}


def test_a_tokens_file_is_read_anew_each_time(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one")
    server = server_of(Api(kubeconfig=str(kubeconfig(tmp_path, "https://k8s.example", tokenFile="token"))))
    assert server.credentials() == {"Authorization": "Bearer one"}
    (tmp_path / "token").write_text("two\n")
    assert server.credentials() == {"Authorization": "Bearer two"}


def test_a_password_is_sent(tmp_path: Path) -> None:
    pair = base64.b64encode(f"me:{SECRET}".encode()).decode()
    assert credentials(tmp_path, username="me", password=SECRET) == {"Authorization": f"Basic {pair}"}


def test_a_certificate_in_the_file_is_used_as_a_file(tmp_path: Path) -> None:
    data = base64.b64encode(b"certificate").decode()
    path = kubeconfig(tmp_path, "https://k8s.example", **{"client-certificate-data": data, "client-key-data": data})
    server = server_of(Api(kubeconfig=str(path)))
    assert Path(server.cert_file).read_bytes() == b"certificate"
    assert Path(server.key_file).stat().st_mode & 0o077 == 0


def test_a_process_that_was_forked_off_has_such_files_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = base64.b64encode(b"certificate").decode()
    api = Api(kubeconfig=str(kubeconfig(tmp_path, "https://k8s.example", **{"client-certificate-data": data})))
    ours = Path(server_of(api).cert_file)
    parent = os.getpid()
    monkeypatch.setattr("verdicts.collectors.kubernetes_client.os.getpid", lambda: parent + 1)
    theirs = Path(server_of(api).cert_file)
    assert ours.parent != theirs.parent
    _remove(str(ours.parent), parent)
    assert ours.exists(), "a child took its parent's files away"
    _remove(str(theirs.parent), parent + 1)
    assert not theirs.exists()


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch"}}, "runs a command"),
        ({"auth-provider": {"name": "gcp"}}, "runs a command"),
    ],
)
def test_no_command_is_run_to_get_a_token(tmp_path: Path, user: dict[str, Any], said: str) -> None:
    with pytest.raises(SourceError, match=said):
        credentials(tmp_path, **user)


def test_certificates_are_always_checked(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "https://k8s.example")
    plain = yaml.safe_load(path.read_text())
    plain["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    path.write_text(yaml.safe_dump(plain))
    with pytest.raises(SourceError, match="insecure-skip-tls-verify is not done here"):
        server_of(Api(kubeconfig=str(path)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- 1",
        "users: 3",
        f"users: [{{name: u, user: {{token: [{SECRET}]}}}}]",
        f"\t{SECRET}",
        "clusters: []\ncontexts: []",
    ],
)
def test_a_damaged_kubeconfig_is_said_without_its_secrets(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    settings = KubernetesDiscovery(name="k", api=Api(kubeconfig=str(path)))
    with pytest.raises(ValueError, match=r"^api\.kubeconfig: ") as caught:
        settings.check()
    assert SECRET not in str(caught.value)


def test_outside_of_a_pod_a_kubeconfig_is_asked_for() -> None:
    with pytest.raises(SourceError, match=r"not in a pod.*set api\.kubeconfig"):
        server_of(Api())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"namespaces": ("ML",)}, "namespaces: 'ML'"),
        ({"namespaces": ("../x",)}, "namespaces: '../x'"),
        ({"selector": "a=b&watch=1"}, "selector: is not a label selector"),
        ({"api": Api(context="prod")}, r"api\.context: "),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_with_their_key(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        KubernetesDiscovery(name="k", **settings).check()


def test_a_refused_token_is_not_shown(tmp_path: Path) -> None:
    with api_server(tmp_path) as (cluster, _):
        import kmock

        api = Api(kubeconfig=str(kubeconfig(tmp_path, cluster.url, token=SECRET)))
        echo = f"no user for Bearer {SECRET}"
        cluster.answers["/version"] = lambda _: kmock.Response(status=401, payload={"message": echo})
        with pytest.raises(SourceError, match="HTTP 401") as caught:
            Connection(api, Budget.of(seconds=5, megabytes=1)).version()
        assert SECRET not in str(caught.value)


def test_the_role_holds_what_is_asked_for_and_only_reads() -> None:
    roles = [
        document
        for document in yaml.safe_load_all(Path("docs/deploy/kubernetes-rbac.yaml").read_text())
        if document["kind"] == "ClusterRole"
    ]
    rights = {
        (group, resource): set(rule["verbs"])
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert {verb for verbs in rights.values() for verb in verbs} <= {"get", "list", "watch"}
    for resource in objects.RESOURCES:
        assert rights[resource.group, resource.plural] >= {"list", "watch"}
    assert rights["", "pods/log"] == {"get"}
    assert "list" in rights["", "events"] and rights["", "nodes"] == {"get", "list"}


MODELS = {
    objects.Owner: "meta_v1.OwnerReference",
    objects.Meta: "meta_v1.ObjectMeta",
    objects.EnvVar: "core_v1.EnvVar",
    objects.Resources: "core_v1.ResourceRequirements",
    objects.Container: "core_v1.Container",
    objects.Terminated: "core_v1.ContainerStateTerminated",
    objects.Waiting: "core_v1.ContainerStateWaiting",
    objects.Running: "core_v1.ContainerStateRunning",
    objects.ContainerState: "core_v1.ContainerState",
    objects.ContainerStatus: "core_v1.ContainerStatus",
    objects.PodSpec: "core_v1.PodSpec",
    objects.PodStatus: "core_v1.PodStatus",
    objects.Pod: "core_v1.Pod",
    objects.Taint: "core_v1.Taint",
    objects.NodeSpec: "core_v1.NodeSpec",
    objects.NodeStatus: "core_v1.NodeStatus",
    objects.Node: "core_v1.Node",
    objects.Reference: "core_v1.ObjectReference",
    objects.Series: "core_v1.EventSeries",
    objects.EventSource: "core_v1.EventSource",
    objects.Event: "core_v1.Event",
}


@pytest.mark.parametrize("ours", MODELS, ids=lambda ours: str(ours.__name__))
def test_every_field_that_is_read_is_one_of_the_api(ours: type[msgspec.Struct]) -> None:
    module, _, name = MODELS[ours].partition(".")
    theirs = getattr(importlib.import_module(f"lightkube.models.{module}"), name)
    assert {field.encode_name for field in msgspec.structs.fields(ours)} <= {
        field.encode_name for field in msgspec.structs.fields(theirs)
    }


def test_conditions_have_one_shape_everywhere() -> None:
    ours = {field.encode_name for field in msgspec.structs.fields(objects.Condition)}
    for place in ("core_v1.PodCondition", "core_v1.NodeCondition", "batch_v1.JobCondition", "meta_v1.Condition"):
        module, _, name = place.partition(".")
        theirs = getattr(importlib.import_module(f"lightkube.models.{module}"), name)
        assert ours <= {field.encode_name for field in msgspec.structs.fields(theirs)}, place


def test_a_job_id_says_which_object_it_is() -> None:
    job = objects.JobId.of("PyTorchJob", "ml", "llama-7b", "1F0C9A3E-8d2b-4a7e-9c11-000000000000")
    assert str(job) == "ml/pytorchjob/llama-7b@1f0c9a3e"
    assert objects.JobId.parse(str(job)) == job
    assert len(str(objects.JobId.of("PyTorchJob", "n" * 63, "x" * 253, ""))) <= 256


def test_the_kinds_give_what_they_say() -> None:
    assert [str(PodLogs(name="a").source), str(Events(name="b").source)] == ["applog", "kubernetes"]
