/* SPDX-License-Identifier: Apache-2.0 */
#include "manifests/fatbin.h"

#include "manifests/amd.h"
#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "runtime/base/plural.h"

#include <inttypes.h>
#include <string.h>

static const char magic[8] = {'T', 'S', 'R', 'F', 'A', 'T', 'B', '\n'};

/* The fields of a kernel, in the order of their bytes. */
#define KERNEL_FIELDS(X)                                                                           \
    X(threads, 1, TSR_FATBIN_THREADS_MAX)                                                          \
    X(programs, 1, TSR_FATBIN_THREADS_MAX)                                                         \
    X(shared_bytes, 0, TSR_FATBIN_SHARED_MAX)                                                      \
    X(scratch_bytes, 0, TSR_FATBIN_SCRATCH_MAX)                                                    \
    X(registers, 0, TSR_FATBIN_REGISTERS_MAX)                                                      \
    X(static_bytes, 0, TSR_FATBIN_SHARED_MAX)                                                      \
    X(spill_bytes, 0, UINT32_MAX)                                                                  \
    X(blocks, 0, TSR_FATBIN_BLOCKS_MAX)                                                            \
    X(map_count, 0, TSR_FATBIN_MAPS_MAX)                                                           \
    X(scalar_registers, 0, TSR_FATBIN_REGISTERS_MAX)                                               \
    X(accumulators, 0, TSR_FATBIN_REGISTERS_MAX)

/* The fields of a map; its dimensions follow. */
#define MAP_FIELDS(X)                                                                              \
    X(argument, 0, TSR_FATBIN_ARGUMENTS_MAX - 1)                                                   \
    X(element, TSR_FATBIN_BF16, TSR_FATBIN_TF32)                                                   \
    X(rank, 2, TSR_FATBIN_MAP_RANK_MAX)                                                            \
    X(box_rows, 1, TSR_FATBIN_BOX_MAX)                                                             \
    X(box_columns, 1, TSR_FATBIN_BOX_MAX)                                                          \
    X(swizzle_bytes, 0, TSR_FATBIN_SWIZZLE_MAX)

enum {
    HEAD_BYTES = sizeof magic + 3 * 4,
    FIRST_KERNEL_FIELDS = 7, /* number of fields in version 1 */
    MAPS_VERSION = 2,        /* the first one with maps */
    MANY_VERSION = 3,        /* the first one with more than TSR_FATBIN_MAPS_FEW maps */
    PITCH_VERSION = 4,       /* the first one with pitches of maps */
    AMD_VERSION = 5,         /* the first one with code for AMD GPUs */
    MAPS_KERNEL_FIELDS = 9,  /* number of fields in version 2 */
    KERNEL_FIELD_COUNT = 11,
    MAP_BYTES = 6 * 4 + 8 * TSR_FATBIN_MAP_RANK_MAX, /* plus 8 for a pitch */
    IMAGE_BYTES = 3 * 4 + 8,
    CAPABILITY_MIN = 10,
    CAPABILITY_MAX = 999,
    AMD_MIN = 0x600,
    AMD_MAX = 0x1ffff,
};

static uint32_t fields_of(uint32_t version) {
    if (version < MAPS_VERSION) return FIRST_KERNEL_FIELDS;
    return version < AMD_VERSION ? MAPS_KERNEL_FIELDS : KERNEL_FIELD_COUNT;
}

static void append_map(tsr_buffer *out, const tsr_fatbin_map *map, uint32_t version) {
#define X(field, min, max) tsr_buffer_u32(out, map->field);
    MAP_FIELDS(X)
#undef X
    for (uint32_t d = 0; d < TSR_FATBIN_MAP_RANK_MAX; d++) tsr_buffer_u64(out, map->dims[d]);
    if (version >= PITCH_VERSION) tsr_buffer_u64(out, map->pitch);
}

/* Returns the first version that can represent the fatbin. */
static uint32_t version_for(const tsr_fatbin *fatbin) {
    uint32_t version = MAPS_VERSION;
    for (uint32_t i = 0; i < fatbin->kernel_count; i++) {
        const tsr_fatbin_kernel *kernel = &fatbin->kernels[i];
        if (kernel->map_count > TSR_FATBIN_MAPS_FEW && version < MANY_VERSION)
            version = MANY_VERSION;
        for (uint32_t m = 0; m < kernel->map_count; m++)
            if (kernel->maps[m].pitch) version = PITCH_VERSION;
    }
    for (uint32_t i = 0; i < fatbin->image_count; i++)
        if (fatbin->images[i].kind == TSR_FATBIN_HSACO) version = AMD_VERSION;
    return version;
}

tsr_result tsr_fatbin_encode(tsr_ctx *ctx, const tsr_fatbin *fatbin, tsr_arena *arena,
                             void **out_bytes, size_t *out_size_bytes) {
    tsr_buffer out = {0};
    uint32_t version = version_for(fatbin);
    tsr_buffer_append(&out, magic, sizeof magic);
    tsr_buffer_u32(&out, version);
    tsr_buffer_u32(&out, fatbin->kernel_count);
    tsr_buffer_u32(&out, fatbin->image_count);
    for (uint32_t i = 0; i < fatbin->kernel_count; i++) {
        const tsr_fatbin_kernel *kernel = &fatbin->kernels[i];
        uint32_t left = fields_of(version);
#define X(field, min, max)                                                                         \
    if (left && left--) tsr_buffer_u32(&out, kernel->field);
        KERNEL_FIELDS(X)
#undef X
        for (uint32_t m = 0; m < kernel->map_count; m++)
            append_map(&out, &kernel->maps[m], version);
    }
    for (uint32_t i = 0; i < fatbin->image_count; i++) {
        const tsr_fatbin_image *image = &fatbin->images[i];
        tsr_buffer_u32(&out, image->kind);
        tsr_buffer_u32(&out, image->arch);
        tsr_buffer_u32(&out, image->exactly);
        tsr_buffer_u64(&out, image->size_bytes);
    }
    for (uint32_t i = 0; i < fatbin->image_count; i++)
        tsr_buffer_append(&out, fatbin->images[i].bytes, fatbin->images[i].size_bytes);
    void *bytes = out.failed ? NULL : tsr_arena_memdup(arena, out.bytes, out.size_bytes);
    size_t size_bytes = out.size_bytes;
    tsr_buffer_finish(&out);
    if (!bytes)
        FAIL(ctx, TSR_MEMORY, "no memory to write the code of %u kernels", fatbin->kernel_count);
    *out_bytes = bytes;
    *out_size_bytes = size_bytes;
    return TSR_SUCCESS;
}

typedef struct reader {
    tsr_ctx *ctx;
    const unsigned char *bytes;
    size_t size, at;
} reader;

static uint32_t take_u32(reader *r) {
    const unsigned char *b = r->bytes + r->at;
    r->at += 4;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static TSR_RESULT take_field(reader *r, const char *what, uint32_t index, const char *field,
                             uint32_t min, uint32_t max, uint32_t *out_value) {
    uint32_t value = take_u32(r);
    if (value < min || value > max)
        FAIL(r->ctx, TSR_CORRUPT, "GPU code: %s[%u].%s is %u; expected %u to %u", what, index,
             field, value, min, max);
    *out_value = value;
    return TSR_SUCCESS;
}

static uint64_t take_u64(reader *r) {
    uint64_t low = take_u32(r);
    return low | (uint64_t)take_u32(r) << 32;
}

static TSR_RESULT read_map(reader *r, tsr_fatbin_map *map, uint32_t index, uint32_t version) {
#define X(field, min, max) TRY(r->ctx, take_field(r, "maps", index, #field, min, max, &map->field));
    MAP_FIELDS(X)
#undef X
    if (map->swizzle_bytes != 0 && map->swizzle_bytes != TSR_FATBIN_SWIZZLE_MAX)
        FAIL(r->ctx, TSR_CORRUPT, "GPU code: maps[%u].swizzle_bytes is %u; expected 0 or %d", index,
             map->swizzle_bytes, TSR_FATBIN_SWIZZLE_MAX);
    for (uint32_t d = 0; d < TSR_FATBIN_MAP_RANK_MAX; d++) {
        uint64_t max = d < map->rank ? UINT32_MAX : 1;
        map->dims[d] = take_u64(r);
        if (map->dims[d] < 1 || map->dims[d] > max)
            FAIL(r->ctx, TSR_CORRUPT,
                 "GPU code: maps[%u].dims[%u] is %" PRIu64 "; expected 1 to %" PRIu64, index, d,
                 map->dims[d], max);
    }
    map->pitch = version >= PITCH_VERSION ? take_u64(r) : 0;
    if (map->pitch && (map->pitch <= map->dims[0] || map->pitch > UINT32_MAX))
        FAIL(r->ctx, TSR_CORRUPT,
             "GPU code: maps[%u].pitch is %" PRIu64 "; expected 0 or %" PRIu64 " to %u", index,
             map->pitch, map->dims[0] + 1, UINT32_MAX);
    return TSR_SUCCESS;
}

static size_t map_bytes(uint32_t version) { return MAP_BYTES + (version >= PITCH_VERSION ? 8 : 0); }

static TSR_RESULT read_maps(reader *r, tsr_fatbin_kernel *kernel, uint32_t index,
                            uint32_t version) {
    if (kernel->map_count * map_bytes(version) > r->size - r->at)
        FAIL(r->ctx, TSR_CORRUPT, "GPU code: kernels[%u] has %u map%s in %zu byte%s", index,
             kernel->map_count, TSR_PLURAL(kernel->map_count), r->size - r->at,
             TSR_PLURAL(r->size - r->at));
    for (uint32_t m = 0; m < kernel->map_count; m++)
        TRY(r->ctx, read_map(r, &kernel->maps[m], m, version));
    return TSR_SUCCESS;
}

static TSR_RESULT read_kernels(reader *r, tsr_fatbin_kernel *kernels, uint32_t count,
                               uint32_t version) {
    uint32_t field_count = fields_of(version);
    uint32_t most = version < MANY_VERSION ? TSR_FATBIN_MAPS_FEW : TSR_FATBIN_MAPS_MAX;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t field_number = 0;
        if (r->size - r->at < (size_t)field_count * 4)
            FAIL(r->ctx, TSR_CORRUPT, "GPU code ends in kernels[%u]", i);
#define X(field, min, max)                                                                         \
    if (field_number++ < field_count)                                                              \
        TRY(r->ctx, take_field(r, "kernels", i, #field, min, max, &kernels[i].field));
        KERNEL_FIELDS(X)
#undef X
        if (kernels[i].threads % kernels[i].programs)
            FAIL(r->ctx, TSR_CORRUPT, "GPU code: kernels[%u] has %u thread%s for %u program%s", i,
                 kernels[i].threads, TSR_PLURAL(kernels[i].threads), kernels[i].programs,
                 TSR_PLURAL(kernels[i].programs));
        if (kernels[i].map_count > most)
            FAIL(r->ctx, TSR_CORRUPT, "GPU code: kernels[%u].map_count is %u; expected 0 to %u", i,
                 kernels[i].map_count, most);
        TRY(r->ctx, read_maps(r, &kernels[i], i, version));
    }
    return TSR_SUCCESS;
}

static TSR_RESULT read_images(reader *r, tsr_fatbin_image *images, uint32_t count,
                              uint32_t version) {
    uint32_t last = version < AMD_VERSION ? TSR_FATBIN_PTX : TSR_FATBIN_HSACO;
    if (r->size - r->at < (size_t)count * IMAGE_BYTES)
        FAIL(r->ctx, TSR_CORRUPT, "GPU code has %zu byte%s left for %u image%s", r->size - r->at,
             TSR_PLURAL(r->size - r->at), count, TSR_PLURAL(count));
    size_t at = r->at + (size_t)count * IMAGE_BYTES;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t kind = 0, exactly = 0;
        TRY(r->ctx, take_field(r, "images", i, "kind", TSR_FATBIN_CUBIN, last, &kind));
        bool amd = kind == TSR_FATBIN_HSACO;
        TRY(r->ctx, take_field(r, "images", i, "arch", amd ? AMD_MIN : CAPABILITY_MIN,
                               amd ? AMD_MAX : CAPABILITY_MAX, &images[i].arch));
        TRY(r->ctx, take_field(r, "images", i, "exactly", 0, 1, &exactly));
        uint64_t size = take_u64(r);
        if (size == 0 || size > r->size - at)
            FAIL(r->ctx, TSR_CORRUPT,
                 "GPU code: images[%u] has %" PRIu64 " byte%s; expected 1 to %zu", i, size,
                 TSR_PLURAL(size), r->size - at);
        images[i].kind = (tsr_fatbin_kind)kind;
        images[i].exactly = exactly;
        images[i].bytes = r->bytes + at;
        images[i].size_bytes = (size_t)size;
        at += (size_t)size;
        if (kind == TSR_FATBIN_PTX && r->bytes[at - 1] != 0)
            FAIL(r->ctx, TSR_CORRUPT, "GPU code: images[%u] is text that does not end with a NUL",
                 i);
    }
    if (at != r->size)
        FAIL(r->ctx, TSR_CORRUPT, "GPU code has %zu byte%s; expected %zu", r->size,
             TSR_PLURAL(r->size), at);
    return TSR_SUCCESS;
}

tsr_result tsr_fatbin_decode(tsr_ctx *ctx, const void *bytes, size_t size_bytes, tsr_arena *arena,
                             tsr_fatbin *out_fatbin) {
    reader r = {ctx, bytes, size_bytes, sizeof magic};
    if (size_bytes < HEAD_BYTES || memcmp(bytes, magic, sizeof magic) != 0)
        FAIL(ctx, TSR_CORRUPT, "GPU code does not begin with its mark");
    uint32_t version = take_u32(&r), kernels = take_u32(&r), images = take_u32(&r);
    if (version < 1 || version > TSR_FATBIN_VERSION)
        FAIL(ctx, TSR_VERSION, "GPU code has version %u; expected 1 to %d", version,
             TSR_FATBIN_VERSION);
    if (kernels > TSR_FATBIN_KERNELS_MAX || images == 0 || images > TSR_FATBIN_IMAGES_MAX ||
        (size_t)kernels * fields_of(version) * 4 + (size_t)images * IMAGE_BYTES > size_bytes - r.at)
        FAIL(ctx, TSR_CORRUPT, "GPU code of %zu byte%s cannot hold %u kernel%s and %u image%s",
             size_bytes, TSR_PLURAL(size_bytes), kernels, TSR_PLURAL(kernels), images,
             TSR_PLURAL(images));
    tsr_fatbin_kernel *kernel_rows = TSR_NEW(arena, tsr_fatbin_kernel, (size_t)kernels + 1);
    tsr_fatbin_image *image_rows = TSR_NEW(arena, tsr_fatbin_image, images);
    if (!kernel_rows || !image_rows) FAIL(ctx, TSR_MEMORY, "no memory for %u kernels", kernels);
    TRY(ctx, read_kernels(&r, kernel_rows, kernels, version));
    TRY(ctx, read_images(&r, image_rows, images, version));
    *out_fatbin = (tsr_fatbin){kernel_rows, kernels, image_rows, images};
    return TSR_SUCCESS;
}

static bool runs_on(const tsr_fatbin_image *image, uint32_t capability) {
    if (image->kind == TSR_FATBIN_HSACO) return false;
    if (image->exactly) return image->arch == capability;
    if (image->kind == TSR_FATBIN_PTX) return image->arch <= capability;
    return image->arch / 10 == capability / 10 && image->arch <= capability;
}

static uint32_t rank(const tsr_fatbin_image *image) {
    return (image->kind == TSR_FATBIN_CUBIN ? 1u << 20 : 0) + 2 * image->arch + image->exactly;
}

const tsr_fatbin_image *tsr_fatbin_match(const tsr_fatbin *fatbin, uint32_t capability) {
    const tsr_fatbin_image *best = NULL;
    for (uint32_t i = 0; i < fatbin->image_count; i++) {
        const tsr_fatbin_image *image = &fatbin->images[i];
        if (runs_on(image, capability) && (!best || rank(image) > rank(best))) best = image;
    }
    return best;
}

const tsr_fatbin_image *tsr_fatbin_match_amd(const tsr_fatbin *fatbin, uint32_t arch) {
    const tsr_fatbin_image *best = NULL;
    for (uint32_t i = 0; i < fatbin->image_count; i++) {
        const tsr_fatbin_image *image = &fatbin->images[i];
        if (image->kind != TSR_FATBIN_HSACO || !tsr_amd_runs(image->arch, arch)) continue;
        if (!best || tsr_amd_is_generic(best->arch)) best = image;
    }
    return best;
}

/* ---- occupancy ------------------------------------------------------------------------------- */

static uint32_t round_up(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }
static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

uint32_t tsr_fatbin_resident(const tsr_fatbin_kernel *kernel, uint32_t arch) {
    enum {
        REGISTERS = 65536,
        WARPS = 64,
        BLOCKS = 32,
        LANES = 32,
        WARP_REGISTERS = 256, /* registers are allocated in units of 256 per warp, */
        WARPS_AT_ONCE = 4,    /* and to four warps at once; */
        SHARED_AT_ONCE = 128, /* shared memory is allocated in units of 128 bytes; */
        SYSTEM_BYTES = 1024,  /* the system reserves 1024 bytes per block */
    };
    static const struct {
        uint32_t arch, shared_bytes;
    } rows[] = {{80, 164 * 1024}, {90, 228 * 1024}, {100, 228 * 1024}};
    uint32_t warps = (kernel->threads + LANES - 1) / LANES, shared = 0;
    for (size_t i = 0; i < TSR_COUNT(rows); i++)
        if (rows[i].arch == arch) shared = rows[i].shared_bytes;
    if (!shared || !kernel->registers || !warps) return 0;
    uint32_t registers = round_up(kernel->registers * LANES, WARP_REGISTERS);
    uint32_t by_registers = REGISTERS / registers / WARPS_AT_ONCE * WARPS_AT_ONCE / warps;
    uint32_t bytes =
        round_up(kernel->shared_bytes + kernel->static_bytes + SYSTEM_BYTES, SHARED_AT_ONCE);
    return least(least(by_registers, WARPS / warps), least(shared / bytes, BLOCKS));
}
