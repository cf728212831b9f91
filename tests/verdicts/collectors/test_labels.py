"""What a store calls a node, a job and a rank joins to what the attempt calls them, and to nothing else."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.attempt import MAX_RANK, Attempt
from verdicts.collectors.labels import Nodes, check_template, go_regex, job_value, lucene_regex, rank_of, some


@pytest.mark.parametrize(
    ("node", "label"),
    [
        ("gpu-017", "gpu-017"),
        ("gpu-017", "gpu-017.cluster.local"),
        ("gpu-017.cluster.local", "gpu-017"),
        ("gpu-017", "GPU-017"),
        ("GPU-017", "gpu-017.Cluster.Local."),
        ("gpu-017.rack1", "gpu-017.rack1.cluster.local"),
        ("gpu-017.rack1.cluster.local", "gpu-017.rack1"),
        ("gpu-017", "gpu-017:9100"),
        ("gpu-017", " gpu-017.cluster.local:9400 "),
        ("10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1:9100"),
        ("fe80::17", "fe80::17"),
        ("ip-10-0-0-1.ec2.internal", "ip-10-0-0-1"),
        ("0017", "0017"),
    ],
)
def test_one_node_by_several_names(node: str, label: str) -> None:
    assert Nodes(["gpu-016", node]).known(label) == node


@pytest.mark.parametrize(
    ("node", "label"),
    [
        ("gpu-017", "gpu-0170"),
        ("gpu-017", "gpu-01"),
        ("gpu-017", "xgpu-017"),
        ("gpu-017.a.example", "gpu-017.b.example"),
        ("10.0.0.1", "10.0.0.10"),
        ("10", "10.0.0.1"),
        ("10.0.0.1", "10.0.0"),
        ("gpu-017", ""),
        ("gpu-017", "."),
        ("gpu-017", ":9100"),
        ("gpu-017", "gpu-017x.cluster.local"),
    ],
)
def test_two_nodes_with_names_alike(node: str, label: str) -> None:
    assert Nodes([node]).known(label) == ""


def test_a_short_name_that_two_nodes_share_is_neithers() -> None:
    nodes = Nodes(["gpu-01.a.example", "gpu-01.b.example", "gpu-02.a.example"])
    assert nodes.known("gpu-01") == ""
    assert nodes.known("gpu-01.a") == "gpu-01.a.example"
    assert nodes.known("gpu-02") == "gpu-02.a.example"
    assert nodes.all_known(["gpu-01", "gpu-02", "gpu-03"]) == {"gpu-02.a.example"}


def test_a_node_whose_whole_name_is_anothers_beginning_is_itself() -> None:
    nodes = Nodes(["gpu-01", "gpu-01.b.example"])
    assert nodes.known("gpu-01") == "gpu-01"
    assert nodes.known("gpu-01.b.example") == "gpu-01.b.example"
    assert nodes.known("gpu-01.a.example") == "gpu-01"


names = st.from_regex(r"[a-z0-9][a-z0-9-]{0,8}(\.[a-z0-9]{1,5}){0,3}", fullmatch=True)


@given(st.lists(names, min_size=1, max_size=8, unique=True), names)
def test_what_a_pattern_leaves_out_is_no_node_of_ours(nodes: list[str], label: str) -> None:
    ours = Nodes(nodes)
    patterns = [f"(?i)(?:{alternatives})(?:[.:].*)?" for alternatives in ours.patterns(go_regex, 40)]
    assert all(len(pattern) <= 40 + 60 for pattern in patterns)
    if ours.known(label):
        assert any(re.fullmatch(pattern, label) for pattern in patterns)
    assert all(any(re.fullmatch(pattern, node.upper()) for pattern in patterns) for node in nodes)


@given(st.text(max_size=12), st.text(max_size=12))
def test_text_in_an_expression_stands_for_itself(text: str, other: str) -> None:
    assert re.fullmatch(go_regex(text), text)
    assert (re.fullmatch(go_regex(text), other) is not None) == (text == other)
    assert set(re.sub(r"\\.", "", lucene_regex(text), flags=re.DOTALL)) & set('.?+*|{}[]()"\\#@&<>~^$') == set()


def test_patterns_are_bounded_in_number_and_length() -> None:
    nodes = Nodes(f"gpu-{number:04d}" for number in range(2_100))
    assert [pattern.count("|") + 1 for pattern in nodes.patterns(go_regex, 10**6)] == [1000, 1000, 100]
    assert all(len(pattern) < 200 for pattern in nodes.patterns(go_regex, 200))
    assert "|".join(nodes.patterns(go_regex, 200)).split("|") == list(nodes.names)


@pytest.mark.parametrize(
    ("label", "rank"),
    [("0", 0), ("17", 17), (3, 3), ("-1", None), ("1.5", None), ("", None), ("²", None), (None, None), ("x", None)],
)
def test_ranks(label: object, rank: int | None) -> None:
    assert rank_of(label) == rank
    assert rank_of(str(MAX_RANK + 1)) is None


@pytest.mark.parametrize(
    ("template", "job_id", "wanted"),
    [
        ("{job_id}", "4711", ("4711", False)),
        ("slurm-{job_id}", "4711_2", ("slurm-4711_2", False)),
        ("{workload}", "4711", ("llama.7b", False)),
        ("{name}", "ml/pytorchjob/llama@1f0c9a3e", ("llama", False)),
        ("{namespace}/{name}", "ml/job/llama@1f0c9a3e", ("ml/llama", False)),
        ("{name}", "4711", ("4711", False)),
        ("{workload}-[0-9]+", "4711", (r"llama\.7b-[0-9]+", True)),
    ],
)
def test_what_a_jobs_label_must_be(template: str, job_id: str, wanted: tuple[str, bool]) -> None:
    check_template("job_value", template)
    assert job_value(template, Attempt(job_id=job_id, workload="llama.7b"), go_regex) == wanted


def test_a_value_that_looks_like_a_field_is_not_one() -> None:
    assert job_value("{job_id}", Attempt(job_id="{workload}", workload="x"), go_regex) == ("{workload}", False)


@pytest.mark.parametrize("template", ["", "4711", "{job}", "{job_id}-(", "{{"])
def test_templates_that_cannot_work_are_refused(template: str) -> None:
    with pytest.raises(ValueError, match=r"^job_value: "):
        check_template("job_value", template)


def test_a_few_of_many_names() -> None:
    assert some(["a", "b"]) == "a, b"
    assert some(list(string.ascii_lowercase)) == "a, b, c, d, e and 21 more"
