"""What the watch's thread is told of the main thread: its calls, and no frame of compiled code."""

from __future__ import annotations

import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from dimsolve.exec.parallel.stacks import Position, main_thread, main_variables

READING = """
import sys, threading
import torch
from dimsolve.exec.parallel.stacks import main_thread, main_variables

def piece(x, number):
    y = x.sin() + number
    torch._dynamo.graph_break()
    return y.cos()

def whole(x, number):
    for i in range(3):
        x = piece(x, number + i)
    return x

def read():
    while not ended:
        names.update(call.function.rpartition(".")[2] for call in main_thread())
        seen.append(dict(main_variables(piece.__code__)))

names, seen, ended = set(), [], []
sys.setswitchinterval(1e-6)
thread = threading.Thread(target=read)
thread.start()
compiled = torch.compile(whole, backend="eager", dynamic=False)
for number in range(60):
    if number % 20 == 0:
        torch._dynamo.reset()
    compiled(torch.ones(number % 7 + 1), number % 3)
ended.append(True)
thread.join()
print(len(seen) > 0, "compile_wrapper" in names, {name for found in seen for name in found})
"""


FORKING = """
import os, threading
from dimsolve.exec.parallel.stacks import main_thread

def forks():
    if child := os.fork():
        os.waitpid(child, 0)
        return
    found = []
    thread = threading.Thread(target=lambda: found.extend(main_thread()))
    thread.start()
    thread.join()
    print(*{call.function for call in found} & {"forks"}, flush=True)
    os._exit(0)

forks()
thread = threading.Thread(target=forks)
thread.start()
thread.join()
"""
COMING = """
import ctypes, threading
from dimsolve.exec.parallel.stacks import main_thread

kind = ctypes.CFUNCTYPE(None)
came = []
called = kind(lambda: came.append(1))
new = ctypes.CDLL(None)

def read():
    while not ended:
        calls.append(main_thread()[-1].function)

ended, calls = [], []
thread = threading.Thread(target=read)
thread.start()
for _ in range(200):
    young = [ctypes.c_ulong() for _ in range(32)]
    for each in young:
        new.pthread_create(ctypes.byref(each), None, called, None)
    for each in young:
        new.pthread_join(each, None)
ended.append(True)
thread.join()
print(len(came), *set(calls))
"""


class _Reading(torch.autograd.Function):
    found: tuple[Position, ...] = ()

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        _Reading.found = in_thread(main_thread)
        return gradients[0]


def in_thread(asked: Callable[[], Any]) -> Any:
    """What another thread answers while this one waits for it."""
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(asked()))
    thread.start()
    thread.join()
    return answers[0]


def test_the_calls_are_those_of_the_traceback() -> None:
    """Innermost first; what the wait itself adds stands before."""
    calls = in_thread(main_thread)
    expected = [(f.filename, f.name) for f in reversed(traceback.extract_stack())]
    found = [(call.path, call.function.rpartition(".")[2]) for call in calls]
    start = found.index(expected[0])
    assert found[start:] == expected[: len(found) - start]
    own = calls[start]
    assert str(own) == f"{Path(__file__).name}:{own.line}: calls = in_thread(main_thread)"


def test_the_variables_are_those_of_the_innermost_call() -> None:
    def deeper(number: int) -> Any:
        return deeper(number - 1) if number else in_thread(lambda: main_variables(deeper.__code__))

    found = in_thread(lambda: main_variables(in_thread.__code__))
    assert set(found) == {"asked", "answers", "thread"}
    assert deeper(3)["number"] == 0
    assert in_thread(lambda: main_variables((lambda: None).__code__)) == {}


def test_a_backward_is_known_by_its_class() -> None:
    _Reading.apply(torch.ones(2, requires_grad=True)).sum().backward()
    names = [call.autograd_function for call in _Reading.found]
    assert [name for name in names if name] == ["_Reading"]
    assert "_engine_run_backward" in [call.function for call in _Reading.found]


def test_nothing_is_read_in_the_frames_of_compiled_code() -> None:
    """With frame objects the process ended by a segmentation fault, once in some fifty runs."""
    done = subprocess.run([sys.executable, "-c", READING], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "True True set()"


def test_threads_that_come_to_python_meanwhile_are_not_looked_at() -> None:
    """In Python 3.11 a dump of all threads met half-made ones, and the process ended."""
    done = subprocess.run([sys.executable, "-c", COMING], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "6400 <module>"


def test_a_forked_process_has_a_main_thread_of_its_own() -> None:
    """The thread that has forked, whichever it was."""
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["forks", "forks"]
