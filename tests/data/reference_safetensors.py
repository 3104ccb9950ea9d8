#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Files of the safetensors package are read exactly; files written here are read by the package.

    reference_safetensors.py ARRAY_TOOL

Exit code 77 without NumPy or safetensors.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file
except ImportError:
    print("NumPy or safetensors is not installed")
    sys.exit(77)

NAMES = {"f8": "f64", "f4": "f32", "f2": "f16", "i8": "i64", "i4": "i32", "i1": "i8", "b1": "i1",
         "u1": "ui8", "i2": "i16", "u2": "ui16", "u4": "ui32", "u8": "ui64"}
SHAPES = [(), (1,), (7,), (0,), (3, 0, 2), (2, 3), (5, 1, 4), (300, 257)]
DATA = 8  # exit code of TSR_DATA
tool = sys.argv[1]
rng = np.random.default_rng()


def random_array(dtype, shape):
    raw = rng.integers(0, 256, int(np.prod(shape)) * np.dtype(dtype).itemsize, np.uint8)
    if dtype == "b1":
        raw &= 1
    return np.frombuffer(raw.tobytes(), dtype).reshape(shape)


def check_read(path, arrays):
    for name, array in arrays.items():
        done = subprocess.run([tool, "read", f"{path}:{name}"], capture_output=True, check=False)
        assert done.returncode == 0, (name, done.stderr)
        kind, _, data = done.stdout.partition(b"\n")
        expected = "x".join([str(n) for n in array.shape] + [NAMES[array.dtype.str[1:]]])
        assert kind.decode() == expected, (name, kind, expected)
        assert data == array.tobytes(), name


def check_refused(folder):
    path = folder / "r.safetensors"
    save_file({"a": np.zeros(4, "c8")}, path)
    done = subprocess.run([tool, "read", f"{path}:a"], capture_output=True, text=True, check=False)
    assert done.returncode == DATA and "dtype 'C64'" in done.stderr, done


def check_write(folder, source, arrays):
    out = folder / "out.safetensors"
    specs = [f"{source}:{name}" for name in arrays]
    subprocess.run([tool, "safetensors", out, *specs], check=True)
    back = load_file(out)
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype and back[name].shape == array.shape, name
        assert back[name].tobytes() == array.tobytes(), name
    with safe_open(out, "numpy") as file:
        assert file.metadata() == {"format": "np", "note": 'two "words"'}
    raw = out.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    assert (8 + length) % 64 == 0
    header = json.loads(raw[8:8 + length])
    begins = [entry["data_offsets"][0] for name, entry in header.items() if name != "__metadata__"]
    assert begins == sorted(begins)


with tempfile.TemporaryDirectory() as directory:
    folder = pathlib.Path(directory)
    arrays = {f"layer.{dtype}-{i}": random_array(dtype, shape)
              for dtype in NAMES for i, shape in enumerate(SHAPES)}
    arrays['caf\u00e9 "x"'] = np.ones(3, "f4")
    source = folder / "in.safetensors"
    save_file(arrays, source, metadata={"format": "np"})
    check_read(source, arrays)
    check_refused(folder)
    check_write(folder, source, arrays)
