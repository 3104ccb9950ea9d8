/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the reader of GPU code: an accepted input of its own version is written as the same bytes,
 * images are inside the input, and the allocated memory is proportional to its size.
 */
#include "manifests/fatbin.h"

#include "runtime/base/array.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

enum { SEEDS = 16, HEAD_BYTES = 20, KERNELS = 4, IMAGES = 3, CODE_BYTES = 24 };

static uint32_t below(uint32_t *state, uint32_t count) { return fuzz_random(state) % count; }

static void make_kernel(uint32_t *state, tsr_fatbin_kernel *kernel) {
    uint32_t programs = 1 + below(state, 4);
    *kernel = (tsr_fatbin_kernel){.threads = 32 * programs,
                                  .programs = programs,
                                  .shared_bytes = below(state, 4096),
                                  .scratch_bytes = below(state, 4096),
                                  .registers = below(state, 256),
                                  .static_bytes = below(state, 4096),
                                  .blocks = below(state, 4),
                                  .map_count = below(state, TSR_FATBIN_MAPS_MAX + 1)};
    for (uint32_t i = 0; i < kernel->map_count; i++) {
        tsr_fatbin_map *map = &kernel->maps[i];
        *map = (tsr_fatbin_map){.argument = below(state, 8),
                                .element = TSR_FATBIN_BF16 + below(state, 4),
                                .rank = 2 + below(state, 4),
                                .box_rows = 1 + below(state, TSR_FATBIN_BOX_MAX),
                                .box_columns = 64,
                                .swizzle_bytes = below(state, 2) * TSR_FATBIN_SWIZZLE_MAX};
        for (uint32_t d = 0; d < TSR_FATBIN_MAP_RANK_MAX; d++)
            map->dims[d] = d < map->rank ? 1 + below(state, 4096) : 1;
        map->pitch = below(state, 4) ? 0 : map->dims[0] + 1 + below(state, 64);
    }
}

static size_t encode(uint32_t seed, tsr_arena *arena, const void **out_bytes) {
    static const char code[IMAGES][CODE_BYTES] = {".version 8.6", ".version 8.0", ".version 7.8"};
    static const uint32_t archs[] = {80, 90, 100, 75};
    static const uint32_t amd[] = {0x90a, 0x942, 0x1100, 0x10094};
    uint32_t state = seed;
    tsr_ctx ctx = {0};
    size_t size = 0;
    void *bytes = NULL;
    tsr_fatbin_kernel kernels[KERNELS];
    tsr_fatbin_image images[IMAGES];
    tsr_fatbin fatbin = {kernels, below(&state, KERNELS + 1), images, 1 + below(&state, IMAGES)};
    for (uint32_t i = 0; i < fatbin.kernel_count; i++) make_kernel(&state, &kernels[i]);
    for (uint32_t i = 0; i < fatbin.image_count; i++) {
        images[i] = (tsr_fatbin_image){.kind = below(&state, 2) ? TSR_FATBIN_CUBIN : TSR_FATBIN_PTX,
                                       .arch = archs[below(&state, TSR_COUNT(archs))],
                                       .exactly = below(&state, 2),
                                       .bytes = code[i],
                                       .size_bytes = CODE_BYTES};
        if (seed % 3) continue;
        images[i].kind = TSR_FATBIN_HSACO;
        images[i].arch = amd[below(&state, TSR_COUNT(amd))];
    }
    for (uint32_t i = 0; i < fatbin.kernel_count && seed % 3 == 0; i++) {
        kernels[i].scalar_registers = below(&state, 128);
        kernels[i].accumulators = below(&state, 256);
    }
    fuzz_require(!tsr_fatbin_encode(&ctx, &fatbin, arena, &bytes, &size).code,
                 "valid code to begin with");
    *out_bytes = bytes;
    return size;
}

static void seed(const char *folder) { fuzz_put_valid(folder, SEEDS, encode); }

static bool lies_in(const tsr_fatbin_image *image, const uint8_t *bytes, size_t size_bytes) {
    const uint8_t *begin = image->bytes;
    return begin >= bytes && image->size_bytes <= size_bytes &&
           begin - bytes <= (ptrdiff_t)(size_bytes - image->size_bytes);
}

static void check(tsr_ctx *ctx, const tsr_fatbin *fatbin, const uint8_t *bytes, size_t size_bytes,
                  tsr_arena *arena) {
    void *again = NULL;
    size_t size = 0;
    bool found = false;
    for (uint32_t i = 0; i < fatbin->image_count; i++)
        fuzz_require(lies_in(&fatbin->images[i], bytes, size_bytes), "an image in the bytes");
    for (uint32_t capability = 70; capability < 130; capability++) {
        const tsr_fatbin_image *image = tsr_fatbin_match(fatbin, capability);
        if (!image) continue;
        found = image >= fatbin->images && image < fatbin->images + fatbin->image_count;
        fuzz_require(found && (!image->exactly || image->arch == capability),
                     "an image for the device");
    }
    fuzz_require(!tsr_fatbin_encode(ctx, fatbin, arena, &again, &size).code,
                 "code that can be written");
    /* The writer chooses the first version that can represent it. */
    if (size && bytes[8] == ((const uint8_t *)again)[8])
        fuzz_require(size == size_bytes && memcmp(again, bytes, size) == 0, "the same bytes");
}

/* Checks magic and version. */
static bool head_good(const uint8_t *bytes, size_t size_bytes) {
    uint32_t version;
    if (size_bytes < HEAD_BYTES || memcmp(bytes, "TSRFATB\n", 8) != 0) return false;
    memcpy(&version, bytes + 8, sizeof version);
    return version - 1 < TSR_FATBIN_VERSION;
}

static bool run(const uint8_t *bytes, size_t size_bytes) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_fatbin fatbin = {0};
    tsr_code code = tsr_fatbin_decode(&ctx, bytes, size_bytes, &arena, &fatbin).code;
    fuzz_require(arena.used_bytes <= 24 * size_bytes + 1024, "memory in proportion to the bytes");
    if (code == TSR_OK && !fuzz_faults)
        check(&ctx, &fatbin, bytes, size_bytes, &arena);
    else if (code != TSR_OK)
        fuzz_require((code == TSR_CORRUPT || code == TSR_VERSION || fuzz_faults) &&
                         ctx.error.text[0],
                     "the code of damage, and a message");
    tsr_arena_finish(&arena);
    return head_good(bytes, size_bytes);
}

static size_t mutate(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t seed) {
    uint32_t state = seed;
    size_t size = fuzz_another_valid(bytes, size_bytes, size_max, &state, encode);
    if (!fuzz_one_in(&state, 4))
        fuzz_change_integer(bytes, size, HEAD_BYTES - 8, &state);
    else
        size = LLVMFuzzerMutate(bytes, size, size_max);
    if (size >= HEAD_BYTES && !fuzz_one_in(&state, 16)) {
        uint32_t version;
        memcpy(&version, bytes + 8, sizeof version);
        if (version - 1 >= TSR_FATBIN_VERSION || fuzz_one_in(&state, 8))
            version = 1 + fuzz_random(&state) % TSR_FATBIN_VERSION;
        memcpy(bytes, "TSRFATB\n", 8);
        memcpy(bytes + 8, &version, sizeof version);
    }
    return size;
}

const fuzz_target fuzz_the_target = {"fatbin", seed, run, mutate};
