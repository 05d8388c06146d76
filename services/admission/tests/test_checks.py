"""Admission checks: seats are looked for once all agree; every answer counts once."""

from dataclasses import replace

import pytest

from muster_contracts import events
from muster_domain.checks import (
    CAPACITY_CHECK,
    CapacityRetry,
    CheckState,
    PodSetMergePolicy,
    PodSetUpdate,
    ProvisioningRequestConfig,
)
from muster_domain.conditions import (
    EvictionReason,
    Outcome,
    PendingReason,
    UnadmittedReason,
    UnderlyingCause,
)
from muster_domain.queues import AdmissionCheck, AdmissionCheckRule
from muster_domain.states import Evicting, Finished, Pending, Reserved
from muster_domain.workload import Workload
from muster_scheduling.snapshot.catalog import Configuration
from muster_testing.builders import FLAVOR, GPU, cluster_queue, configuration, workload

from .house import House


def declared(*rules: AdmissionCheckRule, controller: str = "acme/licences") -> Configuration:
    queue = replace(cluster_queue(gpus=4), admission_checks=rules)
    checks = {
        rule.name: AdmissionCheck(
            name=rule.name, controller=controller, parameters={"backoffLimitCount": "2"}
        )
        for rule in rules
    }
    return replace(configuration(queue), admission_checks=checks)


@pytest.fixture
def house() -> House:
    rules = (AdmissionCheckRule(name="licences"), AdmissionCheckRule(name="approval"))
    found = House(declared(*rules))
    found.submit()
    return found


def answer(
    house: House,
    check: str,
    state: CheckState = CheckState.READY,
    *,
    attempt: int = 0,
    after_ms: int | None = None,
    updates: tuple[PodSetUpdate, ...] = (),
) -> object:
    fact = events.CheckAnswered(
        workload_id="w1",
        attempt=attempt or house.attempt(),
        check=check,
        state=state,
        requeue_after_ms=after_ms,
        updates=updates,
    )
    return house.say(fact)


def reserved(house: House) -> Reserved:
    state = house.state()
    assert isinstance(state, Reserved)
    return state


def test_nobody_looks_for_seats_before_all_checks_agree(house: House) -> None:
    assert [check.state for check in reserved(house).checks] == [CheckState.PENDING] * 2
    last = house.decisions[-1]
    assert last.reason == UnadmittedReason.UNSATISFIED_ADMISSION_CHECKS
    assert [check.name for check in last.checks] == ["licences", "approval"]
    answer(house, "licences")
    assert house.facts(events.ChecksPassed) == []
    house.restart()
    answer(house, "approval")
    (passed,) = house.facts(events.ChecksPassed)
    assert isinstance(passed, events.ChecksPassed)
    assert passed.state.checked_at_ms == house.now_ms
    house.place()
    assert house.kind() == "admitted"


def test_checks_may_take_as_long_as_they_like_and_placement_may_not(house: House) -> None:
    assert not house.cycle(10**9)
    answer(house, "licences")
    answer(house, "approval")
    assert not house.cycle(house.settings.reservation_timeout_ms - 1)
    house.cycle(1)
    assert house.kind() == "evicting"


def test_an_answer_twice_is_one_answer(house: House) -> None:
    answer(house, "licences")
    assert not answer(house, "licences")
    answer(house, "approval")
    assert not answer(house, "approval")
    assert len(house.facts(events.ChecksPassed)) == 1


def test_another_try_sends_it_back_behind_a_pause(house: House) -> None:
    answer(house, "licences", CheckState.RETRY, after_ms=5_000)
    state = house.state()
    assert isinstance(state, Evicting)
    assert state.reason is EvictionReason.ADMISSION_CHECK
    assert not answer(house, "licences", CheckState.RETRY, after_ms=5_000)
    evicted_at_ms = house.now_ms
    house.cycle(1_000)
    house.release()
    waiting = house.state()
    assert isinstance(waiting, Pending)
    assert waiting.requeue_at_ms == evicted_at_ms + 5_000
    assert waiting.queued_at_ms == evicted_at_ms
    house.cycle(4_000)
    again = {check.name: check for check in reserved(house).checks}
    assert (again["licences"].state, again["licences"].retry_count) == (CheckState.PENDING, 1)
    assert again["approval"].retry_count == 0


def test_an_answer_to_an_old_attempt_changes_nothing(house: House) -> None:
    answer(house, "licences", CheckState.RETRY, after_ms=0)
    house.release()
    house.cycle(1)
    assert house.attempt() == 2
    assert not answer(house, "licences", attempt=1)


def test_a_rejection_ends_it(house: House) -> None:
    answer(house, "approval", CheckState.REJECTED)
    state = house.state()
    assert isinstance(state, Evicting)
    assert state.cause is UnderlyingCause.ADMISSION_CHECK
    house.release()
    ended = house.state()
    assert isinstance(ended, Finished)
    assert ended.outcome is Outcome.DEACTIVATED


def test_capacity_that_is_revoked_ends_what_runs(house: House) -> None:
    answer(house, "licences")
    answer(house, "approval")
    house.place()
    house.start()
    answer(house, "licences", CheckState.REJECTED)
    assert house.kind() == "evicting"


def test_pods_are_run_as_the_checks_want_them(house: House) -> None:
    answer(house, "licences", updates=(PodSetUpdate(name="main", node_selector={"pool": "x"}),))
    answer(house, "approval", updates=(PodSetUpdate(name="main", labels={"by": "ann"}),))
    (passed,) = house.facts(events.ChecksPassed)
    assert isinstance(passed, events.ChecksPassed)
    (main,) = passed.workload.pod_sets
    assert (main.demand.node_selector, main.labels) == ({"pool": "x"}, {"by": "ann"})
    assert house.machine.book.records["w1"].workload == workload()


def test_checks_that_contradict_each_other_reject(house: House) -> None:
    answer(house, "licences", updates=(PodSetUpdate(name="main", node_selector={"pool": "x"}),))
    answer(house, "approval", updates=(PodSetUpdate(name="main", node_selector={"pool": "y"}),))
    state = house.state()
    assert isinstance(state, Evicting)
    assert "node selector pool of main is 'x' and would become 'y'" in state.message


def test_a_capacity_check_backs_off_and_gives_up() -> None:
    house = House(declared(AdmissionCheckRule(name="capacity"), controller="muster.dev/capacity"))
    house.submit()
    pauses: list[int] = []
    for _ in range(2):
        answer(house, "capacity", CheckState.RETRY)
        house.release()
        waiting = house.state()
        assert isinstance(waiting, Pending)
        assert waiting.requeue_at_ms is not None
        pauses.append(waiting.requeue_at_ms - house.now_ms)
        house.cycle(pauses[-1])
    assert pauses == [60_000, 120_000]
    answer(house, "capacity", CheckState.RETRY)
    state = house.state()
    assert isinstance(state, Evicting)
    assert state.cause is UnderlyingCause.ADMISSION_CHECK
    assert "tried 3 times" in state.message


def provisioned(config: ProvisioningRequestConfig, asked: Workload | None = None) -> House:
    """A queue whose capacity check follows Kueue's own configuration."""
    queue = declared(AdmissionCheckRule(name="capacity"))
    follows = {
        "apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": config.name,
    }  # fmt: skip
    check = AdmissionCheck(name="capacity", controller=CAPACITY_CHECK[0], parameters=follows)
    house = House(
        replace(queue, admission_checks={check.name: check}, provisioning={config.name: config})
    )
    house.submit(asked)
    return house


def test_capacity_is_asked_for_as_often_as_its_configuration_says() -> None:
    retry = CapacityRetry(limit=1, base_ms=5_000, max_ms=9_000)
    house = provisioned(ProvisioningRequestConfig(name="spot", retry=retry))
    answer(house, "capacity", CheckState.RETRY)
    house.release()
    waiting = house.state()
    assert isinstance(waiting, Pending)
    assert waiting.requeue_at_ms == house.now_ms + 5_000
    house.cycle(5_000)
    answer(house, "capacity", CheckState.RETRY)
    state = house.state()
    assert isinstance(state, Evicting)
    assert "tried 2 times" in state.message


@pytest.mark.parametrize(
    ("managed", "state"), [((GPU,), CheckState.PENDING), (("example.com/x",), CheckState.READY)]
)
def test_no_capacity_is_asked_for_who_wants_none_of_it(
    managed: tuple[str, ...], state: CheckState
) -> None:
    house = provisioned(ProvisioningRequestConfig(name="spot", managed_resources=managed))
    held = house.state()
    assert isinstance(held, Reserved)
    assert [check.state for check in held.checks] == [state]


def master_and_workers(*, worker_label: str = "") -> Workload:
    (main,) = workload(gpus=1).pod_sets
    labels = {"role": worker_label} if worker_label else {}
    workers = replace(main, name="workers", count=2, labels=labels)
    return replace(workload(), pod_sets=(replace(main, name="master"), workers))


@pytest.mark.parametrize(
    ("policy", "label", "pods"),
    [
        (None, "", {"master": 1, "workers": 2}),
        (PodSetMergePolicy.IDENTICAL_TEMPLATES, "", {"master": 3}),
        (PodSetMergePolicy.IDENTICAL_TEMPLATES, "x", {"master": 1, "workers": 2}),
        (PodSetMergePolicy.IDENTICAL_REQUIREMENTS, "x", {"master": 3}),
    ],
)
def test_capacity_is_asked_for_equal_pod_sets_as_one(
    policy: PodSetMergePolicy | None, label: str, pods: dict[str, int]
) -> None:
    config = ProvisioningRequestConfig(name="spot", merge_policy=policy)
    house = provisioned(config, master_and_workers(worker_label=label))
    assert reserved(house).checks[0].pods == pods
    assert house.decisions[-1].checks[0].pods == pods


def test_an_answer_for_pod_sets_that_were_asked_for_as_one_holds_for_all() -> None:
    merge = PodSetMergePolicy.IDENTICAL_TEMPLATES
    config = ProvisioningRequestConfig(name="spot", merge_policy=merge)
    house = provisioned(config, master_and_workers())
    answer(house, "capacity", updates=(PodSetUpdate(name="master", labels={"by": "ann"}),))
    assert [pod_set.labels for pod_set in passed(house).pod_sets] == [{"by": "ann"}] * 2


def test_details_of_the_capacity_become_node_labels_of_its_pods() -> None:
    selects = {"example.com/request": "RequestKey", "example.com/zone": "Zone"}
    config = ProvisioningRequestConfig(name="spot", node_selector_details=selects)
    house = provisioned(config, master_and_workers())
    told = events.CheckAnswered(
        workload_id="w1",
        attempt=house.attempt(),
        check="capacity",
        state=CheckState.READY,
        provisioning_class_details={"RequestKey": "r-17", "Other": "x"},
    )
    house.say(told)
    selectors = [pod_set.demand.node_selector for pod_set in passed(house).pod_sets]
    assert selectors == [{"example.com/request": "r-17"}] * 2


def passed(house: House) -> Workload:
    (fact,) = house.facts(events.ChecksPassed)
    assert isinstance(fact, events.ChecksPassed)
    return fact.workload


def test_a_check_cannot_want_other_nodes_than_the_flavor_that_was_granted() -> None:
    queue = declared(AdmissionCheckRule(name="licences"))
    flavor = replace(queue.flavors[FLAVOR], node_labels={"pool": "x"})
    house = House(replace(queue, flavors={FLAVOR: flavor}))
    house.submit()
    answer(house, "licences", updates=(PodSetUpdate(name="main", node_selector={"pool": "y"}),))
    state = house.state()
    assert isinstance(state, Evicting)
    assert "node selector pool of main is 'x' and would become 'y'" in state.message


def test_a_check_on_other_flavors_is_not_asked() -> None:
    rules = (
        AdmissionCheckRule(name="elsewhere", on_flavors=("spot",)),
        AdmissionCheckRule(name="here", on_flavors=(FLAVOR,)),
    )
    house = House(declared(*rules))
    house.submit()
    assert [check.name for check in reserved(house).checks] == ["here"]


def test_a_queue_whose_check_is_missing_admits_nobody() -> None:
    missing = replace(declared(AdmissionCheckRule(name="licences")), admission_checks={})
    house = House(missing)
    house.submit()
    assert house.kind() == "pending"
    assert house.machine.book.view.catalog.queues["cq"].inactive == ("AdmissionCheckNotFound",)


def test_a_queue_whose_capacity_check_follows_nothing_says_so_and_admits_when_it_does() -> None:
    queue = declared(AdmissionCheckRule(name="capacity"), controller=CAPACITY_CHECK[0])
    house = House(replace(queue, provisioning={}))
    house.submit()
    last = house.decisions[-1]
    assert last.reason == PendingReason.MISCONFIGURED
    assert "capacity: empty name: bad parameters reference" in last.message
    follows = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "spot"}
    check = AdmissionCheck(name="capacity", controller=CAPACITY_CHECK[0], parameters=follows)
    spot = ProvisioningRequestConfig(name="spot")
    house.configure(
        replace(queue, admission_checks={check.name: check}, provisioning={spot.name: spot})
    )
    house.cycle()
    assert house.kind() == "reserved"


def test_a_check_that_the_queue_does_not_want_any_more_holds_nobody_up(house: House) -> None:
    answer(house, "approval")
    house.configure(declared(AdmissionCheckRule(name="approval")))
    assert [check.name for check in reserved(house).checks] == ["approval"]
    assert len(house.facts(events.ChecksPassed)) == 1
    house.restart()
    assert len(house.facts(events.ChecksPassed)) == 1


def test_a_check_that_the_queue_wants_now_is_asked_of_who_still_waits(house: House) -> None:
    answer(house, "licences")
    names = ("licences", "approval", "export")
    house.configure(declared(*(AdmissionCheckRule(name=name) for name in names)))
    states = [CheckState.READY, CheckState.PENDING, CheckState.PENDING]
    assert [check.state for check in reserved(house).checks] == states
    assert [check.name for check in house.decisions[-1].checks] == list(names)
    answer(house, "approval")
    house.configure(declared(AdmissionCheckRule(name="late")))
    answer(house, "late")
    assert len(house.facts(events.ChecksPassed)) == 1


def test_who_waits_for_seats_is_not_asked_anew(house: House) -> None:
    answer(house, "licences")
    answer(house, "approval")
    house.configure(declared(AdmissionCheckRule(name="late")))
    assert [check.name for check in reserved(house).checks] == ["licences", "approval"]
