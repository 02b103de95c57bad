"""Task running, in this process and in spawned ones: order, lost workers, errors, and leaving early."""

import multiprocessing
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from packtool.engine import WorkerError, available_cores, run_tasks
from packtool.errors import DataError, RecordError

WORKERS = [1, 3]


# Tasks are module-level functions of picklable arguments: workers are spawned and import this file.


def square(number):
    return number * number


def slow_first(number):
    """The earlier the task, the later its result."""
    time.sleep(0.3 if number == 0 else 0.0)
    return number


def process_and_threads(number):
    return os.getpid(), multiprocessing.get_start_method(allow_none=True), os.environ.get("TOKENIZERS_PARALLELISM")


@dataclass(frozen=True)
class Marked:
    """A task that kills its worker until `deaths` marks lie in `folder`."""

    folder: str
    number: int
    deaths: int
    wait: float = 0.0

    @property
    def title(self):
        return f"task number {self.number}"


def mark_and_die(task):
    marks = list(Path(task.folder).glob(f"{task.number}-*"))
    if len(marks) < task.deaths:
        (Path(task.folder) / f"{task.number}-{len(marks)}").touch()
        time.sleep(task.wait)
        os._exit(7)
    return task.number


def raise_if_negative(number):
    if number < 0:
        time.sleep(0.2 if number == -1 else 0.0)  # the first error comes last
        raise DataError(f"task {number} is wrong", hint="use another number")
    return number


class UnpicklableError(Exception):
    """An exception that no pipe carries."""

    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


class PickyError(Exception):
    """An exception that can be pickled and not be built again."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def raise_unpicklable(number):
    if number == 1:
        raise UnpicklableError("the lock of task 1")
    return number


def raise_picky(number):
    if number == 1:
        raise PickyError("this", "that")
    return number


def raise_record_error(number):
    if number == 1:
        raise RecordError("line 4: expected text", hint="mend it")
    return number


def note_process_and_wait(task):
    folder, number = task
    (Path(folder) / str(os.getpid())).touch()
    if number:
        time.sleep(600)
    return number


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("workers", WORKERS)
def test_results_come_in_the_order_of_the_tasks(workers):
    assert list(run_tasks(square, range(40), workers)) == [number * number for number in range(40)]
    assert list(run_tasks(slow_first, range(6), workers)) == list(range(6))


@pytest.mark.parametrize("workers", WORKERS)
def test_no_tasks_no_results(workers):
    assert list(run_tasks(square, [], workers)) == []


def test_one_worker_and_one_task_run_in_this_process():
    assert {pid for pid, _, _ in run_tasks(process_and_threads, range(3), 1)} == {os.getpid()}
    assert {pid for pid, _, _ in run_tasks(process_and_threads, range(1), 4)} == {os.getpid()}


def test_workers_are_spawned_and_keep_the_encoders_threads_off():
    answers = list(run_tasks(process_and_threads, range(20), 2))
    assert os.getpid() not in {pid for pid, _, _ in answers}
    assert {method for _, method, _ in answers} == {"spawn"}
    assert {threads for _, _, threads in answers} == {"false"}


def test_tasks_are_read_lazily():
    read = []

    def tasks():
        for number in range(1000):
            read.append(number)
            yield number

    results = run_tasks(square, tasks(), 2)
    assert [next(results) for _ in range(3)] == [0, 1, 4]
    results.close()
    assert len(read) < 20

    read.clear()
    results = run_tasks(square, tasks(), 1)
    assert next(results) == 0
    assert read == [0]  # with one worker nothing is read ahead


def test_a_worker_that_dies_once_is_replaced_and_its_task_done_again(tmp_path):
    tasks = [Marked(str(tmp_path), number, deaths=int(number in (0, 3))) for number in range(8)]
    assert list(run_tasks(mark_and_die, tasks, 2)) == list(range(8))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0-0", "3-0"]


def test_a_task_lost_while_everything_waits_for_it_is_done_again(tmp_path):
    # The other worker has finished as many tasks as may wait for an early one when the worker of the first one dies.
    tasks = [Marked(str(tmp_path), number, deaths=int(number == 0), wait=2.0) for number in range(30)]
    assert list(run_tasks(mark_and_die, tasks, 2)) == list(range(30))
    assert [path.name for path in tmp_path.iterdir()] == ["0-0"]


def test_a_worker_that_dies_twice_ends_the_run_and_names_the_task(tmp_path):
    tasks = [Marked(str(tmp_path), number, deaths=9 * int(number == 2)) for number in range(6)]
    with pytest.raises(WorkerError) as caught:
        list(run_tasks(mark_and_die, tasks, 2))
    assert caught.value.message == "a worker process died twice (exit code 7) on task number 2"
    assert "--workers" in caught.value.hint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2-0", "2-1"]


@pytest.mark.parametrize("workers", WORKERS)
def test_errors_come_in_task_order_after_the_results_before_them(workers):
    results = run_tasks(raise_if_negative, [5, 6, -1, -2, 7, -3], workers)
    assert [next(results), next(results)] == [5, 6]
    with pytest.raises(DataError) as caught:
        next(results)
    assert (caught.value.message, caught.value.hint) == ("task -1 is wrong", "use another number")


@pytest.mark.parametrize("workers", WORKERS)
def test_a_packtool_error_keeps_its_type_and_hint(workers):
    with pytest.raises(RecordError) as caught:
        list(run_tasks(raise_record_error, range(4), workers))
    assert (caught.value.message, caught.value.hint) == ("line 4: expected text", "mend it")


@pytest.mark.parametrize(
    ("function", "words"), [(raise_unpicklable, "the lock of task 1"), (raise_picky, "this and that")]
)
def test_errors_that_no_pipe_carries_come_as_their_story(function, words):
    results = run_tasks(function, range(4), 2)
    assert next(results) == 0
    with pytest.raises(RuntimeError, match=words) as caught:
        next(results)
    assert function.__name__ in str(caught.value)  # the traceback of the worker


@pytest.mark.parametrize("workers", WORKERS)
def test_an_error_of_the_tasks_themselves_comes_after_the_results_before_it(workers):
    def tasks():
        yield from range(5)
        raise DataError("the input is cut short after its fifth block")

    results = run_tasks(square, tasks(), workers)
    assert [next(results) for _ in range(5)] == [0, 1, 4, 9, 16]
    with pytest.raises(DataError, match="cut short"):
        next(results)


@pytest.mark.parametrize("workers", WORKERS)
def test_who_stops_before_an_error_of_the_tasks_never_sees_it(workers):
    def tasks():
        yield from range(2)
        raise DataError("the input is cut short")

    results = run_tasks(square, tasks(), workers)
    assert next(results) == 0
    results.close()


def test_leaving_early_ends_the_processes(tmp_path):
    results = run_tasks(note_process_and_wait, [(str(tmp_path), number) for number in range(4)], 3)
    assert next(results) == 0
    deadline = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    processes = [int(path.name) for path in tmp_path.iterdir()]
    assert len(processes) == 3
    assert not any(gone(process) for process in processes)
    results.close()
    assert all(gone(process) for process in processes)


def test_an_error_ends_the_processes():
    before = set(multiprocessing.active_children())
    with pytest.raises(DataError):
        list(run_tasks(raise_if_negative, [1, -2, 3, 4], 3))
    assert set(multiprocessing.active_children()) <= before


def test_available_cores():
    assert 1 <= available_cores() <= (os.cpu_count() or 1)
