# SPDX-License-Identifier: Apache-2.0
"""Bundles of a pack, which lie in it compressed."""
import lzma
import pathlib
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
UNPACKED, TURN = tempfile.TemporaryDirectory(), threading.Lock()


def bundle(name):
    """Its path. Once asked for it lies in a folder that ends with this process."""
    path = pathlib.Path(UNPACKED.name) / name
    with TURN:
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(lzma.decompress((HERE / f'{name}.xz').read_bytes()))
    return path
