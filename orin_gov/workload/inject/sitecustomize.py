"""Runs in the script's interpreter before the script: attaches the phase ring, leaves no trace.

Python imports a module of this name at start-up; the launcher put this folder in front of
PYTHONPATH. The environment and sys.path are put back first, so that the script, and every process
that it starts, sees what it would have seen. A sitecustomize of the user's own runs as ever.
"""

import importlib.util
import os
import sys


def _put_back_environment() -> int:
    """Undo what the launcher added; return the ring's descriptor."""
    descriptor = int(os.environ.pop("ORIN_GOV_RING"))
    if "ORIN_GOV_PYTHONPATH" in os.environ:
        os.environ["PYTHONPATH"] = os.environ.pop("ORIN_GOV_PYTHONPATH")
    else:
        del os.environ["PYTHONPATH"]
    folder = os.path.dirname(__file__)
    sys.path[:] = [entry for entry in sys.path if entry != folder]
    sys.path_importer_cache.pop(folder, None)
    return descriptor


def _load_package() -> None:
    """Make `orin_gov` importable by name without its folder on sys.path."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    spec = importlib.util.spec_from_file_location(
        "orin_gov", os.path.join(package, "__init__.py"), submodule_search_locations=[package]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["orin_gov"] = module
    spec.loader.exec_module(module)


def _attach(descriptor: int) -> None:
    try:
        _load_package()
        from orin_gov.workload.session import attach
    except ImportError:
        # Another Python than the one we were built for: the script runs without phase marks.
        os.close(descriptor)
        return
    attach(descriptor)


def _run_the_users_own() -> None:
    ours = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", ours)  # the import under way expects an entry


_attach(_put_back_environment())
_run_the_users_own()
