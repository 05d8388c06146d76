"""What placement says: facts about gangs and nodes, and what agents are to do with pods."""

from muster_contracts import codec, subjects
from muster_contracts.commands import PodCommand
from muster_contracts.events import CapacityChanged, NodeConditionChanged, WorkloadFact
from muster_contracts.partitions import EVERY_PARTITION, PLACEMENT_SHARD
from muster_contracts.subjects import NO_NAMESPACE, Service
from muster_domain.nodes import NodeCondition
from muster_domain.workload import Workload
from muster_ledger.store import OutboxMessage
from muster_runtime.announcer import About, Announcer


class PlacementAnnouncer:
    """Says placement's facts and commands in the next commit."""

    def __init__(self, epoch: int, version: int) -> None:
        self._announcer = Announcer(
            service=Service.PLACEMENT, shard=PLACEMENT_SHARD, epoch=epoch, version=version
        )
        self.causes: dict[str, str] = {}

    def gang(
        self,
        workload: Workload,
        partition: str,
        fact: WorkloadFact,
        now_ms: int,
        *,
        traceparent: str = "",
    ) -> None:
        """Say a fact about a gang to the partition that decides about it."""
        self.about_id(
            workload.id, workload.namespace, partition, fact, now_ms, traceparent=traceparent
        )

    def about_id(
        self,
        workload_id: str,
        namespace: str,
        partition: str,
        fact: WorkloadFact,
        now_ms: int,
        *,
        traceparent: str = "",
    ) -> None:
        """Say a fact about a workload of which nothing else is known here."""
        name = codec.EVENT_NAMES[type(fact)]
        subject = subjects.workload_event(
            Service.PLACEMENT, name, partition, namespace, workload_id
        )
        self._announcer.say(
            subject, name, codec.encode(fact), self._about(workload_id, traceparent), now_ms
        )

    def node_condition(self, node: str, condition: NodeCondition, now_ms: int) -> None:
        """Say what placement thinks of a node from now on."""
        fact = NodeConditionChanged(node=node, condition=condition, at_ms=now_ms)
        name = codec.EVENT_NAMES[type(fact)]
        subject = subjects.placement_node_event(name, node)
        self._announcer.say(subject, name, codec.encode(fact), About(entity=node), now_ms)

    def capacity(self, message: str, now_ms: int) -> None:
        """Tell every partition that seats came free."""
        fact = CapacityChanged(message=message)
        self.about_id(NO_NAMESPACE, NO_NAMESPACE, EVERY_PARTITION, fact, now_ms)

    def pod(self, node: str, command: PodCommand, traceparent: str, now_ms: int) -> None:
        """Tell an agent what should become of a pod."""
        subject = subjects.pod_command(node, command.pod_uid)
        about = self._about(command.workload_id, traceparent)
        self._announcer.say(subject, command.desired, codec.encode(command), about, now_ms)

    def take(self) -> tuple[OutboxMessage, ...]:
        """The messages of this commit."""
        self.causes.clear()
        return self._announcer.take()

    def committed(self) -> None:
        """Count a commit."""
        self._announcer.committed()

    def _about(self, entity: str, traceparent: str) -> About:
        return About(entity=entity, cause=self.causes.get(entity, ""), traceparent=traceparent)
