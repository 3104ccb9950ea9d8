#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Line coverage of the readers by the corpora, each input also run with every failing read and
allocation. Expects 95 % for each target.

coverage.py ROOT FOLDER [TARGET...]: FOLDER is where build.sh puts programs. -v shows lines not run.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

EXPECTED = 95.0

# Target: the file of the product, and the functions in it that must run. All lines of functions
# that run are counted; those not run are printed with -v.
READERS = {
    "chunks": {"bundle/range.c": ["tsr_bundle_read_range"]},
    "config": {"manifests/config_json.c": ["tsr_config_decode"],
               "manifests/json_read.c": ["tsr_json_read_entry"],
               "manifests/config.c": ["tsr_config_verify"],
               "runtime/base/io/identity_json.c": ["tsr_identity_read_json"]},
    "deployment": {"manifests/deployment/read.c": ["tsr_deployment_decode"]},
    "dims": {"compiler/ir/dim_expression.c": ["tsr_dim_expression_parse", "tsr_dim_expression_range"]},
    "fatbin": {"manifests/fatbin.c": ["tsr_fatbin_decode", "tsr_fatbin_match"]},
    "json": {"runtime/base/io/json.c": ["tsr_json_parse", "tsr_json_get_array"]},
    "language": {"compiler/frontend/language/syntax/lexer.c": ["tsr_lexer_next", "tsr_lexer_recover"],
                 "compiler/frontend/language/evaluate/builtins.c": ["tsr_builtin_find", "tsr_method_find"],
                 "compiler/frontend/language/evaluate/calls.c": ["tsr_evaluate_call"],
                 "compiler/frontend/language/evaluate/expressions.c": ["tsr_evaluate_expression"],
                 "compiler/frontend/language/evaluate/statements.c": ["tsr_evaluate_module"],
                 "compiler/frontend/language/evaluate/operate.c": ["tsr_evaluate_binary"],
                 "compiler/frontend/language/syntax/parse.c": ["tsr_parse"],
                 "compiler/frontend/language/syntax/parse_expression.c": ["tsr_parse_expression"],
                 "compiler/frontend/language/syntax/parse_literal.c": ["tsr_parse_strings"],
                 "compiler/frontend/language/syntax/parse_parameters.c": ["tsr_parse_parameters"],
                 "compiler/frontend/language/syntax/refuse.c": ["tsr_refuse"],
                 "compiler/frontend/language/syntax/encoding.c": ["tsr_source_init"]},
    "layout": {"bundle/parse.c": ["tsr_layout_parse_marker", "tsr_layout_parse_root",
                                  "tsr_layout_parse_index", "tsr_layout_parse_manifest"],
               "bundle/open.c": ["tsr_bundle_open"]},
    "onnx": {"compiler/frontend/onnx/wire.c": ["tsr_wire_read", "store_packed"],
             "compiler/frontend/onnx/model.c": ["tsr_onnx_model_read", "tsr_onnx_opset_version"]},
    "program": {"manifests/program/bytes.c": ["tsr_program_decode"],
                "manifests/program/program.c": ["tsr_program_verify"],
                "manifests/program/collectives.c": ["tsr_program_verify_collectives"]},
    "sizes": {"manifests/program/sizes.c": ["tsr_program_verify_sizes", "tsr_program_sizes"]},
    "signature": {"bundle/trust/dsse.c": ["tsr_dsse_parse"]},
    "safetensors": {"runtime/data/safetensors.c": ["tsr_safetensors_decode", "check_cover"]},
    "tar": {"bundle/tar.c": ["tsr_tar_walk"]},
    "zstd": {"bundle/read.c": ["decompress"]},
}


def lines_of(folder, source, needed, verbose):
    """Returns {line: number of executions} of the functions that ran."""
    notes = folder / "objects" / (source[:-2].replace("/", "+") + ".gcno")
    out = subprocess.run(["gcov", "--json-format", "--stdout", str(notes)], check=True,
                         capture_output=True, cwd=folder, text=True).stdout
    for file in json.loads(out.splitlines()[0])["files"]:
        if not file["file"].endswith(source):
            continue
        entered = {one["name"] for one in file["functions"] if one["execution_count"]}
        missed = [name for name in needed if name not in entered]
        if missed:
            sys.exit(f"{source}: expected {missed[0]} to be run; it is not, or not there")
        if verbose:
            others = sorted(one["name"] for one in file["functions"] if one["name"] not in entered)
            print(f"    {source}: not run: {' '.join(others) or 'none'}")
        return {line["line_number"]: line["count"] for line in file["lines"]
                if line.get("function_name") in entered}
    sys.exit(f"gcov knows nothing of {source}")


def measure(root, folder, target, verbose):
    for data in (folder / "objects").glob("*.gcda"):
        data.unlink()
    with tempfile.TemporaryDirectory() as seeds:
        program = [str(folder / target)]
        subprocess.run(program + ["--seeds", seeds], check=True)
        subprocess.run(program + ["--faults", seeds, str(root / "tests/fuzz/corpus" / target)],
                       check=True, stdout=subprocess.DEVNULL)
    run = total = 0
    for source, needed in READERS[target].items():
        counts = lines_of(folder, source, needed, verbose)
        run += sum(count > 0 for count in counts.values())
        total += len(counts)
        missed = sorted(line for line, count in counts.items() if count == 0)
        if verbose:
            for line in missed:
                text = (root / source).read_text(encoding="utf-8").splitlines()[line - 1]
                print(f"    {source}:{line}: {text.strip()}")
    share = 100.0 * run / total
    print(f"{target}: {run} of {total} lines, {share:.1f} % ({', '.join(READERS[target])})",
          flush=True)
    return share >= EXPECTED


def main():
    words = [word for word in sys.argv[1:] if word != "-v"]
    root, folder = pathlib.Path(words[0]).resolve(), pathlib.Path(words[1]).resolve()
    built = subprocess.run([str(root / "tests/fuzz/build.sh"), str(root), str(folder), "coverage"],
                           check=False)
    if built.returncode:
        sys.exit(built.returncode)
    targets = words[2:] or sorted(path.stem for path in (root / "tests/fuzz/targets").glob("*.c"))
    results = [measure(root, folder / "coverage", target, "-v" in sys.argv) for target in targets]
    if not all(results):
        sys.exit(f"expected at least {EXPECTED} % of the lines of each")


main()
