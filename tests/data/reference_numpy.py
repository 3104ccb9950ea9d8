#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Arrays written by NumPy are read exactly, or refused; arrays written here are read by NumPy.

    reference_numpy.py ARRAY_TOOL

Exit code 77 without NumPy.
"""
import io
import pathlib
import subprocess
import sys
import tempfile
import zipfile

try:
    import numpy as np
    from numpy.lib import format as npy_format
except ImportError:
    print("NumPy is not installed")
    sys.exit(77)

NAMES = {"f8": "f64", "f4": "f32", "f2": "f16", "i8": "i64", "i4": "i32", "i1": "i8", "b1": "i1",
         "u1": "ui8", "i2": "i16", "u2": "ui16", "u4": "ui32", "u8": "ui64"}
SHAPES = [(), (1,), (7,), (0,), (3, 0, 2), (2, 3), (5, 1, 4), (1, 2, 1, 2, 1, 2, 1, 2), (300, 257)]
DATA = 8  # exit code of TSR_DATA
tool = sys.argv[1]
rng = np.random.default_rng()


def random_array(dtype, shape):
    raw = rng.integers(0, 256, int(np.prod(shape)) * np.dtype(dtype).itemsize, np.uint8)
    if dtype == "b1":
        raw &= 1
    return np.frombuffer(raw.tobytes(), dtype).reshape(shape)  # including NaNs of every kind


def expect_same(spec, array):
    done = subprocess.run([tool, "read", str(spec)], capture_output=True, check=False)
    assert done.returncode == 0, (spec, done.stderr)
    kind, _, data = done.stdout.partition(b"\n")
    expected = "x".join([str(n) for n in array.shape] + [NAMES[array.dtype.str[1:]]])
    assert kind.decode() == expected, (spec, kind, expected)
    assert data == array.tobytes(), spec


def expect_refused(spec, *parts):
    done = subprocess.run([tool, "read", str(spec)], capture_output=True, text=True, check=False)
    assert done.returncode == DATA, (spec, done)
    assert done.stderr.count("\n") == 1, done.stderr
    for part in parts:
        assert part in done.stderr, (part, done.stderr)


def check_read(folder):
    for dtype in NAMES:
        for shape in SHAPES:
            array = random_array(dtype, shape)
            np.save(folder / "a.npy", array)
            expect_same(folder / "a.npy", array)
            for version in (1, 0), (2, 0), (3, 0):
                with open(folder / "v.npy", "wb") as file:
                    npy_format.write_array(file, array, version=version)
                expect_same(folder / "v.npy", array)


def check_refused(folder):
    path = folder / "r.npy"
    np.save(path, np.asfortranarray(np.ones((3, 4), "f4")))
    expect_refused(path, "Fortran order; expected C order")
    for descr in ">f4", ">i8", ">u2":
        np.save(path, np.ones(3, descr))
        expect_refused(path, f"big-endian ({descr}); expected little-endian (<{descr[1:]})")
    for descr in "<c8", "<U5", "|S3", "<M8[s]":
        np.save(path, np.zeros(3, descr))
        expect_refused(path, f"'{descr}'", "expected one of <f8 <f4 <i8 <i4 |b1 |u1 |V2 <f2 |i1 <i2 <u2 <u4 <u8")
    np.save(path, np.array([{}, None], object), allow_pickle=True)
    expect_refused(path, "Python objects")
    np.save(path, np.zeros(3, [("a", "<f4"), ("b", "<i4")]))
    expect_refused(path, "array of structures")
    np.save(path, np.zeros((1,) * 9))
    expect_refused(path, "more than 8 dimensions")


def check_npz(folder):
    arrays = {f"{dtype}_{len(shape)}": random_array(dtype, shape)
              for dtype in NAMES for shape in SHAPES[:6] + SHAPES[-1:]}
    arrays["zeros"] = np.zeros((1000, 1000))  # deflates about a thousandfold
    arrays["a/b.c"] = np.ones(3, "f4")
    for save in np.savez, np.savez_compressed:
        save(folder / "m.npz", **arrays)
        for name, array in arrays.items():
            expect_same(f"{folder}/m.npz:{name}", array)
        save(folder / "one.npz", np.arange(5))
        expect_same(folder / "one.npz", np.arange(5))
    expect_refused(f"{folder}/m.npz:none", "no such member; the archive has: f8_0.npy, f8_1.npy")
    np.savez(folder / "m.npz", f=np.asfortranarray(np.ones((3, 4))), o=np.array([None], object))
    expect_refused(f"{folder}/m.npz:f", "Fortran order")
    expect_refused(f"{folder}/m.npz:o", "Python objects")
    member = io.BytesIO()
    np.save(member, np.arange(9))
    for kind in zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA:
        with zipfile.ZipFile(folder / "k.npz", "w", kind) as archive:
            archive.writestr("a.npy", member.getvalue())
        expect_refused(f"{folder}/k.npz:a", f"zip method {kind}; expected 0 (stored) or 8")
    with zipfile.ZipFile(folder / "k.npz", "w") as archive:
        archive.comment = b"a comment PK\5\6 with a signature"
        archive.writestr("a.npy", member.getvalue())
    expect_same(f"{folder}/k.npz:a", np.arange(9))


def check_many_members(folder):
    """More members than fit into 16 bits: zip64."""
    member = io.BytesIO()
    np.save(member, np.arange(2))
    with zipfile.ZipFile(folder / "many.npz", "w") as archive:
        for i in range(70000):
            archive.writestr(f"{i}.npy", member.getvalue() if i == 69999 else b"")
    expect_same(f"{folder}/many.npz:69999", np.arange(2))


def check_write(folder):
    for dtype in NAMES:
        for shape in SHAPES:
            array = random_array(dtype, shape)
            np.save(folder / "in.npy", array)
            subprocess.run([tool, "npy", folder / "out.npy", folder / "in.npy"], check=True)
            got = np.load(folder / "out.npy")
            assert got.dtype == array.dtype and got.shape == array.shape, (got.dtype, got.shape)
            assert got.tobytes() == array.tobytes()


def check_write_npz(folder):
    arrays = {f"{dtype}{i}": random_array(dtype, shape)
              for dtype in NAMES for i, shape in enumerate(SHAPES[:-1])}
    np.savez(folder / "in.npz", **arrays)
    specs = [f"{folder}/in.npz:{name}" for name in arrays]
    subprocess.run([tool, "npz", folder / "out.npz", *specs], check=True)
    with zipfile.ZipFile(folder / "out.npz") as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [name + ".npy" for name in arrays], archive.namelist()
    got = np.load(folder / "out.npz")
    for name, array in arrays.items():
        assert got[name].dtype == array.dtype and got[name].shape == array.shape, name
        assert got[name].tobytes() == array.tobytes(), name


def check_quantile():
    """Compares the normal quantile with Python's, which also uses AS 241, with libm's log."""
    from statistics import NormalDist
    u = np.concatenate([rng.random(20000), 2.0 ** -rng.uniform(1, 1000, 5000)])
    u = u[(u > 0) & (u < 1)]
    done = subprocess.run([tool, "quantile"], input=u.tobytes(), capture_output=True, check=True)
    got = np.frombuffer(done.stdout)
    want = np.array([NormalDist().inv_cdf(float(value)) for value in u])
    worst = np.max(np.abs(got - want) / np.maximum(np.abs(want), 1e-300))
    assert got.shape == want.shape and worst < 2.0 ** -49, worst  # 2^-50 each


with tempfile.TemporaryDirectory() as name:
    for check in (check_read, check_refused, check_npz, check_many_members, check_write,
                  check_write_npz):
        check(pathlib.Path(name))
check_quantile()
