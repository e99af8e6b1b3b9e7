"""Asking the tree: which of its leaves a window leads to, and when that has become another one."""

from orin_gov.policy.features import features_of
from orin_gov.policy.tree import Leaf, Policy, Walk, walk
from orin_gov.policy.window import Window

OTHER_LEAF_WINDOWS = 3
"""Another leaf that the tree leads to this often in a row, at one point, is a sign of change."""


class Asking:
    """Walks the policy's tree for one job. `top_hz` is the clock that clocks are relative to.

    Not thread-safe.
    """

    def __init__(self, policy: Policy, top_hz: int, max_slowdown: float) -> None:
        self._policy, self._top_hz, self._max_slowdown = policy, top_hz, max_slowdown
        self.path: tuple[str, ...] = ()
        self._leaves: list[Leaf] = []
        self._others = 0

    def ask(self, window: Window) -> Leaf:
        """Return the leaf that the window leads to; `path` tells how."""
        found = self._walk(window)
        self.path, self._others = found.path, 0
        if self._is_new(found.leaf):
            self._leaves.append(found.leaf)
        return found.leaf

    def leads_elsewhere(self, window: Window) -> bool:
        """Tell whether the tree keeps leading to another leaf than those asked for; each counts once."""
        self._others = self._others + 1 if self._is_new(self._walk(window).leaf) else 0
        return self._others >= OTHER_LEAF_WINDOWS

    def _walk(self, window: Window) -> Walk:
        features = features_of(window, self._top_hz, self._max_slowdown)
        return walk(self._policy.nodes, features)

    def _is_new(self, leaf: Leaf) -> bool:
        return not any(leaf is each for each in self._leaves)
