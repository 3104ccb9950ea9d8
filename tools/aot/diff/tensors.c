/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares element by element, one piece at a time, so that memory does not grow with the weights.
 */
#include "runtime/base/plural.h"
#include "runtime/data/array_file.h"
#include "tools/aot/diff/diff.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { BLOCK_BYTES = 4 << 20, LENGTH_BYTES = 8 };

typedef struct weights {
    tsr_bundle *bundle;
    const tsr_bundle_layer *layer;
    tsr_safetensors index;
    void *block; /* BLOCK_BYTES, in the arena */
} weights;

static tsr_result open_weights(diff *d, size_t side, const tsr_bundle_layer *layer, weights *w) {
    unsigned char length[LENGTH_BYTES];
    uint64_t header = 0;
    *w = (weights){.bundle = d->sides[side].bundle, .layer = layer};
    const char *subject =
        tsr_arena_printf(&d->arena, "'%s' of '%s'", layer->title, d->sides[side].path);
    if (layer->size_bytes < LENGTH_BYTES)
        FAIL(d->ctx, TSR_CORRUPT, "%s: expected at least %d bytes, got %" PRIu64, subject,
             LENGTH_BYTES, layer->size_bytes);
    TRY(d->ctx, tsr_bundle_read_range(d->ctx, w->bundle, layer, 0, length, sizeof length));
    for (int i = LENGTH_BYTES; i-- > 0;) header = header << 8 | length[i];
    if (header > TSR_SAFETENSORS_HEADER_MAX || header > layer->size_bytes - LENGTH_BYTES)
        FAIL(d->ctx, TSR_CORRUPT,
             "%s: expected a header inside of the %" PRIu64 " byte%s, got one of %" PRIu64, subject,
             layer->size_bytes, TSR_PLURAL(layer->size_bytes), header);
    size_t size = (size_t)header + LENGTH_BYTES;
    void *bytes = tsr_arena_alloc(&d->arena, size, 1, 16);
    w->block = tsr_arena_alloc(&d->arena, BLOCK_BYTES, 1, 64);
    if (!subject || !bytes || !w->block) FAIL(d->ctx, TSR_MEMORY, "no memory to compare tensors");
    TRY(d->ctx, tsr_bundle_read_range(d->ctx, w->bundle, layer, 0, bytes, size));
    TRY(d->ctx, tsr_safetensors_decode(d->ctx, bytes, size, layer->size_bytes, subject, TSR_CORRUPT,
                                       &d->arena, &w->index));
    return tsr_safetensors_check(d->ctx, &w->index, subject, TSR_CORRUPT);
}

/* Maps floats to integers in the same order: neighbours differ by one, and -0 is 0. */
static int64_t ordered(const unsigned char *element, size_t size) {
    uint64_t bits = 0, sign = UINT64_C(1) << (8 * size - 1);
    memcpy(&bits, element, size);
    return bits & sign ? -(int64_t)(bits & (sign - 1)) : (int64_t)bits;
}

static void compare_element(tsr_dtype dtype, const unsigned char *a, const unsigned char *b,
                            diff_elements *found) {
    size_t size = tsr_dtype_size(dtype);
    double left = tsr_dtype_read(dtype, a, 0), right = tsr_dtype_read(dtype, b, 0);
    double distance = fabs(left - right);
    if (isnan(left) || isnan(right)) {
        found->has_nan = true;
        return;
    }
    if (distance > found->max_abs) found->max_abs = distance;
    if (!tsr_dtype_is_float(dtype)) return;
    int64_t low = ordered(a, size), high = ordered(b, size);
    uint64_t steps = low < high ? (uint64_t)high - (uint64_t)low : (uint64_t)low - (uint64_t)high;
    if (steps > found->max_ulp) found->max_ulp = steps;
}

static void compare_block(tsr_dtype dtype, const weights *a, const weights *b, uint64_t first,
                          size_t count, diff_elements *found) {
    size_t size = tsr_dtype_size(dtype);
    if (memcmp(a->block, b->block, count * size) == 0) return;
    for (size_t i = 0; i < count; i++) {
        const unsigned char *left = (const unsigned char *)a->block + i * size;
        const unsigned char *right = (const unsigned char *)b->block + i * size;
        if (memcmp(left, right, size) == 0) continue;
        if (!found->differing++) {
            found->first = first + i;
            found->first_a = tsr_dtype_read(dtype, left, 0);
            found->first_b = tsr_dtype_read(dtype, right, 0);
        }
        compare_element(dtype, left, right, found);
    }
}

static tsr_result diff_tensor(diff *d, const weights *a, const weights *b,
                              const tsr_safetensors_entry *left,
                              const tsr_safetensors_entry *right) {
    char types[2][TSR_TYPE_TEXT_MAX];
    diff_elements found = {0};
    size_t size = tsr_dtype_size(left->dtype);
    if (left->dtype != right->dtype || !tsr_shape_equal(&left->shape, &right->shape)) {
        diff_note(d, "tensor", NULL, left->name, DIFF_CHANGED, NULL, "%s became %s",
                  tsr_type_format(left->dtype, &left->shape, types[0]),
                  tsr_type_format(right->dtype, &right->shape, types[1]));
        return TSR_SUCCESS;
    }
    found.count = left->size_bytes / size;
    for (uint64_t at = 0; at < left->size_bytes;) {
        uint64_t rest = left->size_bytes - at;
        size_t part = rest < BLOCK_BYTES ? (size_t)rest : BLOCK_BYTES;
        TRY(d->ctx, tsr_bundle_read_range(d->ctx, a->bundle, a->layer, left->offset_bytes + at,
                                          a->block, part));
        TRY(d->ctx, tsr_bundle_read_range(d->ctx, b->bundle, b->layer, right->offset_bytes + at,
                                          b->block, part));
        compare_block(left->dtype, a, b, at / size, part / size, &found);
        at += part;
    }
    if (found.differing)
        diff_note(d, "tensor", NULL, left->name, DIFF_CHANGED, &found,
                  "%" PRIu64 " of %" PRIu64 " element%s differ, the first at %" PRIu64
                  ": %.9g became %.9g; the largest difference is %.9g, %" PRIu64 " ulp%s",
                  found.differing, found.count, TSR_PLURAL(found.count), found.first, found.first_a,
                  found.first_b, found.max_abs, found.max_ulp,
                  found.has_nan ? ", not counting NaN" : "");
    return TSR_SUCCESS;
}

/* Both indices are sorted by name. */
tsr_result diff_tensors(diff *d, const tsr_bundle_layer *layer_a, const tsr_bundle_layer *layer_b) {
    weights a, b;
    TRY(d->ctx, open_weights(d, 0, layer_a, &a));
    TRY(d->ctx, open_weights(d, 1, layer_b, &b));
    for (size_t i = 0, k = 0; i < a.index.entry_count || k < b.index.entry_count;) {
        const tsr_safetensors_entry *left = &a.index.entries[i], *right = &b.index.entries[k];
        int order = i == a.index.entry_count   ? 1
                    : k == b.index.entry_count ? -1
                                               : strcmp(left->name, right->name);
        if (order == 0)
            TRY(d->ctx, diff_tensor(d, &a, &b, left, right));
        else
            diff_note(d, "tensor", NULL, order < 0 ? left->name : right->name,
                      order < 0 ? DIFF_REMOVED : DIFF_ADDED, NULL, "%" PRIu64 " byte%s",
                      order < 0 ? left->size_bytes : right->size_bytes,
                      TSR_PLURAL(((order < 0 ? left->size_bytes : right->size_bytes))));
        i += order <= 0;
        k += order >= 0;
    }
    return TSR_SUCCESS;
}
