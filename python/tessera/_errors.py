# SPDX-License-Identifier: Apache-2.0
"""Exceptions: one class for each result code of the C library (tessera/codes.def, which a test compares)."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, ClassVar

from . import _abi

if TYPE_CHECKING:
    from ._compile import Diagnostic


class Error(Exception):
    """A function of Tessera failed. `str(error)` is the text of the C library; `frames` say where in its source it failed."""

    code: ClassVar[int] = 0
    name: ClassVar[str] = 'OK'

    def __init__(self, text: str, frames: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.text, self.frames = text, frames

    def __str__(self) -> str:
        return self.text


class InternalError(Error):
    """Internal error: a bug of Tessera itself; please report it."""

    code, name = 1, 'INTERNAL'


class CorruptError(Error):
    """Corrupt: bytes of a bundle are malformed or do not match their hash."""

    code, name = 2, 'CORRUPT'


class VersionError(Error):
    """Version not supported: the file needs a newer Tessera; the message names the version."""

    code, name = 3, 'VERSION'


class SignatureError(Error):
    """Signature refused: a signature is wrong, or required and missing."""

    code, name = 4, 'SIGNATURE'


class TargetError(Error):
    """No matching target: the bundle has no code that this machine can run; the message lists its targets."""

    code, name = 5, 'TARGET'


class UsageError(Error, ValueError):
    """Bad arguments: unknown flag, entry, input or target, or a value out of range."""

    code, name = 6, 'USAGE'


class InputOutputError(Error, OSError):
    """Input/output error: the operating system refused to open, read or write a file."""

    code, name = 7, 'IO'


class DataError(Error, ValueError):
    """Bad data: an input array has the wrong dtype, shape, order or value."""

    code, name = 8, 'DATA'


class CompilationError(Error):
    """Compilation failed: the program has errors; diagnostics were printed."""

    code, name = 9, 'COMPILE'

    def __init__(self, text: str, frames: tuple[str, ...] = (), diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(text, frames)
        self.diagnostics = diagnostics  # of tessera.build


class StateError(Error):
    """State refused: no usable generation in the state directory, or it is damaged."""

    code, name = 10, 'STATE'


class LockedError(Error):
    """In use: another run holds the state directory, or another pull writes the same file."""

    code, name = 11, 'LOCKED'


class MismatchError(Error):
    """Does not belong together: state, log or parameters come from another program, seed, data or model."""

    code, name = 12, 'MISMATCH'


class DivergedError(Error):
    """Replay diverged: a replayed step did not give the recorded bits."""

    code, name = 13, 'DIVERGED'


class NonFiniteError(Error, ArithmeticError):
    """Not a finite number: the loss or another watched tensor became NaN or infinite."""

    code, name = 14, 'NONFINITE'


class OutOfMemoryError(Error, MemoryError):
    """Out of memory: more memory is planned than is available, or an allocation failed."""

    code, name = 15, 'MEMORY'


class SaveError(Error):
    """Saving failed: three saves in a row failed; the last good generation is kept."""

    code, name = 16, 'SAVE'


class MachineError(Error):
    """Machine not supported: the CPU is below x86-64-v2, no GPU or driver here fits or one of them failed, an assembler crashed, or the operating system refuses executable memory."""

    code, name = 17, 'MACHINE'


class NetworkError(Error, ConnectionError):
    """Network failed: a registry could not be reached, broke off too often, or answered against the protocol."""

    code, name = 18, 'NETWORK'


class DeniedError(Error, PermissionError):
    """Access denied: a registry asks for a login, or refuses the one it was given."""

    code, name = 19, 'DENIED'


class AbsentError(Error, LookupError):
    """Not in the registry: the registry has no such repository, tag or digest."""

    code, name = 20, 'ABSENT'


class DifferentError(Error):
    """Different: two bundles that were compared, or one that was built twice, differ."""

    code, name = 21, 'DIFFERENT'


class RankError(Error):
    """A rank failed: a rank of the run ended, hung, or did not do the same as the other ranks; the message names the rank."""

    code, name = 22, 'RANK'


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during training: the state of the last complete step was saved, if there is a state directory."""

    def __init__(self, step: int, saved: bool) -> None:
        super().__init__(f'interrupted after step {step}; the state was {"saved" if saved else "not saved: there is no state directory"}')
        self.step, self.saved = step, saved


CLASSES: dict[int, type[Error]] = {cls.code: cls for cls in (
    InternalError, CorruptError, VersionError, SignatureError, TargetError, UsageError, InputOutputError, DataError, CompilationError,
    StateError, LockedError, MismatchError, DivergedError, NonFiniteError, OutOfMemoryError, SaveError, MachineError, NetworkError,
    DeniedError, AbsentError, DifferentError, RankError)}


def failed(ctx: _abi.Ctx) -> Error:
    """The exception for the error in a context, which is cleared."""
    error = ctx.error
    frames = tuple(f'{(frame.file or b"?").decode()}:{frame.line}' for frame in error.frames[:error.frame_count])
    made = CLASSES.get(error.code, InternalError)(error.text.decode('utf-8', 'replace'), frames)
    ctypes.memset(ctypes.addressof(error), 0, ctypes.sizeof(_abi.ErrorText))
    return made


def check(ctx: _abi.Ctx, code: Any) -> None:
    if code:
        raise failed(ctx)
