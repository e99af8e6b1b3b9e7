"""The script whose supervisor is weighed: steps of 0.4 s in four phases that cost no processor.

Sleep stands for the work: a script that is busy on the same cores would make the supervisor's share
a matter of who runs where.
"""

import time

import torch
from torch.utils.data import DataLoader, Dataset

DATA_S, FORWARD_S, BACKWARD_S, OPTIMIZER_S = 0.01, 0.14, 0.2, 0.05


class Samples(Dataset[torch.Tensor]):
    """Samples for ever, each a moment late."""

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(DATA_S)
        return torch.ones(1)


class Slow(torch.autograd.Function):
    """The identity, and slow both ways."""

    @staticmethod
    def forward(_context, value):
        time.sleep(FORWARD_S)
        return value.clone()

    @staticmethod
    def backward(_context, gradient):
        time.sleep(BACKWARD_S)
        return gradient


class Model(torch.nn.Module):
    """A weight, slowly applied."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return Slow.apply(self.weight * value)


class Descent(torch.optim.SGD):
    """Gradient descent, slowly."""

    def step(self, closure=None):
        time.sleep(OPTIMIZER_S)
        return super().step(closure)


def main() -> None:
    torch.set_num_threads(1)
    model = Model()
    optimizer = Descent(model.parameters(), lr=1e-6)
    for batch in DataLoader(Samples(), batch_size=1):  # until the bench has seen enough
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
