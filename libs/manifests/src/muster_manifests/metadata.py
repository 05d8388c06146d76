"""`metadata`, and what an API server does to it without being asked."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

from muster_manifests.plain import Plain
from muster_manifests.reader import ObjectReader

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_NAME_MAX = 253
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Name, namespace (empty for cluster-wide kinds), labels and annotations of an object."""

    name: str
    namespace: str = ""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    uid: str = ""
    created_at_ms: int | None = None


def read_metadata(manifest: ObjectReader, *, namespaced: bool, default_name: str = "") -> Metadata:
    """Read `metadata` of an object; a generated name derives from the whole object."""
    metadata = manifest.object("metadata")
    metadata.accept(
        "resourceVersion", "generation", "selfLink", "managedFields", "ownerReferences",
        "finalizers", "deletionTimestamp", "deletionGracePeriodSeconds",
    )  # fmt: skip
    return Metadata(
        name=_name(metadata, manifest.values, default_name),
        namespace=_namespace(metadata, namespaced=namespaced),
        labels=metadata.text_map("labels"),
        annotations=metadata.text_map("annotations"),
        uid=metadata.text("uid"),
        created_at_ms=metadata.time_ms("creationTimestamp"),
    )


def _name(metadata: ObjectReader, written: Mapping[str, Plain], default: str) -> str:
    prefix = metadata.text("generateName")
    if "name" not in metadata and prefix:
        name = prefix + _suffix(written, metadata.options.name_seed)
    elif "name" not in metadata and default:
        return default
    else:
        name = metadata.required_text("name")
    if name:
        check_name(metadata, "name" if "name" in metadata else "generateName", name)
    return name


def check_name(reader: ObjectReader, key: str, name: str) -> None:
    """Report a name that Kubernetes would refuse."""
    if not _NAME.fullmatch(name) or len(name) > _NAME_MAX:
        reader.rule(
            key,
            f"{name[:_NAME_MAX]!r} is not a name",
            "write lower-case letters, digits, '-' and '.', beginning and ending with a letter or "
            "digit",
        )


def _namespace(metadata: ObjectReader, *, namespaced: bool) -> str:
    namespace = metadata.text("namespace")
    if not namespaced:
        if namespace:
            metadata.warn("namespace", "this kind belongs to no namespace, dropped", "remove it")
        return ""
    if namespace:
        check_name(metadata, "namespace", namespace)
    return namespace or metadata.options.default_namespace


def _suffix(written: Mapping[str, Plain], seed: str) -> str:
    content = json.dumps([written, seed], sort_keys=True, ensure_ascii=True)
    digest = blake2b(content.encode(), digest_size=_SUFFIX_LENGTH).digest()
    return "".join(_SUFFIX_LETTERS[byte % len(_SUFFIX_LETTERS)] for byte in digest)
