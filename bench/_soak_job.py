"""A small training loop that goes on for so many seconds: not it, the governor is soaked."""

import sys
import time

import torch
from torch.utils.data import DataLoader, TensorDataset


class Slow(torch.nn.Module):
    """A layer that takes its time without taking the processor's."""

    def __init__(self) -> None:
        super().__init__()
        self._layer = torch.nn.Linear(16, 2)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        time.sleep(0.05)
        return self._layer(rows)


def main() -> None:
    end_s = time.monotonic() + float(sys.argv[1])
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Slow()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows, labels = torch.randn(256, 16), torch.randint(0, 2, (256,))
    epoch = 0
    while time.monotonic() < end_s:
        for batch, wanted in DataLoader(TensorDataset(rows, labels), batch_size=8):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(batch), wanted)
            loss.backward()
            optimizer.step()
            if time.monotonic() >= end_s:
                break
        epoch += 1
        print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
