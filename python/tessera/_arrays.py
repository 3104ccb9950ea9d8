# SPDX-License-Identifier: Apache-2.0
"""Arrays of other packages as memory for the C library, and the reverse. No package of arrays is imported here before one of its
arrays is passed, or a result is made without one.

NumPy arrays are read by their array interface, everything else by DLPack.
"""
from __future__ import annotations

import ctypes
import sys
from typing import Any, Iterable, Sequence

from . import _abi
from ._errors import DataError, UsageError

# dtype.def and loader/calls/dlpack.c: name, wire number, bytes, typestr of the array interface, DLPack's code and bits
DTYPES = {
    'f64': (1, 8, '<f8', 2, 64), 'f32': (2, 4, '<f4', 2, 32), 'i64': (3, 8, '<i8', 0, 64), 'i32': (4, 4, '<i4', 0, 32),
    'i1': (5, 1, '|b1', 6, 8), 'ui8': (6, 1, '|u1', 1, 8), 'bf16': (7, 2, '<V2', 4, 16), 'f16': (8, 2, '<f2', 2, 16),
    'i8': (9, 1, '|i1', 0, 8), 'i16': (10, 2, '<i2', 0, 16), 'ui16': (11, 2, '<u2', 1, 16), 'ui32': (12, 4, '<u4', 1, 32),
    'ui64': (13, 8, '<u8', 1, 64), 'f8E4M3FN': (14, 1, '<V1', 10, 8), 'f8E5M2': (15, 1, '<V1', 12, 8), 'f8E8M0FNU': (16, 1, '<V1', 14, 8)}
NAMES = {number: name for name, (number, *_) in DTYPES.items()}
SIZES = {name: size for name, (_, size, *_) in DTYPES.items()}
_BY_TYPESTR = {typestr: name for name, (_, _, typestr, _, _) in DTYPES.items()}
_BY_CODE = {(code, bits): name for name, (_, _, _, code, bits) in DTYPES.items()}
_TORCH = {'f64': 'float64', 'f32': 'float32', 'i64': 'int64', 'i32': 'int32', 'i1': 'bool', 'ui8': 'uint8', 'bf16': 'bfloat16',
          'f16': 'float16', 'i8': 'int8', 'i16': 'int16', 'ui16': 'uint16', 'ui32': 'uint32', 'ui64': 'uint64', 'f8E4M3FN': 'float8_e4m3fn',
          'f8E5M2': 'float8_e5m2', 'f8E8M0FNU': 'float8_e8m0fnu'}
_OF_NAME = {name: dtype for dtype, name in _TORCH.items()}  # also the names of ml_dtypes

_api = ctypes.pythonapi
_pointer = _api.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_is_valid = _api.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
_VERSIONED, _LEGACY = b'dltensor_versioned', b'dltensor'


def type_text(dtype: str, shape: Iterable[int]) -> str:
    """'64x10xf32'"""
    return 'x'.join([*(str(dim) for dim in shape), dtype])


class Array:
    """A dense array in memory of the C library, for results where there is no NumPy or no dtype of it (bf16 without ml_dtypes).

    shape: tuple of ints; dtype: 'f32', 'bf16', …. NumPy, PyTorch and others read it without a copy by `__array_interface__` and DLPack.
    """

    __slots__ = ('shape', 'dtype', '_managed', '_address', '__weakref__')

    def __init__(self, managed: Any) -> None:
        tensor = managed.contents.tensor
        self._managed = managed
        self.shape: tuple[int, ...] = tuple(tensor.dims[:tensor.rank])
        self.dtype: str = _BY_CODE[tensor.dtype.code, tensor.dtype.bits]
        self._address: int = tensor.data

    def __del__(self) -> None:
        managed = getattr(self, '_managed', None)
        if managed:
            _abi.Deleter(managed.contents.deleter)(managed)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {'shape': self.shape, 'typestr': DTYPES[self.dtype][2], 'data': (self._address, False), 'version': 3}

    @property
    def nbytes(self) -> int:
        size = SIZES[self.dtype]
        for dim in self.shape:
            size *= dim
        return size

    def tobytes(self) -> bytes:
        return ctypes.string_at(self._address, self.nbytes)

    def tolist(self) -> Any:
        """Nested lists of numbers; a number for a scalar."""
        read, number, address = _abi.LIB.tsr_dtype_read, DTYPES[self.dtype][0], self._address
        convert: Any = float if self.dtype[0] in 'fb' else bool if self.dtype == 'i1' else int
        exact = {'i64': ctypes.c_int64, 'ui64': ctypes.c_uint64}.get(self.dtype)  # a double does not hold every one
        count = self.nbytes // SIZES[self.dtype]
        if exact:
            flat: list[Any] = list((exact * count).from_address(address))
        else:
            flat = [convert(read(number, address, i)) for i in range(count)]
        for dim in reversed(self.shape[1:]):
            flat = [flat[i:i + dim] for i in range(0, len(flat), dim)] if dim else []
        return flat if self.shape else flat[0]

    def __float__(self) -> float:
        if self.shape not in ((), (1,)):
            raise TypeError(f'an array of {type_text(self.dtype, self.shape)} is not a number')
        return float(_abi.LIB.tsr_dtype_read(DTYPES[self.dtype][0], self._address, 0))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError('a scalar has no length')
        return self.shape[0]

    def __repr__(self) -> str:
        return f'tessera.Array({type_text(self.dtype, self.shape)})'


class Memory:
    """Memory of an array for the time of a call: what it keeps alive, and its description for the C library."""

    __slots__ = ('dtype', 'shape', 'strides', 'address', 'owner', 'managed', 'dims', 'read_only', 'device')

    def __init__(self, owner: Any, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...] | None, address: int, read_only: bool) -> None:
        self.owner, self.dtype, self.shape, self.strides = owner, dtype, shape, strides  # strides in elements; None: dense
        self.address, self.read_only, self.device = address, read_only, (_abi.DLPACK_CPU, 0)
        self.managed: Any = None
        self.dims: Any = None

    def describe(self) -> Any:
        """A pointer to a tsr_dlpack_managed."""
        if self.managed is None:
            rank = len(self.shape)
            self.dims = (ctypes.c_int64 * (2 * rank or 1))(*self.shape, *(self.strides or ()))
            managed = _abi.DlpackManaged()
            managed.version.major, managed.flags = 1, self.read_only * _abi.READ_ONLY
            tensor = managed.tensor
            tensor.data, tensor.rank = self.address, rank
            tensor.device.type, tensor.device.number = self.device
            tensor.dtype.code, tensor.dtype.bits = DTYPES[self.dtype][3:]
            tensor.dtype.lanes = 1
            tensor.dims = ctypes.cast(self.dims, ctypes.POINTER(ctypes.c_int64))
            if self.strides is not None:
                tensor.strides = ctypes.cast(ctypes.byref(self.dims, 8 * rank), ctypes.POINTER(ctypes.c_int64))
            self.managed = ctypes.pointer(managed)
        return self.managed


class _Exported(Memory):
    """A tensor that an exporter described itself."""

    __slots__ = ()

    def __init__(self, owner: Any, managed: Any) -> None:
        tensor = managed.contents.tensor
        key = tensor.dtype.code, tensor.dtype.bits
        shape = tuple(tensor.dims[:tensor.rank])
        super().__init__(owner, _BY_CODE.get(key, f'DLPack {key}'), shape, tuple(tensor.strides[:tensor.rank]) if tensor.strides else None,
                         (tensor.data or 0) + tensor.offset_bytes, bool(managed.contents.flags & _abi.READ_ONLY))
        self.managed, self.device = managed, (tensor.device.type, tensor.device.number)


def _from_capsule(capsule: Any) -> Memory:
    """A capsule is not consumed: its own destructor frees the tensor with it."""
    if _is_valid(capsule, _VERSIONED):
        return _Exported(capsule, ctypes.cast(_pointer(capsule, _VERSIONED), ctypes.POINTER(_abi.DlpackManaged)))
    if not _is_valid(capsule, _LEGACY):
        raise UsageError('expected a DLPack capsule that has not been consumed')
    managed = _abi.DlpackManaged()  # a tensor of DLPack before 1.0 begins with what is now its last field
    managed.version.major = 1
    ctypes.memmove(ctypes.byref(managed, _abi.DlpackManaged.tensor.offset), _pointer(capsule, _LEGACY), ctypes.sizeof(_abi.DlpackTensor))
    return _Exported((capsule, managed), ctypes.pointer(managed))


def _export(value: Any) -> Memory:
    device = value.__dlpack_device__() if hasattr(value, '__dlpack_device__') else (_abi.DLPACK_CPU, 0)
    # Stream 1 is CUDA's default stream, on which the library waits.
    keywords: dict[str, Any] = {'stream': 1} if int(device[0]) == _abi.DLPACK_CUDA else {}
    try:
        return _from_capsule(value.__dlpack__(max_version=(1, 1), **keywords))
    except TypeError:  # an exporter of DLPack before 1.0
        return _from_capsule(value.__dlpack__(**keywords))


def _from_interface(value: Any, interface: dict[str, Any]) -> Memory:
    dtype = _BY_TYPESTR.get(interface['typestr'])
    if dtype in ('f8E4M3FN', 'f8E5M2', 'f8E8M0FNU'):  # NumPy has one typestr for all of one byte
        dtype = _OF_NAME.get(getattr(getattr(value, 'dtype', None), 'name', ''))
    if dtype is None or dtype == 'bf16':
        name = getattr(getattr(value, 'dtype', None), 'name', interface['typestr'])
        if name != 'bfloat16':
            raise DataError(f'an array has dtype {name}; expected one of {", ".join(_TORCH.values())}, in the byte order of this machine')
        dtype = 'bf16'
    strides, size = interface.get('strides'), SIZES[dtype]
    shape = tuple(interface['shape'])
    if strides is not None:
        if any(stride % size for stride in strides):  # fields of records: only a copy has strides in elements
            return memory_of(numpy().ascontiguousarray(value), None)
        strides = tuple(stride // size for stride in strides)
    address, read_only = interface['data']
    return Memory(value, dtype, shape, strides, address, read_only)


def output_of(value: Any) -> Memory:
    """The memory of an array that is to be filled."""
    if getattr(value, 'is_neg', bool)() or getattr(value, 'is_conj', bool)():
        raise UsageError('an output is a view of PyTorch that negates or conjugates what is in memory; expected a tensor of its own')
    return memory_of(value, None)


def memory_of(value: Any, dtype: str | None) -> Memory:
    """The memory of an array. Numbers and lists of them become an array of `dtype`."""
    interface = getattr(value, '__array_interface__', None)
    if interface is not None:
        return _from_interface(value, interface)
    if hasattr(value, '__dlpack__'):
        if getattr(value, 'requires_grad', False):
            value = value.detach()
        if getattr(value, 'is_neg', bool)():  # PyTorch exports the memory without the minus
            value = value.resolve_neg()
        return _export(value)
    if type(value).__name__ == 'PyCapsule':
        return _from_capsule(value)
    if dtype is not None and isinstance(value, (bool, int, float, list, tuple)):
        return _from_numbers(value, dtype)
    raise UsageError(f'a value of type {type(value).__module__}.{type(value).__name__} is not an array: it has neither __dlpack__ nor '
                     '__array_interface__')


_CTYPES: dict[str, Any] = {'f64': ctypes.c_double, 'f32': ctypes.c_float, 'i64': ctypes.c_int64, 'i32': ctypes.c_int32, 'i1': ctypes.c_uint8,
                           'ui8': ctypes.c_uint8, 'i8': ctypes.c_int8, 'i16': ctypes.c_int16, 'ui16': ctypes.c_uint16, 'ui32': ctypes.c_uint32,
                           'ui64': ctypes.c_uint64}


def _flatten(value: Any, shape: tuple[int, ...], out: list[Any]) -> None:
    if not shape:
        if isinstance(value, (list, tuple)):
            raise DataError('a list of numbers has parts of different lengths')
        out.append(value)
        return
    if not isinstance(value, (list, tuple)) or len(value) != shape[0]:
        raise DataError(f'a list of numbers has parts of different lengths; expected {shape[0]}')
    for part in value:
        _flatten(part, shape[1:], out)


def _from_numbers(value: Any, dtype: str) -> Memory:
    shape: list[int] = []
    flat: list[Any] = []
    part = value
    while isinstance(part, (list, tuple)):
        shape.append(len(part))
        part = part[0] if part else None
    _flatten(value, tuple(shape), flat)
    kind = _CTYPES.get(dtype)
    if kind is None:
        raise UsageError(f'numbers cannot be given as {dtype}; expected an array of it')
    wrong = [x for x in flat if not isinstance(x, (bool, int, float)) or (dtype[0] != 'f' and int(x) != x)]
    if not wrong and dtype[0] != 'f':  # ctypes would take the low bits
        bits = 8 * ctypes.sizeof(kind)
        low, high = (0, 1) if dtype == 'i1' else (0, 2 ** bits - 1) if dtype[0] == 'u' else (-2 ** (bits - 1), 2 ** (bits - 1) - 1)
        wrong = [x for x in flat if not low <= x <= high]
    if wrong:
        raise DataError(f'{wrong[0]!r} is not a value of {dtype}')
    memory = (kind * (len(flat) or 1))(*(int(x) if dtype[0] != 'f' else x for x in flat))
    return Memory(memory, dtype, tuple(shape), None, ctypes.addressof(memory), False)


def dense(value: Any, dtype: str | None) -> Memory:
    """Like memory_of, in memory of the host without gaps: a copy, where the array is not."""
    memory = memory_of(value, dtype)
    if memory.device[0] == _abi.DLPACK_CUDA:
        raise UsageError('an array is in memory of a GPU; expected one in memory of the host')
    expected = 1
    for dim, stride in zip(reversed(memory.shape), reversed(memory.strides or ())):
        if dim != 1 and stride != expected:
            break
        expected *= dim
    else:
        return memory
    if 0 in memory.shape:
        return memory
    return _copy(memory)


def _copy(memory: Memory) -> Memory:
    """Copies row by row of the last dim; a package of arrays does it faster where there is one."""
    if hasattr(memory.owner, 'contiguous'):
        return memory_of(memory.owner.contiguous(), None)
    if hasattr(memory.owner, '__array_interface__'):
        return memory_of(numpy().ascontiguousarray(memory.owner), None)
    size, count = SIZES[memory.dtype], 1
    for dim in memory.shape:
        count *= dim
    copy = (ctypes.c_char * (count * size))()
    at, index = ctypes.addressof(copy), [0] * len(memory.shape)
    for number in range(count):
        offset = sum(i * s for i, s in zip(index, memory.strides or ()))
        ctypes.memmove(at + number * size, memory.address + offset * size, size)
        for d in reversed(range(len(index))):
            index[d] += 1
            if index[d] < memory.shape[d]:
                break
            index[d] = 0
    return Memory(copy, memory.dtype, memory.shape, None, at, False)


# ---- results ----


def numpy() -> Any:
    """NumPy, imported when it is first needed."""
    module = sys.modules.get('numpy')
    if module is None:
        import numpy as module  # type: ignore[no-redef,import-not-found,unused-ignore]
    return module


def numpy_dtype(dtype: str) -> Any:
    """The NumPy dtype; None for bf16 without ml_dtypes."""
    if dtype != 'bf16':
        return numpy().dtype(DTYPES[dtype][2])
    try:
        import ml_dtypes  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    return numpy().dtype(ml_dtypes.bfloat16)


LIBRARIES = 'numpy', 'torch', 'jax', 'tessera'


def library_of(values: Iterable[Any]) -> str:
    """Which package the results of a call are for: that of its inputs; NumPy, where there is one, for numbers and others."""
    for value in values:
        name = type(value).__module__.partition('.')[0]
        if name == 'torch' or name == 'numpy':
            return name
        if name in ('jax', 'jaxlib'):
            return 'jax'
        if name == 'tessera':
            return name
    return 'numpy'


def convert(array: Array, library: str) -> Any:
    """A result as an array of a package, on the same memory."""
    if library == 'tessera':
        return array
    try:
        module = numpy()
    except ImportError:
        return array
    dtype = numpy_dtype(array.dtype)
    if library == 'torch':
        return to_torch(array)
    if dtype is None:
        return array
    made = module.asarray(array)
    if array.dtype == 'bf16':
        made = made.view(dtype)
    return to_jax(made) if library == 'jax' else made


def to_jax(array: Any) -> Any:
    """JAX takes the memory of a NumPy array that is aligned as it wants, and copies others."""
    import jax  # type: ignore[import-not-found,unused-ignore]
    return jax.numpy.asarray(array)


def to_torch(array: Array) -> Any:
    """A tensor of PyTorch: a copy, because PyTorch has no way to share memory that Python code owns."""
    torch: Any = sys.modules.get('torch')
    if torch is None:
        import torch  # type: ignore[no-redef,import-not-found,unused-ignore]
    made = torch.empty(array.shape, dtype=getattr(torch, _TORCH[array.dtype]))
    ctypes.memmove(made.data_ptr(), array._address, array.nbytes)
    return made


def torch_dtype(dtype: str) -> Any:
    return getattr(sys.modules['torch'], _TORCH[dtype])


def empty(dtype: str, shape: Sequence[int], like: Any = None) -> Any:
    """A new tensor of PyTorch for the library to fill, on the device of `like`."""
    import torch  # type: ignore[import-not-found,unused-ignore]
    return torch.empty(tuple(shape), dtype=torch_dtype(dtype), device=getattr(like, 'device', None))


# ---- the address of a NumPy array ----

_OFFSET = object.__basicsize__
_word = ctypes.c_void_p.from_address
_numpy_type: Any = None


def fast_numpy() -> Any:
    """type(numpy.ndarray) if its arrays keep the address of their data where NumPy's C interface says (PyArrayObject_fields, the first
    field after the object's head), which is checked on arrays; else None. Reading it there takes a tenth of the time of the array interface."""
    global _numpy_type
    module: Any = sys.modules.get('numpy')
    if _numpy_type is None and module is not None:
        kind: Any = getattr(module, 'ndarray', None)
        if kind is None:
            return None
        probes = [module.zeros(3), module.zeros((2, 5), 'u1')[1:, ::2], module.zeros(())]
        good = all(_word(id(probe) + _OFFSET).value == probe.__array_interface__['data'][0] for probe in probes)
        _numpy_type = kind if good else False
    return _numpy_type or None
