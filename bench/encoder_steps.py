"""The script that bench.overhead runs: steps of the encoder example, timed in three conditions.

`plain` has torch as it is and the supervisor stopped, `hooks` has the hooks in, `monitor` has the
supervisor running as well. They take turns, in a new random order each round, in one process and on
equal batches, so that the machine's moods fall on all alike.
"""

import itertools
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import torch.nn  # noqa: F401  (the hooks go in with this import)


def patched_places():
    """Return what the hooks replace: (owner, name) of each."""
    import torch
    import torch.utils.data._utils.worker as data_worker
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    return [
        (torch.nn.Module, "__call__"),
        (torch.autograd, "backward"),
        (torch.autograd, "grad"),
        (_BaseDataLoaderIter, "__next__"),
        (torch, "save"),
        (data_worker, "_worker_loop"),
    ]


class Hooks:
    """Takes the installed hooks out of torch and puts them back in."""

    def __init__(self) -> None:
        from torch.optim import optimizer

        self.places = [(owner, name, getattr(owner, name)) for owner, name in patched_places()]
        self.optimizer = (
            optimizer._global_optimizer_pre_hooks,
            optimizer._global_optimizer_post_hooks,
        )
        self.kept = [dict(hooks) for hooks in self.optimizer]
        missing = [name for _, name, hooked in self.places if not hasattr(hooked, "__wrapped__")]
        if missing or not all(self.kept):
            sys.exit(f"the hooks are not in torch: {missing} are as torch made them")

    def set(self, inside: bool) -> None:
        for owner, name, hooked in self.places:
            setattr(owner, name, hooked if inside else hooked.__wrapped__)
        for hooks, kept in zip(self.optimizer, self.kept, strict=True):
            hooks.clear()
            if inside:
                hooks.update(kept)


def make_step():
    """Return a function that does one optimizer step of the encoder example."""
    import torch
    import transformers
    from finetune_sst2 import model_folder
    from torch.utils.data import DataLoader

    torch.manual_seed(0)
    torch.set_num_threads(1)  # a core each for the script and the supervisor
    folder = model_folder()
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=2, local_files_only=True
    ).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    sentences = torch.randint(1000, 20000, (8192, 16))
    batches = iter(DataLoader(sentences, batch_size=4))

    def step() -> None:
        batch = next(batches)
        loss = model(input_ids=batch, labels=torch.zeros(len(batch), dtype=torch.long)).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def main(output: Path, rounds: int) -> None:
    hooks, step, supervisor = Hooks(), make_step(), os.getppid()
    times: dict[str, list[float]] = {"plain": [], "hooks": [], "monitor": []}
    for _ in range(5):
        step()
    order = random.Random(0)
    try:
        for _ in itertools.repeat(None, rounds):
            for condition in order.sample(list(times), 3):
                hooks.set(condition != "plain")
                os.kill(supervisor, signal.SIGCONT if condition == "monitor" else signal.SIGSTOP)
                step()  # the first step after a change is not timed
                begin = time.perf_counter()
                step()
                times[condition].append(time.perf_counter() - begin)
    finally:
        os.kill(supervisor, signal.SIGCONT)
    output.write_text(json.dumps(times))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
