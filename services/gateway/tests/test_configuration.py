"""Kueue's Configuration: an object of which there is one, and the file that is applied at start."""

from pathlib import Path

import pytest

from muster_domain.errors import InvalidValue
from muster_gateway.configuration_file import read_configuration_file
from muster_manifests import ManifestError
from muster_testing.servers import KillableServer

from .house import job_manifest, open_house, until

CONFIGURATION = """apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
fairSharing: {}
leaderElection: {leaderElect: true}
"""


async def test_it_is_applied_shown_and_refused_a_second_time(nats: KillableServer) -> None:
    async with open_house(nats.url) as house:
        first = await house.apply(CONFIGURATION)
        assert [o["effect"] for o in first["objects"]] == ["created"]
        assert first["warnings"] == ["request:1:1: of no effect outside Kubernetes: leaderElection"]
        again = await house.apply(CONFIGURATION)
        assert [o["effect"] for o in again["objects"]] == ["unchanged"]
        async with house.client() as client:
            other = CONFIGURATION + "metadata: {name: another}\n"
            refused = await client.post("/v1/jobs", content=other)
            shown = await client.get("/v1/objects/configuration/default")
        assert refused.status_code == 409
        assert "one Configuration, not another and default" in refused.text
        assert shown.json()["text"] == CONFIGURATION
        declared = house.gateway.feed.catalogue.configuration
        assert declared is not None
        assert declared.policy.fair_sharing is not None


async def test_a_file_is_applied_at_every_start_and_changes_nothing_the_second_time(
    nats: KillableServer, tmp_path: Path
) -> None:
    path = tmp_path / "kueue.yaml"
    path.write_text(CONFIGURATION, encoding="utf-8")
    async with open_house(nats.url, config_file=str(path)) as house:
        file = house.gateway.configuration
        assert file is not None
        await until(lambda: not file.trouble(), 60)
        applied = house.gateway.feed.catalogue.sequence
        await file.run()
        assert house.gateway.feed.catalogue.sequence == applied
        (stored,) = house.gateway.feed.catalogue.stored("Configuration")
        assert (stored.key.name, stored.by) == ("default", "MUSTER_CONFIG_FILE")


def test_a_bad_file_keeps_the_gateway_from_starting(tmp_path: Path) -> None:
    path = tmp_path / "kueue.yaml"
    path.write_text(CONFIGURATION + "admissionFairSharing: {resourceWeights: {cpu: 1}}\n")
    with pytest.raises(ManifestError, match=r"kueue.yaml:5:\d+: .*usageHalfLifeTime: missing"):
        read_configuration_file(str(path))
    path.write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: n}\n")
    with pytest.raises(InvalidValue, match="is not one Configuration"):
        read_configuration_file(str(path))
    with pytest.raises(InvalidValue, match="not readable"):
        read_configuration_file(str(tmp_path / "nothing"))


async def test_a_limit_range_bounds_the_jobs_of_its_namespace(nats: KillableServer) -> None:
    bounds = """apiVersion: v1
kind: LimitRange
metadata: {name: bounds, namespace: team-a}
spec: {limits: [{type: Container, max: {cpu: 500m}}]}
"""
    async with open_house(nats.url) as house:
        await house.apply()
        await house.apply(bounds)
        async with house.client() as client:
            refused = await client.post("/v1/jobs", json=job_manifest())
    assert refused.status_code == 422
    assert "more than the 500m of LimitRange bounds" in refused.text


def test_an_empty_file_is_none(tmp_path: Path) -> None:
    path = tmp_path / "empty.yaml"
    path.write_text("\n")
    assert read_configuration_file(str(path)) is None
