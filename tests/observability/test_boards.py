"""What boards and alerts ask for exists: metrics in the code, a page for every alert."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BOARDS = sorted((ROOT / "deploy" / "grafana" / "dashboards").glob("*.json"))
RULES = ROOT / "deploy" / "prometheus" / "rules" / "muster.yml"
METRIC = re.compile(r"\b(?:muster|node_gpu|node_total|container_gpu)_[a-z_]+")
DERIVED = re.compile(r"_(?:bucket|sum|count|total|created)$")


def declared() -> set[str]:
    """Names in quotes in the sources of services and libraries."""
    sources = [*ROOT.glob("services/*/src/**/*.py"), *ROOT.glob("libs/*/src/**/*.py")]
    return {
        name
        for path in sources
        for name in re.findall(rf'"({METRIC.pattern})"', path.read_text(encoding="utf-8"))
    }


def expressions() -> dict[str, list[str]]:
    found = {path.name: list(board_expressions(load(path))) for path in BOARDS}
    found[RULES.name] = [rule["expr"] for rule in alerts()]
    return found


def board_expressions(board: dict[str, Any]) -> list[str]:
    panels = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return panels + [variable["query"] for variable in board["templating"]["list"]]


def alerts() -> list[dict[str, Any]]:
    document = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("source", [*(path.name for path in BOARDS), RULES.name])
def test_every_metric_asked_for_is_measured(source: str) -> None:
    known = declared()
    plain = {DERIVED.sub("", name) for name in known} | known
    asked = {name for text in expressions()[source] for name in METRIC.findall(text)}
    assert asked or source == RULES.name
    missing = {name for name in asked if name not in plain and DERIVED.sub("", name) not in plain}
    assert not missing


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.name)
def test_a_board_is_whole(path: Path) -> None:
    board = load(path)
    assert board["uid"] == f"muster-{path.stem}"
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    squares = [
        (x, y)
        for panel in board["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(squares)) == len(squares), "panels lie over each other"
    assert max(x for x, _ in squares) < 24


def test_every_alert_has_a_page_and_every_page_an_alert() -> None:
    pages = {path.stem for path in (ROOT / "docs" / "operations").glob("Muster*.md")}
    assert {rule["alert"] for rule in alerts()} == pages
    for rule in alerts():
        assert rule["annotations"]["runbook"] == f"docs/operations/{rule['alert']}.md"
        assert rule["labels"]["severity"] in {"warning", "critical"}


def test_every_service_is_scraped() -> None:
    document = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    scraped = {
        name
        for job in document["scrape_configs"]
        for names in job["dns_sd_configs"]
        for name in names["names"]
    }
    serving = {
        name
        for name, service in compose["services"].items()
        if "-m muster_" in " ".join(service.get("command", [])) and name != "declare"
    }
    assert scraped == serving
