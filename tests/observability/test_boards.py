"""What boards and alerts ask for exists: metrics in the code, a page for every alert."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BOARDS = sorted((ROOT / "deploy" / "grafana" / "dashboards").glob("*.json"))
RULES = ROOT / "deploy" / "prometheus" / "rules" / "muster.yml"
METRIC = re.compile(r"\b(?:muster|node_gpu|node_total|container_gpu)_[a-z_]+")
DERIVED = re.compile(r"_(?:bucket|sum|count|total|created)$")
OF_PROMETHEUS = {"up"}
VARIABLE = re.compile(r"label_values\((?P<selector>.+), *\w+\)")
USERS = {
    "money per hour by team": (
        "sum by (label_team) (container_gpu_allocation"
        " * on (node, resource) group_left () max by (node, resource) (node_gpu_hourly_cost))"
    ),
    "money of a month by team": (
        "sum_over_time(sum by (label_team) (container_gpu_allocation"
        " * on (node, resource) group_left () max by (node, resource) (node_gpu_hourly_cost))"
        "[30d:1h])"
    ),
    "money of GPUs that nobody holds, by node": (
        "sum by (node) ((node_gpu_count - on (node, resource)"
        " (sum by (node, resource) (container_gpu_allocation) or node_gpu_count * 0))"
        " * on (node, resource) max by (node, resource) (node_gpu_hourly_cost))"
    ),
    "hours above nominal": (
        "sum by (cluster_queue) (clamp_min(muster_cluster_queue_resource_usage"
        " - muster_cluster_queue_nominal_quota, 0))"
    ),
    "budgets that are nearly spent": (
        "(muster_budget_spent + muster_budget_held) / muster_budget_limit > 0.9"
    ),
}
"""What people who pay for GPUs ask Prometheus."""


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
    return {**found, RULES.name: [rule["expr"] for rule in alerts()], "users": [*USERS.values()]}


def board_expressions(board: dict[str, Any]) -> list[str]:
    panels = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return panels + [variable["query"] for variable in board["templating"]["list"]]


def alerts() -> list[dict[str, Any]]:
    document = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def metrics_in(expression: str) -> set[str]:
    """The metrics that an expression reads. Raises `ValueError` where Prometheus refuses it."""
    variable = VARIABLE.fullmatch(expression)
    plain = variable["selector"] if variable else expression
    plain = plain.replace("$__rate_interval", "5m").replace("$__range", "1h")
    return set(_selected(promql_parser.parse(plain)))


def _selected(node: object) -> Iterator[str]:
    match node:
        case promql_parser.VectorSelector(name=str(name)):
            yield name
        case promql_parser.MatrixSelector(vector_selector=selector):
            yield from _selected(selector)
        case promql_parser.BinaryExpr(lhs=left, rhs=right):
            yield from _selected(left)
            yield from _selected(right)
        case promql_parser.Call(args=arguments):
            for argument in arguments:
                yield from _selected(argument)
        case promql_parser.NumberLiteral() | promql_parser.StringLiteral():
            pass
        case (
            promql_parser.AggregateExpr(expr=inner)
            | promql_parser.SubqueryExpr(expr=inner)
            | promql_parser.ParenExpr(expr=inner)
            | promql_parser.UnaryExpr(expr=inner)
        ):
            yield from _selected(inner)
        case _:
            raise AssertionError(f"{type(node)} in an expression")


@pytest.mark.parametrize("source", [*(path.name for path in BOARDS), RULES.name, "users"])
def test_every_expression_reads_metrics_that_are_measured(source: str) -> None:
    known = declared() | OF_PROMETHEUS
    plain = {DERIVED.sub("", name) for name in known} | known
    for expression in expressions()[source]:
        asked = metrics_in(expression)
        assert asked, expression
        missing = {name for name in asked if not plain & {name, DERIVED.sub("", name)}}
        assert not missing, expression


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("sum by (a (b)", "unclosed left parenthesis"),
        ("rate(muster_nodes)", "expected type matrix"),
        ("muster_nodes[5m] > 1", "must contain only scalar and instant vector types"),
        ("muster_nodes{a=b}", "unexpected"),
    ],
)
def test_what_prometheus_would_refuse_is_refused(wrong: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        metrics_in(wrong)


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
