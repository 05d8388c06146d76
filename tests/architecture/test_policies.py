"""What a scheduler configuration may name is what the session has."""

from muster_manifests.volcano.scheduler import ACTIONS, PLUGINS
from muster_scheduling.volcano.actions.registry import ACTIONS as ACTIONS_THERE
from muster_scheduling.volcano.plugins.registry import PLUGINS as PLUGINS_THERE


def test_a_file_may_name_every_plugin_and_no_other() -> None:
    assert sorted(PLUGINS) == sorted(PLUGINS_THERE)


def test_a_file_may_name_every_action_and_no_other() -> None:
    assert sorted(ACTIONS) == sorted(ACTIONS_THERE)
