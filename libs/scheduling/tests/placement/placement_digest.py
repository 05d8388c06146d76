"""Places many gangs on many nodes and prints every answer; run under several hash seeds."""

import random
import sys

from muster_domain.nodes import Device, Node
from muster_domain.queues import ResourceFlavor
from muster_domain.selectors import NodeDemand, Taint, TaintEffect, Toleration
from muster_domain.workload import TopologyMode, TopologyRequest
from muster_scheduling.placement.gang import place
from muster_scheduling.placement.outcome import Placed
from muster_scheduling.placement.request import GangRequest, PodSetRequest
from muster_scheduling.placement.table import NodeTable

GPU = "nvidia.com/gpu"


def main() -> None:
    draw = random.Random(7)
    table = NodeTable()
    for number in range(40):
        gpus = draw.choice([0, 2, 4, 8])
        table.put_node(
            Node(
                name=f"n{number}",
                allocatable={"cpu": draw.randint(4, 64) * 1000, GPU: gpus * 1000, "pods": 9000},
                labels={"zone": draw.choice("xyz"), "rack": f"r{number // 8}"},
                taints=tuple(
                    Taint(key=key, effect=TaintEffect.NO_SCHEDULE)
                    for key in draw.sample(["a", "b", "c"], draw.choice([0, 0, 0, 2]))
                ),
                devices=tuple(Device(index=i, resource=GPU, numa_node=i // 4) for i in range(gpus)),
            )
        )
    for number in range(60):
        outcome = place(table, _request(draw, number))
        sys.stdout.write(f"{outcome}\n")
        if isinstance(outcome, Placed):
            table.bind(outcome.gang)
        if number % 3 == 2 and table.gangs():
            table.release(draw.choice(table.gangs()).workload)


def _request(draw: random.Random, number: int) -> GangRequest:
    return GangRequest(
        workload=f"w{number}",
        excluded=frozenset({"n1", "n2", "n3"}),
        pod_sets=tuple(
            PodSetRequest(
                name=name,
                count=draw.randint(1, 6),
                requests={"cpu": draw.randint(1, 8) * 1000, GPU: draw.randint(0, 2) * 1000},
                flavors=tuple(
                    ResourceFlavor(name=zone, node_labels={"zone": zone})
                    for zone in draw.sample("xyz", draw.choice([0, 0, 1]))
                ),
                demand=NodeDemand(tolerations=(Toleration(key=draw.choice("ab")),)),
                topology=TopologyRequest(mode=draw.choice(list(TopologyMode)), node_label="rack"),
                levels=("rack",),
            )
            for name in ("first", "second")[: draw.randint(1, 2)]
        ),
    )


main()
