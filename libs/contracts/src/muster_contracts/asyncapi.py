"""The protocol as an AsyncAPI 3.0 document, made from the registry of messages."""

import inspect
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from muster_contracts import streams
from muster_contracts.partitions import EVERY_PARTITION, PARTITIONS
from muster_contracts.registry import Channel, Group, channels, message_name
from muster_contracts.subjects import NO_NAMESPACE

Json = dict[str, Any]
VERSION = "1"
SCHEMAS_FROM_DOCUMENT = "../../libs/contracts/src/muster_contracts/schemas"
_PARAMETER = re.compile(r"{([a-z_]+)}")

PARAMETERS: dict[str, Json] = {
    "kind": {"description": "Kind of the object, for example ClusterQueue"},
    "name": {"description": "Name of the object, escaped"},
    "namespace": {
        "description": f"Namespace, escaped; `{NO_NAMESPACE}` where there is none",
    },
    "budget": {"description": "Name of the budget, escaped"},
    "node": {"description": "Name of the node, escaped"},
    "partition": {
        "description": f"Who decides about the workload; `{EVERY_PARTITION}` while nobody knows",
        "enum": [*PARTITIONS, EVERY_PARTITION],
    },
    "pod_uid": {"description": "Unique id of the pod"},
    "workload": {"description": "Name of the workload, escaped"},
    "workload_id": {"description": "Id of the workload"},
}

HEADERS: Json = {
    "type": "object",
    "required": ["Nats-Msg-Id", "ce-id", "ce-source", "ce-specversion", "ce-time", "ce-type"],
    "properties": {
        name: {"type": "string", "description": text}
        for name, text in {
            "Nats-Msg-Id": "The same as ce-id: the bus stores one of equal ids",
            "ce-specversion": "1.0",
            "ce-id": "Derived, so that a message that is sent again has the same",
            "ce-source": "Who says it",
            "ce-type": "dev.muster.<owner>.v1.<name>",
            "ce-time": "The owner's clock when it was decided, RFC 3339",
            "ce-causationid": "The message that caused this one",
            "ce-correlationid": "The workload or node that it is about",
            "traceparent": "W3C trace context",
        }.items()
    },
}

DESCRIPTION = """\
Everything that is said on the bus. CI publishes jobs and reads decisions; the other channels are
between the services. Bodies are JSON; readers ignore fields that they do not know. Text in subjects
is escaped: letters, digits, `_` and `-` stand for themselves, any other byte is `=` and two hex
digits, and empty text is `=`.
"""


def document(samples: Path) -> str:
    """The document as YAML, with the samples of public messages as examples."""
    listed = sorted(channels(), key=lambda channel: (channel.group, channel.name))
    content: Json = {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Muster",
            "version": VERSION,
            "description": LiteralScalarString(DESCRIPTION),
        },
        "defaultContentType": "application/json",
        "servers": {"bus": {"host": "localhost:4222", "protocol": "nats"}},
        "channels": {
            **{channel.name: _channel(channel) for channel in listed},
            **{_answers(channel): _answer(channel) for channel in listed if channel.reply},
        },
        "operations": dict(_operation(channel) for channel in listed),
        "components": {
            "messages": dict(sorted(_messages(listed, samples))),
            "parameters": PARAMETERS,
            "schemas": {"CloudEventsHeaders": HEADERS},
        },
    }
    text = io.StringIO()
    yaml = YAML()
    yaml.width = 1 << 16
    yaml.dump(content, text)
    return text.getvalue()


def _channel(channel: Channel) -> Json:
    found: Json = {
        "address": channel.address,
        "description": channel.summary or _meaning(channel.messages or (channel.reply,)),
        "messages": {
            message_name(kind): {"$ref": f"#/components/messages/{message_name(kind)}"}
            for kind in channel.messages
        },
        "tags": [{"name": channel.group.value}, {"name": channel.owner.value}],
    }
    names = _PARAMETER.findall(channel.address)
    if names:
        found["parameters"] = {name: {"$ref": f"#/components/parameters/{name}"} for name in names}
    if channel.stream:
        found["x-stream"] = {"name": channel.stream.name, "keeps": _keeps(channel.stream)}
    return found


def _answers(channel: Channel) -> str:
    return f"{channel.name}_answer"


def _answer(channel: Channel) -> Json:
    """An answer goes to an inbox that the question names, so its address is not known here."""
    name = message_name(channel.reply) if channel.reply else ""
    return {"address": None, "messages": {name: {"$ref": f"#/components/messages/{name}"}}}


def _operation(channel: Channel) -> tuple[str, Json]:
    action = "receive" if channel.owner_receives else "send"
    found: Json = {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel.name}"},
        "summary": f"{channel.owner} {action}s",
    }
    if channel.messages:
        found["messages"] = [
            {"$ref": f"#/channels/{channel.name}/messages/{message_name(kind)}"}
            for kind in channel.messages
        ]
    if channel.reply:
        found["reply"] = {
            "address": {"location": "$message.header#/reply"},
            "channel": {"$ref": f"#/channels/{_answers(channel)}"},
        }
    return f"{channel.owner}_{action}s_{channel.name}", found


def _messages(listed: list[Channel], samples: Path) -> Iterator[tuple[str, Json]]:
    for channel in listed:
        for kind in _kinds(channel):
            name = message_name(kind)
            found: Json = {
                "name": name,
                "summary": _meaning((kind,)),
                "payload": {"$ref": f"{SCHEMAS_FROM_DOCUMENT}/{name}.json"},
            }
            if channel.group not in (Group.QUERY, Group.TELEMETRY) and not channel.owner_receives:
                found["headers"] = {"$ref": "#/components/schemas/CloudEventsHeaders"}
            if channel.group is Group.PUBLIC:
                found["examples"] = [
                    {"payload": json.loads((samples / f"{name}.json").read_text())}
                ]
            yield name, found


def _kinds(channel: Channel) -> tuple[type, ...]:
    return (*channel.messages, *((channel.reply,) if channel.reply else ()))


def _meaning(kinds: tuple[type | None, ...]) -> str:
    """The first paragraph of the docstrings."""
    texts = (inspect.getdoc(kind) or "" for kind in kinds if kind)
    return " ".join(" ".join(text.split("\n\n")[0].split()) for text in texts)


def _keeps(stream: streams.Stream) -> str:
    if stream.last_value:
        return "the last message on each subject"
    if stream.until_settled:
        return "until somebody has worked it off"
    return f"{stream.max_age_s // streams.DAY_S} days"
