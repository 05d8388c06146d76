import re
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_contracts import subjects
from muster_contracts.partitions import EVERY_PARTITION, PARTITIONS
from muster_contracts.streams import EVENTS, JOBS, OBJECTS, PODS, STREAMS
from muster_contracts.subjects import JobVerb, Service
from muster_domain.errors import InvalidValue

# Any text that UTF-8 can write; a lone surrogate it cannot.
texts = st.text(st.characters(exclude_categories=("Cs",)))
partitions = st.sampled_from((*PARTITIONS, EVERY_PARTITION))
names = st.from_regex(r"[a-z]+(_[a-z]+)*", fullmatch=True)
TOKEN = re.compile(r"[A-Za-z0-9_=-]+")


@given(texts)
def test_text_comes_back_from_its_token(text: str) -> None:
    assert TOKEN.fullmatch(subjects.token(text))
    assert subjects.untoken(subjects.token(text)) == text


@given(texts, texts)
def test_different_texts_have_different_tokens(one: str, other: str) -> None:
    assert (subjects.token(one) == subjects.token(other)) == (one == other)


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("team-a", "team-a"),
        ("", "="),
        ("=", "=3D"),
        ("a.b", "a=2Eb"),
        ("*", "=2A"),
        (">", "=3E"),
        ("für uns", "f=C3=BCr=20uns"),
        ("$JS", "=24JS"),
    ],
)
def test_what_tokens_look_like(text: str, token: str) -> None:
    assert subjects.token(text) == token


@given(texts, st.sampled_from(JobVerb))
def test_a_job_subject_says_what_was_put_in(namespace: str, verb: JobVerb) -> None:
    subject = subjects.job(namespace, verb)
    assert subjects.parse_job(subject) == subjects.JobAddress(namespace, verb)
    assert JOBS.holds(subject)


@given(texts, texts.filter(lambda namespace: namespace != subjects.NO_NAMESPACE), texts)
def test_an_object_subject_says_what_was_put_in(kind: str, namespace: str, name: str) -> None:
    subject = subjects.declared_object(kind, namespace, name)
    assert subjects.parse_object(subject) == subjects.ObjectAddress(kind, namespace, name)
    assert OBJECTS.holds(subject)


@given(st.sampled_from(Service), names, partitions, texts, texts)
def test_an_event_subject_says_what_was_put_in(
    owner: Service, name: str, partition: str, namespace: str, workload: str
) -> None:
    subject = subjects.workload_event(owner, name, partition, namespace, workload)
    assert subjects.event_name(subject) == name
    assert subjects.event_partition(subject) == partition
    assert subjects.event_namespace(subject) == namespace
    assert subjects.event_workload(subject) == workload
    assert EVENTS.holds(subject)
    assert matches(subjects.events_of(owner), subject)
    assert matches(subjects.facts_of(owner, name), subject)
    assert matches(subjects.workload_events_of(owner, partition), subject)


@given(names, texts, texts)
def test_every_reader_hears_what_is_meant_for_it(name: str, node: str, text: str) -> None:
    assert matches(subjects.pod_commands_for(node), subjects.pod_command(node, text))
    assert PODS.holds(subjects.pod_command(node, text))
    assert matches(subjects.pod_output_of(text), subjects.pod_output(node, text))
    assert matches(subjects.telemetry_of_all(name), subjects.telemetry(name, node))
    assert matches(subjects.node_requests(), subjects.node_request(name, node))
    assert matches(subjects.declared_objects_of(text), subjects.declared_object(text, node, name))


@given(texts, texts, texts)
def test_no_text_adds_a_level_or_a_wildcard(one: str, two: str, three: str) -> None:
    built = {
        subjects.job(one, JobVerb.SUBMIT): 5,
        subjects.decision(one, two): 5,
        subjects.declared_object(one, two, three): 5,
        subjects.workload_event(Service.ADMISSION, "done", "p00", one, two): 8,
        subjects.node_event("done", one): 6,
        subjects.pod_command(one, two): 7,
        subjects.pod_output(one, two): 7,
        subjects.dead_letter(Service.GATEWAY, one): 4,
    }
    for subject, levels in built.items():
        tokens = subject.split(".")
        assert len(tokens) == levels
        assert all(TOKEN.fullmatch(token) for token in tokens)
        assert sum(stream.holds(subject) for stream in STREAMS) <= 1


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "muster",
        "muster.v1.jobs.a",
        "muster.v1.jobs.a.b.submit",
        "muster.v1.jobs.a.dance",
        "muster.v2.jobs.a.submit",
        "muster.v1.jobs.=FF.submit",
    ],
)
def test_what_is_no_job_subject_is_refused(subject: str) -> None:
    with pytest.raises(InvalidValue):
        subjects.parse_job(subject)


@pytest.mark.parametrize(
    "subject", ["", "muster.obj.a.b", "muster.obj.a.b.c.d", "other.obj.a.b.c", "muster.obj.=FF._.x"]
)
def test_what_is_no_object_subject_is_refused(subject: str) -> None:
    with pytest.raises(InvalidValue):
        subjects.parse_object(subject)


@pytest.mark.parametrize(
    "read",
    [
        subjects.event_name,
        subjects.event_partition,
        subjects.event_namespace,
        subjects.event_workload,
    ],
)
def test_a_subject_that_is_too_short_is_refused(read: Callable[[str], str]) -> None:
    with pytest.raises(InvalidValue, match="too short"):
        read("muster.evt.gateway.v1")


@given(st.text())
def test_a_foreign_subject_is_read_or_refused(text: str) -> None:
    for parse in (subjects.parse_job, subjects.parse_object):
        for subject in (text, f"muster.v1.jobs.{text}.submit", f"muster.obj.K.{text}.x"):
            with suppress(InvalidValue):
                parse(subject)


def matches(pattern: str, subject: str) -> bool:
    """NATS' own rule: `*` takes one token, `>` the rest, of which there is at least one."""
    wanted, given = pattern.split("."), subject.split(".")
    for index, part in enumerate(wanted):
        if part == ">":
            return len(given) > index
        if index >= len(given) or part not in ("*", given[index]):
            return False
    return len(wanted) == len(given)
