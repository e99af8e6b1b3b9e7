"""Operations, bytes and launches against what real models of transformers do when they are run."""

import numpy as np
import pytest

from orin_gov.virtual.architecture import load_architecture, parse_config
from orin_gov.virtual.operations import (
    Recipe,
    forward_backward,
    optimizer,
    trained_tensors,
)

BATCH, LENGTH = 3, 24
BASE = {
    "vocab_size": 500,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 192,
    "max_position_embeddings": 64,
}
CONFIGS = {
    "bert": {"type_vocab_size": 2},
    "gpt_neox": {},
    "gemma": {"num_key_value_heads": 1, "head_dim": 32},
    "deberta-v2": {
        "relative_attention": True,
        "position_buckets": 16,
        "share_att_key": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
        "type_vocab_size": 0,
        "norm_rel_ebd": "layer_norm",
        "conv_kernel_size": 3,
    },
}
LAUNCHES = {"empty", "detach", "_unsafe_view", "new_empty", "new_empty_strided", "empty_like"}


def total(kernels, what):
    return sum(kernel.launches * float(getattr(kernel, what)[0]) for kernel in kernels)


def launches(kernels):
    return sum(kernel.launches for kernel in kernels)


@pytest.fixture(scope="module", params=CONFIGS)
def traced(request):
    """(our kernels forward and backward, what torch counts of the same)."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves
    from torch.utils.flop_counter import FlopCounterMode

    class Trace(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.launches, self.moved = 0, 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            name = function.overloadpacket.__name__
            is_view = any(
                each.alias_info is not None and not each.alias_info.is_write
                for each in function._schema.returns
            )
            if not is_view and name not in LAUNCHES:
                # Dropout is one kernel on a GPU and three on a CPU: draw, scale, multiply.
                self.launches -= 1 if name == "bernoulli_" else -1
                tensors = [
                    each
                    for each in tree_leaves((args, kwargs, out))
                    if isinstance(each, torch.Tensor)
                ]
                self.moved += sum(each.numel() * each.element_size() for each in tensors)
            return out

    config = {"model_type": request.param, **BASE, **CONFIGS[request.param]}
    model = transformers.AutoModelForSequenceClassification.from_config(
        transformers.AutoConfig.for_model(**config, num_labels=2, pad_token_id=0),
        attn_implementation="eager",
    ).train()
    batch = {
        "input_ids": torch.ones(BATCH, LENGTH, dtype=torch.long),
        "attention_mask": torch.ones(BATCH, LENGTH, dtype=torch.long),
        "labels": torch.zeros(BATCH, dtype=torch.long),
    }
    with FlopCounterMode(display=False) as ahead:
        loss = model(**batch).loss
    with FlopCounterMode(display=False) as back:
        loss.backward()
    model.zero_grad(set_to_none=True)
    with Trace() as forward:
        loss = model(**batch).loss
    with Trace() as backward:
        loss.backward()
    shape = parse_config(config, "a test")
    ours = forward_backward(shape, Recipe(BATCH), np.array([float(LENGTH)]))
    flops = ahead.get_total_flops(), back.get_total_flops()
    return list(zip(ours, flops, (forward, backward), strict=True))


def test_operations_are_exactly_those_of_the_real_model(traced):
    for ours, flops, _ in traced:
        assert total(ours, "flops") == flops


def test_launches_are_those_of_the_real_model(traced):
    for ours, _, real in traced:
        assert launches(ours) == pytest.approx(real.launches, rel=0.05)


def test_bytes_are_near_those_of_the_real_model(traced):
    for ours, _, real in traced:
        assert total(ours, "moved") == pytest.approx(real.moved, rel=0.30)


@pytest.fixture
def bert():
    return load_architecture("bert-base")


LENGTHS = np.array([32.0, 128.0, 256.0])


def flops_at(kernels):
    return sum(kernel.launches * kernel.flops for kernel in kernels)


def test_operations_follow_the_rule_of_six_per_parameter_and_token(bert):
    forward, backward = forward_backward(bert, Recipe(8), LENGTHS)
    ours = flops_at(forward) + flops_at(backward)
    encoder = 12 * sum(bert.layer_tensors())
    assert ours[0] == pytest.approx(6 * encoder * 8 * 32, rel=0.03)


def test_attention_makes_operations_grow_faster_than_the_length(bert):
    forward, _ = forward_backward(bert, Recipe(8), LENGTHS)
    per_token = flops_at(forward) / LENGTHS
    scores = 2 * 2 * 12 * 768 * 8  # two products of 2 m k n, in 12 layers, for a batch of 8
    assert np.diff(per_token) == pytest.approx(scores * np.diff(LENGTHS), rel=0.01)


def test_half_precision_halves_what_activations_move_and_adds_casts(bert):
    wide, _ = forward_backward(bert, Recipe(32, "fp32"), LENGTHS)
    half, _ = forward_backward(bert, Recipe(32, "fp16"), LENGTHS)
    ratio = sum(k.launches * k.moved for k in half) / sum(k.launches * k.moved for k in wide)
    assert 0.5 < ratio[2] < ratio[1] < ratio[0] < 1
    assert launches(half) > launches(wide)


def test_lora_trains_little_and_spares_the_gradients_of_the_weights(bert):
    full, lora = Recipe(16), Recipe(16, lora_rank=8)
    assert sum(trained_tensors(bert, lora)) == 12 * 4 * 8 * 768 + 2 * 768
    _, back_full = forward_backward(bert, full, LENGTHS)
    _, back_lora = forward_backward(bert, lora, LENGTHS)
    ratio = flops_at(back_lora) / flops_at(back_full)
    assert 0.5 < ratio[0] < 0.6
    moved = [
        total(optimizer(bert, recipe, LENGTHS), "moved") / sum(trained_tensors(bert, recipe))
        for recipe in (full, lora)
    ]
    assert moved == pytest.approx([104, 104])


def test_the_scaler_of_fp16_goes_over_the_gradients_once_more(bert):
    plain = total(optimizer(bert, Recipe(16, "bf16"), LENGTHS), "moved")
    scaled = total(optimizer(bert, Recipe(16, "fp16"), LENGTHS), "moved")
    assert scaled - plain == pytest.approx(8 * bert.parameters())


def test_a_live_step_counts_what_is_told_of_the_same_model():
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from orin_gov.counts import BYTES, LAUNCHES, OPERATIONS
    from orin_gov.phases import BACKWARD, FORWARD
    from orin_gov.workload.counting import StepCounter

    config = {"model_type": "bert", **BASE, **CONFIGS["bert"]}
    model = transformers.AutoModelForSequenceClassification.from_config(
        transformers.AutoConfig.for_model(**config, num_labels=2, pad_token_id=0),
        attn_implementation="eager",
    ).train()
    tokens = torch.ones(BATCH, LENGTH, dtype=torch.long)
    counter = StepCounter()
    counter.counting = True
    loss = counter.run(
        FORWARD, model, tokens, tokens, labels=torch.zeros(BATCH, dtype=torch.long)
    ).loss
    counter.run(BACKWARD, loss.backward)
    live = counter.end_step(1.0, float(tokens.numel()))
    shape = parse_config(config, "a test")
    told = forward_backward(shape, Recipe(BATCH), np.array([float(LENGTH)]))
    # On a CPU each of 7 dropouts takes three kernels forward where a GPU takes one.
    for phase, kernels, more in zip((FORWARD, BACKWARD), told, (14, 0), strict=True):
        assert live[phase, OPERATIONS] == total(kernels, "flops")
        assert live[phase, BYTES] == pytest.approx(total(kernels, "moved"), rel=0.35)
        assert live[phase, LAUNCHES] == pytest.approx(launches(kernels) + more, rel=0.05)
