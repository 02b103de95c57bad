"""Runs independent tasks: in this process, or in spawned worker processes. Results come in the order of the tasks.

Workers are spawned, never forked (an encoder's threads do not survive a fork), get tasks over a pipe and send back
small results. A worker that dies is noticed at once; its task is given to a fresh worker once, then the run fails and
names it. Leaving the iterator early (an error, Ctrl-C, SIGTERM) ends the workers.
"""

import multiprocessing
import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
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
        with _without_ctrl_c():
            self.process.start()
        other.close()
        self.number = -1  # of the task in hand
        self.started = False

    def exit_code(self) -> int | None:
        """How a worker ended whose pipe is at its end."""
        self.process.join(1)
        return self.process.exitcode

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach, not even while they import; only a main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Pool:
    """Up to `most` workers; each is started when there is a task for it."""

    def __init__(self, function: Callable[[Any], Any], most: int) -> None:
        self._function, self._most = function, most
        self._workers: list[_Worker] = []

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
            # At most a few results wait for a slow early task, so memory and the splitter stay bounded. A task to be
            # given again is what they wait for, so it is given whatever their number.
            while len(in_hand) < self._most and (waiting or len(finished) < 4 * self._most):
                number, (task, error) = waiting.popleft() if waiting else next(numbered, (-1, (None, None)))
                if number < 0:
                    break
                if error is not None:
                    finished[number] = False, error
                    continue
                worker = self._idle()
                worker.number, in_hand[number] = number, task
                with suppress(OSError):  # it died while idle: its pipe is at its end, which is seen below
                    worker.pipe.send(task)
            busy = [worker for worker in self._workers if worker.number >= 0]
            if not busy and next_result not in finished:
                return
            for worker in self._ready(busy):
                number = worker.number
                try:
                    answer = worker.pipe.recv()
                    if not worker.started:  # its first word, before any answer
                        worker.started = True
                        continue
                    finished[number] = answer
                    worker.number = -1
                    del in_hand[number]
                except (EOFError, OSError):
                    code = worker.exit_code()
                    self._workers.remove(worker)
                    worker.stop()
                    tries[number] = tries.get(number, 0) + 1
                    if tries[number] >= _TRIES:
                        raise WorkerError(
                            f"a worker process died twice (exit code {code}) on {_short(in_hand[number])}",
                            hint=_why(code, started=worker.started),
                        ) from None
                    waiting.append((number, (in_hand.pop(number), None)))

    def _idle(self) -> _Worker:
        for worker in self._workers:
            if worker.number < 0:
                return worker
        self._workers.append(_Worker(self._function))
        return self._workers[-1]

    def _ready(self, busy: list[_Worker]) -> list[_Worker]:
        pipes: list[Connection] = [worker.pipe for worker in busy]  # a dead worker's pipe is ready too: it ends
        ready = set(map(id, wait(pipes))) if pipes else set()
        return [worker for worker in busy if id(worker.pipe) in ready]

    def stop(self) -> None:
        for worker in self._workers:
            worker.stop()


def _why(code: int | None, *, started: bool) -> str:
    if not started and code != -signal.SIGKILL:
        return (
            'a script that calls `packtool.pack` needs `if __name__ == "__main__":` around the call, because workers '
            "import the script; or use `workers=1`"
        )
    return "it may have run out of memory (exit code -9 usually means that): use fewer `--workers`"


def _short(task: Any) -> str:
    return str(getattr(task, "title", type(task).__name__))


def _end_with_parent() -> None:
    """A killed driver cannot end its workers; they must not go on in a folder that the next run takes over."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(pipe: Connection, function: Callable[[Any], Any]) -> None:
    """A worker's life: take a task, answer, until the pipe ends. Ctrl-C is the parent's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # One process a core: the encoder's own threads would only fight over them.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    pipe.send(None)  # up and running: what goes wrong from here on is the task's
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer: tuple[bool, Any] = (True, function(task))
        except PackError as error:
            answer = (False, error)
        except OSError as error:  # a full disk is the user's affair; the number and file survive, a class may not
            answer = (False, OSError(error.errno, error.strerror, error.filename))
        except Exception as error:  # it may not survive pickling; its story does
            answer = (False, RuntimeError("".join(traceback.format_exception(error))))
        pipe.send(answer)
