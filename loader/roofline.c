/* SPDX-License-Identifier: Apache-2.0
 *
 * The performance of each kernel next to the limits of the machine. Floating-point operations are
 * those that the bundle's schedule counts for a kernel; the bytes are the sizes of its buffers.
 */
#include "loader/model.h"
#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "runtime/base/io/io.h"
#include "runtime/base/io/json.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct row {
    const char *kernel;
    tsr_kernel_times times;
    double flops; /* operations of all launches; negative: unknown */
    bool on_matrix_units;
} row;

typedef struct table {
    row *rows; /* owned */
    size_t count;
    tsr_limits limits;
} table;

static int by_time(const void *a, const void *b) {
    const row *x = a, *y = b;
    if (x->times.time_ns != y->times.time_ns) return x->times.time_ns > y->times.time_ns ? -1 : 1;
    return strcmp(x->kernel, y->kernel);
}

/* Collects the kernels that ran. */
static tsr_result collect(tsr_ctx *ctx, const tsr_model *model, table *t) {
    const tsr_kernel_times *times = tsr_executor_get_times(model->executor);
    const tsr_program *program = &model->program;
    if (!times)
        FAIL(ctx, TSR_USAGE,
             "the times of kernels are not known: the model was opened without a "
             "trace");
    t->rows = calloc((size_t)program->kernel_count + 1, sizeof *t->rows);
    if (!t->rows) FAIL(ctx, TSR_MEMORY, "no memory for %" PRIu32 " kernels", program->kernel_count);
    for (uint32_t i = 0; i < program->kernel_count; i++)
        if (times[i].launches)
            t->rows[t->count++] = (row){program->kernels[i], times[i], -1, false};
    return TSR_SUCCESS;
}

/* Returns true if a product runs on matrix units, which only native numerics do. */
static bool takes_matrix_units(const tsr_model *model, const struct cJSON *kind) {
    static const char *const kinds[] = {"matmul", "attention", "attention_grad"};
    bool found = false;
    for (size_t i = 0; i < TSR_COUNT(kinds) && cJSON_IsString(kind); i++)
        found = found || strcmp(kind->valuestring, kinds[i]) == 0;
    return found && tsr_config_numerics_native(model->config.numerics);
}

static void note_group(table *t, const tsr_model *model, const struct cJSON *group) {
    const struct cJSON *name = tsr_json_find(group, "name"), *flops = tsr_json_find(group, "flops");
    if (!cJSON_IsString(name) || !cJSON_IsNumber(flops) || !(flops->valuedouble >= 0)) return;
    for (size_t i = 0; i < t->count; i++) {
        if (strcmp(t->rows[i].kernel, name->valuestring) != 0) continue;
        t->rows[i].flops = flops->valuedouble * (double)t->rows[i].times.launches;
        t->rows[i].on_matrix_units = takes_matrix_units(model, tsr_json_find(group, "kind"));
    }
}

static tsr_result read_schedule(tsr_ctx *ctx, const tsr_model *model, table *t) {
    const tsr_json_options options = {.subject = "schedule", .code = TSR_CORRUPT};
    tsr_arena arena = {0};
    tsr_bundle_layer layer;
    tsr_result result = TSR_SUCCESS;
    struct cJSON *root = NULL;
    const struct cJSON *group = NULL;
    void *bytes = NULL;
    size_t size = 0;
    if (!tsr_bundle_find_layer(model->bundle, model->target, TSR_MEDIA_SCHEDULE, &layer))
        return TSR_SUCCESS;
    TRY_GOTO(ctx, result, tsr_bundle_read_layer(ctx, model->bundle, &layer, &arena, &bytes, &size));
    TRY_GOTO(ctx, result, tsr_json_parse(ctx, bytes, size, &options, &root));
    cJSON_ArrayForEach(group, tsr_json_find(root, "groups")) note_group(t, model, group);
done:
    tsr_json_destroy(root);
    tsr_arena_finish(&arena);
    return result;
}

/* ---- the file ---- */

/* Writes an empty cell for an unknown value. */
static void add_number(tsr_buffer *out, double value) {
    if (value >= 0)
        tsr_buffer_printf(out, ",%.9g", value);
    else
        tsr_buffer_text(out, ",");
}

static double known(double value) { return value > 0 ? value : -1; }

/* Writes the bound of the kernel, and the fraction of its time that it would need at that bound. */
static void add_bound(tsr_buffer *out, const tsr_limits *limits, const row *r, double seconds) {
    double memory = limits->bytes_per_s > 0 ? (double)r->times.bytes / limits->bytes_per_s : -1;
    double rate = r->on_matrix_units && limits->matrix_flops_per_s > 0 ? limits->matrix_flops_per_s
                                                                       : limits->flops_per_s;
    double compute = rate > 0 && r->flops >= 0 ? r->flops / rate : -1;
    bool by_memory = memory >= compute;
    double floor_s = by_memory ? memory : compute;
    tsr_buffer_printf(out, ",%s", floor_s < 0 ? "" : by_memory ? "memory" : "compute");
    add_number(out, floor_s < 0 || seconds <= 0 ? -1 : floor_s / seconds);
}

static void add_row(tsr_buffer *out, const tsr_limits *limits, const row *r) {
    double seconds = 1e-9 * (double)r->times.time_ns, bytes = (double)r->times.bytes;
    tsr_buffer_printf(out, "%s,%" PRIu64 ",%.9f,%" PRIu64, r->kernel, r->times.launches, seconds,
                      r->times.bytes);
    add_number(out, r->flops);
    add_number(out, r->flops >= 0 && bytes > 0 ? r->flops / bytes : -1);
    add_number(out, seconds > 0 ? 1e-9 * bytes / seconds : -1);
    add_number(out, r->flops >= 0 && seconds > 0 ? 1e-9 * r->flops / seconds : -1);
    add_bound(out, limits, r, seconds);
    tsr_buffer_text(out, "\n");
}

static void add_limits(tsr_buffer *out, const char *name, double bytes_per_s, double flops_per_s) {
    bool both = bytes_per_s > 0 && flops_per_s > 0;
    tsr_buffer_printf(out, "%s,,,,", name);
    add_number(out, both ? flops_per_s / bytes_per_s : -1);
    add_number(out, known(1e-9 * bytes_per_s));
    add_number(out, known(1e-9 * flops_per_s));
    tsr_buffer_text(out, ",,\n");
}

static void format(const table *t, tsr_buffer *out) {
    const tsr_limits *limits = &t->limits;
    tsr_buffer_text(out, "kernel,launches,seconds,bytes,flops,flops_per_byte,gb_per_s,gflop_per_s,"
                         "bound,of_bound\n");
    add_limits(out, "(machine)", limits->bytes_per_s, limits->flops_per_s);
    if (limits->matrix_flops_per_s > 0)
        add_limits(out, "(matrix units)", limits->bytes_per_s, limits->matrix_flops_per_s);
    for (size_t i = 0; i < t->count; i++) add_row(out, limits, &t->rows[i]);
}

tsr_result tsr_model_write_roofline(tsr_ctx *ctx, tsr_model *model, const char *path) {
    table t = {0};
    tsr_buffer out = {0};
    tsr_result result = TSR_SUCCESS;
    TRY_GOTO(ctx, result, collect(ctx, model, &t));
    TRY_GOTO(ctx, result, read_schedule(ctx, model, &t));
    TRY_GOTO(ctx, result, model->device->type->measure(ctx, model->device, &t.limits));
    qsort(t.rows, t.count, sizeof *t.rows, by_time);
    format(&t, &out);
    if (out.failed) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to write '%s'", path);
    TRY_GOTO(ctx, result, tsr_io_atomic_write(ctx, path, out.bytes, out.size_bytes));
done:
    tsr_buffer_finish(&out);
    free(t.rows);
    return result;
}
