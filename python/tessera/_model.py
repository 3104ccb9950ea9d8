# SPDX-License-Identifier: Apache-2.0
"""Models: a bundle, opened, whose entries are methods."""
from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections import namedtuple
from ctypes import byref, c_char_p, c_void_p
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Sequence

from . import _abi, _arrays
from ._arrays import Array, Memory
from ._config import EntryConfig, TensorConfig, entries_of, hyperparameters_of, tensors_of, text
from ._errors import DataError, UsageError, check

if TYPE_CHECKING:
    import inspect
    import logging
    import os

    from ._display import Inspection, Profile
    from ._training import Data, StepReport, Summary, Trainer

_LEVELS = {_abi.LOG_ERROR: 40, _abi.LOG_WARNING: 30, _abi.LOG_NOTICE: 20, _abi.LOG_DEBUG: 10}  # logging.ERROR … logging.DEBUG
_LIB = _abi.LIB
_CALL, _word, _OFFSET = _LIB.tsr_model_call, _arrays._word, _arrays._OFFSET
_FINITE = {None: 0, 'error': 1, 'warn': 2, 'off': 3}
ALIGNED_BYTES = 1 << 16  # outputs from here on are made by the C library, aligned, so that they are written in place


def logger() -> logging.Logger:
    """The logger 'tessera'. The module logging is imported when a bundle is opened: it takes a third of the time of all imports."""
    import logging
    return logging.getLogger('tessera')


def _log(_: Any, level: int, line: bytes) -> None:
    logger().log(_LEVELS[level], '%s', line.decode('utf-8', 'replace'))


_LOG_FN = _abi.LogFn(_log)


def log_level() -> int:
    """The level of the C library for that of the logger."""
    level = logger().getEffectiveLevel()
    return next((mine for mine in (_abi.LOG_DEBUG, _abi.LOG_NOTICE, _abi.LOG_WARNING) if level <= _LEVELS[mine]), _abi.LOG_ERROR)


def new_context() -> _abi.Ctx:
    ctx = _abi.Ctx()
    ctx.log, ctx.log_level = _LOG_FN, log_level()
    return ctx


def encode(path: Any) -> Any:
    import os
    return None if path is None else os.fsencode(path)


class _Plan:
    """A call with arrays of certain types, of NumPy or PyTorch: the C library's description of it, into which only addresses are written."""

    __slots__ = ('tensors', 'names', 'input', 'output', 'make', 'arguments')

    def __init__(self, model: Model, entry: Entry, memory: Memory, output: tuple[str, str, tuple[int, ...]], make: Callable[[], Any]) -> None:
        name, dtype, shape = output
        self.names = [text.encode() for text in (entry.name, entry.config.inputs[0].name, name)]
        self.tensors = (_abi.Tensor * 2)()
        _fill(self.tensors[0], self.names[1], memory.dtype, memory.shape)
        _fill(self.tensors[1], self.names[2], dtype, shape)
        begin, size, data = ctypes.addressof(self.tensors), ctypes.sizeof(_abi.Tensor), _abi.Tensor.data.offset
        self.input, self.output = c_void_p.from_address(begin + data), c_void_p.from_address(begin + size + data)
        self.make = make
        self.arguments = ctypes.addressof(model._ctx), model._handle, self.names[0], begin, 1, begin + size, 1


def _fill(tensor: Any, name: bytes, dtype: str, shape: Sequence[int]) -> None:
    tensor.name, tensor.dtype, tensor.shape.rank = name, _arrays.DTYPES[dtype][0], len(shape)
    for d, dim in enumerate(shape):
        tensor.shape.dims[d] = dim


class Entry:
    """An entry of a model: call it with arrays, by position or by name.

    Each input has a shape in `entry.config.inputs`; dimension 0 may differ where the config says so. Arrays come from NumPy, PyTorch, JAX, or
    anything with `__dlpack__` or `__array_interface__`; numbers and lists of numbers are accepted too. Results are arrays of the package of
    the first array, one for a single output, else a named tuple.
    """

    def __init__(self, model: Model, name: str, configs: Sequence[EntryConfig]) -> None:
        self._model, self._configs, self.config, self.name = model, configs, configs[0], name
        self._plans: dict[Any, _Plan] = {}  # by shape and dtype, which differs between packages
        self._names = {port.name: i for i, port in enumerate(self.config.inputs)}
        self._numpy: Any = None  # numpy.ndarray, torch.Tensor: once there is a plan for one of their arrays
        self._torch: Any = None
        self._only = len(self.config.outputs) == 1 and len(self.config.inputs) == 1
        self._result: Any = None

    @property
    def signature(self) -> inspect.Signature:
        """The inputs as parameters, annotated with their types: (x: 64x784xf32)."""
        import inspect
        return inspect.Signature([inspect.Parameter(port.name if port.name.isidentifier() else f'input_{i}', inspect.Parameter.POSITIONAL_OR_KEYWORD,
                                                    annotation=_arrays.type_text(port.dtype, port.shape))
                                  for i, port in enumerate(self.config.inputs)])

    @property
    def __signature__(self) -> inspect.Signature:
        return self.signature

    def __repr__(self) -> str:
        return f'<entry {self.config} of {self._model.name}>'

    def __call__(self, *args: Any, out: Any = None, library: str | None = None, **kwargs: Any) -> Any:
        """Calls the entry. `out`: an array, a sequence or a dict of arrays to be filled. `library`: 'numpy', 'torch', 'jax' or 'tessera', the
        package of the results."""
        if self._plans and len(args) == 1 and out is None and library is None and not kwargs:
            value = args[0]
            kind = type(value)
            if kind is self._numpy:
                if value.flags.c_contiguous:
                    plan = self._plans.get((value.shape, value.dtype))
                    if plan is not None:
                        made = plan.make()
                        self._run_plan(plan, _word(id(value) + _OFFSET).value, _word(id(made) + _OFFSET).value)
                        return made
            elif kind is self._torch and value.is_contiguous() and value.device.type == 'cpu' and not value.is_neg():
                plan = self._plans.get((value.shape, value.dtype))
                if plan is not None:
                    made = plan.make()
                    self._run_plan(plan, value.data_ptr(), made.data_ptr())
                    return made
        return self._call(args, kwargs, out, library)

    def _run_plan(self, plan: _Plan, value: Any, made: Any) -> None:
        model = self._model
        with model._lock:
            if not model._ready:
                model._prepare()
            plan.input.value, plan.output.value = value, made
            code = _CALL(*plan.arguments)
            if code:
                check(model._ctx, code)

    def _order(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The inputs in the order of the config; what is missing or unknown is told by the C library."""
        ports = self.config.inputs
        if len(args) > len(ports):
            raise UsageError(f"entry '{self.name}' takes {len(ports)} input{'s' * (len(ports) != 1)}: {', '.join(map(str, ports))}; {len(args)} are given")
        values = dict(zip((port.name for port in ports), args))
        for name, value in kwargs.items():
            if name in values:
                raise UsageError(f"input '{name}' of entry '{self.name}' is given by position and by name")
            if name not in self._names:
                raise UsageError(f"entry '{self.name}' has no input '{name}'; it has {', '.join(map(str, ports))}")
            values[name] = value
        missing = [str(port) for port in ports if port.name not in values]
        if missing:
            raise UsageError(f"entry '{self.name}' needs {', '.join(missing)}")
        return [values[port.name] for port in ports]

    def _output_shapes(self, memories: Sequence[Memory]) -> list[tuple[str, str, tuple[int, ...]]] | None:
        """Name, dtype and shape of each output for these inputs; None if the inputs do not say (the C library then refuses the call)."""
        for config in self._configs:
            rows: int | None = None
            fits = True
            for port, memory in zip(config.inputs, memories):
                shape, times = memory.shape, 1 if config.rows_independent else port.dim_times
                if len(shape) != len(port.shape):
                    return None
                if times and shape:
                    rows = shape[0] // times
                    fits = fits and shape[1:] == port.shape[1:]
                else:
                    fits = fits and shape == port.shape
            if not fits:
                continue
            made = []
            for port in config.outputs:
                times = 1 if config.rows_independent else port.dim_times
                dims = port.shape if not times or rows is None else (rows * times, *port.shape[1:])
                made.append((port.name, port.dtype, dims))
            return made
        return None

    def _call(self, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any, library: str | None) -> Any:
        values = self._order(args, kwargs)
        memories = [_arrays.memory_of(value, port.dtype) for value, port in zip(values, self.config.inputs)]
        if library is not None and library not in _arrays.LIBRARIES:
            raise UsageError(f"no library '{library}'; expected one of {', '.join(_arrays.LIBRARIES)}")
        library = library or _arrays.library_of(values)
        if out is None:
            self._remember(values, memories, library)
        given = self._given(out)
        inputs = (_abi.DlpackView * (len(memories) or 1))()
        names = [port.name.encode() for port in self.config.inputs]
        for view, name, memory in zip(inputs, names, memories):
            view.name, view.tensor = name, memory.describe()
        if out is None and library == 'torch':
            first = next((value for value in values if type(value).__module__.startswith('torch')), None)
            given = [(name, _arrays.empty(dtype, shape, first)) for name, dtype, shape in self._output_shapes(memories) or []] or given
        return self._run(inputs, len(memories), given, out, library)

    def _given(self, out: Any) -> list[tuple[str, Any]]:
        """The outputs to be filled; None: the C library makes them."""
        ports = self.config.outputs
        if out is None:
            return [(port.name, None) for port in ports]
        if isinstance(out, Mapping):
            return list(out.items())
        if isinstance(out, (list, tuple)):
            if len(out) > len(ports):
                raise UsageError(f"entry '{self.name}' has {len(ports)} outputs; {len(out)} are given")
            return [(port.name, value) for port, value in zip(ports, out)]
        return [(ports[0].name, out)] if ports else []

    def _run(self, inputs: Any, input_count: int, given: list[tuple[str, Any]], out: Any, library: str) -> Any:
        model = self._model
        outputs = (_abi.DlpackView * (len(given) or 1))()
        encoded = [name.encode() for name, _ in given]
        filled = [None if value is None else _arrays.output_of(value) for _, value in given]
        for view, name, memory in zip(outputs, encoded, filled):
            view.name = name
            if memory is not None:
                view.tensor = memory.describe()
        with model._lock:
            model._prepare()
            model._ctx.log_level = log_level()
            check(model._ctx, _LIB.tsr_model_call_dlpack(byref(model._ctx), model._handle, self.name.encode(), None, inputs, input_count,
                                                         outputs, len(given)))
        made = [Array(view.tensor) if value is None else value for view, (_, value) in zip(outputs, given)]
        if out is not None:
            return out
        results = [_arrays.convert(value, library) if isinstance(value, Array) else value for value in made]
        return self._pack(results)

    def _pack(self, results: list[Any]) -> Any:
        if len(results) == 1:
            return results[0]
        if self._result is None:
            self._result = namedtuple('Outputs', [port.name for port in self.config.outputs], rename=True)  # type: ignore[misc]
        return self._result(*results)

    def _remember(self, values: Sequence[Any], memories: Sequence[Memory], library: str) -> None:
        """Makes a plan for the next calls with one array of this type."""
        if not self._only or library not in ('numpy', 'torch') or len(self._plans) > 64:
            return
        value, shapes = values[0], self._output_shapes(memories)
        if shapes is None or memories[0].device[0] != _abi.DLPACK_CPU:
            return
        _, dtype, shape = shapes[0]
        if library == 'numpy':
            size = _arrays.SIZES[dtype]
            for dim in shape:
                size *= dim
            if type(value) is not _arrays.fast_numpy() or not value.flags.c_contiguous or size >= ALIGNED_BYTES or _arrays.numpy_dtype(dtype) is None:
                return
            make = functools.partial(_arrays.numpy().empty, shape, _arrays.numpy_dtype(dtype))
            self._numpy = type(value)
        else:
            torch: Any = sys.modules['torch']
            if type(value) is not torch.Tensor or not value.is_contiguous() or value.is_neg():
                return
            make = functools.partial(torch.empty, shape, dtype=_arrays.torch_dtype(dtype))
            self._torch = torch.Tensor
        self._plans[value.shape, value.dtype] = _Plan(self._model, self, memories[0], shapes[0], make)


class Model:
    """A bundle that is ready to run. `tessera.open` makes one; its entries are methods: `model.predict(x)`; `model(x)` calls the only entry of
    kind infer. One thread calls it at a time, others wait; the interpreter's lock is released meanwhile. A process that was forked after
    the model was opened must open the bundle itself.
    """

    def __init__(self, path: Any, options: Mapping[str, Any], seed: int, trace: Any = None) -> None:
        self._handle: Any = None
        self._options, self.path = dict(options), path
        self._seed, self._ready, self._busy = seed, False, False
        self._trainer: Trainer | None = None
        self._lock = threading.RLock()
        self._ctx = new_context()
        self._ctx.trace = trace
        made = _abi.ModelOptions()
        made.size_bytes = ctypes.sizeof(made)
        self._borrowed = _set_options(made, options)
        handle = c_void_p()
        check(self._ctx, _LIB.tsr_model_open(byref(self._ctx), encode(path), byref(made), byref(handle)))
        self._handle = handle.value
        config = _LIB.tsr_model_get_config(self._handle).contents
        self.name: str = text(config.name)
        configs = entries_of(config)
        self.tensors: dict[str, TensorConfig] = tensors_of(config)
        self.virtual_ranks: int = config.virtual_ranks
        groups: dict[str, list[EntryConfig]] = {}
        for name, entry in configs.items():  # "NAME[N=8]" is one of the copies of NAME for several sizes
            groups.setdefault(name.partition('[')[0], []).append(entry)
        self.entries: dict[str, Entry] = {name: Entry(self, name, entries) for name, entries in groups.items()}
        infer = [entry for entry in self.entries.values() if entry.config.kind == 'infer']
        self._default = infer[0] if len(infer) == 1 else None

    # ---- calls ----

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the only entry of kind infer."""
        if self._default is None:
            raise UsageError(f"'{self.name}' has several entries, or none of kind infer: {', '.join(self.entries)}; call one of them by name")
        return self._default(*args, **kwargs)

    def __getattr__(self, name: str) -> Entry:
        entries = self.__dict__.get('entries', {})
        if name in entries:
            entry: Entry = entries[name]
            return entry
        raise AttributeError(f"'{self.__dict__.get('name', 'model')}' has no entry '{name}'; it has {', '.join(entries)}")

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self.entries]

    @property
    def signature(self) -> inspect.Signature:
        if self._default is None:
            raise UsageError(f"'{self.name}' has several entries: {', '.join(self.entries)}; ask for the signature of one of them")
        return self._default.signature

    # ---- state ----

    def _prepare(self) -> None:
        """Gives the tensors their values before the first use; refuses a closed model."""
        if self._handle is None:
            raise UsageError(f"the model '{self.name}' is closed")
        if not self._ready:
            check(self._ctx, _LIB.tsr_model_initialize(byref(self._ctx), self._handle, self._seed))
            self._ready = True

    def _call(self, function: str, *args: Any) -> None:
        with self._lock:
            if self._handle is None:
                raise UsageError(f"the model '{self.name}' is closed")
            check(self._ctx, getattr(_LIB, function)(byref(self._ctx), self._handle, *args))

    def initialize(self, seed: int = 0) -> None:
        """Sets all tensors to the values of the bundle: stored ones, and those drawn with this seed."""
        self._call('tsr_model_initialize', seed)
        self._ready = True

    def load_state(self, directory: str | os.PathLike[str], generation: int | None = None) -> None:
        """Loads the newest generation of a state directory, or the one with this number."""
        mode = _abi.RESUME_AUTO if generation is None else _abi.RESUME_EXACT
        self._call('tsr_model_load_state', encode(directory), mode, generation or 0, byref(_abi.Generation()))
        self._ready = True

    def state_dict(self, optimizer: bool = False, library: str = 'numpy') -> dict[str, Any]:
        """Copies of the parameters by name, in the shapes of `model.tensors`; with `optimizer`, of the optimizer state too. `library`: 'numpy',
        'torch' or 'tessera'."""
        if library not in _arrays.LIBRARIES:
            raise UsageError(f"no library '{library}'; expected one of {', '.join(_arrays.LIBRARIES)}")
        roles = ('param', 'state') if optimizer else ('param',)
        return {tensor.name: self._read(tensor, library) for tensor in self.tensors.values() if tensor.role in roles}

    def _read(self, tensor: TensorConfig, library: str) -> Any:
        if library == 'torch':
            made: Any = _arrays.empty(tensor.dtype, tensor.shape)
            address = made.data_ptr()
        elif library in ('numpy', 'jax') and _arrays.numpy_dtype(tensor.dtype) is not None:
            made = _arrays.numpy().empty(tensor.shape, _arrays.numpy_dtype(tensor.dtype))
            address = made.__array_interface__['data'][0]
        else:
            made = _new_array(tensor.dtype, tensor.shape)
            address = made._address
        view = _view(tensor.name, Memory(made, tensor.dtype, tensor.shape, None, address, False))
        with self._lock:
            self._prepare()
            self._call('tsr_model_read_tensor', byref(view))
        if library == 'jax':
            import jax  # type: ignore[import-not-found,unused-ignore]
            return jax.numpy.asarray(made)
        return made

    def load_state_dict(self, values: Mapping[str, Any] | str | os.PathLike[str], strict: bool = True) -> None:
        """Sets tensors from arrays by name, or the parameters from a safetensors file. `strict`: every parameter is given and every name is
        known. Nothing is changed if a name, dtype or shape does not fit."""
        if not isinstance(values, Mapping):
            self._call('tsr_model_load_params', encode(values))
            self._ready = True
            return
        known = {name: tensor for name, tensor in self.tensors.items() if tensor.role != 'constant'}
        unknown = [name for name in values if name not in known]
        missing = [name for name, tensor in known.items() if tensor.role == 'param' and name not in values]
        if strict and (unknown or missing):
            raise UsageError(f"the state does not fit '{self.name}'" + (f"; missing: {', '.join(missing)}" if missing else '')
                             + (f"; unknown: {', '.join(unknown)}" if unknown else ''))
        memories = {name: _arrays.dense(value, known[name].dtype) for name, value in values.items() if name in known}
        for name, memory in memories.items():
            tensor = known[name]
            if (memory.dtype, memory.shape) != (tensor.dtype, tensor.shape):
                raise DataError(f"tensor '{name}' is {_arrays.type_text(memory.dtype, memory.shape)}; "
                                        f'expected {_arrays.type_text(tensor.dtype, tensor.shape)}')
        with self._lock:
            self._prepare()
            for name, memory in memories.items():
                self._call('tsr_model_write_tensor', byref(_view(name, memory)))

    def save_safetensors(self, path: str | os.PathLike[str]) -> None:
        """Writes every parameter to a safetensors file, whole or not at all."""
        with self._lock:
            self._prepare()
            self._call('tsr_model_export_params', encode(path))

    @property
    def state_hash(self) -> str:
        """The hash of parameters and optimizer state, as `tessera-run` prints it."""
        digest = _abi.Digest()
        with self._lock:
            self._prepare()
            self._call('tsr_model_hash_state', byref(digest))
        return bytes(digest.bytes).hex()

    @property
    def hyperparameters(self) -> dict[str, float]:
        """Names and current values."""
        with self._lock:
            if self._handle is None:
                raise UsageError(f"the model '{self.name}' is closed")
            return hyperparameters_of(_LIB.tsr_model_get_identity(self._handle).contents)

    def set_hyperparameter(self, name: str, value: float) -> None:
        """Sets 'lr' or another hyper-parameter for the next steps."""
        self._call('tsr_model_set_hyperparameter', name.encode(), value)

    # ---- training ----

    def trainer(self, *, entry: str | None = None, state_dir: str | os.PathLike[str] | None = None, **options: Any) -> Trainer:
        """Opens a trainer, which makes steps on batches that you give: see tessera.Trainer for the options."""
        from ._training import Trainer
        return Trainer(self, entry=entry, state_dir=state_dir, **options)

    def step(self, *args: Any, **kwargs: Any) -> StepReport:
        """One step on a batch, by position or name, with a trainer that stays open until `model.close_trainer()`."""
        if self._trainer is None:
            self.trainer()
        trainer: Trainer = self._trainer  # type: ignore[assignment]
        return trainer.step(*args, **kwargs)

    def close_trainer(self) -> None:
        if self._trainer is not None:
            self._trainer.close()

    def train(self, data: Data, steps: int, *, state_dir: str | os.PathLike[str] | None = None, entry: str | None = None,
              on_step: Callable[[StepReport], Any] | None = None, save_every: int = 0, progress: bool | None = None, **options: Any) -> Summary:
        """Trains up to the absolute step `steps`: see tessera.train."""
        from ._training import train
        return train(self, data, steps, state_dir=state_dir, entry=entry, on_step=on_step, save_every=save_every, progress=progress, **options)

    def evaluate(self, *args: Any, entry: str | None = None, **kwargs: Any) -> dict[str, float]:
        """Means of the row-wise outputs of an entry of kind eval over all rows of the arrays, by name."""
        from ._training import evaluate
        return evaluate(self, entry, args, kwargs)

    # ---- what it is ----

    @property
    def target(self) -> str:
        """'cpu:x86-64-v3'"""
        return self._text('tsr_model_get_target')

    @property
    def numerics(self) -> str:
        return self._text('tsr_model_get_numerics')

    def _text(self, function: str) -> str:
        with self._lock:
            if self._handle is None:
                raise UsageError(f"the model '{self.name}' is closed")
            return str(text(getattr(_LIB, function)(self._handle)))

    def inspect(self) -> Inspection:
        """Entries, tensors, target and memory: prints as text, and as a table in notebooks."""
        from ._display import Inspection
        return Inspection(self)

    def profile(self, *args: Any, entry: str | None = None, calls: int = 10, **kwargs: Any) -> Profile:
        """Times of each kernel in `calls` calls with these inputs, next to the limits of the machine. It runs a copy of this model."""
        from ._display import profile
        return profile(self, entry, calls, args, kwargs)

    def __repr__(self) -> str:
        state = 'closed' if self._handle is None else self.target
        return f'<tessera.Model {self.name} ({state}): {", ".join(self.entries)}>'

    # ---- end ----

    def close(self) -> None:
        """Frees the model. Its arrays stay valid. Waits for a call of another thread; refused while the model is being trained."""
        with self._lock:
            if self._handle is None:
                return
            if self._busy:
                raise UsageError(f"the model '{self.name}' is being trained: it cannot be closed from a callback")
            self.close_trainer()
            _LIB.tsr_model_close(byref(self._ctx), self._handle)
            self._handle, self._ready = None, False  # every call looks at _ready first

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, '_handle', None) is not None:
            trainer = self.__dict__.get('_trainer')
            if trainer is not None:
                trainer._end()
            _LIB.tsr_model_close(byref(self._ctx), self._handle)
            self._handle = None


def _view(name: str, memory: Memory) -> Any:
    view = _abi.View()
    encoded = name.encode()
    view.name, view.dtype, view.shape.rank, view.data = encoded, _arrays.DTYPES[memory.dtype][0], len(memory.shape), memory.address
    for d, dim in enumerate(memory.shape):
        view.shape.dims[d] = dim
    return view


class _Owned(Array):
    """An array whose memory Python allocated."""

    __slots__ = ('_bytes',)

    def __init__(self, dtype: str, shape: tuple[int, ...]) -> None:
        size = _arrays.SIZES[dtype]
        for dim in shape:
            size *= dim
        self._bytes = (ctypes.c_char * (size or 1))()
        self._managed, self.shape, self.dtype, self._address = None, shape, dtype, ctypes.addressof(self._bytes)


def _new_array(dtype: str, shape: tuple[int, ...]) -> Array:
    return _Owned(dtype, shape)


def _strings(values: Sequence[Any]) -> Any:
    return (c_char_p * (len(values) or 1))(*(encode(value) for value in values))


def _set_options(made: Any, options: Mapping[str, Any]) -> list[Any]:
    """Fills a tsr_model_options; returns what it borrows."""
    borrowed = []
    for name, value in options.items():
        if value is None:
            continue
        if name in ('keys', 'weights_folders'):
            array = _strings(value)
            borrowed.append(array)
            setattr(made, name, array)
            setattr(made, {'keys': 'key_count', 'weights_folders': 'weights_folder_count'}[name], len(value))
        elif name == 'check_finite':
            if value not in _FINITE:
                raise UsageError(f"no mode '{value}' of check_finite; expected 'error', 'warn' or 'off'")
            made.check_finite = _FINITE[value]
        else:
            setattr(made, name, value.encode() if isinstance(value, str) else value)
    return borrowed


def open_model(path: str | os.PathLike[str], *, device: str | None = None, threads: int = 0, cpu: str | None = None, strict: bool = False,
               seed: int = 0, state_dir: str | os.PathLike[str] | None = None, params: str | os.PathLike[str] | None = None,
               keys: Sequence[str | os.PathLike[str]] = (), require_signature: bool = False,
               weights_folders: Sequence[str | os.PathLike[str]] = (), device_memory_max: int = 0, ignore_memory_plan: bool = False,
               check_finite: str | None = None, debug_numerics: bool = False) -> Model:
    """Opens a bundle.

    device: 'cpu', 'cuda', 'cuda:1', 'auto'. threads: 0 for all processors. seed: of the initial values. state_dir: a state to load, for calls
    (`train` has its own). params: a safetensors file of parameters. keys: public keys that may have signed the bundle. check_finite: 'error',
    'warn' or 'off', for outputs that are not finite. debug_numerics: check the results of every kernel, which is much slower.
    """
    options = {'device': device, 'threads': threads, 'cpu': cpu, 'strict': strict, 'keys': list(keys), 'require_signature': require_signature,
               'weights_folders': list(weights_folders), 'device_memory_max': device_memory_max, 'ignore_memory_plan': ignore_memory_plan,
               'check_finite': check_finite, 'debug_numerics': debug_numerics}
    model = Model(path, options, seed)
    if state_dir is not None:
        model.load_state(state_dir)
    if params is not None:
        model.load_state_dict(params)
    return model

