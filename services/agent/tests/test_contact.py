from pathlib import Path

import pytest
from pydantic import ValidationError

from muster_agent.contact import Contact
from muster_agent.pods import CutOff
from muster_agent.runtimes.keeper import steady_ms
from muster_agent.settings import AgentSettings, parse_labels, parse_taints
from muster_domain.errors import InvalidValue
from muster_domain.selectors import Taint, TaintEffect

SETTINGS = AgentSettings(node_lease_ms=20_000, agent_stop_window_ms=4_000)


def test_a_node_is_cut_off_a_stop_window_before_its_lease_ends(tmp_path: Path) -> None:
    contact = Contact(tmp_path / "lease", SETTINGS)
    contact.renew(100_000)
    assert contact.cut_off(115_999) is None
    assert contact.cut_off(116_000) == CutOff(
        grace_ms=2_000, message="the node was cut off for 16 s and stopped its pods"
    )
    late = contact.cut_off(119_000)
    assert late is not None
    assert late.grace_ms == 0


def test_keepers_end_pods_before_the_lease_ends(tmp_path: Path) -> None:
    contact = Contact(tmp_path / "lease", SETTINGS)
    contact.renew(100_000)
    assert contact.path.read_text() == "119000"


def test_a_restarted_agent_knows_how_long_the_node_was_silent(tmp_path: Path) -> None:
    now_ms = steady_ms()
    Contact(tmp_path / "lease", SETTINGS).renew(now_ms - 17_000)
    again = Contact(tmp_path / "lease", SETTINGS)
    assert again.silent_ms(now_ms) == 17_000
    assert again.cut_off(now_ms) is not None


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(None, id="first start"),
        pytest.param("not a number", id="damaged"),
        pytest.param(str(10**15), id="from before the machine was booted"),
    ],
)
def test_without_a_known_contact_nothing_is_cut_off(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "lease").write_text(content)
    contact = Contact(tmp_path / "lease", SETTINGS)
    assert contact.silent_ms(steady_ms()) == 0
    assert contact.cut_off(steady_ms()) is None


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"agent_stop_window_ms": 11_000}, id="window"),
        pytest.param({"agent_heartbeat_interval_ms": 5_001}, id="heartbeat"),
    ],
)
def test_times_that_do_not_fit_the_lease_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match="must be at most"):
        AgentSettings(node_lease_ms=20_000, **settings)


def test_labels_and_taints_are_read() -> None:
    assert parse_labels(" a=1, b = x=y ,") == {"a": "1", "b": "x=y"}
    assert parse_taints("gpu=yes:NoSchedule, old:NoExecute") == (
        Taint(key="gpu", value="yes", effect=TaintEffect.NO_SCHEDULE),
        Taint(key="old", effect=TaintEffect.NO_EXECUTE),
    )


@pytest.mark.parametrize("text", ["gpu", "gpu=yes", "gpu=yes:Never", ":NoSchedule"])
def test_what_is_no_taint_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="not a taint"):
        parse_taints(text)
