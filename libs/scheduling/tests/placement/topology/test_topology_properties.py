"""What holds for every topology assignment, against plain sums."""

from hypothesis import assume, given
from hypothesis import strategies as st

from muster_domain.nodes import TopologyAssignment
from muster_domain.workload import TopologyMode
from muster_scheduling.placement.topology.find import find_assignments
from muster_scheduling.placement.topology.terms import TopologyOptions

from .floor import HOST, LEVELS, counts, floor, pods, request

OPTIONS = st.builds(
    TopologyOptions, least_free_when_unconstrained=st.booleans(), balanced=st.booleans()
)


@st.composite
def floors(draw: st.DrawFn) -> dict[str, int]:
    """One to eight machines in up to two blocks of up to two racks: cores by path."""
    return {
        f"{draw(st.sampled_from(['b1', 'b2']))} {draw(st.sampled_from(['r1', 'r2']))} x{number}": (
            draw(st.integers(1, 6))
        )
        for number in range(draw(st.integers(1, 8)))
    }


def sums(cpus: dict[str, int], depth: int) -> dict[str, int]:
    """Cores by domain of a level."""
    found: dict[str, int] = {}
    for path, cpu in cpus.items():
        domain = " ".join(path.split()[:depth])
        found[domain] = found.get(domain, 0) + cpu
    return found


@given(cpus=floors(), count=st.integers(1, 20), depth=st.integers(1, 3), options=OPTIONS)
def test_required_pods_are_placed_exactly_when_one_domain_holds_them(
    cpus: dict[str, int], count: int, depth: int, options: TopologyOptions
) -> None:
    asked = pods(count, request("required", LEVELS[depth - 1]))
    found = find_assignments(floor(cpus), [asked], options)["main"]
    assert isinstance(found, TopologyAssignment) == (max(sums(cpus, depth).values()) >= count)


@given(
    cpus=floors(),
    count=st.integers(1, 20),
    mode=st.sampled_from([TopologyMode.PREFERRED, TopologyMode.UNCONSTRAINED]),
    options=OPTIONS,
)
def test_other_pods_are_placed_exactly_when_they_fit_at_all(
    cpus: dict[str, int], count: int, mode: TopologyMode, options: TopologyOptions
) -> None:
    asked = pods(count, request(mode, "rack" if mode is TopologyMode.PREFERRED else ""))
    found = find_assignments(floor(cpus), [asked], options)
    assert isinstance(found["main"], TopologyAssignment) == (sum(cpus.values()) >= count)
    if isinstance(found["main"], TopologyAssignment):
        capacity = {path.split()[-1]: cpu for path, cpu in cpus.items()}
        given_out = counts(found)
        assert sum(given_out.values()) == count
        assert all(given_out[host] <= capacity[host] for host in given_out)


@given(
    cpus=floors(),
    slices=st.integers(1, 4),
    size=st.integers(1, 4),
    slice_label=st.sampled_from(["rack", "host"]),
    options=OPTIONS,
)
def test_every_domain_of_the_slice_level_holds_whole_slices(
    cpus: dict[str, int], slices: int, size: int, slice_label: str, options: TopologyOptions
) -> None:
    topology = request("preferred", "block", slices=f"{slice_label}:{size}")
    found = find_assignments(floor(cpus), [pods(slices * size, topology)], options)
    depth = 3 if slice_label == "host" else 2
    possible = sum(cpu // size for cpu in sums(cpus, depth).values())
    assert isinstance(found["main"], TopologyAssignment) == (possible >= slices)
    assume(isinstance(found["main"], TopologyAssignment))
    where = {path.split()[-1]: " ".join(path.split()[:depth]) for path in cpus}
    held: dict[str, int] = {}
    for host, count in counts(found).items():
        held[where[host]] = held.get(where[host], 0) + count
    assert all(count % size == 0 for count in held.values())


@given(
    cpus=floors(),
    workers=st.integers(1, 10),
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 4)),
    mode=st.sampled_from(["required", "preferred", "unconstrained"]),
    options=OPTIONS,
)
def test_a_leader_is_seated_once_and_nothing_is_given_out_twice(
    cpus: dict[str, int], workers: int, sizes: tuple[int, int], mode: str, options: TopologyOptions
) -> None:
    topology = request(mode, "" if mode == "unconstrained" else "rack", group="g")
    sets = [
        pods(workers, topology, name="workers", cpu=sizes[0]),
        pods(1, topology, name="leader", cpu=sizes[1]),
    ]
    found = find_assignments(floor(cpus), sets, options)
    assert found.keys() == {"workers", "leader"}
    assume(isinstance(found["workers"], TopologyAssignment))
    used = dict.fromkeys((path.split()[-1] for path in cpus), 0)
    for pod_set in sets:
        for host, count in counts(found, pod_set.name).items():
            used[host] += count * pod_set.requests["cpu"]
    assert sum(counts(found, "workers").values()) == workers
    assert sum(counts(found, "leader").values()) == 1
    assert all(used[path.split()[-1]] <= cpu * 1000 for path, cpu in cpus.items())


@given(cpus=floors(), count=st.integers(1, 20), options=OPTIONS)
def test_the_order_of_nodes_changes_nothing(
    cpus: dict[str, int], count: int, options: TopologyOptions
) -> None:
    asked = pods(count, request("preferred", HOST))
    turned = dict(reversed(cpus.items()))
    one, other = (find_assignments(floor(c), [asked], options) for c in (cpus, turned))
    assert one == other
