/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs both bundles in a child process, which a candidate may kill or block. The child answers with
 * the samples of every pair: safe, then candidate.
 */
#include "tools/aot/tune/measure.h"

#include "compiler/process/child.h"
#include "loader/model.h"

#include <stdlib.h>
#include <string.h>

/* One bundle, open. */
typedef struct side {
    const char *path;
    tsr_model *model;
} side;

/* ---- inputs ---------------------------------------------------------------------------------- */

/* A generator of its own for each input, so that both bundles get the same values (Vigna,
 * "splitmix64"). */
static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Floats in [-1, 1); integers 0 or 1, which are valid indices of most tables. */
static void fill(const tsr_config_port *port, uint64_t number, void *memory) {
    uint64_t state = number, count = 0;
    if (!tsr_shape_count(&port->shape, &count)) return;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bits = next(&state);
        double value = tsr_dtype_is_float(port->dtype) ? (double)(int64_t)(bits >> 40) * 0x1p-23 - 1
                                                       : (double)(bits >> 63);
        tsr_dtype_write(port->dtype, value, memory, i);
    }
}

static void fill_inputs(const side *s) {
    const tsr_config *config = &s->model->config;
    for (size_t e = 0; e < config->entry_count; e++)
        for (size_t i = 0; i < config->entries[e].input_count; i++) {
            const tsr_config_port *port = &config->entries[e].inputs[i];
            if (!tsr_port_is_filled(port->source))
                fill(port, 1 + 1000 * e + i, tsr_executor_get_input(s->model->executor, e, i));
        }
}

/* ---- runs ------------------------------------------------------------------------------------ */

static tsr_result open_side(tsr_ctx *ctx, const tsr_tune_round *round, side *s) {
    const tsr_model_options options = {
        .size_bytes = sizeof options, .cpu = round->cpu, .threads = round->threads};
    TRY(ctx, tsr_model_open(ctx, s->path, &options, &s->model));
    TRY(ctx, tsr_model_initialize(ctx, s->model, 0));
    fill_inputs(s);
    return TSR_SUCCESS;
}

static tsr_result run(tsr_ctx *ctx, side *s, uint64_t step) {
    for (size_t e = 0; e < s->model->config.entry_count; e++)
        TRY(ctx, tsr_executor_run(ctx, s->model->executor, e, step));
    return TSR_SUCCESS;
}

static bool same(const void *a, const void *b, tsr_dtype dtype, const tsr_shape *shape) {
    uint64_t size_bytes = 0;
    return tsr_shape_size(shape, dtype, &size_bytes) && memcmp(a, b, size_bytes) == 0;
}

static tsr_result compare(tsr_ctx *ctx, const side *safe, const side *candidate) {
    const tsr_config *config = &safe->model->config;
    tsr_executor *a = safe->model->executor, *b = candidate->model->executor;
    TRY(ctx, tsr_executor_fetch(ctx, a));
    TRY(ctx, tsr_executor_fetch(ctx, b));
    for (size_t e = 0; e < config->entry_count; e++)
        for (size_t i = 0; i < config->entries[e].output_count; i++) {
            const tsr_config_port *port = &config->entries[e].outputs[i];
            if (!same(tsr_executor_get_output(a, e, i), tsr_executor_get_output(b, e, i),
                      port->dtype, &port->shape))
                FAIL(ctx, TSR_MISMATCH, "output '%s' of '%s' differs from the safe plan's",
                     port->name, config->entries[e].name);
        }
    for (size_t t = 0; t < config->tensor_count; t++)
        if (!same(tsr_executor_get_tensor(a, t), tsr_executor_get_tensor(b, t),
                  config->tensors[t].dtype, &config->tensors[t].shape))
            FAIL(ctx, TSR_MISMATCH, "tensor '%s' differs from the safe plan's",
                 config->tensors[t].name);
    return TSR_SUCCESS;
}

/* Time of all launches of the pair's kernels until now. */
static double time_of(const side *s, const tsr_tune_pair *pair) {
    const tsr_kernel_times *times = tsr_executor_get_times(s->model->executor);
    const tsr_program *program = &s->model->program;
    uint64_t time_ns = 0;
    for (size_t i = 0; i < pair->name_count; i++)
        for (uint32_t k = 0; k < program->kernel_count; k++)
            if (strcmp(program->kernels[k], pair->names[i]) == 0) time_ns += times[k].time_ns;
    return (double)time_ns;
}

static tsr_result sample(tsr_ctx *ctx, const tsr_tune_round *round, side *s, uint32_t number,
                         bool is_candidate) {
    for (size_t i = 0; i < round->pair_count; i++) {
        const tsr_tune_pair *pair = &round->pairs[i];
        (is_candidate ? pair->candidate_ns : pair->safe_ns)[number] = -time_of(s, pair);
    }
    TRY(ctx, run(ctx, s, 2 + TSR_TUNE_WARM_UPS + number));
    for (size_t i = 0; i < round->pair_count; i++) {
        const tsr_tune_pair *pair = &round->pairs[i];
        (is_candidate ? pair->candidate_ns : pair->safe_ns)[number] += time_of(s, pair);
    }
    return TSR_SUCCESS;
}

static tsr_result run_both(tsr_ctx *ctx, const tsr_tune_round *round, side *safe, side *candidate,
                           char note[static TSR_CHILD_NOTE_MAX]) {
    strcpy(note, "the first run");
    TRY(ctx, run(ctx, safe, 1));
    TRY(ctx, run(ctx, candidate, 1));
    TRY(ctx, compare(ctx, safe, candidate));
    strcpy(note, "later runs");
    for (uint64_t i = 0; i < TSR_TUNE_WARM_UPS; i++) {
        TRY(ctx, run(ctx, safe, 2 + i));
        TRY(ctx, run(ctx, candidate, 2 + i));
    }
    for (uint32_t i = 0; i < round->samples; i++) {
        bool first = i % 2; /* which side is first changes each time */
        TRY(ctx, sample(ctx, round, first ? candidate : safe, i, first));
        TRY(ctx, sample(ctx, round, first ? safe : candidate, i, !first));
    }
    return TSR_SUCCESS;
}

/* ---- the child ------------------------------------------------------------------------------- */

static tsr_result in_child(tsr_ctx *ctx, void *user, char note[static TSR_CHILD_NOTE_MAX],
                           tsr_buffer *out) {
    const tsr_tune_round *round = user;
    const tsr_trace_options options = {.size_bytes = sizeof options, .events_max = 1};
    side safe = {.path = round->safe}, candidate = {.path = round->candidate};
    strcpy(note, "opening the bundles");
    TRY(ctx, tsr_trace_create(ctx, &options, &ctx->trace)); /* kernels are timed for a trace */
    TRY(ctx, open_side(ctx, round, &safe));
    TRY(ctx, open_side(ctx, round, &candidate));
    TRY(ctx, run_both(ctx, round, &safe, &candidate, note));
    for (size_t i = 0; i < round->pair_count; i++) {
        tsr_buffer_append(out, round->pairs[i].safe_ns, round->samples * sizeof(double));
        tsr_buffer_append(out, round->pairs[i].candidate_ns, round->samples * sizeof(double));
    }
    return TSR_SUCCESS;
}

static tsr_result measure(tsr_ctx *ctx, const tsr_tune_round *round) {
    const tsr_child_options options = {.what = "the measurement of a candidate",
                                       .timeout_ns = round->timeout_ns};
    size_t size_bytes = 0, samples_bytes = round->samples * sizeof(double);
    tsr_arena arena = {0};
    void *bytes = NULL;
    tsr_result result = tsr_child_run(ctx, &options, in_child, (void *)(uintptr_t)round, &arena,
                                      &bytes, &size_bytes);
    if (!result.code && size_bytes != 2 * samples_bytes * round->pair_count)
        result = tsr_fail_(ctx, TSR_INTERNAL, 0, __FILE__, __LINE__,
                           "the measurement of a candidate gave %zu bytes; expected %zu",
                           size_bytes, 2 * samples_bytes * round->pair_count);
    for (size_t i = 0; i < round->pair_count && !result.code; i++) {
        const char *at = (const char *)bytes + 2 * i * samples_bytes;
        memcpy(round->pairs[i].safe_ns, at, samples_bytes);
        memcpy(round->pairs[i].candidate_ns, at + samples_bytes, samples_bytes);
    }
    tsr_arena_finish(&arena);
    return result;
}

const tsr_tune_device tsr_tune_cpu = {.name = "cpu", .runs = true, .measure = measure};
