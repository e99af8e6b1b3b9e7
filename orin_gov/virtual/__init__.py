"""The machine you don't have: a board's physics, in real time and in virtual time."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from orin_gov.virtual.simulation import simulate

__all__ = ["simulate"]


def __getattr__(name: str) -> object:
    # Loaded when first asked for: the process that serves a board needs nothing of it.
    if name == "simulate":
        from orin_gov.virtual.simulation import simulate

        return simulate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
