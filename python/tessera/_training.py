# SPDX-License-Identifier: Apache-2.0
"""Training from arrays in memory, or from a function that gives batches."""
from __future__ import annotations

import ctypes
import time
from ctypes import byref, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, NamedTuple, Sequence, Union

from . import _abi, _arrays
from ._arrays import Memory
from ._errors import DataError, Interrupted, UsageError, check
from ._model import encode

if TYPE_CHECKING:
    import os

    from ._config import EntryConfig
    from ._model import Model

_LIB = _abi.LIB
Batch = Union[Mapping[str, Any], Sequence[Any]]
Data = Union[Mapping[str, Any], Callable[['Position'], Union[Batch, None]], Iterable[Batch]]
_RESUME = {'auto': _abi.RESUME_AUTO, 'never': _abi.RESUME_NEVER}


class Position(NamedTuple):
    """Where a run is: steps done, seed, index of the next sample, rows of the data (0: not known)."""

    step: int
    seed: int
    sample: int
    rows: int


class StepReport(NamedTuple):
    """A step that was made: its number from 1, the outputs of the entry ('loss', …) as numbers, or as arrays if they are not scalars."""

    step: int
    last_step: int
    outputs: dict[str, Any]
    seconds: float  # since the run began

    @property
    def loss(self) -> float:
        """Output 'loss', or the first one."""
        value = self.outputs['loss'] if 'loss' in self.outputs else next(iter(self.outputs.values()))
        return float(value)

    def __str__(self) -> str:
        shown = ', '.join(f'{name} {value:.4f}' for name, value in self.outputs.items() if isinstance(value, float))
        return f'step {self.step}/{self.last_step}: {shown}'


class Summary(NamedTuple):
    """A run that ended: steps done, where it began, outputs of the last step, the state hash, seconds."""

    step: int
    first_step: int
    outputs: dict[str, Any]
    state_hash: str
    seconds: float


class Trainer:
    """Makes steps on batches of the caller, and saves. Close it, or use it in a `with` statement.

    entry: the training entry; None: the only one. state_dir: recovers the state of this directory, or begins there, and holds its lock.
    save_every: steps between saves beside the steps; 0: only `save` saves. keep: generations. seed: None: the state's, or 0. resume: 'auto',
    'never', or the number of a generation. params: a safetensors file to begin from. rows, data: the data of the batches, as a number of rows
    and a digest. new_data: continue with other data. allow_inexact: continue a state with other numerics.
    """

    def __init__(self, model: Model, *, entry: str | None = None, state_dir: str | os.PathLike[str] | None = None, save_every: int = 0,
                 keep: int = 0, seed: int | None = None, resume: str | int = 'auto', params: str | os.PathLike[str] | None = None,
                 rows: int = 0, data: Any = None, new_data: bool = False, allow_network_fs: bool = False, allow_inexact: bool = False) -> None:
        self._handle: Any = None
        self.model, self.state_dir = model, state_dir
        options = _abi.TrainerOptions()
        options.size_bytes = ctypes.sizeof(options)
        options.entry = None if entry is None else entry.encode()
        options.has_seed, options.seed = seed is not None, seed or 0
        options.state_directory, options.save_every, options.keep = encode(state_dir), save_every, keep
        if isinstance(resume, str) and resume not in _RESUME:
            raise UsageError(f"no resume mode '{resume}'; expected 'auto', 'never' or the number of a generation")
        options.resume = _RESUME[resume] if isinstance(resume, str) else _abi.RESUME_EXACT
        options.resume_generation = 0 if isinstance(resume, str) else resume
        options.params, options.rows, options.new_data = encode(params), rows, new_data
        options.allow_network_fs, options.allow_inexact = allow_network_fs, allow_inexact
        if data is not None:
            options.data = data
        with model._lock:
            if model._handle is None:
                raise UsageError(f"the model '{model.name}' is closed")
            handle = c_void_p()
            check(model._ctx, _LIB.tsr_trainer_open(byref(model._ctx), model._handle, byref(options), byref(handle)))
            self._handle, model._trainer, model._ready = handle.value, self, True
        name = entry if entry is not None else next(one for one in model.entries.values() if one.config.kind == 'train').name
        self.config: EntryConfig = model.entries[name].config
        count = c_size_t()
        outputs = _LIB.tsr_trainer_get_outputs(self._handle, byref(count))
        self._outputs = [(one.name.decode(), _reader(one)) for one in outputs[:count.value]]
        self._at: Any = _LIB.tsr_trainer_get_position(self._handle).contents
        self._began = time.monotonic()

    def _open(self) -> Any:
        if self._handle is None:
            raise UsageError(f"the trainer of '{self.model.name}' is closed")
        return self._handle

    @property
    def position(self) -> Position:
        self._open()
        at = self._at
        return Position(at.step, at.seed, at.sample, at.rows)

    @property
    def recovered(self) -> int | None:
        """The generation that was resumed; None: the run began."""
        found = _LIB.tsr_trainer_get_recovery(self._open()).contents
        return found.generation.number if found.found else None

    def row(self, index: int) -> int:
        """The row of the data that `tessera-run` puts in row `index` of the next batch."""
        at = _LIB.tsr_trainer_get_position(self._open())
        if not at.contents.rows:
            raise UsageError('the trainer was opened without the number of rows of its data')
        return int(_LIB.tsr_position_get_row(at, index))

    def outputs(self) -> dict[str, Any]:
        """The outputs of the last step."""
        self._open()
        return {name: read() for name, read in self._outputs}

    def step(self, *args: Any, **kwargs: Any) -> StepReport:
        """Makes one step on a batch: each input of the entry by position or name, in the shape of the config."""
        entry = self.model.entries[self.config.name.partition('[')[0]]
        values = entry._order(args, kwargs)
        memories = [_arrays.memory_of(value, port.dtype) for value, port in zip(values, self.config.inputs)]
        views = (_abi.DlpackView * (len(memories) or 1))()
        names = [port.name.encode() for port in self.config.inputs]
        for view, name, memory in zip(views, names, memories):
            view.name, view.tensor = name, memory.describe()
        model = self.model
        with model._lock:
            check(model._ctx, _LIB.tsr_trainer_step_dlpack(byref(model._ctx), self._open(), None, views, len(memories), None, 0))
        return self._report(0)

    def _report(self, last_step: int) -> StepReport:
        step = self._at.step
        return StepReport(step, last_step or step, {name: read() for name, read in self._outputs}, time.monotonic() - self._began)

    def save(self) -> int:
        """Commits the state of this step, and returns the number of its generation."""
        made, model = _abi.Generation(), self.model
        with model._lock:
            check(model._ctx, _LIB.tsr_trainer_save(byref(model._ctx), self._open(), byref(made)))
        return int(made.number)

    def close(self) -> None:
        """Waits for a save that is running; the trained tensors stay in the model."""
        with self.model._lock:
            self._end()

    def _end(self) -> None:
        if self._handle is not None:
            _LIB.tsr_trainer_close(byref(self.model._ctx), self._handle)
            self._handle = None
        self.model._trainer = None

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _reader(output: Any) -> Callable[[], Any]:
    """A function that reads an output of a step: a number for a scalar; else a copy as an array."""
    name, address = _arrays.NAMES[output.dtype], output.data
    shape = tuple(output.shape.dims[:output.shape.rank])
    if not shape and name in ('f32', 'f64'):
        value = (ctypes.c_float if name == 'f32' else ctypes.c_double).from_address(address)
        return lambda: value.value
    if not shape:
        return lambda: float(_LIB.tsr_dtype_read(_arrays.DTYPES[name][0], address, 0))

    def copy() -> Any:
        from ._model import _new_array
        made = _new_array(name, shape)
        ctypes.memmove(made._address, address, made.nbytes)
        return _arrays.convert(made, 'numpy')
    return copy


# ---- runs ----


class _Rows:
    """Batches that the library draws from arrays: those of `tessera-run` on the same data."""

    def __init__(self, model: Model, config: EntryConfig, data: Mapping[str, Any]) -> None:
        names = [port.name for port in config.inputs]
        unknown = [name for name in data if name not in names]
        missing = [str(port) for port in config.inputs if port.name not in data]
        if unknown or missing:
            raise UsageError(f"entry '{config.name}' needs {', '.join(map(str, config.inputs))}" + (f"; missing: {', '.join(missing)}" if missing else '')
                             + (f"; unknown: {', '.join(unknown)}" if unknown else ''))
        self.memories = [_arrays.dense(data[port.name], port.dtype) for port in config.inputs]
        rows = {memory.shape[0] if memory.shape else 0 for memory, port in zip(self.memories, config.inputs) if port.is_data}
        if len(rows) > 1:
            raise DataError('the arrays have different numbers of rows: ' + ', '.join(
                f"'{port.name}' {memory.shape[0] if memory.shape else 0}" for memory, port in zip(self.memories, config.inputs) if port.is_data))
        self.rows = rows.pop() if rows else 0
        self.names = [name.encode() for name in names]
        self.views = (_abi.View * (len(self.memories) or 1))()
        tensors = (_abi.Tensor * (len(self.memories) or 1))()
        count = 0
        for view, name, memory, port in zip(self.views, self.names, self.memories, config.inputs):
            _describe(view, name, memory)
            if port.is_data:
                _describe(tensors[count], name, memory)
                count += 1
        self._address, self._count = ctypes.addressof(self.views), len(self.memories)
        self.digest = _abi.Digest()
        if count:
            check(model._ctx, _LIB.tsr_data_digest(byref(model._ctx), tensors, count, byref(self.digest)))

    def step(self, trainer: Trainer) -> bool:
        model = trainer.model
        function = _LIB.tsr_trainer_step_drawn if self.rows else _LIB.tsr_trainer_step
        with model._lock:
            code = function(ctypes.addressof(model._ctx), trainer._open(), self._address, self._count, None, 0)
        if code:
            check(model._ctx, code)
        return True


def _describe(target: Any, name: bytes, memory: Memory) -> None:
    target.name, target.dtype, target.shape.rank, target.data = name, _arrays.DTYPES[memory.dtype][0], len(memory.shape), memory.address
    for d, dim in enumerate(memory.shape):
        target.shape.dims[d] = dim


class _Given:
    """Batches of a function, or of an iterable that is begun again when it ends."""

    rows, digest = 0, None

    def __init__(self, data: Any) -> None:
        self._data = data
        self._iterator: Any = None

    def _next(self, position: Position) -> Batch | None:
        if callable(self._data):
            made: Batch | None = self._data(position)
            return made
        for attempt in range(2):
            if self._iterator is None:
                self._iterator = iter(self._data)
            try:
                one: Batch = next(self._iterator)
                return one
            except StopIteration:
                if self._iterator is self._data or attempt:  # it cannot be begun again
                    return None
                self._iterator = None
        return None

    def step(self, trainer: Trainer) -> bool:
        batch = self._next(trainer.position)
        if batch is None:
            return False
        if isinstance(batch, Mapping):
            trainer.step(**batch)
        elif isinstance(batch, (list, tuple)):
            trainer.step(*batch)
        else:
            trainer.step(batch)
        return True


def _find_entry(model: Model, name: str | None, kind: str) -> Any:
    if name is not None and name in model.entries and model.entries[name].config.kind == kind:
        return model.entries[name]
    found = [entry for entry in model.entries.values() if entry.config.kind == kind and (name is None or name == entry.name)]
    if len(found) != 1:
        raise UsageError(f"'{model.name}' has {len(found)} entries of kind {kind}" + (f" named '{name}'" if name else '')
                         + f"; expected one of {', '.join(entry.name for entry in model.entries.values() if entry.config.kind == kind) or 'none'}")
    return found[0]


def train(model: Model, data: Data, steps: int, *, state_dir: Any = None, entry: str | None = None,
          on_step: Callable[[StepReport], Any] | None = None, save_every: int = 0, progress: bool | None = None, **options: Any) -> Summary:
    """Trains up to the absolute step `steps`.

    data: a dict with an array for each input of the training entry, of all rows ([rows, …] for data inputs): the library draws the batches,
    those of `tessera-run` on the same data, with the same bits. Or a function of the position that returns a batch (a dict or a tuple; None
    ends the run), or an iterable of batches, which is begun again when it ends. A run that resumes gives the function its position; an iterable begins again.

    state_dir: the run resumes the newest state there, saves at the end, and every `save_every` steps beside them. Run again after `kill -9`, it
    goes on. on_step: called after each step. progress: a bar on the standard error output; None: where that is a terminal or a notebook.

    If `data` or `on_step` raises, or on Ctrl-C, the state of the last complete step is saved, if there is a state_dir, and the exception is
    raised; Ctrl-C as tessera.Interrupted, a KeyboardInterrupt. Further options are those of tessera.Trainer.
    """
    found = _find_entry(model, entry, 'train')
    if model._busy:
        raise UsageError(f"the model '{model.name}' is being trained: no other run can begin in a callback")
    if model._trainer is not None:
        raise UsageError(f"a trainer of '{model.name}' is open; close it first (model.close_trainer())")
    source: Any = _Rows(model, found.config, data) if isinstance(data, Mapping) else _Given(data)
    if source.rows:
        options = {'rows': source.rows, 'data': source.digest, **options}
    trainer = Trainer(model, entry=found.name, state_dir=state_dir, save_every=save_every, **options)
    try:
        model._busy = True
        return _run(trainer, source, steps, on_step, _bar(progress, steps))
    finally:
        model._busy = False
        trainer.close()


def _bar(progress: bool | None, steps: int) -> Any:
    from ._display import Bar, wants_bar
    return Bar(steps) if progress or (progress is None and wants_bar()) else None


def _run(trainer: Trainer, source: Any, steps: int, on_step: Callable[[StepReport], Any] | None, bar: Any) -> Summary:
    first = step = trainer.position.step
    try:
        while step < steps:
            if not source.step(trainer):
                break
            step += 1
            if on_step is not None or bar is not None:
                report = trainer._report(steps)
                if bar is not None:
                    bar.show(report)
                if on_step is not None:
                    on_step(report)
    except BaseException as error:
        saved = _save_after(trainer)
        if type(error) is KeyboardInterrupt:
            raise Interrupted(trainer.position.step, saved) from None
        raise
    finally:
        if bar is not None:
            bar.close()
    if trainer.state_dir is not None:
        trainer.save()
    return Summary(step, first, trainer.outputs() if step > first else {}, trainer.model.state_hash, time.monotonic() - trainer._began)


def _save_after(trainer: Trainer) -> bool:
    """Saves after an exception; the C library refuses if the state may hold a part of a step."""
    if trainer.state_dir is None:
        return False
    try:
        trainer.save()
    except Exception as error:  # the first exception is the one to raise
        from ._model import logger
        logger().warning('the state was not saved: %s', error)
        return False
    return True


def evaluate(model: Model, entry: str | None, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, float]:
    """See Model.evaluate."""
    found = _find_entry(model, entry, 'eval')
    results = found(*args, library='tessera', **kwargs)
    if len(found.config.outputs) == 1:
        results = (results,)
    means = {}
    for port, array in zip(found.config.outputs, results):
        count = len(array) if array.shape else 1
        if not count:
            raise DataError('there are no rows to evaluate')
        total, number = 0.0, _arrays.DTYPES[array.dtype][0]
        elements = array.nbytes // _arrays.SIZES[array.dtype]
        for i in range(elements):
            total += _LIB.tsr_dtype_read(number, array._address, i)
        means[port.name] = total / elements
    return means
