/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the walk over an archive: every reported member is inside the file.
 */
#include "bundle/tar.h"

#include "runtime/base/array.h"
#include "tests/bundle/ram_io.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = TSR_TAR_BLOCK_BYTES, SEED_BLOCKS_MAX = 16 };

/* ---- valid archives ---- */

static size_t put_member(uint8_t *at, const char *name, char type, const void *bytes, size_t size) {
    tsr_tar_format_header(at, name, type, size);
    if (size) memcpy(at + BLOCK, bytes, size);
    return BLOCK + size + tsr_tar_gap(size);
}

static void seed(const char *folder) {
    static const char record[] = "20 comment=abcdefgh\n30 mtime=1700000000.123456789\n";
    uint8_t archive[SEED_BLOCKS_MAX * BLOCK] = {0};
    unsigned char pad[BLOCK];
    size_t size = put_member(archive, "oci-layout", '0', TSR_TAR_BLOCK_BYTES ? "{}" : "", 2);
    size += put_member(archive + size, "index.json", '0', "{}", 2);
    fuzz_put(folder, 0, archive, size + 2 * BLOCK);
    memset(archive, 0, sizeof archive);
    tsr_tar_format_pad(pad, sizeof pad);
    size = put_member(archive, "PaxHeader/pad", 'x', pad, sizeof pad);
    size += put_member(archive + size, "./a/b", '0', record, sizeof record);
    size += put_member(archive + size, "folder", '5', NULL, 0);
    size += put_member(archive + size, "x", 'x', record, sizeof record - 1);
    size += put_member(archive + size, "y", '0', NULL, 0);
    fuzz_put(folder, 1, archive, size + 4 * BLOCK);
    memcpy(archive + 257, "ustar  ", 8);
    memcpy(archive + 2 * BLOCK + 345, "prefix", 6);
    fuzz_put(folder, 2, archive, size + 2 * BLOCK);
}

/* ---- running ---- */

typedef struct visit_log {
    uint64_t size_bytes, end;
    unsigned count;
} visit_log;

static tsr_result visit(tsr_ctx *ctx, void *user, const char *name, uint64_t offset,
                        uint64_t size_bytes) {
    visit_log *log = user;
    (void)ctx;
    fuzz_require(strlen(name) <= 256 && strncmp(name, "./", 2) != 0, "a name without ./");
    fuzz_require(offset >= log->end && offset % BLOCK == 0 && offset <= log->size_bytes &&
                     size_bytes <= log->size_bytes - offset,
                 "members inside of the file, one after the other");
    log->end = offset + size_bytes;
    log->count++;
    return TSR_SUCCESS;
}

static bool run(const uint8_t *bytes, size_t size_bytes) {
    const ram_file file = {"x", bytes, size_bytes};
    visit_log log = {.size_bytes = size_bytes};
    ram_io ram;
    ram_io_init(&ram, false, &file, 1);
    ram.fail_at = fuzz_fail_read;
    tsr_ctx ctx = {.io = &ram.io};
    int fd = ram.io.open(&ram, TSR_IO_CWD, "x", 0, 0);
    tsr_result result = tsr_tar_walk(&ctx, fd, "x.tar", size_bytes, visit, &log);
    fuzz_require(!result.code || result.code == TSR_CORRUPT || fuzz_faults, "the code of damage");
    fuzz_require(!result.code || strstr(ctx.error.text, "x.tar"), "the file in the message");
    bool good_header = !result.code || log.count > 0;
    for (int i = 0; !good_header && i < 1; i++)
        good_header = !strstr(ctx.error.text, "magic") && !strstr(ctx.error.text, "checksum") &&
                      !strstr(ctx.error.text, "file size");
    return good_header;
}

/* ---- mutating ---- */

static bool is_header(const uint8_t *block) { return memcmp(block + 257, "ustar", 5) == 0; }

static void fix_checksums(uint8_t *bytes, size_t size_bytes) {
    for (size_t at = 0; at + BLOCK <= size_bytes; at += BLOCK) {
        uint8_t *block = bytes + at;
        unsigned sum = 0;
        char text[8];
        if (!is_header(block)) continue;
        memset(block + 148, ' ', 8);
        for (size_t i = 0; i < BLOCK; i++) sum += block[i];
        snprintf(text, sizeof text, "%06o", sum);
        memcpy(block + 148, text, 7);
    }
}

/* Changes one field of one header; offsets and sizes as in POSIX.1-2017, pax. */
static void change_field(uint8_t *block, uint32_t *state) {
    static const struct {
        size_t offset, size;
    } fields[] = {{0, 100}, {124, 12},  {124, 12}, {156, 1},
                  {156, 1}, {345, 155}, {257, 8},  {100, 8}};
    static const char types[] = "0x5x012367gLKS";
    static const char *const sizes[] = {"00000000000", "00000000001", "00000000777", "00000001000",
                                        "77777777777", "00000400000", "10 ",         " 1"};
    size_t which = fuzz_random(state) % (TSR_COUNT(fields));
    uint8_t *field = block + fields[which].offset;
    if (fields[which].size == 1)
        *field = (uint8_t)types[fuzz_random(state) % (sizeof types - 1)];
    else if (fields[which].size == 12)
        memcpy(field, sizes[fuzz_random(state) % 8], 3);
    else if (fields[which].offset == 257)
        memcpy(field,
               fuzz_one_in(state, 8)   ? "ustar\0001"
               : fuzz_one_in(state, 2) ? "ustar  "
                                       : "ustar\00000",
               8);
    else
        LLVMFuzzerMutate(field, fields[which].size, fields[which].size);
    if (fields[which].size == 12 && fuzz_one_in(state, 2)) {
        char text[16];
        snprintf(text, sizeof text, "%011o", fuzz_random(state) % 2048);
        memcpy(field, text, 12);
    }
}

/* Moves, duplicates or drops one block. */
static size_t change_blocks(uint8_t *bytes, size_t size, size_t size_max, uint32_t *state) {
    size_t count = size / BLOCK, from = fuzz_random(state) % count, to = fuzz_random(state) % count;
    uint8_t block[BLOCK];
    memcpy(block, bytes + from * BLOCK, BLOCK);
    if (fuzz_one_in(state, 2) && size + BLOCK <= size_max) {
        memmove(bytes + (to + 1) * BLOCK, bytes + to * BLOCK, size - to * BLOCK);
        memcpy(bytes + to * BLOCK, block, BLOCK);
        return size + BLOCK;
    }
    memmove(bytes + from * BLOCK, bytes + (from + 1) * BLOCK, size - (from + 1) * BLOCK);
    return size - BLOCK;
}

static size_t mutate(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t seed) {
    uint32_t state = seed;
    size_t size = size_bytes, blocks = size / BLOCK;
    size_t chosen = blocks ? fuzz_random(&state) % blocks : 0;
    for (size_t i = 0; i < blocks && !is_header(bytes + chosen * BLOCK); i++)
        chosen = (chosen + 1) % blocks;
    switch (blocks ? fuzz_random(&state) % 8 : 7) {
    case 0:
    case 1:
    case 2:
    case 3:
        change_field(bytes + chosen * BLOCK, &state);
        break;
    case 4:
        size = change_blocks(bytes, size, size_max, &state);
        break;
    case 5:
    case 6: /* the block after a header: pax records */
        if (chosen + 1 < blocks) LLVMFuzzerMutate(bytes + (chosen + 1) * BLOCK, 64, BLOCK);
        break;
    default:
        size = LLVMFuzzerMutate(bytes, size, size_max);
        break;
    }
    if (!fuzz_one_in(&state, 32)) { /* whole blocks, and an end marker */
        while (size % BLOCK && size < size_max) bytes[size++] = 0;
        size -= size % BLOCK;
        if (size >= 3 * BLOCK && fuzz_one_in(&state, 2))
            memset(bytes + size - 2 * BLOCK, 0, 2 * BLOCK);
    }
    if (!fuzz_one_in(&state, 16)) fix_checksums(bytes, size);
    return size;
}

const fuzz_target fuzz_the_target = {"tar", seed, run, mutate};
