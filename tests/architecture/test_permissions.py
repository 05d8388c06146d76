"""Who may say what on the bus is who the registry of messages says does."""

import re

import pytest

from muster_contracts.registry import Channel, Group, channels
from muster_contracts.subjects import Service
from muster_stack import bus_users

OWNERS = {
    Service.GATEWAY: bus_users.gateway(),
    Service.ADMISSION: bus_users.admission(),
    Service.PLACEMENT: bus_users.placement(),
    Service.PREEMPTION: bus_users.preemption(),
    Service.ACCOUNTING: bus_users.accounting(),
    Service.AGENT: bus_users.agent("x"),
}
TOLD = tuple(channel for channel in channels() if not channel.owner_receives)
QUERIES = tuple(channel for channel in channels() if channel.group is Group.QUERY)


def subject(channel: Channel) -> str:
    return re.sub(r"{[a-z_]+}", "x", channel.address)


def matches(pattern: str, subject: str) -> bool:
    wanted, given = pattern.split("."), subject.split(".")
    for index, part in enumerate(wanted):
        if part == ">":
            return len(given) > index
        if index >= len(given) or part not in ("*", given[index]):
            return False
    return len(wanted) == len(given)


@pytest.mark.parametrize("channel", TOLD, ids=lambda channel: channel.name)
def test_only_its_owner_may_say_it(channel: Channel) -> None:
    may = {
        service
        for service, user in OWNERS.items()
        if any(matches(pattern, subject(channel)) for pattern in user.publish)
    }
    refusing = {Service.GATEWAY} if channel.name == "decision" else set[Service]()
    assert may == {channel.owner} | refusing


ALSO_ASK = {
    "placement_seats": {Service.PREEMPTION},
    "admission_quota": {Service.ACCOUNTING},
    "admission_workloads": {Service.ACCOUNTING},
    "admission_workload": {Service.ACCOUNTING},
}
"""Who asks beside the gateway: for seats that victims would leave, and who holds quota."""


@pytest.mark.parametrize("channel", QUERIES, ids=lambda channel: channel.name)
def test_the_gateway_asks_and_only_the_owner_answers(channel: Channel) -> None:
    asking = {
        service
        for service, user in OWNERS.items()
        if any(matches(pattern, subject(channel)) for pattern in user.publish)
    }
    answering = {
        service
        for service, user in OWNERS.items()
        if any(matches(pattern, subject(channel)) for pattern in user.subscribe)
    }
    assert asking == {Service.GATEWAY} | ALSO_ASK.get(channel.name, set())
    assert answering == {channel.owner}
