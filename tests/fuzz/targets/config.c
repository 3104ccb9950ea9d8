/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the config decoder: an accepted input can be encoded, and the encoded bytes can be decoded
 * and encoded again to the same bytes.
 */
#include "manifests/config.h"

#include "tests/fuzz/fuzz.h"
#include "tests/manifests/random_manifests.h"

#include <stdlib.h>
#include <string.h>

enum { SEEDS = 16 };

static size_t encode(uint32_t seed, tsr_arena *arena, const void **out_bytes) {
    tsr_ctx ctx = {0};
    char *json = NULL;
    size_t size = 0;
    tsr_config config = random_config(seed, seed % SEEDS, arena);
    fuzz_require(!tsr_config_encode(&ctx, &config, arena, &json, &size).code,
                 "a valid config to begin with");
    *out_bytes = json;
    return size;
}

static void seed(const char *folder) { fuzz_put_valid(folder, SEEDS, encode); }

static void check_again(tsr_ctx *ctx, tsr_config *config, tsr_arena *arena) {
    tsr_config again = {0};
    char *json = NULL, *json_again = NULL;
    size_t size = 0, size_again = 0;
    config->version_minor = TSR_CONFIG_VERSION_MINOR;
    config->identity.program = tsr_config_program_digest(config); /* as of this version */
    fuzz_require(!tsr_config_encode(ctx, config, arena, &json, &size).code,
                 "a config that can be written");
    fuzz_require(!tsr_config_decode(ctx, json, size, arena, &again).code, "and read again");
    fuzz_require(!tsr_config_encode(ctx, &again, arena, &json_again, &size_again).code,
                 "and written again");
    fuzz_require(size == size_again && memcmp(json, json_again, size) == 0, "as the same bytes");
}

static bool run(const uint8_t *bytes, size_t size_bytes) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_config config = {0};
    tsr_code code = tsr_config_decode(&ctx, (const char *)bytes, size_bytes, &arena, &config).code;
    if (code == TSR_OK && !fuzz_faults)
        check_again(&ctx, &config, &arena);
    else if (code != TSR_OK)
        fuzz_require((code == TSR_CORRUPT || code == TSR_VERSION || fuzz_faults) &&
                         ctx.error.text[0],
                     "the code of damage, and a message");
    tsr_arena_finish(&arena);
    /* The JSON scan names the offset of its error. */
    return code == TSR_OK || !strstr(ctx.error.text, ": offset ");
}

/* Most changes make another program: replaces the old digest by its own. */
static void mend_program(uint8_t *bytes, size_t size_bytes) {
    static const char wanted[] = "config: program: expected ", got[] = " for its contents, got ";
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_config config;
    tsr_code code = tsr_config_decode(&ctx, (const char *)bytes, size_bytes, &arena, &config).code;
    tsr_arena_finish(&arena);
    const char *hex = ctx.error.text + sizeof wanted - 1, *old = hex + TSR_DIGEST_HEX;
    if (code != TSR_CORRUPT || strncmp(ctx.error.text, wanted, sizeof wanted - 1) != 0 ||
        strncmp(old, got, sizeof got - 1) != 0)
        return;
    uint8_t *at = memmem(bytes, size_bytes, old + sizeof got - 1, TSR_DIGEST_HEX);
    if (at) memcpy(at, hex, TSR_DIGEST_HEX);
}

static size_t mutate(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t seed) {
    uint32_t state = seed;
    size_t size = fuzz_another_valid(bytes, size_bytes, size_max, &state, encode);
    size = fuzz_mutate_json(bytes, size, size_max, &state);
    mend_program(bytes, size);
    return size;
}

const fuzz_target fuzz_the_target = {"config", seed, run, mutate};
