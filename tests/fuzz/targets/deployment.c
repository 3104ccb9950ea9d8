/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the reader of deployment manifests: an accepted input of a known version is written as the
 * same bytes.
 */
#include "manifests/deployment.h"

#include "tests/fuzz/fuzz.h"
#include "tests/manifests/random_manifests.h"

#include <string.h>

enum { SEEDS = 16 };

static size_t encode(uint32_t seed, tsr_arena *arena, const void **out_bytes) {
    tsr_ctx ctx = {0};
    char *json = NULL;
    size_t size = 0;
    tsr_config config = random_config(seed, seed % SEEDS, arena);
    tsr_deployment deployment = random_deployment(seed, &config, arena);
    fuzz_require(!tsr_deployment_encode(&ctx, &config, seed % 3 ? &deployment : NULL, TSR_PART_ALL,
                                        arena, &json, &size)
                      .code,
                 "a valid manifest to begin with");
    *out_bytes = json;
    return size;
}

static void seed(const char *folder) { fuzz_put_valid(folder, SEEDS, encode); }

static void check_again(tsr_ctx *ctx, const tsr_deployment_manifest *manifest, const uint8_t *bytes,
                        size_t size_bytes, tsr_arena *arena) {
    char *json = NULL;
    size_t size = 0;
    fuzz_require(!tsr_deployment_encode_again(ctx, manifest, arena, &json, &size).code,
                 "a manifest that can be written");
    if (manifest->version_minor <= TSR_DEPLOYMENT_VERSION_MINOR)
        fuzz_require(size == size_bytes && memcmp(json, bytes, size) == 0, "as the same bytes");
}

static bool run(const uint8_t *bytes, size_t size_bytes) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_deployment_manifest manifest = {0};
    tsr_code code =
        tsr_deployment_decode(&ctx, (const char *)bytes, size_bytes, &arena, &manifest).code;
    if (code == TSR_OK && !fuzz_faults)
        check_again(&ctx, &manifest, bytes, size_bytes, &arena);
    else if (code != TSR_OK)
        fuzz_require((code == TSR_CORRUPT || code == TSR_VERSION || fuzz_faults) &&
                         ctx.error.text[0],
                     "the code of damage, and a message");
    tsr_arena_finish(&arena);
    /* The JSON scan names the offset of its error. */
    return code == TSR_OK || !strstr(ctx.error.text, "deployment: offset ");
}

static size_t mutate(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t seed) {
    uint32_t state = seed;
    size_t size = fuzz_another_valid(bytes, size_bytes, size_max, &state, encode);
    return fuzz_mutate_json(bytes, size, size_max, &state);
}

const fuzz_target fuzz_the_target = {"deployment", seed, run, mutate};
