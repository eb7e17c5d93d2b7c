"""Models, devices and workloads that a suite names: its own tables first, then the catalogs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from kvbench.device.spec import DeviceSpec
from kvbench.errors import KvbenchError
from kvbench.model.spec import ModelSpec
from kvbench.names import did_you_mean
from kvbench.suite.lines import KeyPath
from kvbench.suite.problems import INVALID, Invalid, Problems
from kvbench.workload.spec import WorkloadSpec

_Spec = TypeVar("_Spec")

#: Root tables that hold models, devices and workloads by name.
KINDS = ("models", "devices", "workloads")


class Resources:
    """Resolves names once each; a name that cannot be resolved is noted where it is used.

    Args:
        tables: The suite, checked: its ``models``, ``devices`` and ``workloads``.
        written: The suite as written; a table that was refused is not looked for elsewhere.
        base: Folder of the suite.
        problems: Where mistakes go.

    Attributes:
        models: Resolved models by the name that the suite uses.
        devices: Resolved devices.
        workloads: Resolved workloads.
    """

    def __init__(
        self,
        tables: Mapping[str, Mapping[str, Any]],
        written: Mapping[str, Any],
        base: Path,
        problems: Problems,
    ) -> None:
        self._tables = {kind: tables.get(kind, {}) for kind in KINDS}
        self._base = base
        self._problems = problems
        self._broken = {
            (kind, name)
            for kind, table in self._tables.items()
            for name in _names(written.get(kind))
            if name not in table
        }
        self.models: dict[str, ModelSpec] = {}
        self.devices: dict[str, DeviceSpec] = {}
        self.workloads: dict[str, WorkloadSpec] = {}

    def load_tables(self) -> None:
        """Resolve every table of the suite, used or not."""
        from kvbench.suite.device_tables import check_device_tables
        from kvbench.suite.model_tables import check_model_tables

        models = check_model_tables(self._tables["models"], self._problems)
        devices = check_device_tables(self._tables["devices"], self._problems)
        self._broken |= {("models", name) for name in models}
        self._broken |= {("devices", name) for name in devices}
        for kind, resolve in (
            ("models", self.model),
            ("devices", self.device),
            ("workloads", self.workload),
        ):
            for name in self._tables[kind]:
                resolve(name, (kind, name))

    def resolve(self, kind: str, name: str, key: KeyPath) -> object:
        """Resolve the value of an option of type ``model``, ``device`` or ``workload``."""
        resolvers: dict[str, Callable[[str, KeyPath], object]] = {
            "model": self.model,
            "device": self.device,
            "workload": self.workload,
        }
        return resolvers[kind](name, key)

    def model(self, name: str, key: KeyPath) -> ModelSpec | Invalid:
        """Return the model that ``name`` stands for: a table, a catalog entry or a path."""
        return self._cached("models", name, key, self.models, self._load_model)

    def device(self, name: str, key: KeyPath) -> DeviceSpec | Invalid:
        """Return the device that ``name`` stands for."""
        return self._cached("devices", name, key, self.devices, self._load_device)

    def workload(self, name: str, key: KeyPath) -> WorkloadSpec | Invalid:
        """Return the workload that ``name`` stands for: only tables, there is no catalog."""
        return self._cached("workloads", name, key, self.workloads, self._load_workload)

    def _cached(
        self,
        kind: str,
        name: str,
        key: KeyPath,
        found: dict[str, _Spec],
        load: Callable[[str, KeyPath], _Spec | Invalid],
    ) -> _Spec | Invalid:
        if name in found:
            return found[name]
        if (kind, name) in self._broken:
            return INVALID
        # A mistake inside a table belongs to the table, whoever asked for it first.
        spec = load(name, (kind, name) if name in self._tables[kind] else key)
        if isinstance(spec, Invalid):
            if name in self._tables[kind]:
                self._broken.add((kind, name))
            return INVALID
        found[name] = spec
        return spec

    def _load_model(self, name: str, key: KeyPath) -> ModelSpec | Invalid:
        from kvbench.model.load import load_model
        from kvbench.suite.model_tables import explain, parent_of

        tables = self._tables["models"]
        parent = parent_of(tables, name)
        if parent is not None and self.model(parent, key) is INVALID:
            return INVALID
        try:
            return load_model(name, tables=tables, base=self._base)
        except KvbenchError as error:
            return self._problems.refuse(*explain(str(error), name, tables, key))

    def _load_device(self, name: str, key: KeyPath) -> DeviceSpec | Invalid:
        from kvbench.device.catalog import load_device
        from kvbench.suite.device_tables import DEVICE
        from kvbench.suite.table_errors import located

        tables = self._tables["devices"]
        try:
            return load_device(name, tables)
        except KvbenchError as error:
            found = located(str(error), "devices", tables, DEVICE)
            return self._problems.refuse(*(found or (key, str(error))))

    def _load_workload(self, name: str, key: KeyPath) -> WorkloadSpec | Invalid:
        from kvbench.workload.load import find_problems, parse_workload

        table = self._tables["workloads"].get(name)
        if table is None:
            hint = did_you_mean(name, self._tables["workloads"])
            return self._problems.refuse(key, f"no [workloads.{name}] table{hint}")
        stated = {param: value for param, value in table.items() if param != "kind"}
        wrong = find_problems(str(table.get("kind", "")), stated)
        for param, message in wrong:
            self._problems.add((*key, param), message)
        if wrong:
            return INVALID
        try:
            return parse_workload(name, table, self._base)
        except KvbenchError as error:
            return self._problems.refuse((*key, "path"), str(error))


def _names(table: object) -> tuple[str, ...]:
    return tuple(table) if isinstance(table, dict) else ()
