# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reports as dataclasses. A module of its own, since `dataclasses` takes longer to import than the package."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Device:
    """A device of this machine. `device["pci"]` is the value of that key in the whole report, which `heddle devices --format json` prints, too.

    alias         the name for `heddle.open`, such as "cuda:0"
    driver        the id of its plugin, such as "heddle.cuda"
    family        "cpu" or "cuda": what modules are compiled for
    ordinal       its number among the devices of its driver
    name          the vendor's name
    memory_bytes  the size of its memory
    code_formats  the formats of code that it runs
    report        everything that is known
    """

    alias: str
    driver: str
    family: str
    ordinal: int
    name: str
    memory_bytes: int
    compute_units: int
    code_formats: tuple[str, ...]
    report: dict[str, Any] = field(repr=False, compare=False, hash=False)

    def __getitem__(self, key: str) -> Any:
        return self.report[key]

    def __str__(self) -> str:
        return self.alias


def device_of(report: dict[str, Any]) -> Device:
    return Device(report["alias"], report["driver"], report["family"], report["ordinal"], report["name"], report["memory_bytes"],
                  report["compute_units"], tuple(report["code_formats"]), report)


@dataclass(frozen=True)
class DeviceMemory:
    """The memory of a module's device, in bytes; other modules of the same runtime share the pool.

    device          the alias of the device
    requested       what tensors, weights and intermediate values take
    allocated       the same, rounded up by the allocator
    reserved        what the allocator holds of the driver
    driver_reserved what the driver holds of the system beyond that: the rest of its own pool, memory for copies
    peak_requested  the most that was requested at once; likewise peak_reserved
    holders         what is requested, by its owner
    """

    device: str
    requested: int
    allocated: int
    reserved: int
    driver_reserved: int
    peak_requested: int
    peak_reserved: int
    holders: dict[str, int]


def memory_of(report: dict[str, Any]) -> DeviceMemory:
    pool = report["pool"]
    return DeviceMemory(report["device"], pool["requested"], pool["allocated"], pool["bytes_reserved"],
                        report["driver_counts"]["bytes_reserved"], pool["peak_requested"], pool["peak_reserved"],
                        {holder["owner"]: holder["requested"] for holder in pool["holders"]})
