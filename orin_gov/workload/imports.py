"""Doing something right after a module has been imported, without importing it."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module as the other finders would, with a loader that calls back once."""

    def __init__(self, name: str, callback: Callable[[], None]) -> None:
        self._name = name
        self._callback = callback
        self._searching = False

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name or self._searching:
            return None
        self._searching = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching = False
        if spec is not None and spec.loader is not None:
            self._call_after(spec.loader)
        return spec

    def _call_after(self, loader: importlib.abc.Loader) -> None:
        original = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            original(module)
            # A module that fails to import raises above, just as it would without us.
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self._callback()

        # On the instance, so that the loader keeps its type, which some callers look at.
        loader.exec_module = exec_module  # type: ignore[method-assign]


def when_imported(name: str, callback: Callable[[], None]) -> None:
    """Call `callback` once module `name` has been imported: at once, later or never."""
    if name in sys.modules:
        callback()
    else:
        sys.meta_path.insert(0, _Finder(name, callback))
