"""The part of the declared objects that one partition decides by."""

from muster_contracts.partitions import partition_of
from muster_domain.policy import Policy
from muster_manifests.catalogue import ObjectCatalogue
from muster_rating.prices import price_books
from muster_scheduling.snapshot.catalog import Configuration
from muster_scheduling.snapshot.volcano import derived_queue_name


def configuration_of(catalogue: ObjectCatalogue, partition: str) -> Configuration:
    """Everything declared, less the queues that stand in other partitions' trees."""
    kueue = catalogue.configuration
    return Configuration(
        cluster_queues={
            name: queue
            for name, queue in catalogue.cluster_queues.items()
            if partition_of(catalogue.root_of(name)) == partition
        },
        cohorts=dict(catalogue.cohorts),
        flavors=dict(catalogue.flavors),
        local_queues=dict(catalogue.local_queues),
        namespaces=dict(catalogue.namespaces),
        topologies=dict(catalogue.topologies),
        admission_checks=dict(catalogue.admission_checks),
        provisioning=dict(catalogue.provisioning),
        volcano_queues={
            name: queue
            for name, queue in catalogue.volcano_queues.items()
            if partition_of(catalogue.root_of(derived_queue_name(name))) == partition
        },
        hyper_nodes=dict(catalogue.hyper_nodes),
        volcano_scheduler=catalogue.volcano_scheduler,
        budgets=dict(catalogue.budgets),
        prices=price_books(catalogue.price_lists.values()),
        policy=Policy() if kueue is None else kueue.policy,
        lifecycle=None if kueue is None else kueue.lifecycle,
    )
