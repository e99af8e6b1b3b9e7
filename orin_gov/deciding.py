"""What decides in a run: the governor, with the policy that its board may trust."""

from importlib import resources
from pathlib import Path

from orin_gov.board.conditions import read_conditions
from orin_gov.board.probe import Board
from orin_gov.errors import PolicyError
from orin_gov.policy.card import OTHER_BOARD, differences
from orin_gov.policy.decider import Decider
from orin_gov.policy.governor import Governor
from orin_gov.policy.policy_file import parse_policy
from orin_gov.policy.tree import Policy
from orin_gov.policy.undisturbed import Undisturbed
from orin_gov.settings import Settings
from orin_gov.view.lines import print_warning


def load_policy(path: Path | None) -> Policy:
    """Return the policy in `path`, or the one that ships.

    Raises:
        PolicyError: it cannot be read or is not a policy.
    """
    if path is None:
        shipped = resources.files("orin_gov.policy") / "default.json"
        return parse_policy(shipped.read_text(encoding="utf-8"), "the policy that ships")
    try:
        return parse_policy(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"cannot read the policy {path}: {error}") from error


def make_governor(
    board: Board, points: tuple[int, ...], policy: Policy, settings: Settings, advise: bool
) -> Decider:
    """Return the governor of a run; windows that heat or over-current disturb are kept from it."""
    top_hz = board.gpu.table_hz[-1] if board.gpu and board.gpu.table_hz else None
    governor = Governor(
        policy, points or (1,), settings.objective, advise, top_hz, settings.baseline_share
    )
    return Undisturbed(governor, points or (1,))


def as_trusted(policy: Policy, board: Board) -> Policy:
    """Return the policy, trusted less where its card is of another board's state, and say so."""
    mode = read_conditions(board.root, board.gpu).power_mode
    top_hz = board.gpu.table_hz[-1] if board.gpu and board.gpu.table_hz else None
    module = board.identity.module
    found = differences(policy.card, module, top_hz, mode.name if mode else None)
    if not found:
        return policy
    print_warning(
        f"the policy was fitted {'; '.join(found)}: it is trusted less, and more is looked at"
    )
    return policy.doubted(OTHER_BOARD)
