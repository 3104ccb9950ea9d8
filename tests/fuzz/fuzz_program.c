/* SPDX-License-Identifier: Apache-2.0
 *
 * What the program decoder accepts is written as the same bytes, can be listed, and took memory in
 * proportion to its size.
 */
#include "manifests/program.h"
#include "tests/fuzz/seeds.h"
#include "tests/manifests/random_manifests.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

static void expect(bool good) {
    if (!good) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes) {
    static tsr_arena config_arena;
    static tsr_config config;
    if (!config.entry_count)
        config = random_config(FUZZ_CONFIG_SEED, FUZZ_CONFIG_SIZE, &config_arena);
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_program program = {0};
    tsr_buffer text = {0};
    void *again;
    size_t size;
    tsr_code code = tsr_program_decode(&ctx, bytes, size_bytes, &config, &arena, &program).code;
    expect(arena.used_bytes <= 16 * size_bytes);
    if (code == TSR_OK) {
        expect(tsr_program_encode(&ctx, &program, &arena, &again, &size).code == TSR_OK);
        expect(size == size_bytes && memcmp(again, bytes, size) == 0);
        tsr_program_format(&program, &config, &text);
        expect(!text.failed);
    } else {
        expect((code == TSR_CORRUPT || code == TSR_VERSION) && ctx.error.text[0]);
    }
    tsr_buffer_finish(&text);
    tsr_arena_finish(&arena);
    return 0;
}
