/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/schedule/schedule.h"

#include "compiler/ir/attributes.h"
#include "compiler/schedule/tiling.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

tsr_result tsr_schedule_lower(tsr_ctx *ctx, MlirModule module, tsr_diag_list *list) {
    TRY(ctx, tsr_mlir_run_pass(ctx, module, list, "tsched-fuse"));
    return TSR_SUCCESS;
}

static void json_string(tsr_buffer *out, const char *key, const char *text) {
    tsr_buffer_printf(out, ",\"%s\":", key);
    tsr_buffer_json_string(out, text ? text : "");
}

static void json_types(tsr_buffer *out, const char *key, MlirOperation op, bool results) {
    char text[TSR_TYPE_TEXT_MAX];
    size_t count = results ? tsr_op_result_count(op) : tsr_op_operand_count(op);
    tsr_buffer_printf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < count; i++) {
        tsr_type type;
        bool known = tsr_value_type(results ? tsr_op_result(op, i) : tsr_op_operand(op, i), &type);
        TSR_ASSERT(known);
        tsr_buffer_printf(out, "%s\"%s\"", i ? "," : "", tsr_type_text(&type, text));
    }
    tsr_buffer_text(out, "]");
}

static void json_group(MlirOperation func, tsr_buffer *out) {
    int64_t flops = 0, bytes = 0, tile[8];
    size_t tile_count = 0, ops = 0;
    MlirBlock block = tsr_op_body(func);
    tsr_op_i64(func, "flops", &flops);
    tsr_op_i64(func, "bytes", &bytes);
    tsr_buffer_text(out, "{\"name\":");
    tsr_buffer_json_string(out, tsr_op_symbol(func));
    json_string(out, "kind", tsr_op_string(func, "kind"));
    json_string(out, "source", tsr_op_string(func, "source"));
    tsr_buffer_printf(out, ",\"flops\":%" PRId64 ",\"bytes\":%" PRId64, flops, bytes);
    if (tsr_op_i64s(func, "tile", 8, tile, &tile_count)) {
        tsr_buffer_text(out, ",\"tile\":[");
        for (size_t i = 0; i < tile_count; i++)
            tsr_buffer_printf(out, "%s%" PRId64, i ? "," : "", tile[i]);
        tsr_buffer_text(out, "]");
    }
    tsr_buffer_text(out, ",\"ops\":[");
    TSR_FOR_EACH_OP(op, block) {
        if (tsr_op_is(op, TSR_SCHED_RETURN)) continue;
        tsr_buffer_printf(out, "%s\"%s\"", ops++ ? "," : "", tsr_op_name(op));
    }
    tsr_buffer_text(out, "]}");
}

static void json_entry(MlirOperation func, tsr_buffer *out) {
    size_t calls = 0;
    tsr_buffer_text(out, "{\"name\":");
    tsr_buffer_json_string(out, tsr_op_symbol(func));
    tsr_buffer_text(out, ",\"calls\":[");
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        if (!tsr_op_is(op, TSR_SCHED_CALL)) continue;
        tsr_buffer_text(out, calls++ ? ",{\"group\":" : "{\"group\":");
        tsr_buffer_json_string(out, tsr_op_string(op, "callee"));
        json_types(out, "inputs", op, false);
        json_types(out, "outputs", op, true);
        tsr_buffer_text(out, "}");
    }
    tsr_buffer_text(out, "]}");
}

static const char *target_of(MlirModule planned) {
    return tsr_op_string(mlirModuleGetOperation(planned), TSR_TARGET_NAME);
}

static int by_target(const void *a, const void *b) {
    return strcmp(target_of(*(const MlirModule *)a), target_of(*(const MlirModule *)b));
}

static void json_target(MlirModule planned, tsr_buffer *out) {
    size_t count = 0;
    tsr_buffer_text(out, "{\"name\":");
    tsr_buffer_json_string(out, target_of(planned));
    tsr_buffer_text(out, ",\"kernels\":[");
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(planned)) {
        if (!tsr_op_is(op, TSR_SCHED_TILE)) continue;
        if (count++) tsr_buffer_text(out, ",");
        tsr_tiling_json(op, out);
    }
    tsr_buffer_text(out, "]}");
}

void tsr_schedule_json(MlirModule module, MlirModule *planned, size_t planned_count,
                       tsr_buffer *out) {
    size_t count = 0;
    tsr_buffer_text(out, "{\"formatVersion\":1,\"entries\":[");
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (!tsr_op_is(op, TSR_FUNC_FUNC)) continue;
        if (count++) tsr_buffer_text(out, ",");
        json_entry(op, out);
    }
    count = 0;
    tsr_buffer_text(out, "],\"groups\":[");
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (!tsr_op_is(op, TSR_SCHED_FUNC)) continue;
        if (count++) tsr_buffer_text(out, ",");
        json_group(op, out);
    }
    tsr_buffer_text(out, "]");
    if (planned_count) qsort(planned, planned_count, sizeof *planned, by_target);
    for (size_t i = 0; i < planned_count; i++) {
        tsr_buffer_text(out, i ? "," : ",\"targets\":[");
        json_target(planned[i], out);
    }
    tsr_buffer_text(out, planned_count ? "]}\n" : "}\n");
}
