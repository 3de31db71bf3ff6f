"""The kernels of `adjudge.kernels.reference`, over votes on a device.

Arrays are the device's, but for what has the size of K, which may be the host's. The caller owns every buffer, and a kernel
*adds* to the counts it is given, so that shards sum.
"""

from __future__ import annotations

from adjudge.gpu.device import Device
from adjudge.gpu.honest import HonestKernels
from adjudge.gpu.passes import PassKernels
from adjudge.gpu.tables import TableKernels


class DeviceKernels(PassKernels, TableKernels, HonestKernels):
    """All kernels of one device."""

    def __init__(self, device: Device) -> None:
        self.device = device
