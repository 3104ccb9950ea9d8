/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs both bundles in a child process, which a candidate may kill or block. The child answers with
 * the samples of every pair: safe, then candidate.
 */
#include "tools/aot/tune/measure.h"

#include "compiler/process/child.h"
#include "loader/trial.h"

#include <stdlib.h>
#include <string.h>

/* Time of all launches of the pair's kernels until now. */
static double time_of(const tsr_model *model, const tsr_tune_pair *pair) {
    uint64_t time_ns = 0;
    for (size_t i = 0; i < pair->name_count; i++)
        time_ns += tsr_trial_get_time_ns(model, pair->names[i]);
    return (double)time_ns;
}

static tsr_result sample(tsr_ctx *ctx, const tsr_tune_round *round, tsr_model *model,
                         uint32_t number, bool is_candidate) {
    for (size_t i = 0; i < round->pair_count; i++) {
        const tsr_tune_pair *pair = &round->pairs[i];
        (is_candidate ? pair->candidate_ns : pair->safe_ns)[number] = -time_of(model, pair);
    }
    TRY(ctx, tsr_trial_run(ctx, model, 2 + TSR_TUNE_WARM_UPS + number));
    for (size_t i = 0; i < round->pair_count; i++) {
        const tsr_tune_pair *pair = &round->pairs[i];
        (is_candidate ? pair->candidate_ns : pair->safe_ns)[number] += time_of(model, pair);
    }
    return TSR_SUCCESS;
}

static tsr_result run_both(tsr_ctx *ctx, const tsr_tune_round *round, tsr_model *safe,
                           tsr_model *candidate, char note[static TSR_CHILD_NOTE_MAX]) {
    strcpy(note, "the first run");
    TRY(ctx, tsr_trial_run(ctx, safe, 1));
    TRY(ctx, tsr_trial_run(ctx, candidate, 1));
    TRY(ctx, tsr_trial_compare(ctx, safe, candidate));
    strcpy(note, "later runs");
    for (uint64_t i = 0; i < TSR_TUNE_WARM_UPS; i++) {
        TRY(ctx, tsr_trial_run(ctx, safe, 2 + i));
        TRY(ctx, tsr_trial_run(ctx, candidate, 2 + i));
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
    const tsr_model_options opening = {
        .size_bytes = sizeof opening, .cpu = round->cpu, .threads = round->threads};
    tsr_model *safe = NULL, *candidate = NULL;
    strcpy(note, "opening the bundles");
    TRY(ctx, tsr_trace_create(ctx, &options, &ctx->trace)); /* kernels are timed for a trace */
    TRY(ctx, tsr_trial_open(ctx, round->safe, &opening, &safe));
    TRY(ctx, tsr_trial_open(ctx, round->candidate, &opening, &candidate));
    TRY(ctx, run_both(ctx, round, safe, candidate, note));
    for (size_t i = 0; i < round->pair_count; i++) {
        tsr_buffer_append(out, round->pairs[i].safe_ns, round->samples * sizeof(double));
        tsr_buffer_append(out, round->pairs[i].candidate_ns, round->samples * sizeof(double));
    }
    return TSR_SUCCESS;
}

static tsr_result measure(tsr_ctx *ctx, const tsr_tune_round *round) {
    const tsr_child_options options = {.what = "the measurement of two bundles",
                                       .timeout_ns = round->timeout_ns};
    size_t size_bytes = 0, samples_bytes = round->samples * sizeof(double);
    tsr_arena arena = {0};
    void *bytes = NULL;
    tsr_result result = tsr_child_run(ctx, &options, in_child, (void *)(uintptr_t)round, &arena,
                                      &bytes, &size_bytes);
    if (!result.code && size_bytes != 2 * samples_bytes * round->pair_count)
        result = tsr_fail_(ctx, TSR_INTERNAL, 0, __FILE__, __LINE__,
                           "the measurement of two bundles gave %zu bytes; expected %zu",
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
