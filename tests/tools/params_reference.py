#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Parameters into a bundle and out of it, compared bit by bit with NumPy and the safetensors package.

Arguments: tessera-run, tessera-aot, a bundle, the source root. Exits with 77 without the packages.
"""
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

try:
    import numpy as np
    from safetensors import numpy as st
except ImportError:
    sys.exit(77)

RUN, AOT, BUNDLE, ROOT = [str(pathlib.Path(a).resolve()) for a in sys.argv[1:5]]
DIGITS = ROOT + "/examples/digits"
SOURCE = DIGITS + "/digits.mlir"
DATA = [f"--data={name}={DIGITS}/train-{name}.npy" for name in ("images", "labels")]
SHAPES = {"layer1.weight": (64, 128), "layer1.bias": (128,), "layer2.weight": (128, 64),
          "layer2.bias": (64,), "layer3.weight": (64, 10), "layer3.bias": (10,)}
SPLATS = {"layer1.bias": np.float32(-0.0), "layer2.bias": np.float32(0.1)}
checks = 0


def run(code, *command, pattern=""):
    global checks
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)
    assert done.returncode == code, (command, done.returncode, done.stderr)
    assert re.search(pattern, done.stdout + done.stderr), (pattern, done.stdout, done.stderr)
    checks += 1
    return done.stdout


def same(a, b):
    """Returns names, dtypes, shapes and bits."""
    global checks
    assert sorted(a) == sorted(b), (sorted(a), sorted(b))
    for name, value in a.items():
        assert value.dtype == b[name].dtype and value.shape == b[name].shape, name
        assert value.tobytes() == b[name].tobytes(), name
        checks += 1


def layers(path):
    """Returns titles and bytes of the layers of the first target."""
    archive = tarfile.open(path)
    blob = lambda d: archive.extractfile("blobs/sha256/" + d["digest"][7:]).read()
    index = json.loads(blob(json.load(archive.extractfile("index.json"))["manifests"][0]))
    manifest = json.loads(blob(index["manifests"][0]))
    found = {x.get("annotations", {}).get("org.opencontainers.image.title"): (x["mediaType"], blob(x))
             for x in manifest["layers"]}
    return json.loads(blob(manifest["config"])), found


def independent(path, params):
    """Checks the bundle with a reader that shares no code with Tessera."""
    global checks
    import hashlib
    lines = run(0, sys.executable, ROOT + "/tests/bundle/read_bundle.py", path).splitlines()
    found = {line.split()[0]: line.split()[1:] for line in lines}
    for name, value in params.items():
        shape = "x".join(map(str, value.shape))
        assert found[name] == ["f32", shape, hashlib.sha256(value.tobytes()).hexdigest()], name
        checks += 1


def without_provenance(found):
    return {title: layer for title, layer in found.items() if "provenance" not in layer[0]
            and not layer[0].endswith("chunks.v1")}


def random_params():
    rng = np.random.default_rng(7)
    params = {n: rng.standard_normal(s).astype(np.float32) for n, s in SHAPES.items()}
    params["layer3.weight"].flat[:3] = [np.nan, np.inf, -0.0]
    params["layer3.weight"].flat[3:4].view(np.uint32)[0] = 0x7fc12345 # a NaN with a payload
    for name, value in SPLATS.items():
        params[name][:] = value
    return params


def imported(params):
    st.save_file(params, "p.safetensors")
    st.save_file({**params, "more": np.arange(5)}, "more.safetensors")
    np.savez("p.npz", **params)
    np.savez_compressed("z.npz", **params)
    run(0, AOT, "build", SOURCE, "--params", "p.safetensors", "-o", "0.tsb")
    config, found = layers("0.tsb")
    first = (config, without_provenance(found))
    for number, name in enumerate(["p.safetensors", "more.safetensors", "p.npz", "z.npz"]):
        run(0, AOT, "build", SOURCE, "--params", name, "-o", f"{number}.tsb")
        run(0, AOT, "verify", "--strict", "--full", f"{number}.tsb", pattern="good")
        # The provenance names the file; the rest does not depend on the file format.
        config, found = layers(f"{number}.tsb")
        assert (config, without_provenance(found)) == first, name
    run(0, AOT, "bake", BUNDLE, "--params", "p.npz", "-o", "bundle.tsb")
    config, found = layers("0.tsb")
    kind, data = found["weights.safetensors"]
    assert kind == "application/vnd.cncf.model.weight.v1.raw"
    assert (8 + int.from_bytes(data[:8], "little")) % 65536 == 0
    same(st.load(data), {n: v for n, v in params.items() if n not in SPLATS})
    inits = {t["name"]: t["init"] for t in config["tensors"]}
    for name, value in SPLATS.items():
        assert inits[name]["kind"] == "constant", inits[name]
        assert np.float32(float.fromhex(inits[name]["a"])).tobytes() == value.tobytes()
    independent("0.tsb", params)
    pathlib.Path("unpacked").mkdir()
    tarfile.open("0.tsb").extractall("unpacked")
    independent("unpacked", params)
    for name in ("0.tsb", "bundle.tsb"):
        run(0, RUN, name, "--export-params", "out.safetensors")
        same(st.load_file("out.safetensors"), params)
    assert not list(pathlib.Path(".").glob("*.compiled.*"))


def refused(params):
    st.save_file({n: v for n, v in params.items() if n != "layer2.bias"}, "less.safetensors")
    st.save_file({**params, "layer2.bias": params["layer2.bias"].astype(np.float64)},
                 "wide.safetensors")
    np.savez("less.npz", **{n: v for n, v in params.items() if n != "layer2.bias"})
    build = [AOT, "build", SOURCE, "-o", "no.tsb", "--params"]
    run(12, *build, "less.safetensors", pattern="no tensor 'layer2.bias'")
    run(12, *build, "wide.safetensors", pattern="'layer2.bias' is 64xf64; expected 64xf32")
    run(8, *build, "less.npz", pattern="no such member.*layer1.bias|layer1.bias")
    run(7, *build, "none.safetensors", pattern="cannot open")
    run(6, AOT, "bake", BUNDLE, "--params", "p.npz", "--with-state", "-o", "no.tsb",
        pattern="--with-state needs --state-dir")
    assert not pathlib.Path("no.tsb").exists()
    assert not list(pathlib.Path(".").glob("*.compiled.*"))


def referenced(params):
    """A bundle that refers to a file instead of storing it, and finds the file by its digest or its name."""
    import hashlib
    import shutil
    file = pathlib.Path("p.safetensors")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    run(0, AOT, "build", SOURCE, "--params", "p.safetensors", "--reference", "-o", "named.tsb")
    run(0, AOT, "verify", "--strict", "--full", "named.tsb", pattern="good")
    _, found = layers("named.tsb")
    assert "weights.safetensors" not in found
    layer = json.loads(found["external.json"][1])
    assert layer["digest"] == "sha256:" + digest and layer["size"] == file.stat().st_size
    leaves = [hashlib.sha256(file.read_bytes()[i:i + 16384]).digest()
              for i in range(0, layer["size"], 16384)]
    assert layer["chunks"] == ["sha256:" + hashlib.sha256(b"".join(leaves)).hexdigest()]
    pathlib.Path("alone").mkdir()
    shutil.copy("named.tsb", "alone")
    export = [RUN, "alone/named.tsb", "--export-params", "out.safetensors"]
    run(7, *export, pattern=f"weights 'p.safetensors' .sha256:{digest}.* are not in 'alone/'; --weights-dir")
    run(7, RUN, "--check", "alone/named.tsb", pattern="does not run here")
    run(0, RUN, "--check", "alone/named.tsb", "--weights-dir", ".", pattern="runs here")
    pathlib.Path("loop").mkdir()
    pathlib.Path("loop/p.safetensors").symlink_to("p.safetensors")
    run(7, *export, "--weights-dir", "loop", pattern="cannot open weights 'loop/p.safetensors': Too many levels")
    for number, name in enumerate([digest, f"blobs/sha256/{digest}", "p.safetensors"]):
        folder = pathlib.Path(f"folder{number}")
        (folder / name).parent.mkdir(parents=True)
        shutil.copy(file, folder / name)
        pathlib.Path("out.safetensors").unlink(missing_ok=True)
        run(0, *export, "--weights-dir", "no", "--weights-dir", str(folder))
        same(st.load_file("out.safetensors"), params)
    run(0, RUN, "named.tsb", "--export-params", "out.safetensors") # next to the bundle
    flipped = bytearray(file.read_bytes())
    flipped[-1] ^= 1
    pathlib.Path("folder2/p.safetensors").write_bytes(flipped)
    run(12, *export, "--weights-dir", "folder2", pattern="differ from the weights that the bundle was built with.*digest")
    pathlib.Path("folder2/p.safetensors").write_bytes(flipped[:-4])
    run(12, *export, "--weights-dir", "folder2", pattern="the bundle was built with")
    run(6, AOT, "build", SOURCE, "--params", "p.npz", "--reference", "-o", "no.tsb", pattern="expected a .safetensors file")
    run(6, AOT, "build", SOURCE, "--reference", "-o", "no.tsb", pattern="--reference needs --params")
    build = [AOT, "build", SOURCE, "--target=cpu:x86-64-v2", "--reference", "-o", "no.tsb", "--params"]
    for name in (".hidden.safetensors", "a\x01b.safetensors"):
        shutil.copy(file, name)
        run(6, *build, name, pattern="cannot be a file name in a bundle")
    # An additional sparse tensor gives the file more chunks than a layer can name.
    whole, more = file.read_bytes(), 420 << 30
    begin = 8 + int.from_bytes(whole[:8], "little")
    header, data = json.loads(whole[8:begin]), len(whole) - begin
    header["more"] = {"dtype": "U8", "shape": [more], "data_offsets": [data, data + more]}
    text = json.dumps(header).encode()
    with open("large.safetensors", "wb") as large:
        large.write(len(text).to_bytes(8, "little") + text + whole[begin:])
        large.truncate(8 + len(text) + data + more)
    run(6, *build, "large.safetensors",
        pattern="bytes; expected at most 415236096000")
    assert not pathlib.Path("no.tsb").exists()


def trained_further():
    """Ten steps, the state into a bundle, and ten more steps give the bits of twenty steps."""
    run(0, RUN, BUNDLE, *DATA, "--steps", "10", "--seed", "5", "--state-dir", "S", "--quiet")
    run(0, AOT, "bake", BUNDLE, "--state-dir", "S", "--with-state", "-o", "state.tsb")
    straight = run(0, RUN, BUNDLE, *DATA, "--steps", "20", "--seed", "5", "--quiet")
    again = run(0, RUN, "state.tsb", *DATA, "--steps", "20", "--quiet", "--record", "log")
    hashes = [re.search(r"^state (\w+) step 20", out, re.M).group(1) for out in (straight, again)]
    assert hashes[0] == hashes[1], hashes
    run(0, RUN, "state.tsb", *DATA, "--replay", "log", "--quiet", pattern="10 steps, every digest")
    run(12, RUN, "state.tsb", *DATA, "--steps", "20", "--seed", "6", "--quiet",
        pattern="the state has seed 5; this run has 6")
    _, found = layers("state.tsb")
    assert found["state.safetensors"][0] == "application/vnd.tessera.state.v1.raw"
    assert json.loads(found["position.json"][1])["step"] == 10
    run(0, sys.executable, ROOT + "/tests/bundle/read_bundle.py", "state.tsb",
        pattern="layer1.weight.adam_m f32 64x128 ")
    assert sum(name.endswith(("adam_m", "adam_v")) for name in st.load(found["state.safetensors"][1])) == 12
    # Without its state it starts from step 0, as it does with other parameters.
    run(0, AOT, "bake", BUNDLE, "--state-dir", "S", "-o", "plain.tsb")
    _, found = layers("plain.tsb")
    assert "state.safetensors" not in found and "position.json" not in found
    fresh = run(0, RUN, "plain.tsb", *DATA, "--steps", "10", "--seed", "5", "--quiet")
    assert re.search(r"^state (\w+) step 10", fresh, re.M).group(1) not in hashes


def main():
    with tempfile.TemporaryDirectory() as folder:
        import os
        os.chdir(folder)
        params = random_params()
        imported(params)
        refused(params)
        referenced(params)
        trained_further()
        os.chdir("/")
    print(checks, "checks")


main()
