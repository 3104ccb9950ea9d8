/* SPDX-License-Identifier: Apache-2.0
 *
 * Code for GPUs: encoding and decoding, the choice of an image for a device, and bytes that must be
 * refused.
 */
#include "manifests/amd.h"
#include "manifests/fatbin.h"
#include "runtime/base/array.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const tsr_fatbin_kernel kernels[] = {
    {.threads = 128, .programs = 4, .registers = 40, .static_bytes = 4096, .spill_bytes = 8},
    {.threads = 32,
     .programs = 1,
     .shared_bytes = 70000,
     .scratch_bytes = 640,
     .blocks = 2,
     .map_count = 1,
     .maps = {{.argument = 3,
               .element = TSR_FATBIN_BF16,
               .rank = 3,
               .box_rows = 128,
               .box_columns = 64,
               .swizzle_bytes = 128,
               .dims = {512, 300, 7, 1, 1}}}}};
static const tsr_fatbin_image images[] = {{TSR_FATBIN_CUBIN, 90, true, "\177ELF exactly", 13},
                                          {TSR_FATBIN_PTX, 90, true, ".version 8.6", 13},
                                          {TSR_FATBIN_CUBIN, 80, false, "\177ELF", 5},
                                          {TSR_FATBIN_PTX, 80, false, ".version 8.0", 13}};
static tsr_ctx ctx;
static tsr_arena arena;

static unsigned char *encode(uint32_t image_count, size_t *out_size) {
    const tsr_fatbin fatbin = {kernels, 2, images, image_count};
    void *bytes = NULL;
    cr_assert_eq(tsr_fatbin_encode(&ctx, &fatbin, &arena, &bytes, out_size).code, TSR_OK);
    return bytes;
}

static void finish(void) { tsr_arena_finish(&arena); }
TestSuite(fatbin, .fini = finish);

Test(fatbin, there_and_back) {
    size_t size = 0, again_size = 0;
    void *again = NULL;
    tsr_fatbin got;
    unsigned char *bytes = encode(4, &size);
    cr_assert_eq(tsr_fatbin_decode(&ctx, bytes, size, &arena, &got).code, TSR_OK, "%s",
                 ctx.error.text);
    cr_assert(got.kernel_count == 2 && got.image_count == 4);
    cr_assert_arr_eq(got.kernels, kernels, sizeof kernels);
    for (int i = 0; i < 4; i++)
        cr_assert(got.images[i].kind == images[i].kind && got.images[i].arch == images[i].arch &&
                  got.images[i].exactly == images[i].exactly &&
                  got.images[i].size_bytes == images[i].size_bytes &&
                  memcmp(got.images[i].bytes, images[i].bytes, images[i].size_bytes) == 0);
    cr_assert_eq(tsr_fatbin_encode(&ctx, &got, &arena, &again, &again_size).code, TSR_OK);
    cr_assert(again_size == size && memcmp(again, bytes, size) == 0);
}

/* Only more maps than version 2 supports cause version 3. */
Test(fatbin, many_maps) {
    size_t size = 0;
    tsr_fatbin got;
    tsr_fatbin_kernel kernel = kernels[1];
    void *bytes = NULL;
    for (uint32_t i = 0; i < TSR_FATBIN_MAPS_MAX; i++) kernel.maps[i] = kernels[1].maps[0];
    for (uint32_t count = 0; count <= TSR_FATBIN_MAPS_MAX; count++) {
        kernel.map_count = count;
        tsr_fatbin fatbin = {&kernel, 1, images, 2};
        cr_assert_eq(tsr_fatbin_encode(&ctx, &fatbin, &arena, &bytes, &size).code, TSR_OK);
        cr_assert_eq(((unsigned char *)bytes)[8], count > 4 ? 3 : 2);
        cr_assert_eq(tsr_fatbin_decode(&ctx, bytes, size, &arena, &got).code, TSR_OK);
        cr_assert_eq(got.kernels[0].map_count, count);
        cr_assert_arr_eq(got.kernels[0].maps, kernel.maps, count * sizeof *kernel.maps);
    }
    ((unsigned char *)bytes)[8] = 2;
    cr_assert_eq(tsr_fatbin_decode(&ctx, bytes, size, &arena, &got).code, TSR_CORRUPT);
    cr_assert_str_eq(ctx.error.text, "GPU code: kernels[0].map_count is 8; expected 0 to 4");
}

/* A map with a pitch causes version 4, in which all maps have one; a pitch is larger than a row. */
Test(fatbin, pitches) {
    enum { MAP = 20 + 36, PITCH = MAP + 64 };
    size_t size = 0;
    tsr_fatbin got;
    tsr_fatbin_kernel kernel = kernels[1];
    void *bytes = NULL;
    kernel.map_count = 2;
    kernel.maps[1] = kernels[1].maps[0];
    kernel.maps[1].pitch = 576;
    tsr_fatbin fatbin = {&kernel, 1, images, 2};
    cr_assert_eq(tsr_fatbin_encode(&ctx, &fatbin, &arena, &bytes, &size).code, TSR_OK);
    unsigned char *b = bytes;
    cr_assert_eq(b[8], 4);
    cr_assert_eq(tsr_fatbin_decode(&ctx, bytes, size, &arena, &got).code, TSR_OK);
    cr_assert_arr_eq(got.kernels[0].maps, kernel.maps, 2 * sizeof *kernel.maps);
    b[PITCH] = 0, b[PITCH + 1] = 2; /* 512, equal to a row */
    cr_assert_eq(tsr_fatbin_decode(&ctx, bytes, size, &arena, &got).code, TSR_CORRUPT);
    cr_assert_str_eq(ctx.error.text,
                     "GPU code: maps[0].pitch is 512; expected 0 or 513 to 4294967295");
    b[PITCH + 1] = 0, b[PITCH + 4] = 1;
    cr_assert_eq(tsr_fatbin_decode(&ctx, bytes, size, &arena, &got).code, TSR_CORRUPT);
    cr_assert_str_eq(ctx.error.text,
                     "GPU code: maps[0].pitch is 4294967296; expected 0 or 513 to 4294967295");
}

Test(fatbin, match) {
    static const struct {
        uint32_t capability;
        int image; /* -1: no image */
    } rows[] = {{90, 0}, {80, 2}, {86, 2}, {89, 2}, {100, 3}, {120, 3}, {75, -1}};
    const tsr_fatbin fatbin = {kernels, 2, images, 4}, text = {kernels, 2, images + 1, 1};
    for (size_t i = 0; i < TSR_COUNT(rows); i++)
        cr_assert(tsr_fatbin_match(&fatbin, rows[i].capability) ==
                      (rows[i].image < 0 ? NULL : &images[rows[i].image]),
                  "%u", rows[i].capability);
    cr_assert(tsr_fatbin_match(&text, 90) == &images[1]);
    cr_assert_null(tsr_fatbin_match(&text, 100)); /* sm_90a has no successors */
}

/* No prefix and no longer file is accepted, and every byte of the header is checked. */
Test(fatbin, every_size) {
    size_t size = 0;
    unsigned char *bytes = encode(4, &size);
    for (size_t cut = 0; cut <= size + 1; cut++) {
        unsigned char *part = calloc(1, cut + 1);
        tsr_fatbin got;
        memcpy(part, bytes, cut < size ? cut : size);
        tsr_code code = tsr_fatbin_decode(&ctx, part, cut, &arena, &got).code;
        cr_assert_eq(code, cut == size ? TSR_OK : TSR_CORRUPT, "%zu of %zu", cut, size);
        free(part);
    }
}

static void refused(size_t at, uint32_t value, tsr_code code, const char *text) {
    size_t size = 0;
    tsr_fatbin got;
    unsigned char *bytes = encode(2, &size);
    memcpy(bytes + at, &value, sizeof value);
    cr_assert_eq(tsr_fatbin_decode(&ctx, bytes, size, &arena, &got).code, code, "%s", text);
    cr_assert_str_eq(ctx.error.text, text);
}

Test(fatbin, refused) {
    enum { KERNELS = 20, SECOND = KERNELS + 36, MAP = SECOND + 36, IMAGES = MAP + 64 };
    refused(0, 0, TSR_CORRUPT, "GPU code does not begin with its mark");
    refused(8, 6, TSR_VERSION, "GPU code has version 6; expected 1 to 5");
    refused(12, 1u << 30, TSR_CORRUPT,
            "GPU code of 222 bytes cannot hold 1073741824 kernels and 2 images");
    refused(16, 0, TSR_CORRUPT, "GPU code of 222 bytes cannot hold 2 kernels and 0 images");
    refused(16, 17, TSR_CORRUPT, "GPU code of 222 bytes cannot hold 2 kernels and 17 images");
    refused(KERNELS, 0, TSR_CORRUPT, "GPU code: kernels[0].threads is 0; expected 1 to 1024");
    refused(KERNELS, 126, TSR_CORRUPT, "GPU code: kernels[0] has 126 threads for 4 programs");
    refused(SECOND + 8, 1u << 20, TSR_CORRUPT,
            "GPU code: kernels[1].shared_bytes is 1048576; expected 0 to 262144");
    refused(SECOND + 28, 33, TSR_CORRUPT, "GPU code: kernels[1].blocks is 33; expected 0 to 32");
    refused(SECOND + 32, 5, TSR_CORRUPT, "GPU code: kernels[1].map_count is 5; expected 0 to 4");
    refused(SECOND + 32, 9, TSR_CORRUPT, "GPU code: kernels[1].map_count is 9; expected 0 to 8");
    refused(MAP, 256, TSR_CORRUPT, "GPU code: maps[0].argument is 256; expected 0 to 255");
    refused(MAP + 4, 5, TSR_CORRUPT, "GPU code: maps[0].element is 5; expected 1 to 4");
    refused(MAP + 8, 6, TSR_CORRUPT, "GPU code: maps[0].rank is 6; expected 2 to 5");
    refused(MAP + 12, 0, TSR_CORRUPT, "GPU code: maps[0].box_rows is 0; expected 1 to 256");
    refused(MAP + 20, 64, TSR_CORRUPT, "GPU code: maps[0].swizzle_bytes is 64; expected 0 or 128");
    refused(MAP + 24, 0, TSR_CORRUPT, "GPU code: maps[0].dims[0] is 0; expected 1 to 4294967295");
    refused(MAP + 48, 2, TSR_CORRUPT, "GPU code: maps[0].dims[3] is 2; expected 1 to 1");
    refused(IMAGES, 3, TSR_CORRUPT, "GPU code: images[0].kind is 3; expected 1 to 2");
    refused(IMAGES + 4, 9, TSR_CORRUPT, "GPU code: images[0].arch is 9; expected 10 to 999");
    refused(IMAGES + 8, 2, TSR_CORRUPT, "GPU code: images[0].exactly is 2; expected 0 to 1");
    refused(IMAGES + 12, 0, TSR_CORRUPT, "GPU code: images[0] has 0 bytes; expected 1 to 26");
    refused(IMAGES + 12, 27, TSR_CORRUPT, "GPU code: images[0] has 27 bytes; expected 1 to 26");
    refused(218, 0x41414141, TSR_CORRUPT,
            "GPU code: images[1] is text that does not end with a NUL");
}

/* Kernels of version 1 have seven fields. */
Test(fatbin, first_version) {
    static const unsigned char bytes[] = "TSRFATB\n\1\0\0\0\1\0\0\0\1\0\0\0"
                                         "\x80\0\0\0\4\0\0\0\0\0\0\0\0\0\0\0"
                                         "\x28\0\0\0\0\x10\0\0\x08\0\0\0"
                                         "\2\0\0\0\x5a\0\0\0\1\0\0\0\x0d\0\0\0\0\0\0\0"
                                         ".version 8.6";
    tsr_fatbin got;
    cr_assert_eq(tsr_fatbin_decode(&ctx, bytes, sizeof bytes, &arena, &got).code, TSR_OK, "%s",
                 ctx.error.text);
    cr_assert_eq(got.kernel_count, 1);
    cr_assert_arr_eq(got.kernels, kernels, sizeof kernels[0]);
}

/* The results of cuOccupancyMaxActiveBlocksPerMultiprocessor for such kernels on an H200. */
Test(fatbin, resident) {
    static const struct {
        uint32_t threads, registers, shared, blocks;
    } rows[] = {{256, 58, 114800, 2},  {128, 24, 0, 16},     {256, 104, 204928, 1},
                {384, 168, 229472, 1}, {128, 40, 16384, 12}, {128, 79, 0, 6}};
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        const tsr_fatbin_kernel kernel = {.threads = rows[i].threads,
                                          .registers = rows[i].registers,
                                          .shared_bytes = rows[i].shared};
        cr_assert_eq(tsr_fatbin_resident(&kernel, 90), rows[i].blocks, "row %zu: %u", i,
                     tsr_fatbin_resident(&kernel, 90));
    }
    const tsr_fatbin_kernel unknown = {.threads = 128}, known = {.threads = 128, .registers = 32};
    cr_assert_eq(tsr_fatbin_resident(&unknown, 90), 0);
    cr_assert_eq(tsr_fatbin_resident(&known, 75), 0);
}

/* Code of AMD GPUs: its own fields, its own rule for matching. */
Test(fatbin, amd) {
    static const tsr_fatbin_image amd[] = {{TSR_FATBIN_HSACO, 0x10094, false, "\177ELF 9.4", 9},
                                           {TSR_FATBIN_HSACO, 0x942, true, "\177ELF 942", 9},
                                           {TSR_FATBIN_CUBIN, 90, false, "\177ELF", 5}};
    tsr_fatbin_kernel kernel = {.threads = 256,
                                .programs = 8,
                                .registers = 100,
                                .static_bytes = 4096,
                                .scalar_registers = 40,
                                .accumulators = 32};
    const tsr_fatbin fatbin = {&kernel, 1, amd, 3};
    void *bytes = NULL;
    size_t size = 0;
    tsr_fatbin got;
    cr_assert_eq(tsr_fatbin_encode(&ctx, &fatbin, &arena, &bytes, &size).code, TSR_OK);
    cr_assert_eq(((unsigned char *)bytes)[8], 5, "the version");
    cr_assert_eq(tsr_fatbin_decode(&ctx, bytes, size, &arena, &got).code, TSR_OK, "%s",
                 ctx.error.text);
    cr_assert_arr_eq(got.kernels, &kernel, sizeof kernel);
    cr_assert(tsr_fatbin_match_amd(&got, 0x942) == &got.images[1], "its own code first");
    cr_assert(tsr_fatbin_match_amd(&got, 0x950) == &got.images[0], "generic code");
    cr_assert(!tsr_fatbin_match_amd(&got, 0x90a) && !tsr_fatbin_match_amd(&got, 0x1100));
    cr_assert(tsr_fatbin_match(&got, 90) == &got.images[2] && !tsr_fatbin_match(&got, 100));
    ((unsigned char *)bytes)[8] = 4; /* versions before 5 have no such code, and fewer fields */
    cr_assert_eq(tsr_fatbin_decode(&ctx, bytes, size, &arena, &got).code, TSR_CORRUPT);
}

/* Waves of a SIMD: limited by each resource in turn. Values as in LLVM's tables, which
 * compiler/target/code_objects compares for whole programs. */
Test(fatbin, waves) {
    static const struct {
        uint32_t arch, threads, registers, scalars, bytes, waves;
    } rows[] = {{0x942, 256, 24, 30, 0, 8},    {0x942, 256, 65, 30, 0, 7},
                {0x942, 256, 129, 30, 0, 3},   {0x942, 256, 24, 30, 40000, 1},
                {0x942, 256, 24, 112, 0, 7},   {0x950, 256, 24, 30, 40000, 4},
                {0x1100, 256, 97, 200, 0, 12}, {0x1102, 256, 97, 200, 0, 9},
                {0x1100, 64, 24, 30, 60000, 1}};
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        const tsr_fatbin_kernel kernel = {.threads = rows[i].threads,
                                          .programs = 1,
                                          .registers = rows[i].registers,
                                          .scalar_registers = rows[i].scalars,
                                          .static_bytes = rows[i].bytes};
        cr_assert_eq(tsr_amd_waves(&kernel, rows[i].arch), rows[i].waves, "row %zu: %u", i,
                     tsr_amd_waves(&kernel, rows[i].arch));
    }
    const tsr_fatbin_kernel unknown = {.threads = 64, .programs = 1};
    cr_assert_eq(tsr_amd_waves(&unknown, 0x942), 0);
    cr_assert_eq(tsr_amd_waves(&unknown, 0x803), 0);
    cr_assert(tsr_amd_find("gfx90a:sramecc+:xnack-")->arch == 0x90a && !tsr_amd_find("gfx90") &&
              !tsr_amd_find("gfx1100x"));
}
