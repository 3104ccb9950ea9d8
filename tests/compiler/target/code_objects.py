#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Builds a program for every AMD architecture in one bundle, and checks the code objects with LLVM's own tools:

- `llvm-readelf`: the architecture, the version, the resources of each kernel; no kernel has scratch memory;
- `llvm-objdump` and `llvm-mc`: every instruction is one of that architecture, with the same bytes when it is assembled again;
- `llc`: the number of waves that it computes for each kernel is the one that `inspect` shows;
- the bits of the modes: round to nearest, denormals kept;
- products with native numerics: each has the instructions of matrix units, as many as `inspect` expects for a step of K, and no other kernel has any.

usage: code_objects.py AOT [MODEL.mlir...]; exit code 77 without LLVM's tools.
"""
import json
import pathlib
import re
import struct
import subprocess
import sys
import tarfile
import tempfile

LLVM = pathlib.Path('/usr/lib/llvm-22/bin')
GENERIC = ('gfx9-4-generic', 'gfx11-generic', 'gfx12-generic')
WAVES = ('gfx90a', 'gfx950', 'gfx1100', 'gfx12-generic')  # one for each kind of SIMD
TARGETS = ('gfx90a', 'gfx942', 'gfx950', 'gfx1100', 'gfx1201', *GENERIC)
ROOT = pathlib.Path(__file__).resolve().parents[3]


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f'{" ".join(map(str, command))}: {done.stdout[-400:]}{done.stderr[-400:]}')
    return done.stdout


def images(bundle):
    """{digest of the layer: code object}: the only image of each fatbin."""
    found = {}
    with tarfile.open(bundle) as tar:
        for member in tar:
            data = tar.extractfile(member).read() if member.isfile() else b''
            if data[:8] != b'TSRFATB\n':
                continue
            version, kernels, count = struct.unpack_from('<3I', data, 8)
            kind, arch, exactly, size = struct.unpack_from('<3IQ', data, 20 + kernels * 44)
            assert (version, count, kind) == (5, 1, 3) and arch, (member.name, version, count, kind)
            found[pathlib.PurePath(member.name).name] = data[-size:]
    return found


def metadata(path):
    """{kernel: {field: number}}, as llvm-readelf prints them."""
    text = run(LLVM / 'llvm-readelf', '--notes', path)
    kernels = {}
    for part in re.split(r'\n  - ', text):
        name = re.search(r'^ *\.name: +(\w+)$', part, re.M)
        if name:
            kernels[name[1]] = {field: int(value) for field, value in re.findall(r'\.(\w+): +(\d+)$', part, re.M)}
    return kernels


def check_resources(target, launches, path):
    found = metadata(path)
    assert len(found) == len(launches), (target, len(found))
    for row in launches:
        want = found[row['kernel']]
        got = {'vgpr_count': row['registers'], 'sgpr_count': row['scalarRegisters'], 'agpr_count': row['accumulators'],
               'group_segment_fixed_size': row['sharedBytes'], 'max_flat_workgroup_size': row['threads'],
               'private_segment_fixed_size': row['spillBytes']}
        if row['matrixProducts']:
            got['group_segment_fixed_size'] = 0  # the launch says it
        for field, value in got.items():
            assert want.get(field, 0) == value, f'{target} {row["kernel"]}: {field} is {want.get(field)}; inspect says {value}'
        assert want['private_segment_fixed_size'] == 0, f'{target} {row["kernel"]} has scratch memory'
        assert want['wavefront_size'] == (64 if target.startswith('gfx9') else 32), target


def check_header(target, path):
    text = run(LLVM / 'llvm-readelf', '--file-header', path)
    assert re.search(rf'EF_AMDGPU_MACH_AMDGCN_{target.upper().replace("-", "_")}\b|\b{target}\b', text), text
    version = int(re.search(r'ABI Version: +(\d+)', text)[1])
    assert version == (4 if target in GENERIC else 2), f'{target}: the ABI has version {version}'


def check_modes(target, path):
    """Kernel descriptors: bits 12 to 19 of compute_pgm_rsrc1 are rounding (0: nearest) and denormals (3: kept), of f32 and of f16, f64."""
    dump = run(LLVM / 'llvm-readelf', '--dyn-syms', '--wide', path)
    sections = run(LLVM / 'llvm-readelf', '--sections', '--wide', path)
    base, offset = (int(part, 16) for part in re.search(r'\.rodata +PROGBITS +(\w+) (\w+)', sections).groups())
    data, count = pathlib.Path(path).read_bytes(), 0
    for address in re.findall(r'\d+: (\w+) +64 OBJECT .*\.kd$', dump, re.M):
        word = struct.unpack_from('<I', data, int(address, 16) - base + offset + 48)[0]
        assert word >> 12 & 0xff == 0b11110000, f'{target}: modes {word >> 12 & 0xff:08b}'
        count += 1
    assert count, dump
    return count


def check_assembly(target, path, work):
    """Assembles what the disassembler prints."""
    text = run(LLVM / 'llvm-objdump', '--disassemble', '--mcpu=' + target, path)
    lines = re.findall(r'^\t(.+?) +// [0-9A-F]+: ([0-9A-F ]+?)(?: <.*>)?$', text, re.M)
    assert len(lines) > 100, text[:400]
    code = [line for line in lines if not re.match(r's_(c?branch|code_end)', line[0])]
    (work / 'all.s').write_text(''.join(line[0] + '\n' for line in code), 'utf-8')
    again = run(LLVM / 'llvm-mc', '-triple=amdgcn-amd-amdhsa', '-mcpu=' + target, '--show-encoding', work / 'all.s')
    codes = re.findall(r'encoding: \[(.+?)\]', again)
    assert len(codes) == len(code), f'{target}: {len(codes)} of {len(code)} instructions'
    for (instruction, words), made in zip(code, codes):
        want = b''.join(struct.pack('<I', int(word, 16)) for word in words.split())
        assert bytes.fromhex(made.replace('0x', '').replace(',', '')) == want, f'{target}: {instruction}: {words}, again {made}'
    return len(code)


def check_waves(target, launches, work):
    text = run(LLVM / 'llc', '-mcpu=' + target, '-relocation-model=pic', work / f'llvm.{target}.ll', '-o', '-')
    waves = dict(re.findall(r'\.amdhsa_kernel (\w+)$.*?^; Occupancy: (\d+)$', text, re.M | re.S))
    assert waves, target
    for row in launches:
        theirs = int(waves[row['kernel']])
        least = theirs - (row['sharedBytes'] > 0)  # LLVM does not round shared memory up to the unit of its allocation
        assert least <= row['simdWaves'] <= theirs, \
            f'{target} {row["kernel"]}: {row["simdWaves"]} waves of a SIMD; LLVM computes {theirs}'


def write_products(path):
    """A program of three products, which are long enough that LLVM does not unroll their loops."""
    lines = []
    for dtype in ('bf16', 'f16', 'f32'):
        a, b, y = f'tensor<200x2048x{dtype}>', f'tensor<144x2048x{dtype}>', f'tensor<200x144x{dtype}>'
        lines += [f'func.func @{dtype}(%a: {a} {{tessera.name = "a"}}, %b: {b} {{tessera.name = "b"}}) -> ({y} {{tessera.name = "y"}})',
                  '    attributes {tessera.entry = "infer"} {', f'  %0 = tessera.matmul %a, %b {{transpose_b = true}} : ({a}, {b}) -> {y}',
                  f'  return %0 : {y}', '}']
    path.write_text('\n'.join(lines) + '\n', 'utf-8')
    return path


def check_products(target, launches, path):
    """Instructions of matrix units in each kernel."""
    text = run(LLVM / 'llvm-objdump', '--disassemble', '--mcpu=' + target, path)
    found = {name: len(re.findall(r'^\tv_(?:mfma|wmma)_', body, re.M)) for name, body in re.findall(r'^[0-9a-f]+ <(\w+)>:\n(.*?)(?=^[0-9a-f]+ <|\Z)', text, re.M | re.S)}
    for row in launches:
        assert found[row['kernel']] == row['matrixProducts'], f'{target} {row["kernel"]}: {found[row["kernel"]]} instructions of matrix units; ' \
            f'inspect expects {row["matrixProducts"]}'
    return sum(1 for row in launches if row['matrixProducts'])


def check(aot, model, work, numerics='portable', products=0):
    """`products`: kernels that use matrix units; one less without f32."""
    bundle = work / 'all.tsb'
    run(aot, 'build', model, '-o', bundle, '--target', ','.join('hip:' + target for target in TARGETS), '--numerics', numerics, '--dump', 'llvm', '--dump-dir',
        work)
    view = json.loads(run(aot, 'inspect', '--json', '--kernels', bundle))
    objects = images(bundle)
    for row in view['targets']:
        target = row['name'].split(':')[1]
        layer = next(one for one in row['layers'] if one['title'] == 'kernels.fatbin')
        path = work / f'{target}.hsaco'
        path.write_bytes(objects[layer['digest'].split(':')[1]])
        check_header(target, path)
        check_resources(target, row['launches'], path)
        count = check_modes(target, path)
        assert count == row['kernels'], (target, count)
        instructions = check_assembly(target, path, work)
        used = check_products(target, row['launches'], path)
        assert used == (products if target.startswith('gfx9') else max(products - 1, 0)), f'{target}: {used} kernels use matrix units'
        if target in WAVES and not products:  # LLVM does not know the shared memory that launches give to products
            check_waves(target, row['launches'], work)
        print(f'{model.stem} {target}: {count} kernels, {instructions} instructions, {path.stat().st_size} bytes')
    assert len(view['targets']) == len(TARGETS)


def main():
    if not all((LLVM / tool).exists() for tool in ('llc', 'llvm-mc', 'llvm-objdump', 'llvm-readelf')):
        print('skipped: there are no tools of LLVM 22')
        return 77
    for model in map(pathlib.Path, sys.argv[2:] or [ROOT / 'examples/digits/digits.mlir']):
        with tempfile.TemporaryDirectory() as work:
            check(sys.argv[1], model, pathlib.Path(work))
    with tempfile.TemporaryDirectory() as work:
        check(sys.argv[1], write_products(pathlib.Path(work) / 'products.mlir'), pathlib.Path(work), 'native', 3)
    return 0


if __name__ == '__main__':
    sys.exit(main())
