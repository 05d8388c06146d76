"""What a node says to the others: events that stay in the agent's records until acknowledged."""

import asyncio

import structlog

from muster_agent.pods import Report
from muster_agent.store import AgentStore, Letter
from muster_contracts import codec, envelope, subjects
from muster_contracts.events import NodeRegistered, PodFinished
from muster_contracts.observations import DevicesObserved
from muster_contracts.subjects import Service
from muster_domain.errors import Transient
from muster_runtime.bus import Bus
from muster_runtime.publisher import Outgoing

BATCH_MAX = 512
RETRY_FIRST_S = 0.25
RETRY_MAX_S = 5.0

_log = structlog.get_logger()


def registration(fact: NodeRegistered, revision: int, now_ms: int) -> Letter:
    """Say what the machine is. `revision` counts within an incarnation."""
    return _letter(fact, fact.node.name, now_ms, fact.node.name, fact.incarnation, revision)


def report(fact: Report, now_ms: int) -> Letter:
    """Say what became of a pod; said twice it has the same id."""
    again = () if isinstance(fact, PodFinished) or fact.times == 1 else (fact.times,)
    return _letter(fact, fact.node, now_ms, fact.pod_uid, *again)


def observation(fact: DevicesObserved, incarnation: int, now_ms: int) -> Letter:
    """Say how busy devices were. One life of the agent says it once of a block."""
    return _letter(fact, fact.node, now_ms, fact.node, incarnation, fact.from_ms)


def _letter(
    fact: NodeRegistered | Report | DevicesObserved, node: str, now_ms: int, *identity: str | int
) -> Letter:
    name = codec.EVENT_NAMES[type(fact)]
    return Letter(
        name=name,
        node=node,
        message_id=envelope.derived_id(Service.AGENT, name, *identity),
        time_ms=now_ms,
        body=codec.encode(fact),
    )


class Postman:
    """Carries letters to the bus in the order they were written, each until acknowledged."""

    def __init__(self, bus: Bus, store: AgentStore) -> None:
        self._bus = bus
        self._store = store
        self._something = asyncio.Event()
        self._something.set()

    def wake(self) -> None:
        """There are new letters."""
        self._something.set()

    async def run(self) -> None:
        """Deliver until cancelled."""
        pause_s = RETRY_FIRST_S
        while True:
            await self._something.wait()
            self._something.clear()
            try:
                while letters := await asyncio.to_thread(self._store.letters, BATCH_MAX):
                    await self._bus.wait_connected()
                    await self._bus.publish([_outgoing(letter) for _, letter in letters])
                    await asyncio.to_thread(self._store.delivered, letters[-1][0])
                    pause_s = RETRY_FIRST_S
            except Transient as error:
                _log.warning("letters wait", error=str(error), pause_s=pause_s)
                self._something.set()
                await asyncio.sleep(pause_s)
                pause_s = min(RETRY_MAX_S, pause_s * 2)


def _outgoing(letter: Letter) -> Outgoing:
    headers = envelope.to_headers(
        envelope.Envelope(
            id=letter.message_id,
            source=f"muster/agent/{letter.node}",
            type=envelope.event_type(Service.AGENT, letter.name),
            time_ms=letter.time_ms,
        )
    )
    subject = subjects.node_event(letter.name, letter.node)
    return Outgoing(subject=subject, body=letter.body, headers=headers)
