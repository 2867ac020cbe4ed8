"""What transformers itself does with a plan: it loads a tiny model onto gloo ranks and runs it.

    World(2).ask(home, "LlamaForCausalLM", None, 2)
    {"load": "", "forward": "", "gradients": "", "at": ""}      equal to one device

Every entry is "" where that step is right, else what was raised or how far off it was. The weights
are those that `dimsolve.exec.engines.audit` gives them: none is constant. A world in which a rank
failed is ended, and the next question gets a new one.
"""

from __future__ import annotations

import multiprocessing
import pickle
import time
import traceback
from datetime import timedelta
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

TOLERANCE = 2e-3


class World:
    """Processes with a gloo group that answer questions until one of them fails."""

    def __init__(self, count: int, patience: float = 25.0) -> None:
        import torch.distributed as dist

        self.count, self.patience = count, patience
        self.store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.engines.preloaded"])
        self.pipes, self.processes = [], []
        for rank in range(count):
            here, there = context.Pipe()
            args = (there, self.store.port, rank, count, patience)
            process = context.Process(target=_serve, args=args, daemon=True)
            process.start()
            there.close()
            self.pipes.append(here)
            self.processes.append(process)

    def ask(self, *question: Any) -> dict[str, str]:
        """Returns the first rank's answer, or that of the first rank that failed."""
        for pipe in self.pipes:
            pipe.send_bytes(pickle.dumps(question))
        answers: dict[int, dict[str, str]] = {}
        end = time.monotonic() + 4 * self.patience
        while len(answers) < self.count and time.monotonic() < end:
            left = [pipe for rank, pipe in enumerate(self.pipes) if rank not in answers]
            for pipe in wait(left, timeout=1.0):
                rank = self.pipes.index(pipe)
                try:
                    answers[rank] = pickle.loads(self.pipes[rank].recv_bytes())
                except EOFError:
                    answers[rank] = {"load": "the process ended", "at": ""}
                if answers[rank].get("raised"):
                    end = min(end, time.monotonic() + 1.5)
        failed = [a for _, a in sorted(answers.items()) if a.get("raised")]
        if failed or len(answers) < self.count:
            self.close()
        differing = [a for _, a in sorted(answers.items()) if any(a.values())]
        return (failed or differing or list(answers.values()) or [{"load": "no answer"}])[0]

    def close(self) -> None:
        """Ends the processes."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()

    @property
    def alive(self) -> bool:
        """Whether all ranks still run."""
        return all(process.is_alive() for process in self.processes)


def _serve(pipe: Any, port: int, rank: int, count: int, patience: float) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, None, False)
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=count, timeout=timedelta(seconds=patience)
    )
    while True:
        try:
            question = pickle.loads(pipe.recv_bytes())
        except EOFError:
            return
        pipe.send_bytes(pickle.dumps(run(*question)))


def prepare(home: Path, model: Any, inputs: dict[str, Any]) -> None:
    """Saves a model, and what one device computes with what is loaded from there."""
    import torch

    model.save_pretrained(home)
    whole = type(model).from_pretrained(home).eval()
    whole.to(torch.float32)
    outputs = _outputs(whole, inputs)
    gradients = _gradients(whole, outputs)
    with torch.no_grad():
        # How much rounding may matter: weights that differ in their last digits.
        generator = torch.Generator().manual_seed(2)
        for parameter in whole.parameters():
            parameter.mul_(1 + 3e-7 * torch.randn(parameter.shape, generator=generator))
        moved = max(map(_difference, outputs, _outputs(whole, inputs)), default=0.0)
    known = {"inputs": inputs, "outputs": [o.detach() for o in outputs], "gradients": gradients}
    torch.save({**known, "allowed": max(TOLERANCE, 30 * moved)}, home / "one_device.pt")


def run(
    home: str, name: str, plan: dict[str, str] | None, count: int, experts: Any = None
) -> dict[str, str]:
    """Does what a rank does: load, forward, backward; returns what went wrong."""
    import torch
    import transformers
    from transformers.distributed import DistributedConfig

    found = {"load": "", "forward": "", "gradients": "", "at": "", "raised": ""}
    step = "load"
    try:
        known = torch.load(Path(home) / "one_device.pt", weights_only=False)
        ep = {} if experts is None else {"ep_size": count, "ep_plan": experts}
        config = DistributedConfig(tp_size=count, tp_plan=plan, **ep)
        cls = getattr(transformers, name)
        model = cls.from_pretrained(home, distributed_config=config).eval()
        step = "forward"
        with torch.no_grad():
            outputs = _outputs(model, known["inputs"])
        worst = max(map(_difference, known["outputs"], outputs), default=0.0)
        if worst > known["allowed"]:
            found["forward"] = f"differs by {worst:.1g}"
        else:
            step = "gradients"
            outputs = _outputs(model, known["inputs"])
            worst = max(map(_difference, known["outputs"], outputs), default=0.0)
            if worst > known["allowed"]:
                found["gradients"] = f"the outputs differ by {worst:.1g} in training"
                return found
            gradients = _gradients(model, outputs)
            sizes = [float(g.abs().max()) for g in known["gradients"].values() if g is not None]
            largest = 1e-4 * max(sizes, default=0.0)
            far = {
                n: _difference(g, gradients.get(n), largest)
                for n, g in known["gradients"].items()
                if g is not None
            }
            wrong = {n: d for n, d in far.items() if d > known["allowed"]}
            if wrong:
                name, worst = max(wrong.items(), key=lambda item: item[1])
                found["gradients"] = f"{len(wrong)} of {len(far)} differ, {name} by {worst:.1g}"
                found["at"] = ", ".join(wrong)[:600]
    except BaseException as error:
        found[step] = f"{type(error).__name__}: {str(error)[:300]}"
        frames = [
            f for f in traceback.extract_tb(error.__traceback__) if "/torch/" not in f.filename
        ]
        last = frames[-1]
        found["at"] = f"{'/'.join(Path(last.filename).parts[-3:])}:{last.lineno}"
        found["raised"] = "yes"
    return found


def _outputs(model: Any, inputs: dict[str, Any]) -> list[Any]:
    from dimsolve.exec.engines.audit import returned
    from dimsolve.exec.engines.record import tensors_in

    return list(tensors_in(returned(model(**inputs))))


def _gradients(model: Any, outputs: list[Any]) -> dict[str, Any]:
    import torch

    generator = torch.Generator().manual_seed(1)
    floats = [t for t in outputs if t.requires_grad]
    weights = [torch.randn(t.shape, generator=generator) for t in floats]
    sum((t * w).sum() for t, w in zip(floats, weights, strict=True)).backward()
    found = {}
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        found[name] = gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient
    return found


def _difference(wanted: Any, given: Any, least: float = 1e-9) -> float:
    if given is None or wanted.shape != given.shape:
        return float("inf")
    if not wanted.is_floating_point():
        return 0.0 if bool((wanted == given).all()) else 1.0
    wanted, given = wanted.detach().nan_to_num(), given.detach().nan_to_num()
    scale = float(wanted.abs().max()) if wanted.numel() else 0.0
    return float((wanted - given).abs().max()) / max(scale, least) if wanted.numel() else 0.0
