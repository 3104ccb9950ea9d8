/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the program decoder: an accepted input is encoded as the same bytes, can be listed, and
 * needs memory proportional to its size.
 */
#include "manifests/program.h"

#include "tests/fuzz/fuzz.h"
#include "tests/manifests/random_manifests.h"

#include <stdlib.h>
#include <string.h>

enum { CONFIG_SEED = 1, CONFIG_SIZE = 4, HEAD_BYTES = 20, SEEDS = 16 };

static const tsr_config *the_config(void) {
    static tsr_arena arena;
    static tsr_config config;
    if (!config.entry_count) config = random_config(CONFIG_SEED, CONFIG_SIZE, &arena);
    return &config;
}

static size_t encode(uint32_t seed, tsr_arena *arena, const void **out_bytes) {
    tsr_ctx ctx = {0};
    void *bytes = NULL;
    size_t size = 0;
    tsr_program program = random_program(seed, seed % 6, the_config(), arena);
    fuzz_require(!tsr_program_encode(&ctx, &program, arena, &bytes, &size).code,
                 "a valid program to begin with");
    *out_bytes = bytes;
    return size;
}

static void seed(const char *folder) { fuzz_put_valid(folder, SEEDS, encode); }

/* Checks magic, version and the two counts. */
static bool head_good(const uint8_t *bytes, size_t size_bytes) {
    uint32_t head[3];
    if (size_bytes < HEAD_BYTES || memcmp(bytes, "TSRPROG\n", 8) != 0) return false;
    memcpy(head, bytes + 8, sizeof head);
    return head[0] - 1 < TSR_PROGRAM_VERSION && head[2] == the_config()->entry_count;
}

static bool run(const uint8_t *bytes, size_t size_bytes) {
    const tsr_config *config = the_config();
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_program program = {0};
    tsr_buffer text = {0};
    void *again = NULL;
    size_t size = 0;
    tsr_code code = tsr_program_decode(&ctx, bytes, size_bytes, config, &arena, &program).code;
    fuzz_require(arena.used_bytes <= 16 * size_bytes, "memory in proportion to the bytes");
    if (code == TSR_OK && !fuzz_faults) {
        fuzz_require(!tsr_program_encode(&ctx, &program, &arena, &again, &size).code,
                     "a program that can be written");
        fuzz_require(size == size_bytes && memcmp(again, bytes, size) == 0, "the same bytes");
        tsr_program_format(&program, config, &text);
        fuzz_require(!text.failed, "a listing");
    } else if (code != TSR_OK) {
        bool right = code == TSR_CORRUPT || code == TSR_VERSION || fuzz_faults;
        fuzz_require(right && ctx.error.text[0], "the code of damage, and a message");
    }
    tsr_buffer_finish(&text);
    tsr_arena_finish(&arena);
    return head_good(bytes, size_bytes);
}

static size_t mutate(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t seed) {
    uint32_t state = seed;
    size_t size = fuzz_another_valid(bytes, size_bytes, size_max, &state, encode);
    if (fuzz_one_in(&state, 2))
        fuzz_change_integer(bytes, size, HEAD_BYTES, &state);
    else
        size = LLVMFuzzerMutate(bytes, size, size_max);
    if (size >= HEAD_BYTES && !fuzz_one_in(&state, 16)) {
        uint32_t head[3];
        memcpy(head, bytes + 8, sizeof head);
        if (head[0] - 1 >= TSR_PROGRAM_VERSION || fuzz_one_in(&state, 8))
            head[0] = 1 + fuzz_random(&state) % TSR_PROGRAM_VERSION;
        head[2] = (uint32_t)the_config()->entry_count;
        memcpy(bytes, "TSRPROG\n", 8);
        memcpy(bytes + 8, head, sizeof head);
    }
    return size;
}

const fuzz_target fuzz_the_target = {"program", seed, run, mutate};
