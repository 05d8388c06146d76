"""Dynamic resource allocation: claims, classes and slices of devices."""

import re

from muster_domain.volcano import DeviceClaim, DeviceClass, DeviceSlice
from muster_manifests.manifest import Manifest

_DRIVER = re.compile(r"""\s*device\.driver\s*==\s*(?:'([^']+)'|"([^"]+)")\s*""")


def read_device_claim(manifest: Manifest) -> DeviceClaim:
    """Read a ResourceClaim: exact counts by class."""
    devices: dict[str, int] = {}
    for item in manifest.body.object("spec").object("devices").objects("requests"):
        exactly = item.object("exactly") if "exactly" in item else item
        name = exactly.text("deviceClassName")
        devices[name] = devices.get(name, 0) + exactly.integer("count", 1, low=1)
    return DeviceClaim(
        namespace=manifest.metadata.namespace, name=manifest.metadata.name, devices=devices
    )


def read_device_class(manifest: Manifest) -> DeviceClass:
    """Read a DeviceClass. Only a selector by driver is understood; any other is kept as it is."""
    driver = unreadable = ""
    for item in manifest.body.object("spec").objects("selectors"):
        expression = item.object("cel").text("expression")
        match = _DRIVER.fullmatch(expression)
        if match is None:
            unreadable = expression
        else:
            driver = match[1] or match[2]
    return DeviceClass(name=manifest.metadata.name, driver=driver, unreadable=unreadable)


def read_device_slice(manifest: Manifest) -> DeviceSlice:
    """Read a ResourceSlice of one node."""
    spec = manifest.body.object("spec")
    return DeviceSlice(
        node=spec.text("nodeName"),
        driver=spec.text("driver"),
        devices=len(spec.objects("devices")),
    )
