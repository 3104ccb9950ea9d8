/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the decoder of programs with an open dim: an accepted input is encoded as the same bytes,
 * can be listed, and its sizes fit what they replace for every dim.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/manifests/open_program.h"

#include <string.h>

enum { HEAD_BYTES = 20, SEEDS = 2 };

/* The example, and one with fewer sizes. */
static size_t encode(uint32_t seed, tsr_arena *arena, const void **out_bytes) {
    tsr_ctx ctx = {0};
    void *bytes = NULL;
    size_t size = 0;
    example e;
    make_example(&e);
    if (seed % 2) {
        e.entry.size_count = Z_HALF;
        e.commands[TWICE].grid_size = 1 + Z_BLOCKS;
    }
    fuzz_require(!tsr_program_encode(&ctx, &e.program, arena, &bytes, &size).code,
                 "a valid program to begin with");
    *out_bytes = bytes;
    return size;
}

static void seed(const char *folder) { fuzz_put_valid(folder, SEEDS, encode); }

static bool head_good(const uint8_t *bytes, size_t size_bytes) {
    uint32_t version;
    if (size_bytes < HEAD_BYTES || memcmp(bytes, "TSRPROG\n", 8) != 0) return false;
    memcpy(&version, bytes + 8, sizeof version);
    return version == TSR_PROGRAM_VERSION;
}

static bool run(const uint8_t *bytes, size_t size_bytes) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_program program = {0};
    tsr_buffer text = {0};
    void *again = NULL;
    size_t size = 0;
    tsr_code code = tsr_program_decode(&ctx, bytes, size_bytes, &config, &arena, &program).code;
    if (code == TSR_OK && !fuzz_faults) {
        fuzz_require(!tsr_program_encode(&ctx, &program, &arena, &again, &size).code,
                     "a program that can be written");
        fuzz_require(size == size_bytes && memcmp(again, bytes, size) == 0, "the same bytes");
        tsr_program_format(&program, &config, &text);
        fuzz_require(!text.failed, "a listing");
        for (uint64_t dim = LOW; dim <= HIGH; dim++)
            fuzz_require(sizes_fit(&program.entries[0], dim), "sizes that fit");
    } else if (code != TSR_OK) {
        bool right = code == TSR_CORRUPT || code == TSR_VERSION || fuzz_faults;
        fuzz_require(right && ctx.error.text[0], "the code of damage, and a message");
    }
    tsr_buffer_finish(&text);
    tsr_arena_finish(&arena);
    return head_good(bytes, size_bytes);
}

static size_t mutate(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t seed) {
    uint32_t state = seed, version = TSR_PROGRAM_VERSION;
    size_t size = fuzz_another_valid(bytes, size_bytes, size_max, &state, encode);
    if (fuzz_one_in(&state, 4))
        size = LLVMFuzzerMutate(bytes, size, size_max);
    else
        fuzz_change_integer(bytes, size, HEAD_BYTES, &state);
    if (size < HEAD_BYTES || fuzz_one_in(&state, 16)) return size;
    memcpy(bytes, "TSRPROG\n", 8);
    memcpy(bytes + 8, &version, sizeof version);
    return size;
}

const fuzz_target fuzz_the_target = {"sizes", seed, run, mutate};
