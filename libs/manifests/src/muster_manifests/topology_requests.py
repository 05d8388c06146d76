"""Where a pod set wants to sit: Kueue's annotations and a Workload's `topologyRequest`."""

import json
from collections.abc import Mapping
from typing import cast

from muster_domain.workload import SliceConstraint, TopologyMode, TopologyRequest
from muster_manifests.reader import ObjectReader, count_of

PREFIX = "kueue.x-k8s.io/"
REQUIRED = f"{PREFIX}podset-required-topology"
PREFERRED = f"{PREFIX}podset-preferred-topology"
UNCONSTRAINED = f"{PREFIX}podset-unconstrained-topology"
SLICE_TOPOLOGY = f"{PREFIX}podset-slice-required-topology"
SLICE_SIZE = f"{PREFIX}podset-slice-size"
SLICE_CONSTRAINTS = f"{PREFIX}podset-slice-required-topology-constraints"
GROUP_NAME = f"{PREFIX}podset-group-name"
TOPOLOGY_ANNOTATIONS = (
    REQUIRED, PREFERRED, UNCONSTRAINED, SLICE_TOPOLOGY, SLICE_SIZE, SLICE_CONSTRAINTS, GROUP_NAME,
)  # fmt: skip

_SLICES_MAX = 3


def read_topology_annotations(metadata: ObjectReader) -> TopologyRequest | None:
    """Read the topology annotations of a pod template's metadata."""
    annotations = metadata.object("annotations")
    modes = [key for key in (REQUIRED, PREFERRED, UNCONSTRAINED) if key in annotations]
    if len(modes) > 1:
        annotations.problem(modes[1], f"excludes {modes[0]}", "keep one of them")
    slices = _annotated_slices(annotations)
    mode = modes[0] if modes else ""
    group = annotations.text(GROUP_NAME)
    return _request(
        required=annotations.text(REQUIRED) if mode == REQUIRED else "",
        preferred=annotations.text(PREFERRED) if mode == PREFERRED else "",
        unconstrained=mode == UNCONSTRAINED and annotations.text(UNCONSTRAINED) == "true",
        group=group,
        slices=slices,
    )


def read_topology_request(pod_set: ObjectReader) -> TopologyRequest | None:
    """Read `topologyRequest` of a Workload's pod set."""
    request = pod_set.object("topologyRequest")
    request.accept("podIndexLabel", "subGroupIndexLabel", "subGroupCount")
    slices = tuple(
        SliceConstraint(
            node_label=item.required_text("topology"), size=item.integer("size", 1, low=1)
        )
        for item in request.objects("podsetSliceRequiredTopologyConstraints")
    )
    topology = request.text("podSetSliceRequiredTopology")
    size = request.optional_integer("podSetSliceSize", low=1)
    if topology and not slices:
        if size is None:
            request.rule("podSetSliceSize", "a slice needs a size", "write podSetSliceSize: 4")
        slices = (SliceConstraint(node_label=topology, size=size or 0),)
    return _request(
        required=request.text("required"),
        preferred=request.text("preferred"),
        unconstrained=request.flag("unconstrained"),
        group=request.text("podSetGroupName"),
        slices=slices,
    )


def _request(
    *,
    required: str,
    preferred: str,
    unconstrained: bool,
    group: str,
    slices: tuple[SliceConstraint, ...],
) -> TopologyRequest | None:
    if required:
        mode = TopologyMode.REQUIRED
    elif preferred:
        mode = TopologyMode.PREFERRED
    elif unconstrained or slices:
        mode = TopologyMode.UNCONSTRAINED
    else:
        return None
    return TopologyRequest(
        mode=mode, node_label=required or preferred, pod_set_group=group, slices=slices
    )


def _annotated_slices(annotations: ObjectReader) -> tuple[SliceConstraint, ...]:
    if SLICE_CONSTRAINTS in annotations:
        return _parsed_slices(annotations, annotations.text(SLICE_CONSTRAINTS))
    topology = annotations.text(SLICE_TOPOLOGY)
    written = annotations.text(SLICE_SIZE)
    if not topology:
        if written:
            annotations.problem(SLICE_SIZE, "a slice needs a topology", f"write {SLICE_TOPOLOGY}")
        return ()
    size = count_of(written)
    if not size:
        annotations.problem(
            SLICE_SIZE if written else SLICE_TOPOLOGY,
            "a slice needs a size",
            f'write {SLICE_SIZE}: "4"',
        )
        return ()
    return (SliceConstraint(node_label=topology, size=size),)


def _parsed_slices(annotations: ObjectReader, text: str) -> tuple[SliceConstraint, ...]:
    try:
        items = cast("object", json.loads(text))
    except (ValueError, RecursionError):
        items = None
    slices = tuple(_slice(item) for item in cast("list[object]", items)) if _is_list(items) else ()
    if not slices or len(slices) > _SLICES_MAX or None in slices:
        annotations.problem(
            SLICE_CONSTRAINTS,
            "not a list of one to three slices",
            'write [{"topology": "<node label>", "size": 4}]',
        )
        return ()
    return tuple(item for item in slices if item is not None)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _slice(item: object) -> SliceConstraint | None:
    if not isinstance(item, Mapping):
        return None
    fields = cast("Mapping[str, object]", item)
    topology, size = fields.get("topology"), fields.get("size")
    if not isinstance(topology, str) or type(size) is not int or size < 1:
        return None
    return SliceConstraint(node_label=topology, size=size)
