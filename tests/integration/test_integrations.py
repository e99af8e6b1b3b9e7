"""The integrations, each with the real package: a loop is governed, and its logs have energy."""

import functools
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, VIRTUAL, command, side_by_side
from runs import write_run

from orin_gov.record.run import read_run

pytestmark = pytest.mark.timeout(400)

Script = Callable[[str], Path]
Completed = subprocess.CompletedProcess[str]


def needs(*packages: str) -> None:
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def run_script(path: Path, *arguments: str) -> Completed:
    """Run a script beside its file."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "MLFLOW_ALLOW_FILE_STORE": "true",
    }
    return subprocess.run(
        [sys.executable, str(path), *arguments],
        env=environment,
        cwd=path.parent,
        capture_output=True,
        text=True,
        timeout=300,
    )


def told(done: Completed) -> Any:
    """Return the JSON of the last line of what a script has printed."""
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


COMMON = f"""
import json, time
import torch
OPTIONS = dict(board={VIRTUAL!r}, epoch="5", output="run")
model = torch.nn.Linear(64, 64)
data = [torch.randn(64) for _ in range(48)]
"""

HUGGINGFACE = """
from torch.utils.tensorboard import SummaryWriter
from transformers import Trainer, TrainingArguments
from orin_gov.integrations.huggingface import GovernorCallback, govern

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = model
    def forward(self, x, labels=None):
        time.sleep(0.05)
        return {"loss": self.inner(x).pow(2).mean()}

arguments = TrainingArguments(
    "out", per_device_train_batch_size=2, gradient_accumulation_steps=2, max_steps=12,
    logging_steps=4, save_strategy="no", report_to=["tensorboard"], use_cpu=True,
    disable_tqdm=True,
)
rows = [{"x": x} for x in data]
trainer = Trainer(Model(), arguments, train_dataset=rows)
govern(trainer, deadline_s=3600, **OPTIONS)
trainer.train()
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
import glob, os
folder = os.path.dirname(glob.glob("out/**/events*", recursive=True)[0])
seen = EventAccumulator(folder); seen.Reload()
print(json.dumps({"history": trainer.state.log_history, "tags": seen.Tags()["scalars"]}))
"""


LIGHTNING = """
import lightning
from lightning.pytorch.loggers import CSVLogger
from orin_gov.integrations.lightning import GovernorCallback

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.inner = model
    def training_step(self, batch, index):
        time.sleep(0.05)
        loss = self.inner(batch).pow(2).mean()
        self.log("loss", loss)
        return loss
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 1e-3)

trainer = lightning.Trainer(
    max_steps=12, log_every_n_steps=4, accelerator="cpu", logger=CSVLogger("logs"),
    callbacks=[GovernorCallback(**OPTIONS)], enable_progress_bar=False, enable_checkpointing=False,
    enable_model_summary=False,
)
trainer.fit(Module(), torch.utils.data.DataLoader(data, batch_size=4))
import csv, glob
with open(glob.glob("logs/**/metrics.csv", recursive=True)[0]) as file:
    print(json.dumps(list(csv.DictReader(file))))
"""


Trained = dict[str, tuple[Completed, Path]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The two that import most, each with the folder that it ran in."""
    scripts = {"huggingface": HUGGINGFACE, "lightning": LIGHTNING}
    paths = [tmp_path_factory.mktemp(name) / "script.py" for name in scripts]
    for path, text in zip(paths, scripts.values(), strict=True):
        path.write_text(COMMON + text)
    done = side_by_side(*(functools.partial(run_script, path) for path in paths))
    folders = [path.parent for path in paths]
    return dict(zip(scripts, zip(done, folders, strict=True), strict=True))


def test_a_hugging_face_trainer_logs_energy_and_clock(trained: Trained) -> None:
    needs("transformers", "accelerate", "tensorboard")
    done, folder = trained["huggingface"]
    found = told(done)
    logged = [each for each in found["history"] if "loss" in each]
    assert len(logged) == 3
    assert all(each["energy_j"] > 0 and each["gpu_clock_hz"] > 1e8 for each in logged)
    energies = [each["energy_j"] for each in logged]
    # A machine that is busy may have read nothing new between two logs.
    assert energies == sorted(energies)
    assert logged[2]["step_energy_j"] >= 0
    assert {"train/energy_j", "train/step_energy_j", "train/gpu_clock_hz"} <= set(found["tags"])
    run = read_run(folder / "run")
    # The trainer's steps: two passes forward and backward each, one of the optimizer.
    assert run.steps.num_rows == 12
    assert run.steps["time_forward_s"].to_pylist()[3] > 0.09
    assert run.steps["time_optimizer_s"].to_pylist()[3] > 0
    assert run.manifest["objective"]["steps"] == 12
    assert run.summary is not None
    assert run.summary["deadline"]["met"] is True


def test_a_lightning_trainer_logs_energy_and_clock(trained: Trained) -> None:
    needs("lightning")
    done, folder = trained["lightning"]
    rows = told(done)
    energies = [float(row["energy_j"]) for row in rows if row.get("energy_j")]
    assert len(energies) == 3
    assert energies == sorted(energies)
    assert all(float(row["gpu_clock_hz"]) > 1e8 for row in rows if row.get("gpu_clock_hz"))
    assert any(row.get("loss") for row in rows)
    run = read_run(folder / "run")
    assert run.steps.num_rows == 12
    assert run.summary is not None


ACCELERATE = """
from accelerate import Accelerator
from accelerate.tracking import GeneralTracker, on_main_process
from orin_gov.integrations.accelerate import governed

class Kept(GeneralTracker):
    name, requires_logging_directory = "kept", False
    def __init__(self):
        super().__init__()
        self.logs = []
    @property
    def tracker(self):
        return self.logs
    def store_init_configuration(self, values):
        pass
    @on_main_process
    def log(self, values, step=None, **other):
        self.logs.append({"step": step, **values})

kept = Kept()
accelerator = Accelerator(cpu=True, log_with=[kept], gradient_accumulation_steps=2)
accelerator.init_trackers("test")
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
loader = torch.utils.data.DataLoader(data, batch_size=2)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
step = 0
with governed(accelerator, **OPTIONS) as governor:
    for batch in loader:
        with accelerator.accumulate(model):
            time.sleep(0.03)
            loss = model(batch).pow(2).mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            step += 1
            if step % 4 == 0:
                accelerator.log({"loss": loss.item()}, step=step)
accelerator.log({"after": 1.0}, step=step)
print(json.dumps(kept.logs))
"""


def test_a_loop_with_accelerate_logs_energy_and_clock(script: Script, tmp_path: Path) -> None:
    needs("accelerate")
    logs = told(run_script(script(COMMON + ACCELERATE)))
    assert [each["step"] for each in logs] == [4, 8, 12, 12]
    assert all(each["energy_j"] > 0 and "loss" in each for each in logs[:3])
    assert logs[2]["step_energy_j"] >= 0
    assert set(logs[3]) == {"step", "after"}
    assert read_run(tmp_path / "run").steps.num_rows == 12


WINDOWS = """
import orin_gov
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
windows = []
with orin_gov.Governor(**OPTIONS) as governor:
    while "energy_j" not in governor.readings():
        time.sleep(0.05)
    governor.begin_window("all")
    for number in range(2):
        governor.begin_window("epoch")
        for batch in data[:12]:
            time.sleep(0.1)
            model(batch).pow(2).mean().backward()
            optimizer.step()
        windows.append(vars(governor.end_window("epoch")))
    whole = vars(governor.end_window("all"))
    governor.begin_window("cancelled")
    cancelled = vars(governor.end_window("cancelled", cancel=True))
    wrong = []
    for call in (governor.end_window, lambda key: [governor.begin_window(key) for _ in "ab"]):
        try:
            call("x")
        except orin_gov.errors.UsageError as error:
            wrong.append(str(error))
print(json.dumps([windows, whole, cancelled, wrong]))
"""


def check_windows(found: Any) -> None:
    windows, whole, cancelled, wrong = found
    for each in (*windows, whole):
        if each["total_energy"] is None:
            pytest.skip("this machine was too busy for the sensors to be read in time")
        rails = each["rail_energy"]
        module = sum(rails[rail] for rail in ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"))
        assert each["total_energy"] == pytest.approx(module)
        # An AGX Orin takes 10 W to 60 W, whatever this machine is slow at.
        assert 8.0 < each["total_energy"] / each["time"] < 70.0
    assert sum(each["time"] for each in windows) < whole["time"]
    assert sum(each["total_energy"] for each in windows) < whole["total_energy"]
    assert cancelled["total_energy"] is None
    assert wrong == ["window 'x' was not begun", "window 'x' was begun already"]


def test_windows_measure_what_lies_between(script: Script) -> None:
    check_windows(told(run_script(script(COMMON + WINDOWS))))


def test_windows_work_in_a_script_that_run_governs(script: Script, tmp_path: Path) -> None:
    path = script(COMMON + WINDOWS)
    words = command("run", "--board", VIRTUAL, "-o", tmp_path / "whole", path)
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=150, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr[-3000:]
    check_windows(json.loads(done.stdout.splitlines()[-1]))
    assert not (tmp_path / "run").exists()


MLFLOW = """
import mlflow, sys
mlflow.set_tracking_uri("file:" + sys.argv[2])
from orin_gov.integrations.mlflow import log_run
run_id = log_run(sys.argv[1])
run = mlflow.get_run(run_id)
history = mlflow.MlflowClient().get_metric_history(run_id, "orin_gov/step_energy_j")
print(json.dumps([run.data.metrics, run.data.params, [(each.step, each.value) for each in history]]))
"""


def test_a_run_directory_becomes_an_mlflow_run(script: Script, tmp_path: Path) -> None:
    needs("mlflow")
    recorded = write_run(tmp_path / "recorded")
    path = script("import json\n" + MLFLOW)
    metrics, params, history = told(run_script(path, str(recorded), str(tmp_path / "mlruns")))
    assert metrics["orin_gov/energy_change"] == -0.123
    assert metrics["orin_gov/energy_change_low"] == -0.15
    assert metrics["orin_gov/steps"] == 40
    assert params["orin_gov.name"] == "energy" or params["orin_gov.name"] == "train.py"
    assert params["orin_gov.max_slowdown"] == "0.1"
    # The summary's mean lies beside the steps' own; step 5 was not measured.
    assert sorted({step for step, _ in history}) == [n for n in range(40) if n != 5]


# Steps without torch, which takes seconds to import.
SLEEPER = """
import time
from orin_gov.phases import BACKWARD, FORWARD
from orin_gov.workload.session import current_marker
marker = current_marker()
while True:
    for phase in (FORWARD, BACKWARD):
        with marker.phase(phase):
            time.sleep(0.025)
    marker.step()
"""


def scrape(url: str) -> dict[str, float]:
    from prometheus_client.parser import text_string_to_metric_families

    text = urllib.request.urlopen(url, timeout=20).read().decode()
    families = list(text_string_to_metric_families(text))
    return {
        sample.name + "".join(f" {value}" for value in sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def test_metrics_are_served_to_prometheus_on_loopback(script: Script, tmp_path: Path) -> None:
    needs("prometheus_client")
    words = ("run", "--board", VIRTUAL, "--metrics-port", 0, "--epoch", 5, "-o", tmp_path / "run")
    process = subprocess.Popen(
        command(*words, script(SLEEPER)), stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    try:
        assert process.stderr is not None
        told = iter(process.stderr.readline, "")
        url = next(
            match[0]
            for line in told
            if (match := re.search(r"http://127\.0\.0\.1:\d+/metrics", line))
        )
        deadline_s = time.monotonic() + 150
        found: dict[str, float] = {}
        wanted = {"orin_gov_epochs_total": 2, "orin_gov_steps_total": 5}
        while any(found.get(name, 0) < least for name, least in wanted.items()):
            assert time.monotonic() < deadline_s, found
            found = scrape(url)
            time.sleep(0.2)
        later = scrape(url)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert found["orin_gov_steps_total"] >= 5
    assert found["orin_gov_energy_joules_total"] > 0
    assert found["orin_gov_gpu_clock_hertz"] > 1e8
    assert 1 < found["orin_gov_rail_power_watts VDD_GPU_SOC"] < 60
    assert any(name.startswith("orin_gov_gpu_clock_seconds_total ") for name in found)
    counters = [name for name in found if name.split()[0].endswith("_total")]
    assert all(later[name] >= found[name] for name in counters)
    assert len(counters) >= 8


@pytest.mark.parametrize("port", ["70000", "x"])
def test_a_port_that_is_none_is_told_before_anything_runs(
    script: Script, tmp_path: Path, port: str
) -> None:
    words = ("run", "--board", VIRTUAL, "--metrics-port", port, script("print('ran')"))
    done = subprocess.run(command(*words), cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--metrics-port" in done.stderr
    assert "ran" not in done.stdout
