"""Every scenario file, in the cores alone, on the virtual bus and on the running services."""

from pathlib import Path

import pytest

from muster_domain.errors import InvalidValue
from muster_simulation.bus_stage import BusStage
from muster_simulation.manifests import Naming
from muster_simulation.play import CoreStage, play
from muster_simulation.scenario import Scenario, load_scenario, read_scenario

FILES = sorted(Path(__file__).parent.glob("*.yaml"))
SCENARIOS = {path.stem: load_scenario(path) for path in FILES}


def _at(level: str) -> list[str]:
    return [name for name, scenario in SCENARIOS.items() if level in scenario.levels]


def naming_of(name: str) -> Naming:
    return Naming(name.replace("_", "-")[:40].rstrip("-"))


@pytest.mark.parametrize("name", _at("core"))
def test_in_the_cores(name: str) -> None:
    scenario, naming = SCENARIOS[name], naming_of(name)
    assert play(scenario, CoreStage(scenario, naming), naming) == []


@pytest.mark.parametrize("name", _at("bus"))
def test_on_the_bus(name: str) -> None:
    scenario, naming = SCENARIOS[name], naming_of(name)
    assert play(scenario, BusStage(scenario, naming), naming) == []


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_file_says_what_it_shows_and_asserts_it(name: str) -> None:
    scenario = SCENARIOS[name]
    assert scenario.shows
    assert scenario.source
    assert scenario.rounds[-1].expect == "nothing_changes"
    assert bool(scenario.why_not_all) == (set(scenario.levels) != {"core", "bus", "live"})


def test_prefixes_are_different() -> None:
    prefixes = [naming_of(name).prefix for name in SCENARIOS]
    assert len(set(prefixes)) == len(prefixes)


def test_a_wrong_expectation_is_seen() -> None:
    scenario = SCENARIOS["s07_finished_stays_finished"]
    wrong = scenario.rounds[0].model_copy(
        update={"expect": scenario.rounds[0].expect.model_copy(update={"admitted": ("three",)})}
    )
    broken: Scenario = scenario.model_copy(update={"rounds": (wrong, *scenario.rounds[1:])})
    naming = naming_of("wrong")
    assert play(broken, CoreStage(broken, naming), naming) == [
        "round 0: admitted: expected ['three'], there is ['one', 'two']"
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rounds: [{at: 1 week}]", "a.yaml: rounds.0.at: Value error, '1 week' is not a time"),
        ("queues: {a: {qouta: {cpu: 1}}}", "a.yaml: queues.a.qouta: Extra inputs"),
        ("queues: [", "a.yaml: not YAML"),
        ("rounds: [{at: 5}, {at: 1}]", "not in the order of their times"),
    ],
)
def test_errors_name_file_and_field(text: str, said: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        read_scenario(text, source="a.yaml")
    assert said in str(caught.value)
