"""How a function of a job travels: by its name, as a library, or as a pickle made by `cloudpickle`."""

from __future__ import annotations

import importlib.metadata
import io
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

Function = str | Callable[..., object]
"""A built-in function's name, `path/to/lib.so:symbol`, or a function of this process."""

Requirement = tuple[str, str | None]
"""A module that must be there where the function runs, and the version where only that one will do."""


def packed(function: Function) -> tuple[str, str, bytes, list[Requirement]]:
    """The kind, the name and the bytes of a function, and what it needs where it runs."""
    if callable(function):
        code, requires = _pickled(function)
        return "python", getattr(function, "__qualname__", type(function).__name__), code, requires
    if not isinstance(function, str):
        raise TypeError(f"a function is one of Python, the name of a built-in one or `lib.so:symbol`, not {function!r}")
    library, colon, symbol = function.rpartition(":")
    if not colon:
        return "built-in", function, b"", []
    return "native", symbol, Path(os.path.expanduser(library)).read_bytes(), []


def _pickled(function: Callable[..., object]) -> tuple[bytes, list[Requirement]]:
    """The function's pickle, and the modules outside the standard library that the pickle names."""
    try:
        import cloudpickle
    except ImportError as error:
        raise ImportError("a Python function travels by `cloudpickle`: install it here and where nodes run") from error

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        """Notes what is not in the pickle, but looked up where it is read."""

        modules: set[str]

        def reducer_override(self, obj: Any) -> Any:
            reduced = super().reducer_override(obj)
            if isinstance(obj, types.ModuleType):
                self.modules.add(obj.__name__)
            elif reduced is NotImplemented and isinstance(obj, type | types.FunctionType):
                self.modules.add(obj.__module__)
            return reduced

    own = (getattr(function, "__module__", None) or "__main__").partition(".")[0]
    version = _version(own)
    # A module that no package brings lies on this machine alone: its code goes along.
    carried = None if version or own in sys.stdlib_module_names or own == "__main__" else sys.modules.get(own)
    file = io.BytesIO()
    pickler = Pickler(file)
    pickler.modules = set()
    if carried is not None and carried.__name__ not in cloudpickle.list_registry_pickle_by_value():
        cloudpickle.register_pickle_by_value(carried)
        try:
            pickler.dump(function)
        finally:
            cloudpickle.unregister_pickle_by_value(carried)
    else:
        pickler.dump(function)
    tops = {module.partition(".")[0] for module in pickler.modules if module}
    tops -= {*sys.stdlib_module_names, "__main__", "cloudpickle"}
    # A node says it where a pickle cannot be read; another version alone is no fault.
    made_by = ("cloudpickle", _version("cloudpickle"))
    return file.getvalue(), [(top, version if top == own else None) for top in sorted(tops)] + [made_by]


def _version(module: str) -> str | None:
    """The version of the package that a module comes from, where it comes from one."""
    packages = importlib.metadata.packages_distributions().get(module, [])
    return importlib.metadata.version(packages[0]) if packages else None
