/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/weights/shards.h"

#include "runtime/base/plural.h"
#include "runtime/data/array_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGN_BYTES = 64 * 1024,   /* alignment of the data, see bundle/FORMAT.md section 4 */
    HEADER_TENSOR_BYTES = 512, /* header bytes per tensor, without the name: an upper bound */
    HEADER_NAME_FACTOR = 6,    /* maximum JSON characters for one byte of a name */
    PROBE_BYTES = 256 * 1024,
};

/* The parts of a shard, in the order of its bytes. */
typedef struct shard {
    const void *header;
    size_t header_bytes, value_count;
    const tsr_value **order; /* sorted by offset */
    uint64_t *offsets;       /* offsets of the values in the data, in that order */
    tsr_bundle_source source;
} shard;

static uint64_t value_size(const tsr_value *value) {
    uint64_t size = 0;
    bool sane = tsr_shape_size(&value->shape, value->dtype, &size);
    TSR_ASSERT(sane);
    return size;
}

tsr_result tsr_value_read_memory(tsr_ctx *ctx, void *user, uint64_t offset_bytes, void *bytes,
                                 size_t size_bytes) {
    (void)ctx;
    memcpy(bytes, (const char *)user + offset_bytes, size_bytes);
    return TSR_SUCCESS;
}

/* ---- splats ---- */

/* Returns true if the value, written back, gives the bits of the element, as it must for the init
 * rule. */
static bool is_exact(tsr_dtype dtype, const void *element, double *out_value) {
    _Alignas(8) char again[8];
    double value = tsr_dtype_read(dtype, element, 0);
    if (!isfinite(value) || (dtype == TSR_DTYPE_I64 && fabs(value) > 0x1p53)) return false;
    tsr_dtype_write(dtype, value, again, 0);
    *out_value = value;
    return memcmp(again, element, tsr_dtype_size(dtype)) == 0;
}

/* True if bytes[i] == bytes[i - step] for all i. */
static bool repeats(const char *bytes, size_t size, size_t step) {
    return size <= step || memcmp(bytes, bytes + step, size - step) == 0;
}

static tsr_result probe(tsr_ctx *ctx, const tsr_value *value, char *buffer, bool *out_splat,
                        double *out_value) {
    uint64_t size = value_size(value);
    size_t step = tsr_dtype_size(value->dtype);
    _Alignas(8) char first[8];
    *out_splat = false;
    for (uint64_t at = 0; at < size; at += PROBE_BYTES) {
        size_t part = size - at < PROBE_BYTES ? (size_t)(size - at) : PROBE_BYTES;
        TRY(ctx, value->read(ctx, value->user, at, buffer, part));
        if (at == 0) memcpy(first, buffer, step);
        if (memcmp(buffer, first, step) != 0 || !repeats(buffer, part, step)) return TSR_SUCCESS;
    }
    *out_splat = size && is_exact(value->dtype, first, out_value);
    return TSR_SUCCESS;
}

tsr_result tsr_value_is_splat(tsr_ctx *ctx, const tsr_value *value, bool *out_splat,
                              double *out_value) {
    char *buffer = malloc(PROBE_BYTES);
    if (!buffer) FAIL(ctx, TSR_MEMORY, "no memory to read tensor '%s'", value->name);
    tsr_result result = probe(ctx, value, buffer, out_splat, out_value);
    free(buffer);
    return result;
}

/* ---- shards ---- */

/* Returns an upper bound of the bytes that a tensor adds to the header. */
static uint64_t header_bound(const tsr_value *value) {
    return HEADER_TENSOR_BYTES + HEADER_NAME_FACTOR * (uint64_t)strlen(value->name);
}

static uint64_t blob_bound(uint64_t header, uint64_t data) {
    return (header + 2 * (uint64_t)ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES + data;
}

static tsr_result read_shard(tsr_ctx *ctx, void *user, uint64_t offset, void *bytes, size_t size) {
    const shard *s = user;
    char *to = bytes;
    if (offset < s->header_bytes) {
        size_t part = s->header_bytes - offset < size ? s->header_bytes - (size_t)offset : size;
        memcpy(to, (const char *)s->header + offset, part);
        to += part;
        size -= part;
        offset += part;
    }
    uint64_t at = offset - s->header_bytes;
    size_t low = 0, high = s->value_count;
    while (low + 1 < high) {
        size_t middle = (low + high) / 2;
        if (s->offsets[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    for (; size; low++) {
        uint64_t inside = at - s->offsets[low], left = value_size(s->order[low]) - inside;
        size_t part = left < size ? (size_t)left : size;
        if (part) TRY(ctx, s->order[low]->read(ctx, s->order[low]->user, inside, to, part));
        to += part;
        at += part;
        size -= part;
    }
    return TSR_SUCCESS;
}

typedef struct value_offset {
    uint64_t offset_bytes;
    const tsr_value *value;
} value_offset;

/* Empty values come first if several begin at one offset. */
static int by_offset(const void *a, const void *b) {
    const value_offset *x = a, *y = b;
    if (x->offset_bytes != y->offset_bytes) return x->offset_bytes < y->offset_bytes ? -1 : 1;
    return (value_size(x->value) > value_size(y->value)) -
           (value_size(x->value) < value_size(y->value));
}

static tsr_result make_shard(tsr_ctx *ctx, const tsr_value *values, size_t count,
                             const char *media_type, const char *title, tsr_arena *arena,
                             tsr_bundle_blob *out) {
    shard *s = TSR_NEW(arena, shard, 1);
    tsr_tensor *tensors = TSR_NEW(arena, tsr_tensor, count);
    value_offset *sorted = TSR_NEW(arena, value_offset, count);
    uint64_t *offsets = TSR_NEW(arena, uint64_t, count), data = 0;
    void *header = NULL;
    if (s) s->order = TSR_NEW(arena, const tsr_value *, count);
    if (!s || !tensors || !sorted || !offsets || !s->order || !title)
        FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", count);
    for (size_t i = 0; i < count; i++) {
        tensors[i] = (tsr_tensor){values[i].name, values[i].dtype, values[i].shape, NULL};
        data += value_size(&values[i]);
    }
    TRY(ctx, tsr_safetensors_assign_offsets(ctx, tensors, count, ALIGN_BYTES, arena, &header,
                                            &s->header_bytes, offsets));
    for (size_t i = 0; i < count; i++) sorted[i] = (value_offset){offsets[i], &values[i]};
    qsort(sorted, count, sizeof *sorted, by_offset);
    for (size_t i = 0; i < count; i++) {
        s->order[i] = sorted[i].value;
        offsets[i] = sorted[i].offset_bytes;
    }
    s->header = header;
    s->offsets = offsets;
    s->value_count = count;
    s->source = (tsr_bundle_source){read_shard, s};
    *out = (tsr_bundle_blob){.media_type = media_type,
                             .title = title,
                             .size_bytes = s->header_bytes + data,
                             .source = &s->source};
    return TSR_SUCCESS;
}

/* Returns how many of the values, at least one, fit in a blob. */
static tsr_result count_fitting(tsr_ctx *ctx, const tsr_value *values, size_t count,
                                uint64_t size_max, size_t *out_taken) {
    uint64_t header = HEADER_TENSOR_BYTES, data = 0;
    size_t taken = 0;
    for (; taken < count; taken++) {
        uint64_t size = value_size(&values[taken]);
        header += header_bound(&values[taken]);
        if (size > size_max || blob_bound(header, data) > size_max - size) break;
        data += size;
    }
    if (!taken)
        FAIL(ctx, TSR_USAGE,
             "tensor '%s' has %" PRIu64 " byte%s; a bundle stores tensors of at most %" PRIu64
             " byte%s, less their header",
             values->name, value_size(values), TSR_PLURAL(value_size(values)), size_max,
             TSR_PLURAL(size_max));
    *out_taken = taken;
    return TSR_SUCCESS;
}

tsr_result tsr_shards_make(tsr_ctx *ctx, const tsr_value *values, size_t value_count,
                           const char *media_type, const char *stem, uint64_t size_max,
                           tsr_arena *arena, tsr_bundle_blob **out_blobs, size_t *out_count) {
    size_t count = 0, part = 0;
    for (size_t at = 0; at < value_count; at += part, count++)
        TRY(ctx, count_fitting(ctx, values + at, value_count - at, size_max, &part));
    tsr_bundle_blob *blobs = TSR_NEW(arena, tsr_bundle_blob, count + 1);
    if (!blobs) FAIL(ctx, TSR_MEMORY, "no memory for %zu blobs", count);
    for (size_t i = 0, at = 0; i < count; i++, at += part) {
        TRY(ctx, count_fitting(ctx, values + at, value_count - at, size_max, &part));
        const char *title = count == 1 ? tsr_arena_printf(arena, "%s.safetensors", stem)
                                       : tsr_arena_printf(arena, "%s-%05zu-of-%05zu.safetensors",
                                                          stem, i + 1, count);
        TRY(ctx, make_shard(ctx, values + at, part, media_type, title, arena, &blobs[i]));
    }
    *out_blobs = blobs;
    *out_count = count;
    return TSR_SUCCESS;
}
