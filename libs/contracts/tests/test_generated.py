import json
from typing import get_args

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from muster_contracts import codec, events
from muster_contracts.generate import PROTOCOL, SAMPLES, SCHEMAS, outputs, schema
from muster_contracts.queries import Query
from muster_contracts.registry import OWNERS, QUESTIONS, Channel, channels, message_name, messages


def sample_files() -> list[str]:
    return sorted(path.name for path in SAMPLES.glob("*.json"))


def test_what_is_committed_is_what_the_messages_say() -> None:
    stale = [
        path.name
        for path, said in outputs().items()
        if not path.exists() or path.read_text() != said
    ]
    assert stale == [], "run: make generate"


def test_no_schema_outlives_its_message() -> None:
    assert {path.stem for path in SCHEMAS.glob("*.json")} == set(messages())


def test_every_fact_has_one_owner_and_says_so() -> None:
    owned = [fact for facts in OWNERS.values() for fact in facts]
    assert sorted(owned, key=message_name) == sorted(get_args(events.Event), key=message_name)
    for owner, facts in OWNERS.items():
        for fact in facts:
            assert (fact.__doc__ or "").startswith(f"{owner}: "), fact


def test_every_query_has_an_owner() -> None:
    assert set(QUESTIONS) == set(Query)


def test_names_of_facts_are_those_in_subjects() -> None:
    for name, kind in codec.EVENT_TYPES.items():
        assert message_name(kind) == name


def test_no_two_channels_share_a_subject() -> None:
    addresses = [channel.address for channel in channels()]
    assert len(addresses) == len(set(addresses))
    names = [channel.name for channel in channels()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("channel", channels(), ids=lambda channel: channel.name)
def test_what_has_a_stream_is_in_its_stream(channel: Channel) -> None:
    assert "=" not in channel.address
    if channel.stream:
        assert channel.stream.holds(channel.address)


def references(value: object) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if "$ref" in value else []
        return own + [found for part in value.values() for found in references(part)]
    if isinstance(value, list):
        return [found for part in value for found in references(part)]
    return []


def test_every_reference_of_the_document_leads_somewhere() -> None:
    document = YAML(typ="safe").load(PROTOCOL.read_text())
    found = references({name: part for name, part in document.items() if name != "examples"})
    assert found
    for reference in found:
        if reference.startswith("#/"):
            part = document
            for step in reference[2:].split("/"):
                part = part[step]
        else:
            assert (PROTOCOL.parent / reference).resolve().is_relative_to(SCHEMAS.resolve())
            assert (PROTOCOL.parent / reference).exists()


@pytest.mark.parametrize("name", sample_files())
def test_samples_keep_to_the_schemas(name: str) -> None:
    validator = Draft202012Validator(schema(name.split(".", maxsplit=1)[0]))
    validator.validate(json.loads((SAMPLES / name).read_text()))
