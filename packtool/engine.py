"""Runs independent tasks: in this process, or in spawned worker processes. Results come in the order of the tasks.

Workers are spawned, never forked (an encoder's threads do not survive a fork), get tasks over a pipe and send back
small results. A worker that dies is noticed at once; its task is given to a fresh worker once, then the run fails and
names it. Leaving the iterator early (an error, Ctrl-C, SIGTERM) ends the workers.
"""

import multiprocessing
import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from packtool.errors import PackError

__all__ = ["WorkerError", "available_cores", "run_tasks"]

Task = TypeVar("Task")
Result = TypeVar("Result")
_TRIES = 2


class WorkerError(PackError):
    """A worker process died twice on the same task."""


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_tasks(function: Callable[[Task], Result], tasks: Iterable[Task], workers: int) -> Iterator[Result]:
    """Yield `function(task)` for every task, in order.

    Args:
        function: a module-level function; tasks and results are picklable.
        tasks: read lazily, a few ahead of the workers.
        workers: processes; with 1, or with a single task, everything runs in this process.

    Raises:
        WorkerError: a worker died twice on one task. Whatever `function` raises is raised here, in task order; an error
            of `tasks` itself comes after the results of the tasks before it.
    """
    feed = _caught(tasks)
    head = list(islice(feed, 1 if workers <= 1 else 2))
    if workers <= 1 or len(head) < 2:
        for task, error in chain(head, feed):
            if error is not None:
                raise error
            yield function(task)
        return
    pool = _Pool(function, workers)
    try:
        yield from pool.run(chain(head, feed))
    finally:
        pool.stop()


def _caught(tasks: Iterable[Any]) -> Iterator[tuple[Any, Exception | None]]:
    """(task, None) for every task, and (None, error) where the tasks end in an error: reading ahead must not raise."""
    try:
        for task in tasks:
            yield task, None
    except Exception as error:
        yield None, error


class _Worker:
    """One spawned process, its pipe, and the task it has."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other, function), daemon=True)
        self.process.start()
        other.close()
        self.number = -1  # of the task in hand

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


class _Pool:
    def __init__(self, function: Callable[[Any], Any], workers: int) -> None:
        self._function = function
        self._workers = [_Worker(function) for _ in range(workers)]

    def run(self, tasks: Iterator[tuple[Any, Exception | None]]) -> Iterator[Any]:
        waiting: deque[tuple[int, tuple[Any, None]]] = deque()  # tasks to give again
        in_hand: dict[int, Any] = {}
        tries: dict[int, int] = {}
        finished: dict[int, tuple[bool, Any]] = {}
        numbered = enumerate(tasks)
        next_result = 0
        while True:
            while next_result in finished:
                good, value = finished.pop(next_result)
                if not good:
                    raise value
                yield value
                next_result += 1
            for worker in list(self._workers):
                # At most a few results wait for a slow early task, so memory and the splitter stay bounded. A task to
                # be given again is what they wait for, so it is given whatever their number.
                if worker.number < 0 and (waiting or len(finished) < 4 * len(self._workers)):
                    number, (task, error) = waiting.popleft() if waiting else next(numbered, (-1, (None, None)))
                    if error is not None:
                        finished[number] = False, error
                    elif number >= 0:
                        worker.number, in_hand[number] = number, task
                        with suppress(OSError):  # it died while idle: its pipe is at its end, which is seen below
                            worker.pipe.send(task)
            busy = [worker for worker in self._workers if worker.number >= 0]
            if not busy and next_result not in finished:
                return
            for worker in self._ready(busy):
                number = worker.number
                try:
                    finished[number] = worker.pipe.recv()
                    worker.number = -1
                    del in_hand[number]
                except (EOFError, OSError):
                    self._replace(worker)
                    tries[number] = tries.get(number, 0) + 1
                    if tries[number] >= _TRIES:
                        code = worker.process.exitcode
                        raise WorkerError(
                            f"a worker process died twice (exit code {code}) on {_short(in_hand[number])}",
                            hint="exit code -9 usually means out of memory: use fewer `--workers`",
                        ) from None
                    waiting.append((number, (in_hand.pop(number), None)))

    def _ready(self, busy: list[_Worker]) -> list[_Worker]:
        pipes: list[Connection] = [worker.pipe for worker in busy]  # a dead worker's pipe is ready too: it ends
        ready = set(map(id, wait(pipes))) if pipes else set()
        return [worker for worker in busy if id(worker.pipe) in ready]

    def _replace(self, dead: _Worker) -> None:
        dead.stop()
        self._workers[self._workers.index(dead)] = _Worker(self._function)

    def stop(self) -> None:
        for worker in self._workers:
            worker.stop()


def _short(task: Any) -> str:
    return str(getattr(task, "title", type(task).__name__))


def _work(pipe: Connection, function: Callable[[Any], Any]) -> None:
    """A worker's life: take a task, answer, until the pipe ends. Ctrl-C is the parent's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # One process a core: the encoder's own threads would only fight over them.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer: tuple[bool, Any] = (True, function(task))
        except (PackError, OSError) as error:
            answer = (False, error)
        except Exception as error:  # it may not survive pickling; its story does
            answer = (False, RuntimeError("".join(traceback.format_exception(error))))
        pipe.send(answer)
