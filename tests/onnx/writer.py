#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes ONNX models without the package onnx: the fields of onnx.proto that the tests need.

A message is its bytes; the functions below return the fields of one message.
"""
import struct

TYPES = {'float32': 1, 'uint8': 2, 'int8': 3, 'uint16': 4, 'int16': 5, 'int32': 6, 'int64': 7, 'bool': 9, 'float16': 10, 'float64': 11,
         'uint32': 12, 'uint64': 13, 'complex64': 14}


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while True:
        out.append(value & 0x7f | (0x80 if value > 0x7f else 0))
        value >>= 7
        if not value:
            return bytes(out)


def integer(field, value):
    return varint(field << 3) + varint(value)


def length(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def tensor(name, array, external=None):
    """external: (location, offset, length) instead of the bytes."""
    out = b''.join(integer(1, dim) for dim in array.shape) + integer(2, TYPES[array.dtype.name]) + length(8, name)
    if external is None:
        return out + length(9, array.tobytes())
    for key, value in zip(('location', 'offset', 'length'), external):
        out += length(13, length(1, key) + length(2, str(value)))
    return out + integer(14, 1)


def info(name, dims, dtype='float32'):
    """dims: sizes, names, or None for a dim that has neither."""
    shape = b''.join(length(1, b'' if dim is None else length(2, dim) if isinstance(dim, str) else integer(1, dim)) for dim in dims)
    kind = dtype if isinstance(dtype, int) else TYPES[dtype]
    return length(1, name) + length(2, length(1, integer(1, kind) + length(2, shape)))


def attribute(name, value):
    out = length(1, name)
    if isinstance(value, float):
        return out + varint(2 << 3 | 5) + struct.pack('<f', value) + integer(20, 1)
    if isinstance(value, int):
        return out + integer(3, value) + integer(20, 2)
    if isinstance(value, str):
        return out + length(4, value) + integer(20, 3)
    if isinstance(value, bytes):
        return out + length(6, value) + integer(20, 5)
    if hasattr(value, 'dtype'):
        return out + length(5, tensor('', value)) + integer(20, 4)
    return out + length(8, b''.join(varint(v) for v in value)) + integer(20, 7)


def node(op, inputs, outputs, name='', domain='', **attributes):
    out = b''.join(length(1, text) for text in inputs) + b''.join(length(2, text) for text in outputs)
    out += length(3, name) + length(4, op) + (length(7, domain) if domain else b'')
    return out + b''.join(length(5, attribute(key, value)) for key, value in attributes.items())


def graph(nodes, inputs, outputs, initializers=()):
    out = b''.join(length(1, n) for n in nodes) + length(2, 'g') + b''.join(length(5, t) for t in initializers)
    return out + b''.join(length(11, i) for i in inputs) + b''.join(length(12, o) for o in outputs)


def function(name, domain, inputs, outputs, nodes, opset=17):
    out = length(1, name) + b''.join(length(4, i) for i in inputs) + b''.join(length(5, o) for o in outputs)
    out += b''.join(length(7, n) for n in nodes) + length(9, length(1, '') + integer(2, opset))
    return out + length(10, domain)


def model(graph_bytes, opset=17, ir=8, functions=(), domains=()):
    out = integer(1, ir) + length(2, 'tessera-tests') + length(8, length(1, '') + integer(2, opset))
    for domain in domains:
        out += length(8, length(1, domain) + integer(2, 1))
    return out + length(7, graph_bytes) + b''.join(length(25, f) for f in functions)
