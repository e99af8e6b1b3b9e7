"""Train a small Pythia in a plain torch loop that is governed through the library.

The model is a GPT-NeoX like Pythia-14M, made smaller still and drawn at random; the text is review
snippets, one token a byte, so nothing is downloaded. Snippets differ in length, and so do the
steps. The lines that govern the loop are those with `gov` in them.

    python examples/finetune_pythia_loop.py --board virtual:agx-orin-64gb
"""

import argparse
import json
import math
from pathlib import Path

import torch
from reviews import DEFAULT_FOLDER, read_reviews
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

from orin_gov import Governor

END = 0  # ends and pads a snippet; no text has this byte
HELD_OUT = 64


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a small language model on review snippets.")
    parser.add_argument("--board", help="e.g. virtual:agx-orin-64gb (default: this machine's)")
    parser.add_argument("--steps", type=int, default=120, help="optimizer steps (default 120)")
    parser.add_argument("--batch-size", type=int, default=8, help="snippets a step (default 8)")
    parser.add_argument("--max-length", type=int, default=192, help="bytes (default 192)")
    parser.add_argument("--lr", type=float, default=2e-3, help="learning rate (default 2e-3)")
    parser.add_argument("--seed", type=int, default=0, help="draws weights and order (default 0)")
    parser.add_argument("--data", type=Path, default=DEFAULT_FOLDER, help="folder of the reviews")
    return parser.parse_args()


def make_model() -> GPTNeoXForCausalLM:
    config = GPTNeoXConfig(
        vocab_size=256,
        hidden_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=512,
        max_position_embeddings=512,
        bos_token_id=END,
        eos_token_id=END,
    )
    return GPTNeoXForCausalLM(config)


def collate(snippets: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Model inputs of shape (snippets, longest); padding is neither attended to nor predicted."""
    tokens = pad_sequence(snippets, batch_first=True, padding_value=END)
    lengths = torch.tensor([len(snippet) for snippet in snippets])
    mask = torch.arange(tokens.shape[1]) < lengths[:, None]
    labels = tokens.masked_fill(~mask, -100)
    return {"input_ids": tokens, "attention_mask": mask.long(), "labels": labels}


def bits_per_byte(model: GPTNeoXForCausalLM, snippets: list[torch.Tensor]) -> float:
    batch = {name: tensor.to(model.device) for name, tensor in collate(snippets).items()}
    model.eval()
    with torch.no_grad():
        loss = model(**batch).loss.item()
    model.train()
    return loss / math.log(2)


def main() -> None:
    args = parse_arguments()
    torch.manual_seed(args.seed)
    encoded = [text.encode()[: args.max_length] for _, text in read_reviews(args.data)]
    snippets = [torch.tensor([*line, END]) for line in encoded]
    chosen = [snippets[i] for i in torch.randperm(len(snippets))]
    held_out, train = chosen[:HELD_OUT], chosen[HELD_OUT:][: args.steps * args.batch_size]
    loader = DataLoader(train, batch_size=args.batch_size, shuffle=True, collate_fn=collate)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = make_model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=True)
    figures = {"steps": len(loader), "bits_per_byte_before": bits_per_byte(model, held_out)}

    with Governor(objective="energy", max_slowdown=0.05, board=args.board) as gov:
        for step, batch in enumerate(gov.steps(loader), start=1):
            with gov.phase("forward"):
                inputs = {name: tensor.to(device) for name, tensor in batch.items()}
                loss = model(**inputs).loss
            with gov.phase("backward"):
                loss.backward()
            with gov.phase("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
            print(f"step {step} loss {loss.item()!r}", flush=True)
        with gov.phase("eval"):
            figures["bits_per_byte_after"] = bits_per_byte(model, held_out)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
