"""Sphere jobs: functions that run where the files lie.

    job = cloud.stream("/text/*.txt", records="lines").map("words", buckets=8).map("index").to("/index")
    job.run()
    for path in job.outputs: ...

A stream says what is read, each `map` adds a stage, `to` names the folder of the output; nothing happens before `run`. Streams
do not change: each `map` gives a new one, so that several jobs may begin alike.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Self, cast

from sector import _native
from sector.functions import Function, Requirement, packed
from sector.progress import Bar

Progress = Callable[[int, int, int], object]
"""Is told of a stage, its bytes done, and its bytes in all."""


class SegmentLog(NamedTuple):
    """What a function printed over one segment: standard output and standard error, in their order."""

    stage: int
    segment: int | None
    """Its number in the stage's input; `None` for what was printed while the function was loaded."""
    run: int
    """How often the whole job had been started again."""
    attempt: int
    node: str
    failed: bool
    """Whether the function failed there."""
    text: str
    """At most 8 KiB: the beginning and the end, and between them a line that says how much is not kept."""
    left_out_bytes: int


@dataclass(frozen=True)
class Stage:
    """A function over what comes before."""

    kind: str
    name: str
    code: bytes
    requires: tuple[Requirement, ...]
    parameters: tuple[tuple[str, str], ...]
    buckets: int | None
    records: str
    side: tuple[tuple[str, str], ...]
    """Names of side files, and where they are."""
    modules: tuple[str, ...]
    """Modules here that go along."""


@dataclass(frozen=True)
class Stream:
    """Files of the cloud, cut into segments of whole records, and the functions that they pass through."""

    _session: _native.Session
    patterns: tuple[str, ...]
    """Paths, folders and globs."""
    records: str | None
    """How the files fall into records, where not as they say themselves."""
    segment_bytes: tuple[int, int] | None
    """Smallest and largest segment."""
    stages: tuple[Stage, ...] = ()
    beside: tuple[tuple[str, ...], ...] = ()
    """The same of further streams, which are read together with this one."""

    def __add__(self, other: Stream) -> Self:
        """The two read together, record by record or file by file, as the paper writes it: `A[] + B[]`.

        A function gets a segment of this stream, whose `streams` has what goes with it of each (`docs/records.md`). The
        records of all must be `fixed:N` or `index`, and as many; or `file`, and the files as many. That is found out, and
        refused with `ValueError`, when the job runs.

        Raises `ValueError` where one has stages already, or where they are to be read in different ways.
        """
        if self.stages or other.stages:
            raise ValueError("streams are put together before their first `map`")
        if (self.records, self.segment_bytes) != (other.records, other.segment_bytes):
            raise ValueError(
                "streams that are read together have one `records` and one `segment_bytes`: leave `records` out where the "
                "files say themselves how they fall into records"
            )
        return replace(self, beside=(*self.beside, other.patterns, *other.beside))

    def map(
        self,
        function: Function,
        *,
        buckets: int | None = None,
        records: str = "file",
        side: Mapping[str, str | PurePosixPath] | None = None,
        py_modules: Sequence[str | os.PathLike[str]] = (),
        **parameters: object,
    ) -> Self:
        """Adds a stage: `function` is called with each segment, on the node where it lies.

        `function` is a Python function of `(segment, out)`, or of `(segment)` alone, which then returns or yields its records
        (`docs/functions.md`); it travels by `cloudpickle`, with all that it closes over, and what it imports must be there
        where the nodes run. Or it is the name of a built-in one (`words`, `index`, `hash`, `partition`, `sort`, `sample`,
        `count`, `copy`), or `path/to/lib.so:symbol`, a library on this machine, which is sent along. `parameters` go to it
        as texts.

        With `buckets` the results are dealt out, as the function says, to so many buckets, each of which is a segment of the
        next stage or a file of the output; without, they stay where they were made. `records` says how the results fall into
        records, for the next stage and in the output.

        `side` names files of the cloud, at most 16 of 256 MiB, that every call may read: `segment.side["centres"]` for
        `side={"centres": "/centres"}`. Each is sent once to a node, in the version that it has when the job begins.

        `py_modules` are modules on this machine that go along and that the function may import: files `NAME.py`, packages, or
        folders of modules, of 12 MiB with the function.

        Raises `FileNotFoundError` where there is no such library, `ImportError` without `cloudpickle`, and what pickling
        raises for a function that cannot travel.
        """
        if isinstance(py_modules, str | os.PathLike):
            raise TypeError("`py_modules` is a list of paths")
        kind, name, code, requires = packed(function)
        texts = tuple((key, str(value)) for key, value in parameters.items())
        files = tuple((key, str(path)) for key, path in (side or {}).items())
        modules = tuple(os.path.expanduser(os.fspath(path)) for path in py_modules)
        stage = Stage(kind, name, code, tuple(requires), texts, buckets, records, files, modules)
        return replace(self, stages=(*self.stages, stage))

    def to(
        self,
        folder: str | PurePosixPath,
        *,
        title: str | None = None,
        copies: int | None = None,
        max_errors: int = 0,
        requirements: str | os.PathLike[str] | Sequence[str] | None = None,
        wheels: str | os.PathLike[str] | None = None,
    ) -> Job:
        """The job that writes files `part-00000` … to `folder`, which must not exist or be empty.

        `copies` is how many copies the cloud keeps of them. With `max_errors` the job goes on although its functions fail on up
        to so many segments; these are left out, and `errors.jsonl` in the folder says what went wrong.

        `requirements` are Python packages that its functions import: a file as for pip, or a list such as
        `["numpy==2.0"]`. `wheels` is a folder on this machine with the wheels of these and of all that they need. Each node
        installs them once, from these wheels alone, and keeps them for later jobs.

        Raises `ValueError` where there is no stage, for requirements without wheels, and where nothing is required.
        """
        if not self.stages:
            raise ValueError("a job needs a function: add one with `map`")
        environment = _environment(requirements, wheels)
        streams = (self.patterns, *self.beside)
        over = " with ".join(" ".join(patterns) for patterns in streams)
        said = f"{', then '.join(stage.name for stage in self.stages)} over {over}"
        native = self._session.job(
            title or said,
            [list(patterns) for patterns in streams],
            [
                (
                    each.kind,
                    each.name,
                    each.code,
                    list(each.requires),
                    list(each.parameters),
                    each.buckets,
                    each.records,
                    list(each.side),
                    list(each.modules),
                )
                for each in self.stages
            ],
            str(folder),
            records=self.records,
            segment_bytes=self.segment_bytes,
            max_errors=max_errors,
            copies=copies,
            environment=environment,
        )
        return Job(native, self._session, str(folder))


def _environment(
    requirements: str | os.PathLike[str] | Sequence[str] | None, wheels: str | os.PathLike[str] | None
) -> tuple[str, str] | None:
    """The text of what is required, and the folder of the wheels."""
    if requirements is None and wheels is None:
        return None
    if requirements is None or wheels is None:
        raise ValueError(
            "`requirements` and `wheels` go together: nodes have no index of packages to ask, and `pip download "
            "--only-binary :all: -r FILE -d DIR` fetches wheels"
        )
    if isinstance(requirements, str | os.PathLike):
        text = Path(requirements).expanduser().read_text(encoding="utf-8")
    else:
        text = "\n".join(requirements)
    return text, os.path.expanduser(os.fspath(wheels))


class Job:
    """A job that this process drives, and that ends with it; or, detached, one that a node drives."""

    def __init__(self, native: _native.Job | _Elsewhere, session: _native.Session, folder: str | None) -> None:
        self._native = native
        self._session = session
        self._folder = folder
        self._outputs: list[str] | None = None

    @classmethod
    def started_elsewhere(cls, session: _native.Session, job: str, folder: str | None) -> Self:
        """A job that the master knows, by its id; see `Cloud.job`."""
        return cls(_Elsewhere(session, _native.job_status(session, job).id), session, folder)

    @property
    def id(self) -> str | None:
        """Its id, by which `sector job ID` and `Cloud.jobs` know it; `None` before it has begun."""
        return self._native.id

    @property
    def status(self) -> _native.JobStatus | None:
        """How far it is, of a detached one as the master knows; `None` before it has begun."""
        return self._native.status

    @property
    def outputs(self) -> list[str]:
        """The paths of its output, in the order of buckets; empty buckets have no file. Raises `ValueError` before the end."""
        if self._outputs is None and isinstance(self._native, _Elsewhere):
            if self._folder is None:
                raise ValueError("the cloud does not keep where a job writes: name it, `cloud.job(id, folder)`")
            if self._native.status.state == "done":
                self._outputs = self._parts(self._folder)
        if self._outputs is None:
            raise ValueError("the job has no output: it has not run to its end")
        return self._outputs

    def run(self, progress: bool | Progress = True) -> Self:
        """Runs it to its end. With `progress`, a terminal or a notebook shows a bar meanwhile.

        Or `progress` is a function, which is called now and then with the number of the stage (from 0), its bytes done and
        its bytes in all, the last time when all is done. What it raises cancels the job.

        The output appears in one step at the end, or not at all. Ctrl-C cancels the job.

        Raises `JobError` where a function fails or the job is cancelled, `FileNotFoundError` without input, `FileExistsError`
        where the folder of the output is not empty, `PermissionError`, `UnavailableError` where too many nodes were lost.
        """
        if callable(progress):
            self._outputs = self._native.run(progress)
            return self
        with Bar.of_job(shown=progress) as bar:
            self._outputs = self._native.run(bar.tell)
        return self

    def detach(self) -> str:
        """Leaves it to a node, and gives its id. It goes on without this process, and with another node where that one dies;
        it ends with the login or token of this session.

        Raises what can be known before any work is done, as `run` does: `FileNotFoundError` without input, `FileExistsError`
        where the folder of the output is not empty.
        """
        return self._native.detach()

    def wait(self) -> Self:
        """Waits for the end of a detached job, or of one that was started elsewhere.

        Raises `JobError` where it failed, was cancelled or is lost, and `ValueError` where it was not detached.
        """
        while (status := self.status) is not None and status.state == "running":
            time.sleep(_LOOK_SECONDS)
        if status is None:
            raise ValueError("the job was not detached: `run` waits for its end")
        if status.state != "done":
            said = status.errors[0] if status.errors else f"the job {status.id} was {status.state}"
            error = _native.JobError(said)
            error.job_id, error.errors = status.id, status.errors
            raise error
        if self._folder is not None:
            self._outputs = self._parts(self._folder)
        return self

    def _parts(self, folder: str) -> list[str]:
        entries = cast("list[_native.Entry]", self._session.entries(folder, False, False))
        return [entry.path for entry in entries if entry.name.startswith("part-")]

    def logs(self) -> list[SegmentLog]:
        """What its functions have printed so far, by stage and segment: of the last attempt at each, whether it failed or not.

        8 KiB are kept of a segment and 256 KiB of a job, the last 64 KiB of them for segments that failed; the logs of the
        last 100 jobs. They can be read from anywhere, also after the end, by who may see the job. Raises `ValueError` before
        it has begun, `FileNotFoundError` where the master knows no such job (any more), `PermissionError`.
        """
        if self.id is None:
            raise ValueError("the job has not begun: nothing was printed")
        rows, _ = _native.job_logs(self._session, self.id)
        return [SegmentLog(*row) for row in rows]

    def cancel(self) -> None:
        """Asks it to stop; its `run`, in another thread, then raises `JobError`. Raises `ValueError` before it has begun."""
        self._native.cancel()

    def __repr__(self) -> str:
        return f"<Job {self.id or '(not begun)'}>"


class _Elsewhere:
    """Takes the place of the native job where somebody else drives it: what the master knows."""

    def __init__(self, session: _native.Session, job: str) -> None:
        self._session = session
        self.id = job

    @property
    def status(self) -> _native.JobStatus:
        return _native.job_status(self._session, self.id)

    def cancel(self) -> None:
        _native.cancel_job(self._session, self.id)

    def run(self, told: Progress | None) -> list[str]:
        raise ValueError(f"the job {self.id} was begun elsewhere: `wait` waits for its end")

    def detach(self) -> str:
        raise ValueError(f"the job {self.id} was begun elsewhere: it needs nothing of this process")


_LOOK_SECONDS = 0.2
"""Time between two looks at a detached job."""


def status_of(session: _native.Session, user: str | None, state: str | None) -> list[_native.JobStatus]:
    """All jobs that the master knows of, or those of a user or in a state, newest first."""
    if user is None and state is None:
        return cast("list[_native.JobStatus]", session.jobs(False))
    return _native.find_jobs(session, user, state)
