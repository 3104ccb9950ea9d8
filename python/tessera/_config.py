# SPDX-License-Identifier: Apache-2.0
"""What a bundle says about its program, as Python values."""
from __future__ import annotations

from typing import Any, NamedTuple

from . import _abi
from ._arrays import NAMES, type_text

KINDS = {_abi.INFER: 'infer', _abi.TRAIN: 'train', _abi.EVAL: 'eval'}
ROLES = {_abi.ROLE_PARAM: 'param', _abi.ROLE_STATE: 'state', _abi.ROLE_CONSTANT: 'constant'}


class Port(NamedTuple):
    """An input or output of an entry: 'x', 'f32', (64, 784)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_data: bool  # dimension 0 is the batch of a data set
    dim_times: int  # dimension 0 is this number times the open dim of the entry; 0: it is not open

    def __str__(self) -> str:
        return f'{self.name}: {type_text(self.dtype, self.shape)}'


class EntryConfig(NamedTuple):
    """An entry: its inputs are those that the caller gives."""

    name: str
    kind: str  # 'infer', 'train', 'eval'
    rows_independent: bool  # dimension 0 of all inputs and outputs may be any number of rows
    batch: int
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    open_dim: str | None
    open_range: tuple[int, int]
    effects: tuple[str, ...] | None  # 'random', 'state', …: what it may do besides its results, if the program says so

    def __str__(self) -> str:
        return (f'{self.name}({", ".join(map(str, self.inputs))}) -> {", ".join(map(str, self.outputs)) or "nothing"}'
                + (' with any number of rows' if self.rows_independent else '')
                + (f' with {self.open_dim} from {self.open_range[0]} to {self.open_range[1]}' if self.open_dim else ''))


class TensorConfig(NamedTuple):
    """A tensor of the program: a parameter, a tensor of the optimizer state, or a constant."""

    name: str
    role: str  # 'param', 'state', 'constant'
    dtype: str
    shape: tuple[int, ...]
    of: str | None  # 'state': the parameter that it belongs to
    frozen: bool


def text(value: Any) -> Any:
    return None if value is None else value.decode()


def _shape(shape: Any) -> tuple[int, ...]:
    return tuple(shape.dims[:shape.rank])


def _port(port: Any) -> Port:
    return Port(text(port.name), NAMES[port.dtype], _shape(port.shape), port.source == _abi.PORT_DATA, port.dim_times)


def _entry(entry: Any) -> EntryConfig:
    inputs = tuple(_port(port) for port in entry.inputs[:entry.input_count] if port.source in (_abi.PORT_ARGUMENT, _abi.PORT_DATA))
    outputs = tuple(_port(port) for port in entry.outputs[:entry.output_count] if not port.watched)
    return EntryConfig(text(entry.name), KINDS[entry.kind], entry.rows_independent, entry.batch, inputs, outputs, text(entry.open.name),
                       (entry.open.low, entry.open.high),
                       tuple(name for i, name in enumerate(_abi.EFFECTS) if entry.effects >> i & 1) if entry.states_effects else None)


def _tensor(tensor: Any) -> TensorConfig:
    return TensorConfig(text(tensor.name), ROLES[tensor.role], NAMES[tensor.dtype], _shape(tensor.shape), text(tensor.of), tensor.frozen)


def entries_of(config: Any) -> dict[str, EntryConfig]:
    return {text(entry.name): _entry(entry) for entry in config.entries[:config.entry_count]}


def tensors_of(config: Any) -> dict[str, TensorConfig]:
    return {text(tensor.name): _tensor(tensor) for tensor in config.tensors[:config.tensor_count]}


def hyperparameters_of(identity: Any) -> dict[str, float]:
    return {text(row.name): float(row.value) for row in identity.hyperparameters[:identity.hyperparameter_count]}
