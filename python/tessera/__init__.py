# SPDX-License-Identifier: Apache-2.0
"""Tessera: train and call compiled ML programs (.tsb bundles) from Python.

    import tessera
    m = tessera.open("digits.tsb")
    m.train({"images": images, "labels": labels}, steps=500, state_dir="S")
    y = m.predict(x)
"""
from ._abi import LIB as _LIB
from ._arrays import Array
from ._config import EntryConfig, Port, TensorConfig
from ._errors import (AbsentError, CompilationError, CorruptError, DataError, DeniedError, DifferentError, DivergedError, Error, InputOutputError,
                      InternalError, Interrupted, LockedError, MachineError, MismatchError, NetworkError, NonFiniteError, OutOfMemoryError,
                      RankError, SaveError, SignatureError, StateError, TargetError, UsageError, VersionError)
from . import _library
from ._language import Function
from ._library import *
from ._model import Entry, Model
from ._model import open_model as open  # pylint: disable=redefined-builtin
from ._training import Position, StepReport, Summary, Trainer, train

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._compile import Diagnostic, build
    from ._jax import JaxModel, build_jax


def __getattr__(name: str) -> object:
    """The compiler's part is imported when it is used."""
    if name in ('build', 'Diagnostic'):
        from . import _compile
        return getattr(_compile, name)
    if name in ('build_jax', 'JaxModel'):
        from . import _jax
        return getattr(_jax, name)
    raise AttributeError(f"module 'tessera' has no attribute '{name}'")


__version__: str = _LIB.tsr_version().decode()
__all__ = ['AbsentError', 'Array', 'CompilationError', 'CorruptError', 'DataError', 'DeniedError', 'Diagnostic', 'DifferentError', 'DivergedError', 'Entry',
           'EntryConfig', 'Error', 'InputOutputError', 'InternalError', 'Interrupted', 'JaxModel', 'LockedError', 'MachineError', 'MismatchError', 'Model',
           'NetworkError', 'NonFiniteError', 'OutOfMemoryError', 'Port', 'Position', 'RankError', 'SaveError', 'SignatureError', 'StateError',
           'StepReport', 'Summary', 'TargetError', 'TensorConfig', 'Trainer', 'UsageError', 'VersionError', 'build', 'build_jax', 'open', 'train', 'Function']
__all__ += _library.__all__
