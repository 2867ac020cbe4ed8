"""Hugging Face's Trainer on two nodes of two ranks, or on one device: only the import differs.

torchrun --nnodes 2 --nproc-per-node 2 ... hf.py --dp 2 --tp 2 --steps 20
torchrun --nproc-per-node 2 hf.py --tp 2 --steps 40         goes on where that ended
python hf.py --steps 60                                     on one device, too
"""

import argparse
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, TrainingArguments, set_seed

import dimsolve as ds
from dimsolve.trainers import Trainer  # and not from transformers

parser = argparse.ArgumentParser()
parser.add_argument("--dp", type=int, default=1)
parser.add_argument("--tp", type=int, default=1)
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--folder", default="out")
options = parser.parse_args()

set_seed(0)
config = LlamaConfig(
    vocab_size=256,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
)
model = LlamaForCausalLM(config)
rows = torch.randint(256, (64, 16), generator=torch.Generator().manual_seed(1))
data = [{"input_ids": row, "labels": row} for row in rows]

batch = {"input_ids": rows[:8], "labels": rows[:8], "num_items_in_batch": torch.tensor(1.0)}
dims = {0: "batch", 1: "seq"}
graph = ds.trace(model, kwargs=batch, dynamic={"input_ids": dims, "labels": dims})
plan = ds.plan(graph, {"dp": options.dp, "tp": options.tp})

arguments = TrainingArguments(
    options.folder,
    per_device_train_batch_size=8 // options.dp,
    gradient_accumulation_steps=2,
    max_steps=options.steps,
    save_steps=2,
    logging_steps=1,
    learning_rate=1e-2,
    max_grad_norm=0.5,
    lr_scheduler_type="constant_with_warmup",
    report_to=[],
    use_cpu=not torch.cuda.is_available(),
)
part = ds.parallelize(model, plan, inputs="local")
trainer = Trainer(model=part, args=arguments, train_dataset=data)
begun = any(Path(options.folder).glob("checkpoint-*"))
trainer.train(resume_from_checkpoint=begun or None)
if trainer.is_world_process_zero():
    for row in trainer.state.log_history[:-1]:
        print(f"step {row['step']} loss {row['loss']:.5f}")
