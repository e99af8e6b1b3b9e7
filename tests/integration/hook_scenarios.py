"""What the test of the hooks has a hooked process do: `hook_scenarios.py REPORT NAME...`.

The report says of each scenario when it began and ended, and what it returned.
"""

import contextlib
import copy
import gc
import io
import json
import math
import os
import pickle
import random
import sys
import time
import warnings

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.set_num_threads(1)
LOSS = nn.MSELoss()


def small():
    return nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 1)))


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.01)


def train(model, optimizer, inputs=None):
    loss = model(torch.randn(3, 4) if inputs is None else inputs).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


class Scaled(nn.Module):
    def forward(self, x):
        return x * 2


class Transformed(Dataset):
    """Its items run a module, as image transforms do, and in a data worker."""

    def __init__(self, loaded):
        self.loaded, self.transform = loaded, Scaled()

    def __len__(self):
        return 4

    def __getitem__(self, i):
        item = self.transform(torch.full((4,), float(i)))
        with torch.no_grad():
            self.transform(item)
        self.loaded.set()
        return item


def workers():
    # The first to mark, while this process has not marked yet.
    import multiprocessing

    fork = multiprocessing.get_context("fork")
    loaded = fork.Event()
    batches = iter(DataLoader(Transformed(loaded), 2, num_workers=2, multiprocessing_context=fork))
    assert loaded.wait(60)
    model = small()
    optimizer = sgd(model)
    for batch in batches:
        train(model, optimizer, batch)
    return os.getpid()


def plain():
    model = small()
    optimizer = sgd(model)
    for x, y in DataLoader(TensorDataset(torch.randn(6, 4), torch.randn(6, 1)), batch_size=2):
        optimizer.zero_grad()
        LOSS(model(x), y).backward()
        optimizer.step()


def tokens():
    model = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(20, 1))
    optimizer = sgd(model)
    for _ in range(2):
        train(model, optimizer, torch.ones(3, 5, dtype=torch.long))


def accumulation():
    model = small()
    optimizer = sgd(model)
    loader = DataLoader(TensorDataset(torch.randn(16, 4)), batch_size=2)
    for i, (x,) in enumerate(loader):
        model(x).square().mean().backward()
        if i % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.layers, self.reentrant = nn.ModuleList(small() for _ in range(1)), reentrant

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=self.reentrant)
        return x


def _checkpointing(reentrant):
    model = Checkpointed(reentrant)
    optimizer = sgd(model)
    for _ in range(2):
        train(model, optimizer, torch.randn(3, 4, requires_grad=True))


def reentrant_checkpointing():
    _checkpointing(True)


def other_checkpointing():
    _checkpointing(False)


def two_models():
    maker, judge = nn.Linear(2, 4), nn.Linear(4, 1)
    for_maker, for_judge = (torch.optim.Adam(m.parameters()) for m in (maker, judge))
    for _ in range(5):
        for_judge.zero_grad()
        (judge(torch.randn(3, 4)) - judge(maker(torch.randn(3, 2)).detach())).mean().backward()
        for_judge.step()
        for_maker.zero_grad()
        judge(maker(torch.randn(3, 2))).mean().backward()
        for_maker.step()


def step_in_backward():
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(5)))
    of = {p: torch.optim.SGD([p], lr=0.01) for p in model.parameters()}

    def update(parameter):
        of[parameter].step()
        of[parameter].zero_grad()

    handles = [parameter.register_post_accumulate_grad_hook(update) for parameter in of]
    for _ in range(4):
        model(torch.randn(3, 4)).square().mean().backward()
    for handle in handles:
        handle.remove()  # or they would keep the optimizers alive


def parents_step():
    class Adam(torch.optim.Adam):
        def step(self, closure=None):
            return super().step(closure)

    model = small()
    optimizer, _parent = Adam(model.parameters()), torch.optim.Adam(model.parameters())
    for _ in range(3):
        train(model, optimizer)


def evaluation():
    model = small()
    optimizer = sgd(model)
    for _ in range(3):
        for (x,) in DataLoader(TensorDataset(torch.randn(4, 4)), batch_size=2):
            train(model, optimizer, x)
        with torch.no_grad():
            for (x,) in DataLoader(TensorDataset(torch.randn(4, 4)), batch_size=2):
                model(x)


def lbfgs():
    model = small()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    x, y = torch.randn(8, 4), torch.randn(8, 1)

    def closure():
        optimizer.zero_grad()
        loss = LOSS(model(x), y)
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)


def compiled():
    model = small()
    optimizer = sgd(model)
    fast = torch.compile(model, backend="eager", fullgraph=True)
    for _ in range(3):
        train(fast, optimizer)


def compiled_gradient():
    def slope(x):
        return torch.autograd.grad(x.square().sum(), x)[0]

    x = torch.ones(3, requires_grad=True)
    return torch.compile(slope, backend="eager")(x).tolist()


def nan_losses():
    model = small()
    optimizer = sgd(model)
    for i in range(4):
        train(model, optimizer, torch.full((3, 4), math.nan if i == 1 else 1.0))


def skipped_steps():
    model = small()
    optimizer, scaler = sgd(model), torch.amp.GradScaler("cpu")
    for i in range(4):
        loss = model(torch.randn(3, 4)).square().mean() * (math.nan if i in (1, 2) else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return float(scaler.get_scale())


class FaultError(Exception):
    """What a failing phase raises."""


class Failing(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 1)

    def forward(self, x):
        raise FaultError


def failing_forward():
    with contextlib.suppress(FaultError):
        nn.Sequential(Failing())(torch.randn(3, 4))
    model = small()
    train(model, sgd(model))


def failing_backward():
    with contextlib.suppress(RuntimeError):
        torch.randn(3).sum().backward()
    model = small()
    train(model, sgd(model))


def failing_step():
    class Bad(torch.optim.SGD):
        def step(self, closure=None):
            raise FaultError

    model = small()
    with contextlib.suppress(FaultError):
        Bad(model.parameters(), lr=0.1).step()
    train(model, sgd(model))


def copies():
    model = small()
    assert str(copy.deepcopy(model)) == str(model)
    back = pickle.loads(pickle.dumps(model))
    assert all(
        torch.equal(a, b) for a, b in zip(back.parameters(), model.parameters(), strict=True)
    )
    optimizer = pickle.loads(pickle.dumps(sgd(model)))
    assert type(optimizer) is torch.optim.SGD
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    assert str(torch.load(file, weights_only=False)) == str(model)


def tracing():
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.trace(small(), torch.randn(3, 4))


def nested_tensors():
    ragged = torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)])
    return [part.shape[0] for part in nn.Linear(4, 4)(ragged).unbind()]


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(16, 50)

    def forward(self, tokens):
        return self.head(self.encoder(self.embed(tokens)))


def losses():
    torch.manual_seed(0)
    random.seed(0)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.randint(0, 50, (62, 12)))
    told = []
    for _epoch in range(4):
        model.train()
        for (batch,) in DataLoader(data, batch_size=8, shuffle=True):
            logits = model(batch[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            told.append(repr(loss.item()))
        model.eval()
        with torch.no_grad():
            told.append(repr(model(data.tensors[0][:, :-1]).sum().item()))
    state = [torch.random.get_rng_state().tolist(), str(random.getstate())]
    return {"losses": told, "random": state}


def failing_counted_step():
    # The third step of this process is the first that is counted, and its optimizer fails.
    class Bad(torch.optim.SGD):
        def step(self, closure=None):
            if self.fails:
                raise FaultError
            return super().step(closure)

    model = small()
    optimizer = Bad(model.parameters(), lr=0.1)
    optimizer.fails = True
    with contextlib.suppress(FaultError):
        train(model, optimizer)
    optimizer.fails = False
    train(model, optimizer)
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    return _get_current_dispatch_mode() is None


names = sys.argv[2:]
report = {}
for name in names:
    begin_ns = time.monotonic_ns()
    value = globals()[name]()
    report[name] = (begin_ns, time.monotonic_ns(), value)
    gc.collect()  # no optimizer may lead the next scenario's
with open(sys.argv[1], "w") as file:
    json.dump(report, file)
