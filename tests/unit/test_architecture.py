"""Architectures: their parameters against the published counts and against transformers' models."""

import json
from pathlib import Path

import pytest

from orin_gov.errors import UsageError
from orin_gov.virtual.architecture import MODELS, load_architecture, parse_config

PUBLISHED = {
    # Encoders with a classifier of two classes; decoders as published less their output embedding.
    "bert-tiny": 4_385_920 + 2 * 128 + 2,
    "bert-base": 109_482_240 + 2 * 768 + 2,
    "bert-large": 335_141_888 + 2 * 1024 + 2,
    "pythia-14m": 14_067_712 - 50304 * 128 + 2 * 128,
    "pythia-70m": 70_426_624 - 50304 * 512 + 2 * 512,
    "pythia-160m": 162_322_944 - 50304 * 768 + 2 * 768,
    "pythia-410m": 405_334_016 - 50304 * 1024 + 2 * 1024,
    "gemma-2b": 2_506_172_416 + 2 * 2048,
}

SMALL = {
    "vocab_size": 600,
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 80,
    "max_position_embeddings": 64,
}


@pytest.mark.parametrize("model", PUBLISHED)
def test_a_known_model_has_its_published_number_of_parameters(model):
    assert load_architecture(model).parameters() == PUBLISHED[model]


def test_deberta_xlarge_has_the_nine_hundred_million_it_is_known_for():
    assert load_architecture("deberta-v2-xlarge").parameters() == pytest.approx(9e8, rel=0.02)


@pytest.mark.parametrize(
    "extra",
    [
        {"model_type": "bert", "type_vocab_size": 2},
        {"model_type": "gpt_neox"},
        {"model_type": "llama", "num_key_value_heads": 2},
        {"model_type": "qwen2", "num_key_value_heads": 2},
        {"model_type": "gemma", "num_key_value_heads": 1, "head_dim": 32},
        {
            "model_type": "deberta-v2",
            "relative_attention": True,
            "position_buckets": 16,
            "share_att_key": True,
            "pos_att_type": ["p2c", "c2p"],
            "position_biased_input": False,
            "type_vocab_size": 0,
            "norm_rel_ebd": "layer_norm",
            "conv_kernel_size": 3,
        },
    ],
    ids=lambda extra: extra["model_type"],
)
def test_the_tensors_are_those_of_the_real_model(extra):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = {**SMALL, **extra}
    with torch.device("meta"):
        real = transformers.AutoModelForSequenceClassification.from_config(
            transformers.AutoConfig.for_model(**config, num_labels=2, pad_token_id=0)
        )
    shape = parse_config(config, "a test")
    assert sorted(shape.tensors()) == sorted(each.numel() for each in real.parameters())


@pytest.mark.parametrize("model", MODELS)
def test_a_config_file_is_read_as_the_model_that_it_describes(model, tmp_path):
    source = Path(__file__).parents[2] / "orin_gov/virtual/models.json"
    config = json.loads(source.read_text())[model]
    (tmp_path / "config.json").write_text(json.dumps({**config, "torch_dtype": "float32"}))
    assert load_architecture(str(tmp_path / "config.json")) == load_architecture(model)
    assert load_architecture(str(tmp_path)) == load_architecture(model)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"model_type": "t5"}', "expected one of bert"),
        ("[1]", "holds no object"),
        ("{", "cannot be read"),
        ('{"model_type": "bert"}', "hidden_size = None"),
        ('{"model_type": "bert", "hidden_size": -1, "num_attention_heads": 2}', "= -1"),
        ('{"model_type": "bert", "hidden_size": "768", "num_attention_heads": 2}', "'768'"),
    ],
)
def test_a_config_that_is_none_is_refused_with_what_was_found(content, told, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=told):
        load_architecture(str(path))


def test_an_unknown_model_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match=r"no model 'bert-huge'.*bert-base.*config\.json"):
        load_architecture("bert-huge")
