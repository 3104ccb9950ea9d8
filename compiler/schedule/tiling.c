/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/schedule/tiling.h"

#include "runtime/base/array.h"

#include <inttypes.h>
#include <string.h>

const char *const tsr_tiling_sources[] = {[TSR_TILING_SAFE] = "safe",
                                          [TSR_TILING_MODEL] = "model",
                                          [TSR_TILING_AUTOTUNE] = "autotune",
                                          [TSR_TILING_USER] = "user",
                                          [TSR_TILING_SOURCE_COUNT] = NULL};

typedef struct kind_row {
    const char *name;
    const char *sizes[TSR_TILE_SIZES_MAX + 1]; /* ends with NULL */
} kind_row;

static const kind_row kinds[] = {
    [TSR_TILING_NONE] = {"none", {NULL}},
#define X(ID, kind, ...) [TSR_TILING_##ID] = {kind, {__VA_ARGS__, NULL}},
#include "compiler/schedule/tilings.def"
#undef X
};
static_assert(TSR_COUNT(kinds) == TSR_TILING_COUNT, "one row per kind");

const char *tsr_tiling_name(tsr_tiling_kind kind) { return kinds[kind].name; }

size_t tsr_tiling_count(tsr_tiling_kind kind) {
    size_t count = 0;
    while (kinds[kind].sizes[count]) count++;
    return count;
}

const char *tsr_tiling_size_name(tsr_tiling_kind kind, size_t index) {
    TSR_ASSERT(index < tsr_tiling_count(kind));
    return kinds[kind].sizes[index];
}

void tsr_tiling_add(tsr_tiling *tiling, const int64_t *sizes) {
    size_t bytes = tsr_tiling_count(tiling->kind) * sizeof *sizes;
    for (size_t i = 0; i < tiling->candidate_count; i++)
        if (memcmp(tiling->candidates[i], sizes, bytes) == 0) return;
    if (tiling->candidate_count == TSR_TILE_CANDIDATES_MAX) return;
    memcpy(tiling->candidates[tiling->candidate_count++], sizes, bytes);
}

void tsr_tiling_choose(tsr_tiling *tiling, const int64_t *sizes, tsr_tiling_source source) {
    memcpy(tiling->sizes, sizes, sizeof tiling->sizes);
    tiling->source = source;
    if (tiling->candidate_count == TSR_TILE_CANDIDATES_MAX) tiling->candidate_count--;
    tsr_tiling_add(tiling, sizes);
}

tsr_tiling_source tsr_tiling_source_of(MlirOperation op) {
    const char *word = tsr_op_string(op, "source");
    for (int i = 0; word && i < TSR_TILING_SOURCE_COUNT; i++)
        if (strcmp(tsr_tiling_sources[i], word) == 0) return (tsr_tiling_source)i;
    return TSR_TILING_USER;
}

void tsr_tiling_write(const tsr_tiling *tiling, MlirOperation group) {
    MlirContext context = mlirOperationGetContext(group);
    size_t count = tsr_tiling_count(tiling->kind);
    MlirAttribute names[TSR_TILE_SIZES_MAX], candidates[TSR_TILE_CANDIDATES_MAX];
    for (size_t i = 0; i < count; i++)
        names[i] = tsr_attr_make_string(context, tsr_tiling_size_name(tiling->kind, i));
    for (size_t i = 0; i < tiling->candidate_count; i++)
        candidates[i] = tsr_attr_make_i64s(context, count, tiling->candidates[i]);
    const tsr_attr attrs[] = {
        {"kernel", tsr_attr_make_symbol(context, tsr_op_symbol(group))},
        {"candidates", mlirArrayAttrGet(context, (intptr_t)tiling->candidate_count, candidates)},
        {"chosen", tsr_attr_make_i64s(context, count, tiling->sizes)},
        {"loops", mlirArrayAttrGet(context, (intptr_t)count, names)},
        {"kind", tsr_attr_make_string(context, tsr_tiling_name(tiling->kind))},
        {"source", tsr_attr_make_string(context, tsr_tiling_sources[tiling->source])}};
    tsr_builder at = tsr_builder_before(group);
    MlirOperation tile = tsr_build(
        &at, &(tsr_op_desc){.name = "tsched.tile", .attr_count = TSR_COUNT(attrs), .attrs = attrs});
    if (tiling->signature)
        tsr_op_set(tile, "signature", tsr_attr_make_string(context, tiling->signature));
    if (!tiling->measured_ns) return;
    tsr_op_set(tile, "safe_ns", tsr_attr_make_i64(context, (int64_t)tiling->safe_ns));
    tsr_op_set(tile, "measured_ns", tsr_attr_make_i64(context, (int64_t)tiling->measured_ns));
}

bool tsr_tiling_read(MlirOperation tile, int64_t *sizes, size_t *out_count) {
    return tsr_op_i64s(tile, "chosen", TSR_TILE_SIZES_MAX, sizes, out_count);
}

tsr_tiling_kind tsr_tiling_kind_of(MlirOperation tile) {
    const char *name = tsr_op_string(tile, "kind");
    for (int i = 0; name && i < TSR_TILING_COUNT; i++)
        if (strcmp(kinds[i].name, name) == 0) return (tsr_tiling_kind)i;
    return TSR_TILING_NONE;
}

const char *tsr_tiling_kernel(MlirOperation tile) { return tsr_op_string(tile, "kernel"); }

/* ---- as JSON --------------------------------------------------------------------------------- */

static void json_sizes(MlirAttribute sizes, tsr_buffer *out) {
    tsr_buffer_text(out, "[");
    for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(sizes); i++) {
        int64_t size = 0;
        tsr_attr_i64(mlirArrayAttrGetElement(sizes, i), &size);
        tsr_buffer_printf(out, "%s%" PRId64, i ? "," : "", size);
    }
    tsr_buffer_text(out, "]");
}

static void json_text(MlirOperation tile, const char *name, tsr_buffer *out) {
    const char *text = tsr_op_string(tile, name);
    tsr_buffer_json_string(out, text ? text : "");
}

void tsr_tiling_json(MlirOperation tile, tsr_buffer *out) {
    MlirAttribute candidates = tsr_op_attr(tile, "candidates"), loops = tsr_op_attr(tile, "loops");
    tsr_buffer_text(out, "{\"kernel\":");
    tsr_buffer_json_string(out, tsr_tiling_kernel(tile));
    tsr_buffer_text(out, ",\"kind\":");
    json_text(tile, "kind", out);
    tsr_buffer_text(out, ",\"source\":");
    json_text(tile, "source", out);
    tsr_buffer_text(out, ",\"sizes\":[");
    for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(loops); i++) {
        if (i) tsr_buffer_text(out, ",");
        tsr_buffer_json_string(out, tsr_attr_string(mlirArrayAttrGetElement(loops, i)));
    }
    tsr_buffer_text(out, "],\"chosen\":");
    json_sizes(tsr_op_attr(tile, "chosen"), out);
    tsr_buffer_text(out, ",\"candidates\":[");
    for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(candidates); i++) {
        if (i) tsr_buffer_text(out, ",");
        json_sizes(mlirArrayAttrGetElement(candidates, i), out);
    }
    tsr_buffer_text(out, "]");
    if (tsr_op_string(tile, "signature")) {
        tsr_buffer_text(out, ",\"signature\":");
        json_text(tile, "signature", out);
    }
    static const char *const times[] = {"model_ns", "safe_ns", "measured_ns"};
    for (size_t i = 0; i < TSR_COUNT(times); i++) {
        int64_t time = 0;
        if (tsr_op_i64(tile, times[i], &time))
            tsr_buffer_printf(out, ",\"%s\":%" PRId64, times[i], time);
    }
    tsr_buffer_text(out, "}");
}
