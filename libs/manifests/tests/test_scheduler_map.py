from collections.abc import Callable
from typing import Any

from muster_domain.volcano_scheduler import VolcanoScheduler

LoadContent = Callable[[str], Any]
Refused = Callable[[str], list[tuple[str, str]]]
Warned = Callable[[str], list[tuple[str, str]]]

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: volcano, namespace: volcano-system}\n"


def scheduler_map(text: str) -> str:
    indented = "".join(f"    {line}\n" for line in text.splitlines())
    return f"{HEAD}data:\n  volcano-scheduler.conf: |\n{indented}"


def test_the_config_map_of_the_scheduler_is_what_it_is_told(load_content: LoadContent) -> None:
    found = load_content(
        scheduler_map('actions: "allocate, reclaim"\ntiers:\n- plugins:\n  - name: gang\n')
    )
    assert isinstance(found, VolcanoScheduler)
    assert (found.namespace, found.name) == ("volcano-system", "volcano")
    assert found.configuration.actions == ("allocate", "reclaim")
    assert [plugin.name for tier in found.configuration.tiers for plugin in tier] == ["gang"]


def test_what_is_wrong_in_the_file_is_said(refused: Refused) -> None:
    text = scheduler_map("actions: allocate\ntiers:\n- plugins:\n  - name: gangs\n")
    ((field, problem),) = refused(text)
    assert field == 'data["volcano-scheduler.conf"]'
    assert problem == "tiers[0].plugins[0].name: 'gangs' is no plugin"


def test_other_config_maps_are_left_alone(warned: Warned) -> None:
    ((field, problem),) = warned(f"{HEAD}data: {{settings: none}}\n")
    assert (field, problem) == ("kind", "ConfigMap asks nothing of Muster: left alone")
