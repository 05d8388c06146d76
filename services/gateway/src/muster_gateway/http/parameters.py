"""Query parameters of the paths that take many."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from muster_contracts.queries import NAMED_NODES_MAX, NodesQuestion, Phase
from muster_domain.money import IdlePolicy
from muster_gateway.bodies import USER_LENGTH_MAX
from muster_gateway.http.dependencies import DEFAULT_NAMESPACE

TEXT_MAX = 253
_PATH_MAX = 2000


class SubmitParameters(BaseModel):
    """How a file is to be taken."""

    namespace: str = Field(
        default=DEFAULT_NAMESPACE, max_length=TEXT_MAX, description="Given to what names none"
    )
    user: str = Field(
        default="", max_length=USER_LENGTH_MAX, description="In whose name, if not the caller's"
    )
    external_lease_ms: int | None = Field(
        default=None, description="The submitter runs the job itself and renews this lease"
    )
    source: str = Field(
        default="request", max_length=TEXT_MAX, description="The file's name, told in problems"
    )
    dry_run: bool = Field(default=False, description="Check everything, change nothing")
    wait: Literal["", "decision"] = Field(
        default="", description="`decision` waits for the first word about each job"
    )
    wait_s: float = Field(default=2.0, ge=0, le=10, description="For how long")


class ListParameters(BaseModel):
    """Which workloads."""

    namespace: str = Field(default="", max_length=TEXT_MAX)
    name: str = Field(default="", max_length=TEXT_MAX)
    queue: str = Field(default="", max_length=TEXT_MAX)
    cluster_queue: str = Field(default="", max_length=TEXT_MAX)
    user: str = Field(default="", max_length=USER_LENGTH_MAX)
    phase: list[Phase] = Field(default_factory=list[Phase], description="Any of these; none is all")
    limit: int = Field(default=200, ge=1, le=1000)
    offset: int = Field(default=0, ge=0)


class NodeParameters(BaseModel):
    """Which nodes; without any all of them."""

    name: list[Annotated[str, Field(max_length=TEXT_MAX)]] = Field(
        default_factory=list[str], max_length=NAMED_NODES_MAX, description="These"
    )
    contains: str = Field(default="", max_length=TEXT_MAX, description="In their names")
    topology: str = Field(default="", max_length=TEXT_MAX, description="Those in this topology")
    inside: str = Field(
        default="",
        alias="in",
        max_length=_PATH_MAX,
        description="In this domain of it: its path from the widest down, as in b1/r3",
    )
    outside: bool = Field(default=False, description="Those in no topology")
    limit: int | None = Field(default=None, ge=1, description="At most so many")
    offset: int = Field(default=0, ge=0)

    @property
    def question(self) -> NodesQuestion:
        """What placement is asked."""
        return NodesQuestion(
            names=tuple(self.name),
            contains=self.contains,
            topology=self.topology,
            path=tuple(part for part in self.inside.split("/") if part),
            outside=self.outside,
            offset=self.offset,
        )


class ChargingParameters(BaseModel):
    """Who pays for what nobody held, and on what basis queues pay."""

    idle: IdlePolicy = Field(default=IdlePolicy.ROW, description="Who pays for idle capacity")
    basis: Literal["usage", "commitment", "both", "policy"] | None = Field(
        default=None,
        description="What ClusterQueues are charged for: usage, commitment, both, or what the "
        "ChargingPolicy says; without it by policy where the report is by ClusterQueue, for all "
        "namespaces and with idle as a row, else by usage",
    )
    lender_credit: int = Field(
        default=100, ge=0, le=100, description="Percent that lenders get back on the basis `both`"
    )
