#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Removes each check of checks.md from the reader, one at a time, and expects that a test of its row fails. Takes about
ten minutes, longer than a test may, so it is a separate command.

mutants.py FOLDER [TEXT...]: works on a copy of the checkout in FOLDER, which a second run reuses. With TEXT only the rows
that begin with one of the texts. Exits with 1 if a row has no mutant, or a mutant passes every test of its row.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TAR, OPEN, PARSE = "bundle/tar.c", "bundle/open.c", "bundle/parse.c"
READ, RANGE, REPACK, LAYOUT = "bundle/read.c", "bundle/range.c", "bundle/repack.c", "bundle/layout.c"
JSON, TENSORS = "runtime/base/io/json.c", "runtime/data/safetensors.c"
BYTES, PROGRAM = "manifests/program/bytes.c", "manifests/program/program.c"
DSSE, SIGN, MINISIGN = "bundle/trust/dsse.c", "bundle/trust/sign.c", "bundle/trust/minisign.c"
TIMEOUT_S = 90

# Start of the row: [(file, text that occurs there once, its replacement)].
MUTANTS = {
    "file size": [
        (TAR, "w->size_bytes < TSR_BUNDLE_FILE_BYTES_MIN ||", ""),
        (TAR, "|| w->size_bytes % TSR_TAR_BLOCK_BYTES", ""),
    ],
    "two zero blocks": [
        (TAR, "w->size_bytes - w->at < TSR_TAR_BLOCK_BYTES", "false"),
        (TAR, "left < 2 * TSR_TAR_BLOCK_BYTES ||", ""),
        (TAR, "|| left > TSR_BUNDLE_TAIL_BYTES_MAX", ""),
        (TAR, "if (!is_zero(block, TSR_TAR_BLOCK_BYTES))", "if (false)"),
    ],
    "header magic": [
        (TAR, '!gnu && memcmp(header.magic, "ustar\\00000", 8) != 0', "false"),
    ],
    "header checksum": [
        (TAR, "checksum != checksum_of(block)", "false"),
        (TAR, "!parse_octal(header.checksum, sizeof header.checksum, &checksum)",
         "(parse_octal(header.checksum, sizeof header.checksum, &checksum), false)"),
        (TAR, "!parse_octal(header.size, sizeof header.size, &out->size_bytes)",
         "(parse_octal(header.size, sizeof header.size, &out->size_bytes), false)"),
        (TAR, "if (i == 0) return false;", ""),
        (TAR, "if (field[i] != 0 && field[i] != ' ') return false;", ""),
    ],
    "a member's size": [
        (TAR, "m.size_bytes > left", "false"),
    ],
    "types": [
        (TAR, "m.type != '5' || m.size_bytes", "false"),
        (TAR, "m.type != '5' || m.size_bytes", "m.type != '5'"),
        (TAR, "m.type != '5' || m.size_bytes", "m.type != '5' && m.type != '1'"),
        (TAR, "m.type != '5' || m.size_bytes", "m.type != '5' && m.type != '2'"),
        (TAR, "m.type != '5' || m.size_bytes", "m.type != '5' && m.type != '3'"),
        (TAR, "m.type != '5' || m.size_bytes", "m.type != '5' && m.type != '6'"),
        (TAR, "m.type != '5' || m.size_bytes", "m.type != '5' && m.type != 'L'"),
        (TAR, "m.type != '5' || m.size_bytes", "m.type != '5' && m.type != 'g'"),
    ],
    "pax": [
        (TAR, "!keyword_allowed(keyword, keyword_size)", "false"),
        (TAR, "m->size_bytes > TSR_BUNDLE_PAX_BYTES_MAX", "false"),
        (TAR, 'if (w->after_pax)\n        FAIL(w->ctx, TSR_CORRUPT, TSB "type"',
         'if (false)\n        FAIL(w->ctx, TSR_CORRUPT, TSB "type"'),
        (TAR, 'if (w->after_pax)\n        FAIL(w->ctx, TSR_CORRUPT, TSB "end"',
         'if (false)\n        FAIL(w->ctx, TSR_CORRUPT, TSB "end"'),
        (TAR, "record[0] == '0' ||", ""),
        (TAR, "length > left ||", ""),
        (TAR, "|| length < digits + 3", ""),
        (TAR, "record[digits] != ' ' ||", ""),
        (TAR, "|| record[length - 1] != '\\n'", ""),
    ],
    "names": [
        (OPEN, "TRY(ctx, tsr_bundle_check_canonical(ctx, bundle));", ""),
        (OPEN, 'strcmp(name, "index.json") == 0', 'strncmp(name, "index.json", 10) == 0'),
        (OPEN, 'strcmp(name, "index.json") == 0', 'strcasecmp(name, "index.json") == 0'),
    ],
    "no name": [
        (OPEN, "*out_offset != ABSENT", "false"),
        (OPEN, "compare_blobs(blob - 1, blob) == 0", "false"),
    ],
    "`oci-layout`": [
        (OPEN, "bundle->marker_offset_bytes == ABSENT || bundle->root_offset_bytes == ABSENT",
         "false"),
        (OPEN, "bundle->marker_offset_bytes == ABSENT || bundle->root_offset_bytes == ABSENT",
         "bundle->marker_offset_bytes == ABSENT"),
        (OPEN, "bundle->marker_offset_bytes == ABSENT || bundle->root_offset_bytes == ABSENT",
         "bundle->root_offset_bytes == ABSENT"),
        (PARSE, '!result.code && strcmp(version, "1.0.0") != 0', "false"),
    ],
    "`index.json`": [
        (PARSE, "if (count != 1)", "if (false)"),
        (PARSE, "strcmp(out_index->media_type, TSR_MEDIA_MANIFEST) == 0", "false"),
        (PARSE, "strcmp(out_index->media_type, TSR_MEDIA_INDEX) != 0", "false"),
    ],
    "descriptors": [
        (PARSE, "if (!cJSON_IsObject(object))", "if (false)"),
        (PARSE, "version != 2", "false"),
        (PARSE, "strcmp(type, media_type) != 0", "false"),
        (PARSE, "!tsr_media_type_valid(media_type)", "false"),
        (PARSE, "!parse_digest(digest, &out->digest)", "(parse_digest(digest, &out->digest), false)"),
        (PARSE, "out->size_bytes < 1 ||", ""),
        (PARSE, "|| out->size_bytes > TSR_BUNDLE_BLOB_BYTES_MAX", ""),
        (PARSE, "media_type && strcmp(out->media_type, media_type) != 0", "false"),
        (PARSE, "!digest || !parse_digest(digest, &out->plain_digest)",
         "digest && (parse_digest(digest, &out->plain_digest), false)"),
        (PARSE, "digits > 12 ||", ""),
        (PARSE, "size[digits] ||", ""),
        (PARSE, "|| (size[0] == '0' && digits > 1)", ""),
        (LAYOUT, "size == 0 || size > size_max ||", "size == 0 ||"),
    ],
    "a blob exists": [
        (OPEN, "if (!blob)\n        FAIL(ctx, TSR_CORRUPT,", "if (false)\n        FAIL(ctx, TSR_CORRUPT,"),
        (OPEN, "blob->size_bytes != d->size_bytes", "false"),
        (OPEN, "if (!bundle->target_count)\n        FAIL", "if (false)\n        FAIL"),
    ],
    "index and manifests at most": [
        (PARSE, "out->size_bytes > size_max", "false"),
        (OPEN, "size > TSR_BUNDLE_METADATA_BYTES_MAX", "false"),
        (PARSE, "manifest->layers[last].size_bytes > TSR_BUNDLE_TABLE_BYTES_MAX", "false"),
    ],
    "digests of index": [
        (READ, 'TRY(ctx, result);\n    tsr_digest got = tsr_hash(bytes, size);',
         'return result;\n    tsr_digest got = tsr_hash(bytes, size);'),
        (READ, 'result = tsr_blob_check_digest(ctx, bundle, blob, "digest of the blob", 0, &blob->digest, &got);',
         "(void)got;"),
        (RANGE, "TRY(ctx, result);\n    return tsr_blob_check_digest", "return result;\n    return tsr_blob_check_digest"),
    ],
    "chunk table": [
        (PARSE, "table != (i == last)", "false"),
        (PARSE, "manifest->layers[last].size_bytes != chunks * TSR_DIGEST_BYTES ||", ""),
        (OPEN, "blob->chunks && memcmp(blob->chunks, chunks, size) != 0", "false"),
        (RANGE, "TRY(ctx, result);\n    return tsr_blob_check_digest", "return result;\n    return tsr_blob_check_digest"),
    ],
    "JSON": [
        (JSON, "s->depth == TSR_JSON_DEPTH_MAX", "false"),
        (JSON, "TRY(s->ctx, check_duplicates(s, s->keys + top->key_first, s->key_count - top->key_first));", ""),
        (JSON, 'if (!length) return expected(s, "UTF-8 in a string");', "if (!length) length = 1;"),
        (JSON, "if (lead == 0xe0) low = 0xa0;", ""),
        (JSON, "if (lead == 0xed) high = 0x9f;", ""),
        (JSON, "if (lead == 0xf0) low = 0x90;", ""),
        (JSON, "if (lead == 0xf4) high = 0x8f;", ""),
        (JSON, "if (high == 0)", "if (false)"),
        (JSON, "!plain || value > integer_max", "!plain"),
        (JSON, "!plain || value > integer_max", "value > integer_max"),
        (JSON, "++s->token_count > TSR_JSON_TOKENS_MAX", "++s->token_count > TSR_JSON_TOKENS_MAX + 1"),
        (JSON, 'if (s->at < s->size) return expected(s, "the end");', ""),
    ],
    "strings of any length": [
        (JSON, "malloc(size_bytes ? size_bytes : 1)", "malloc(64 * size_bytes + 1)"),
        (PARSE, "text[i] && i + 1 < sizeof copy.text", "text[i]"),
    ],
    "zstd: one frame": [
        (READ, "size < 9 ||", ""),
        (READ, "|| memcmp(frame, magic, sizeof magic) != 0", ""),
        (READ, "frame[4] & 0x18", "false"),
        (READ, "frame[4] & 0x03", "false"),
        (READ, "if (!checksum)", "if (false)"),
        (READ, "window_log > TSR_BUNDLE_WINDOW_LOG_MAX ||", ""),
        (READ, "(window_log == TSR_BUNDLE_WINDOW_LOG_MAX && mantissa)", "false"),
        (READ, "ZSTD_getFrameContentSize(frame, size) != d->plain_size_bytes", "false"),
        (READ, "ZSTD_findFrameCompressedSize(frame, size) != size", "false"),
        (READ, "if (ZSTD_isError(got) || got != plain)", "if (false)"),
    ],
    "zstd: at most": [
        (READ, "d->plain_size_bytes / TSR_BUNDLE_RATIO_MAX > d->size_bytes", "false"),
        (PARSE, "out->plain_size_bytes > TSR_BUNDLE_PLAIN_BYTES_MAX", "false"),
    ],
    "zstd: digest": [
        (READ, '''TRY(ctx, tsr_blob_check_digest(ctx, bundle, blob, "digest of the plain bytes", 0,
                                   &d->plain_digest, &digest));''', "(void)digest;"),
    ],
    "titles": [
        (PARSE, "title && !tsr_title_valid(title)", "false"),
        (LAYOUT, 'matches(text, ALNUM "_", ".+-", TSR_BUNDLE_TITLE_MAX)',
         'matches(text, ALNUM "_", ".+-/", TSR_BUNDLE_TITLE_MAX)'),
        (LAYOUT, 'matches(text, ALNUM "_", ".+-", TSR_BUNDLE_TITLE_MAX)',
         'matches(text, ALNUM "_.", ".+-", TSR_BUNDLE_TITLE_MAX)'),
    ],
    "targets": [
        (PARSE, "!tsr_target_valid(target)", "false"),
        (PARSE, "strcmp(out->manifests[i].target, manifest->target) == 0", "false"),
        (PARSE, "!own || strcmp(own, target) != 0", "false"),
        (PARSE, "if (!targets)", "if (false)"),
        (OPEN, "!tsr_digest_equal(&first->digest, &config->digest)", "false"),
    ],
    "at most 65,536": [
        (TAR, "count >= TSR_BUNDLE_MEMBERS_MAX", "count >= TSR_BUNDLE_MEMBERS_MAX + 1"),
        (TAR, "count >= TSR_BUNDLE_MEMBERS_MAX", "count >= TSR_BUNDLE_MEMBERS_MAX - 1"),
        (OPEN, "list->bundle->blob_count >= TSR_BUNDLE_MEMBERS_MAX", "false"),
        (PARSE, "count < 1 || count > TSR_BUNDLE_MANIFESTS_MAX", "count > TSR_BUNDLE_MANIFESTS_MAX"),
        (PARSE, "count < 1 || count > TSR_BUNDLE_MANIFESTS_MAX", "count < 1"),
        (PARSE, "count < 1 || count > TSR_BUNDLE_LAYERS_MAX", "count > TSR_BUNDLE_LAYERS_MAX"),
        (PARSE, "count < 1 || count > TSR_BUNDLE_LAYERS_MAX", "count < 1"),
    ],
    "versions": [
        (PARSE, "major == TSR_FORMAT_MAJOR", "major"),
        (PARSE, 'TRY(r->ctx, check_version(r, root));\n    TRY(r->ctx, tsr_json_get_string(r->ctx, root, "artifactType"',
         'TRY(r->ctx, tsr_json_get_string(r->ctx, root, "artifactType"'),
        (PARSE, 'required && strcmp(required, "true") == 0 && !media_type_known(out->media_type)', "false"),
        (PARSE, "if (strcmp(got, expected) == 0) return TSR_SUCCESS;", "return TSR_SUCCESS;"),
        (PARSE, "strncmp(got, expected, stem) == 0 ? TSR_VERSION", "false ? TSR_VERSION"),
    ],
    "a bundle is a file": [
        (OPEN, "!bundle->is_directory && !S_ISREG(info.st_mode)", "false"),
        (OPEN, "code < 0 || !S_ISREG(info.st_mode)", "code < 0"),
        (OPEN, "O_RDONLY | O_NOFOLLOW | O_NONBLOCK", "O_RDONLY | O_NONBLOCK"),
        (OPEN, "O_RDONLY | O_NOFOLLOW | O_NONBLOCK", "O_RDONLY | O_NOFOLLOW"),
    ],
    "strict": [
        (OPEN, "TRY(ctx, tsr_bundle_check_canonical(ctx, bundle));", ""),
        (OPEN, "return tsr_bundle_verify(ctx, bundle, 0, &report);", "(void)report;\n    return TSR_SUCCESS;"),
        (REPACK, "TRY(c->ctx, compare(c, c->expected, head, entry->head_offset_bytes, entry));", "(void)head;"),
        (REPACK, "TRY(c->ctx, compare(c, fixed, (size_t)entry->size_bytes, entry->data_offset_bytes, entry));", ";"),
        (REPACK, '''return compare(c, zeros, tsr_tar_gap(entry->size_bytes),
                   entry->data_offset_bytes + entry->size_bytes, entry);''', "(void)zeros;\n    return TSR_SUCCESS;"),
        (REPACK, "plan->file_size_bytes != c->bundle->file_size_bytes", "false"),
    ],
    "normal": [
        (READ, "if (tsr_digest_equal(expected, got)) return TSR_SUCCESS;", "return TSR_SUCCESS;"),
        (RANGE, "TRY(ctx, result);\n    return tsr_blob_check_digest", "return result;\n    return tsr_blob_check_digest"),
    ],
    "safetensors": [
        (TENSORS, "size_bytes < LENGTH_BYTES || blob_size_bytes < LENGTH_BYTES", "false"),
        (TENSORS, "length > TSR_SAFETENSORS_HEADER_MAX", "false"),
        (TENSORS, "length > blob_size_bytes - LENGTH_BYTES", "false"),
        (TENSORS, "length > size_bytes - LENGTH_BYTES", "false"),
        (TENSORS, "entry->offset_bytes != at", "false"),
        (TENSORS, "at != data_bytes", "false"),
        (TENSORS, "out->size_bytes != size", "false"),
        (TENSORS, "!tsr_shape_size(&out->shape, out->dtype, &size)",
         "(tsr_shape_size(&out->shape, out->dtype, &size), false)"),
        (TENSORS, "if (rank > TSR_RANK_MAX)", "if (false)"),
        (TENSORS, "out->dtype == TSR_DTYPE_NONE", "false"),
        (TENSORS, "!cJSON_IsNumber(dim)", "false"),
        (TENSORS, "offset_count != 2 ||", ""),
        (TENSORS, "if (!length || length > TSR_NAME_MAX)\n", "if (length > TSR_NAME_MAX)\n"),
        (TENSORS, "if (!length || length > TSR_NAME_MAX)\n", "if (!length)\n"),
        (TENSORS, "cJSON_GetArraySize(item) != 3", "false"),
    ],
    "program": [
        (BYTES, "count > (r->size - r->at) / item_bytes_min", "false"),
        (BYTES, "if (count > count_max)", "if (false)"),
        (BYTES, "if (size > r->size - r->at)", "if (false)"),
        (BYTES, "if (size > size_max)", "if (false)"),
        (BYTES, "memchr(r->bytes + r->at, 0, size)", "false"),
        (BYTES, "buffer->shape.rank > TSR_RANK_MAX", "false"),
        (PROGRAM, "EXPECT(p, buffer->index < count,", "EXPECT(p, buffer->index < count || true,"),
        (PROGRAM, "EXPECT(p, tsr_dtype_size(buffer->dtype),", "EXPECT(p, true || tsr_dtype_size(buffer->dtype),"),
        (PROGRAM, "size <= capacity - buffer->offset_bytes", "true"),
        (PROGRAM, "EXPECT(p, buffer->offset_bytes <= capacity &&", "EXPECT(p,"),
        (PROGRAM, "EXPECT(p, command->arguments[i] < entry->buffer_count,",
         "EXPECT(p, true || command->arguments[i] < entry->buffer_count,"),
        (PROGRAM, "EXPECT(p, command->kernel < p->program->kernel_count,",
         "EXPECT(p, true || command->kernel < p->program->kernel_count,"),
        (PROGRAM, "EXPECT(p, command->written_from < command->argument_count,",
         "EXPECT(p, true || command->written_from < command->argument_count,"),
        (PROGRAM, "EXPECT(p, buffer->space != TSR_SPACE_INPUT,",
         "EXPECT(p, true || buffer->space != TSR_SPACE_INPUT,"),
    ],
    "signatures": [
        (SIGN, "size > TSR_SIGNATURE_FILE_BYTES_MAX", "false"),
        (SIGN, "!result.code && !tsr_key_verify(", "false && !tsr_key_verify("),
        (SIGN, "if (strcmp(hex, expected) == 0) return TSR_SUCCESS;", "return TSR_SUCCESS;"),
        (SIGN, "found->stranger = c->key_count && !signer;\n    if (found->stranger) return",
         "found->stranger = false;\n    if (found->stranger) return"),
        (DSSE, "if (strcmp(text, expected) != 0)", "if (false)"),
        (DSSE, "size < 0 || strcmp(again, text) != 0", "size < 0"),
        (DSSE, "if (count != 1)", "if (false)"),
        (DSSE, "if (size != TSR_DIGEST_BYTES)", "if (false)"),
        (MINISIGN, "if (!tsr_key_verify(crypto, key, digest,", "if (false && !tsr_key_verify(crypto, key, digest,"),
        (MINISIGN, "if (!good)", "if (false)"),
        (MINISIGN, "strncmp(lines[0], untrusted, sizeof untrusted - 1) != 0", "false"),
        (MINISIGN, "strncmp(lines[2], trusted, sizeof trusted - 1) != 0", "false"),
        (MINISIGN, "bytes[0] == 'E' && bytes[1] == 'd'", "false"),
        (MINISIGN, "bytes[0] != 'E' || bytes[1] != 'D'", "false"),
        (MINISIGN, "signature_size != PREFIX_BYTES + TSR_ED25519_BYTES || global_size != TSR_ED25519_BYTES",
         "global_size != TSR_ED25519_BYTES"),
    ],
}


def rows_of(path):
    """Returns {check: [(source of the test, suite/name)]}."""
    rows = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) < 5 or cells[1] in ("check", "---"):
            continue
        tests = []
        for word in cells[-2].split(", "):
            file, name = word.split(" ")
            source = (path.parent / file).resolve()
            suite = re.search(rf"^Test\((\w+), {name}[,)]", source.read_text(), re.M)[1]
            tests.append((source, f"{suite}/{name}"))
        rows[cells[1]] = tests
    return rows


def copy_tree(tree):
    """Copies the files of the checkout; writes only changed files, so that a second build is short."""
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-zco", "--exclude-standard"], check=True,
                           capture_output=True).stdout.decode().split("\0")
    for name in filter(None, names):
        source, target = ROOT / name, tree / name
        if not source.is_file():
            continue
        data = source.read_bytes()
        if not target.exists() or target.read_bytes() != data:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            target.chmod(source.stat().st_mode)


def programs_of(build):
    """Returns {source of a test: its program}."""
    targets = json.loads((build / "meson-info/intro-targets.json").read_text())
    return {pathlib.Path(source): pathlib.Path(target["filename"][0])
            for target in targets if target["type"] == "executable"
            for group in target["target_sources"] for source in group.get("sources", [])}


def passes(program, name):
    """A test that hangs has failed; ends it and the processes that it started."""
    with subprocess.Popen([program, "--filter", name, "--jobs=1"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, start_new_session=True) as run:
        try:
            return run.wait(TIMEOUT_S) == 0
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            return False


class Tree:
    def __init__(self, folder):
        self.folder = folder / "tree"
        self.build = folder / "build"
        self.folder.mkdir(parents=True, exist_ok=True)
        copy_tree(self.folder)
        if not (self.build / "build.ninja").exists():
            subprocess.run(["meson", "setup", self.build, self.folder, "-Dcompiler=false",
                            "-Dbuildtype=debugoptimized"], check=True, stdout=subprocess.DEVNULL)
        self.programs = programs_of(self.build)
        self.rows = rows_of(self.folder / "tests/bundle/checks.md")

    def failing(self, tests, all_of_them):
        """Returns the failing tests; None if the build fails."""
        programs = sorted({str(self.programs[source].relative_to(self.build)) for source, _ in tests})
        made = subprocess.run(["ninja", "-C", self.build, f"-j{os.environ.get('JOBS', 2)}", *programs],
                              capture_output=True, text=True, check=False)
        if made.returncode:
            print(made.stdout[-2000:])
            return None
        failed = []
        for source, name in sorted(tests, key=lambda test: "every_bit" in test[1]):  # the slow ones
            if not passes(self.programs[source], name):
                failed.append(name)
                if not all_of_them:
                    break
        return failed

    def mutate(self, tests, mutant):
        file, old, new = mutant
        path = self.folder / file
        text = path.read_text(encoding="utf-8")
        if text.count(old) != 1:
            return f"'{old}' is {text.count(old)} times in {file}"
        path.write_text(text.replace(old, new), encoding="utf-8")
        try:
            failed = self.failing(tests, False)
        finally:
            path.write_text(text, encoding="utf-8")
        if failed is None:
            return "does not build"
        return "" if failed else "every test of the row passes"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    tree = Tree(pathlib.Path(sys.argv[1]).resolve())
    wrong = [f"{key}: begins {n} rows of checks.md" for key in MUTANTS
             if (n := sum(row.startswith(key) for row in tree.rows)) != 1]
    wrong += [f"no mutant: {row}" for row in tree.rows if not any(row.startswith(k) for k in MUTANTS)]
    done = caught = 0
    for row, tests in tree.rows.items():
        if sys.argv[2:] and not row.startswith(tuple(sys.argv[2:])):
            continue
        failed = tree.failing(tests, True)
        if failed or failed is None:
            wrong.append(f"{row}: fails without a change: {failed}")
            continue
        for key, mutants in MUTANTS.items():
            for mutant in mutants if row.startswith(key) else []:
                start = time.monotonic()
                problem = tree.mutate(tests, mutant)
                done, caught = done + 1, caught + (not problem)
                old, new = (" ".join(text.split()) for text in mutant[1:])
                change = f"{key}: {mutant[0]}: {old} -> {new or 'nothing'}"
                print(f"{'PASSED' if problem else 'caught'} {time.monotonic() - start:5.1f} s  "
                      f"{change}", flush=True)
                if problem:
                    wrong.append(f"{change}: {problem}")
    print(f"{caught} of {done} changes caught")
    if wrong:
        sys.exit("\n".join(wrong))


main()
