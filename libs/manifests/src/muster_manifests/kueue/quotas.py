"""Resource groups, with the rules that Kueue's webhook holds them to."""

from collections.abc import Sequence

from muster_domain.queues import UNLIMITED, FlavorQuotas, ResourceGroup, ResourceQuota
from muster_manifests.reader import ObjectReader

_GROUPS_MAX = 16
_RESOURCES_PER_GROUP_MAX = 64
_FLAVORS_PER_GROUP_MAX = 64
_TOTAL_MAX = 256
_PAIRS_PER_GROUP_MAX = 512
_CPU_UNLIMITED = (2**63 - 1) // 1000 * 1000


def read_resource_groups(
    spec: ObjectReader, *, parent: str, parent_key: str
) -> tuple[ResourceGroup, ...]:
    """Read `resourceGroups`; `parent` is the cohort above, without which nothing is shared."""
    _refuse_old_spelling(spec)
    readers = spec.objects("resourceGroups")
    groups = tuple(_read_group(reader) for reader in readers)
    _check_counts(spec, groups)
    _check_unique(readers, groups)
    for reader in readers:
        _check_limits(reader, parent=parent, parent_key=parent_key)
    return groups


def _refuse_old_spelling(spec: ObjectReader) -> None:
    for key in ("resources", "requestableResources"):
        if key in spec:
            spec.raw(key)
            spec.problem(
                key,
                "the spelling of Kueue's first versions",
                "write resourceGroups: [{coveredResources: [cpu], flavors: [{name: default, "
                "resources: [{name: cpu, nominalQuota: 9}]}]}]",
            )


def _read_group(reader: ObjectReader) -> ResourceGroup:
    covered = reader.texts("coveredResources")
    flavors = tuple(_read_flavor(flavor, covered) for flavor in reader.objects("flavors"))
    if not covered:
        reader.rule("coveredResources", "missing", 'write coveredResources: ["cpu"]')
    if not flavors:
        reader.rule("flavors", "missing", "write at least one flavor")
    return ResourceGroup(covered_resources=covered, flavors=flavors)


def _read_flavor(reader: ObjectReader, covered: Sequence[str]) -> FlavorQuotas:
    quotas: dict[str, ResourceQuota] = {}
    for item in reader.objects("resources"):
        name = item.required_text("name")
        if name in quotas:
            item.problem("name", f"{name} stands twice", "write it once")
        quotas[name] = _read_quota(item, name)
    if set(quotas) != set(covered):
        missing = [name for name in covered if name not in quotas]
        extra = [name for name in quotas if name not in covered]
        told = [f"lacks {', '.join(missing)}"] if missing else []
        told += [f"has {', '.join(extra)} besides"] if extra else []
        reader.rule(
            "resources",
            f"not the group's coveredResources: {' and '.join(told)}",
            "list exactly the covered resources",
        )
    elif tuple(quotas) != tuple(covered):
        reader.warn(
            "resources",
            "Kueue wants the order of coveredResources",
            f"write them as {', '.join(covered)}",
        )
    return FlavorQuotas(flavor=reader.required_text("name"), resources=quotas)


def _read_quota(item: ObjectReader, resource: str) -> ResourceQuota:
    nominal = _amount(item, "nominalQuota", resource)
    if nominal is None and "nominalQuota" not in item:
        item.rule("nominalQuota", "missing", "write nominalQuota: 0 to borrow only")
    return ResourceQuota(
        nominal_milli=nominal or 0,
        borrowing_limit_milli=_amount(item, "borrowingLimit", resource),
        lending_limit_milli=_amount(item, "lendingLimit", resource),
    )


def _amount(item: ObjectReader, key: str, resource: str) -> int | None:
    """Read one amount; what exceeds 64 bits counts as no limit (R-3)."""
    value = item.quantity(key)
    if value is None:
        return None
    if value < 0:
        item.problem(key, "below zero", "write 0 or more")
        return 0
    return UNLIMITED if value >= (_CPU_UNLIMITED if resource == "cpu" else UNLIMITED) else value


def _check_counts(spec: ObjectReader, groups: Sequence[ResourceGroup]) -> None:
    limits = [("resource groups", len(groups), _GROUPS_MAX)]
    limits += [
        ("resources in all", sum(len(group.covered_resources) for group in groups), _TOTAL_MAX),
        ("flavors in all", sum(len(group.flavors) for group in groups), _TOTAL_MAX),
    ]
    for group in groups:
        resources, flavors = len(group.covered_resources), len(group.flavors)
        limits += [
            ("resources in one group", resources, _RESOURCES_PER_GROUP_MAX),
            ("flavors in one group", flavors, _FLAVORS_PER_GROUP_MAX),
            ("flavors times resources in one group", resources * flavors, _PAIRS_PER_GROUP_MAX),
        ]
    for what, count, limit in limits:
        if count > limit:
            spec.rule("resourceGroups", f"{count} {what}", f"write at most {limit}")


def _check_unique(readers: Sequence[ObjectReader], groups: Sequence[ResourceGroup]) -> None:
    resources: set[str] = set()
    flavors: set[str] = set()
    for reader, group in zip(readers, groups, strict=True):
        for resource in group.covered_resources:
            if resource in resources:
                reader.rule(
                    "coveredResources", f"{resource} is covered twice", "cover it in one group"
                )
            resources.add(resource)
        for quotas in group.flavors:
            if quotas.flavor in flavors:
                reader.rule(
                    "flavors", f"flavor {quotas.flavor} is used twice", "use it in one group, once"
                )
            flavors.add(quotas.flavor)


def _check_limits(group: ObjectReader, *, parent: str, parent_key: str) -> None:
    for flavor in group.objects("flavors"):
        for item in flavor.objects("resources"):
            for key in ("borrowingLimit", "lendingLimit"):
                if key in item and not parent:
                    item.rule(
                        key,
                        "nothing is shared without a cohort",
                        f"remove it or write {parent_key}: <cohort>",
                    )


def check_lending_limits(spec: ObjectReader) -> None:
    """Report every lendingLimit of a ClusterQueue above its nominalQuota."""
    for group in spec.objects("resourceGroups"):
        for flavor in group.objects("flavors"):
            for item in flavor.objects("resources"):
                nominal, lending = item.quantity("nominalQuota"), item.quantity("lendingLimit")
                if nominal is not None and lending is not None and lending > nominal:
                    item.problem(
                        "lendingLimit", "more than nominalQuota", "lower it to nominalQuota"
                    )
