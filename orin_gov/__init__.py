"""orin_gov: a closed-loop GPU frequency governor for fine-tuning on NVIDIA Jetson Orin."""

TYPE_CHECKING = False  # not from typing: that import would be half the time of `orin-gov --help`
if TYPE_CHECKING:
    from orin_gov.library import Governor

__version__ = "0.1.0"
__all__ = ["Governor", "__version__"]


def __getattr__(name: str) -> object:
    # Loaded when first asked for, so that `import orin_gov` and the command line stay light.
    if name == "Governor":
        from orin_gov.library import Governor

        return Governor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
