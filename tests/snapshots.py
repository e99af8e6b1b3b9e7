"""Moments of a run for the tests of the view."""

from dataclasses import replace

from orin_gov.view.state import Effect, RailState, SensorState, Snapshot

MHZ = 1_000_000
TABLE_HZ = (*range(306 * MHZ, 1225 * MHZ, 102 * MHZ), 1_300_500_000)

MOMENT = Snapshot(
    pid=4321,
    started_s=1.0,
    t_ns=10**12,
    name="finetune_sst2.py",
    board="virtual board agx-orin-64gb (Jetson AGX Orin 64GB)",
    virtual=True,
    mode="verifying",
    elapsed_s=83.4,
    steps=1045,
    steps_per_s=1.874,
    remaining_s=130.0,
    table_hz=TABLE_HZ,
    floor_hz=306 * MHZ,
    cap_hz=1224 * MHZ,
    clock_hz=1224 * MHZ,
    target_hz=1122 * MHZ,
    governor="nvhost_podgov",
    load=0.66,
    total=RailState(34.52, 33.1, 2745.0),
    rails={
        "VDD_GPU_SOC": RailState(18.2, 17.9, 1480.0),
        "VDD_CPU_CV": RailState(6.1, 6.0, 500.0),
        "VIN_SYS_5V0": RailState(4.0, 4.0, 340.0),
        "VDDQ_VDD2_1V8AO": RailState(None, 6.3, 425.0),
    },
    phase_share={
        "data": 0.03,
        "forward": 0.31,
        "backward": 0.52,
        "optimizer": 0.09,
        "idle": 0.05,
    },
    temperature_c={"cpu": 45.0, "gpu": 48.4, "cv0": None, "tj": 51.0},
    alarms=(),
    decision="refine 1122 MHz: 3.8% gained; is its neighbour better?",
    path=("clock_share 0.952 > 0.88", "load 0.658 <= 0.71"),
    effect=Effect(1224 * MHZ, 0.038, 0.024, 0.012, 0.078),
    energy_change={"value": -0.053, "low": -0.06, "high": -0.041},
    time_change={"value": 0.043, "low": 0.02, "high": 0.061},
    windows_governed=4,
    windows_baseline=2,
    max_slowdown=0.1,
    sensors=SensorState(199.7, 1000, 470, 1, 0, 3, 0),
)

NOTHING = replace(
    MOMENT,
    virtual=False,
    board="Jetson",
    mode="warm-up",
    steps=0,
    steps_per_s=None,
    remaining_s=None,
    table_hz=(),
    floor_hz=None,
    cap_hz=None,
    clock_hz=None,
    target_hz=None,
    governor=None,
    load=None,
    total=RailState(None, None, None),
    rails={},
    phase_share={},
    temperature_c={},
    path=(),
    effect=None,
    energy_change=None,
    time_change=None,
    windows_governed=0,
    windows_baseline=0,
    sensors=SensorState(None, 0, 0, 0, 0, 0, 0),
)
