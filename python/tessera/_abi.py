# SPDX-License-Identifier: Apache-2.0
"""The C interface of libtessera (tessera/*.h) for ctypes. `tests/python_package/layout.py` compares every struct with the headers."""
from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any

VERSION = '0.1.0'  # of the library: the structs below are those of this version
EFFECTS = 'random', 'io', 'memory', 'state', 'movement', 'collective'
RANK_MAX, DIGEST_BYTES, METRIC_MAX, ERROR_TEXT_MAX, FRAMES_MAX = 8, 32, 64, 1024, 8
PORTS_MAX = 256
OK, USAGE = 0, 6
ROLE_PARAM, ROLE_STATE, ROLE_CONSTANT = 1, 2, 3
PORT_ARGUMENT, PORT_DATA, PORT_HYPERPARAMETER = 1, 2, 5
INFER, TRAIN, EVAL = 1, 2, 3
RESUME_AUTO, RESUME_NEVER, RESUME_EXACT = 0, 1, 2
LOG_ERROR, LOG_WARNING, LOG_NOTICE, LOG_DEBUG = 0, 1, 2, 3
DLPACK_CPU, DLPACK_CUDA, READ_ONLY = 1, 2, 1


# A tsr_result is a struct of one int: the ABIs of x86-64 and arm64 return it as the int.
Result = c_int


class Frame(Structure):
    _fields_ = [('file', c_char_p), ('line', c_int)]


class ErrorText(Structure):
    c_name = 'tsr_error'
    _fields_ = [('code', c_int), ('native', c_int), ('frame_count', c_uint32), ('frames', Frame * FRAMES_MAX), ('text', c_char * ERROR_TEXT_MAX)]


LogFn = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class Ctx(Structure):
    _fields_ = [('error', ErrorText), ('log', LogFn), ('log_user', c_void_p), ('log_level', c_int), ('io', c_void_p), ('trace', c_void_p)]


class Shape(Structure):
    _fields_ = [('rank', c_uint32), ('dims', c_uint64 * RANK_MAX)]


class Tensor(Structure):
    _fields_ = [('name', c_char_p), ('dtype', c_int), ('shape', Shape), ('data', c_void_p)]


class View(Structure):
    _fields_ = [('name', c_char_p), ('dtype', c_int), ('shape', Shape), ('data', c_void_p), ('location', c_int)]


class Digest(Structure):
    _fields_ = [('bytes', c_uint8 * DIGEST_BYTES)]


class Best(Structure):
    _fields_ = [('metric', c_char * METRIC_MAX), ('evaluated_step', c_uint64), ('without_gain', c_uint64), ('generation', c_uint64),
                ('epoch', c_uint64), ('manifest_hash', Digest), ('step', c_uint64), ('value', c_double)]


class Position(Structure):
    _fields_ = [('seed', c_uint64), ('step', c_uint64), ('sample', c_uint64), ('virtual_ranks', c_uint64), ('shuffle_version', c_uint64),
                ('epoch_base', c_uint64), ('epoch_base_sample', c_uint64), ('rows', c_uint64), ('data', Digest), ('best', Best)]


class Generation(Structure):
    _fields_ = [('number', c_uint64), ('epoch', c_uint64), ('position', Position), ('bundle_hash', Digest), ('state_hash', Digest),
                ('manifest_hash', Digest), ('program', Digest)]


class Recovery(Structure):
    _fields_ = [('found', c_bool), ('generation', Generation), ('damaged_count', c_uint32), ('uncommitted_count', c_uint32)]


class AdoptOptions(Structure):
    _fields_ = [('directory', c_char_p), ('renames', c_void_p), ('rename_count', c_size_t)]


class ModelOptions(Structure):
    _fields_ = [('size_bytes', c_size_t), ('strict', c_bool), ('cpu', c_char_p), ('threads', c_uint), ('ignore_memory_plan', c_bool),
                ('keys', POINTER(c_char_p)), ('key_count', c_size_t), ('require_signature', c_bool), ('weights_folders', POINTER(c_char_p)),
                ('weights_folder_count', c_size_t), ('device', c_char_p), ('device_memory_max', c_uint64), ('transport', c_void_p),
                ('one_by_one', c_bool), ('check_finite', c_int), ('devices', c_char_p), ('share_device', c_bool), ('exchange', c_char_p), ('debug_numerics', c_bool)]


class TrainCallbacks(Structure):
    _fields_ = [('user', c_void_p), ('step', c_void_p), ('eval', c_void_p), ('saved', c_void_p), ('ranks', c_void_p)]


class TrainerOptions(Structure):
    _fields_ = [('size_bytes', c_size_t), ('entry', c_char_p), ('has_seed', c_bool), ('seed', c_uint32), ('state_directory', c_char_p),
                ('save_every', c_uint64), ('keep', c_uint32), ('resume', c_int), ('resume_generation', c_uint64), ('allow_network_fs', c_bool),
                ('allow_inexact', c_bool), ('params', c_char_p), ('adopt', AdoptOptions), ('rows', c_uint64), ('data', Digest),
                ('new_data', c_bool), ('callbacks', TrainCallbacks), ('store_event', c_void_p), ('store_event_user', c_void_p)]


class TraceOptions(Structure):
    _fields_ = [('size_bytes', c_size_t), ('first_step', c_uint64), ('last_step', c_uint64), ('events_max', c_uint32), ('rank', c_uint32),
                ('ranges', c_void_p), ('ranges_only', c_bool)]


class MemoryPlan(Structure):
    _fields_ = [(name, c_uint64) for name in (
        'tensor_bytes', 'prepacked_bytes', 'workspace_bytes', 'port_bytes', 'total_bytes', 'handler_bytes', 'vrank_bytes', 'sum_bytes',
        'part_bytes', 'round_bytes', 'offloaded_bytes', 'offloaded_handler_bytes')]


class Hyperparameter(Structure):
    _fields_ = [('name', c_char_p), ('value', c_char_p), ('is_set', c_bool)]


class Identity(Structure):
    _fields_ = [('program', Digest), ('hyperparameter_count', c_size_t), ('hyperparameters', POINTER(Hyperparameter))]


class ConfigTensor(Structure):
    _fields_ = [('name', c_char_p), ('role', c_int), ('of', c_char_p), ('kind', c_char_p), ('dtype', c_int), ('shape', Shape), ('init', c_int),
                ('init_a', c_double), ('init_b', c_double), ('init_stream', c_uint32), ('frozen', c_bool), ('no_decay', c_bool),
                ('lr_factor', c_double)]


class ConfigPort(Structure):
    _fields_ = [('name', c_char_p), ('dtype', c_int), ('shape', Shape), ('source', c_int), ('may_be_infinite', c_bool), ('watched', c_bool),
                ('hyperparameter', c_void_p), ('dim_times', c_uint64)]


class OpenDim(Structure):
    _fields_ = [('name', c_char_p), ('low', c_uint64), ('high', c_uint64)]


class ConfigEntry(Structure):
    _fields_ = [('name', c_char_p), ('kind', c_int), ('rows_independent', c_bool), ('batch', c_uint64), ('input_count', c_size_t),
                ('output_count', c_size_t), ('inputs', POINTER(ConfigPort)), ('outputs', POINTER(ConfigPort)), ('open', OpenDim),
                ('states_effects', c_bool), ('effects', c_uint32)]


class Config(Structure):
    _fields_ = [('version_major', c_uint32), ('version_minor', c_uint32), ('name', c_char_p), ('producer', c_char_p), ('numerics', c_char_p),
                ('virtual_ranks', c_uint64), ('operations', Digest), ('identity', Identity), ('tensor_count', c_size_t), ('entry_count', c_size_t),
                ('tensors', POINTER(ConfigTensor)), ('entries', POINTER(ConfigEntry))]


class DlpackDevice(Structure):
    _fields_ = [('type', c_int32), ('number', c_int32)]


class DlpackDtype(Structure):
    _fields_ = [('code', c_uint8), ('bits', c_uint8), ('lanes', c_uint16)]


class DlpackTensor(Structure):
    _fields_ = [('data', c_void_p), ('device', DlpackDevice), ('rank', c_int32), ('dtype', DlpackDtype), ('dims', POINTER(c_int64)),
                ('strides', POINTER(c_int64)), ('offset_bytes', c_uint64)]


class DlpackVersion(Structure):
    _fields_ = [('major', c_uint32), ('minor', c_uint32)]


class DlpackManaged(Structure):
    _fields_ = [('version', DlpackVersion), ('manager', c_void_p), ('deleter', c_void_p), ('flags', c_uint64), ('tensor', DlpackTensor)]


class DlpackView(Structure):
    _fields_ = [('name', c_char_p), ('tensor', POINTER(DlpackManaged))]


class DlpackOptions(Structure):
    _fields_ = [('size_bytes', c_size_t), ('stream', c_void_p)]


Deleter = ctypes.CFUNCTYPE(None, POINTER(DlpackManaged))

# function: result (None: a tsr_result), then the arguments
_P = c_void_p
PROTOTYPES: dict[str, tuple[Any, ...]] = {
    'tsr_version': (c_char_p,),
    'tsr_code_name': (c_char_p, c_int),
    'tsr_model_open': (Result, _P, c_char_p, _P, _P),
    'tsr_model_close': (None, _P, _P),
    'tsr_model_get_config': (POINTER(Config), _P),
    'tsr_model_get_digest': (Digest, _P),
    'tsr_model_get_identity': (POINTER(Identity), _P),
    'tsr_model_get_target': (c_char_p, _P),
    'tsr_model_get_choice': (c_char_p, _P),
    'tsr_model_get_numerics': (c_char_p, _P),
    'tsr_model_get_thread_count': (c_uint, _P),
    'tsr_model_get_memory_plan': (MemoryPlan, _P),
    'tsr_model_initialize': (Result, _P, _P, c_uint32),
    'tsr_model_load_state': (Result, _P, _P, c_char_p, c_int, c_uint64, _P),
    'tsr_model_load_params': (Result, _P, _P, c_char_p),
    'tsr_model_export_params': (Result, _P, _P, c_char_p),
    'tsr_model_call': (Result, _P, _P, c_char_p, _P, c_size_t, _P, c_size_t),
    'tsr_model_call_dlpack': (Result, _P, _P, c_char_p, _P, _P, c_size_t, _P, c_size_t),
    'tsr_model_set_hyperparameter': (Result, _P, _P, c_char_p, c_double),
    'tsr_model_write_roofline': (Result, _P, _P, c_char_p),
    'tsr_model_read_tensor': (Result, _P, _P, _P),
    'tsr_model_write_tensor': (Result, _P, _P, _P),
    'tsr_model_hash_state': (Result, _P, _P, _P),
    'tsr_data_digest': (Result, _P, _P, c_size_t, _P),
    'tsr_position_get_row': (c_uint64, _P, c_uint64),
    'tsr_trainer_open': (Result, _P, _P, _P, _P),
    'tsr_trainer_close': (None, _P, _P),
    'tsr_trainer_get_position': (POINTER(Position), _P),
    'tsr_trainer_get_recovery': (POINTER(Recovery), _P),
    'tsr_trainer_get_outputs': (POINTER(Tensor), _P, _P),
    'tsr_trainer_step': (Result, _P, _P, _P, c_size_t, _P, c_size_t),
    'tsr_trainer_step_drawn': (Result, _P, _P, _P, c_size_t, _P, c_size_t),
    'tsr_trainer_step_dlpack': (Result, _P, _P, _P, _P, c_size_t, _P, c_size_t),
    'tsr_trainer_save': (Result, _P, _P, _P),
    'tsr_trace_create': (Result, _P, _P, _P),
    'tsr_trace_write': (Result, _P, _P, c_char_p),
    'tsr_trace_destroy': (None, _P),
    'tsr_dtype_read': (c_double, c_int, _P, c_uint64),
}

NAMES = '.tessera.mesonpy.libs/libtessera_python.so', 'libtessera.so.0'


def find() -> str:
    """The library: that of TESSERA_LIBRARY, of the wheel, or of the system."""
    chosen = os.environ.get('TESSERA_LIBRARY')
    if chosen:
        return chosen
    own = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), NAMES[0])
    return own if os.path.exists(own) else NAMES[1]


def load() -> Any:
    path = find()
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"cannot load Tessera's library '{path}': {error}; install the package with its library (pip install .), "
                          'or set TESSERA_LIBRARY to the path of libtessera.so') from error
    for name, (result, *arguments) in PROTOTYPES.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"the library '{path}' has no function '{name}': it is older than this package") from None
        function.restype, function.argtypes = result, arguments
    version = library.tsr_version().decode()
    if version != VERSION:
        raise ImportError(f"the library '{path}' has version {version}; this package needs {VERSION}")
    return library


LIB: Any = load()
