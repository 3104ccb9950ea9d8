/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/aot/tune/search.h"

#include "runtime/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Candidates within this ratio of the best one count as equal: the smaller sizes are chosen, so
 * that small changes of the times choose the same plan. */
static const double NEAR = 1.02;

static bool is_over(const tsr_tune_search *s, uint64_t began_ns) {
    return *s->stop || (s->budget_ns && tsr_clock_ns() - began_ns > s->budget_ns);
}

static tsr_measured plan_of(const tsr_tune_search *s, const tsr_tune_kernel *kernel,
                            const int64_t *sizes) {
    tsr_measured plan = {
        .target = s->target, .signature = kernel->signature, .count = kernel->size_count};
    memcpy(plan.sizes, sizes, sizeof plan.sizes);
    return plan;
}

/* ---- the trace ------------------------------------------------------------------------------- */

static void add_event(tsr_tune_search *s, const tsr_tune_kernel *kernel,
                      const tsr_tune_candidate *candidate, uint64_t began_ns, bool confirms) {
    tsr_buffer *out = s->trace;
    const tsr_tune_verdict *v = &candidate->verdict;
    if (!out) return;
    tsr_buffer_text(out, out->size_bytes ? ",\n{\"name\":" : "{\"name\":");
    tsr_buffer_json_string(out, kernel->names[0]);
    tsr_buffer_printf(out,
                      ",\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":%.3f,\"dur\":%.3f,\"args\":{"
                      "\"trial\":%" PRIu64 ",\"confirms\":%s,\"sizes\":[",
                      1e-3 * (double)began_ns, 1e-3 * (double)(tsr_clock_ns() - began_ns),
                      s->trials, confirms ? "true" : "false");
    for (size_t i = 0; i < kernel->size_count; i++)
        tsr_buffer_printf(out, "%s%" PRId64, i ? "," : "", candidate->sizes[i]);
    tsr_buffer_text(out, "],");
    if (candidate->fault) {
        tsr_buffer_text(out, "\"fault\":");
        tsr_buffer_json_string(out, candidate->fault);
    } else {
        tsr_buffer_printf(out, "\"safe_ns\":%.0f,\"measured_ns\":%.0f,\"accepted\":%s", v->safe_ns,
                          v->candidate_ns, v->accepted ? "true" : "false");
    }
    tsr_buffer_text(out, "}}");
}

/* ---- one measurement ------------------------------------------------------------------------- */

typedef struct trial {
    tsr_tune_kernel *kernel;
    tsr_tune_candidate *candidate;
} trial;

static tsr_result make_pairs(tsr_ctx *ctx, tsr_tune_search *s, const trial *trials, size_t count,
                             uint32_t samples, tsr_arena *arena, tsr_tune_pair **out_pairs,
                             tsr_measured **out_plans) {
    tsr_tune_pair *pairs = TSR_NEW(arena, tsr_tune_pair, count);
    tsr_measured *plans = TSR_NEW(arena, tsr_measured, count);
    double *times = TSR_NEW(arena, double, 2 * count * samples);
    if (!pairs || !plans || !times) FAIL(ctx, TSR_MEMORY, "no memory for %zu trials", count);
    for (size_t i = 0; i < count; i++) {
        const tsr_tune_kernel *kernel = trials[i].kernel;
        plans[i] = plan_of(s, kernel, trials[i].candidate->sizes);
        pairs[i] = (tsr_tune_pair){.signature = kernel->signature,
                                   .names = kernel->names,
                                   .name_count = kernel->name_count,
                                   .size_count = kernel->size_count,
                                   .safe_sizes = kernel->safe,
                                   .candidate_sizes = trials[i].candidate->sizes,
                                   .safe_ns = times + 2 * i * samples,
                                   .candidate_ns = times + (2 * i + 1) * samples};
    }
    *out_pairs = pairs;
    *out_plans = plans;
    return TSR_SUCCESS;
}

static tsr_result measure_together(tsr_ctx *ctx, tsr_tune_search *s, const trial *trials,
                                   size_t count, uint32_t samples, uint32_t number) {
    tsr_arena arena = {0};
    tsr_measured *plans = NULL;
    tsr_tune_round round = {.safe = s->safe_path,
                            .candidate = s->trial_path,
                            .cpu = strchr(s->target, ':') + 1,
                            .threads = s->threads,
                            .samples = samples,
                            .round = number,
                            .timeout_ns = s->timeout_ns,
                            .pair_count = count,
                            .seed = s->seed};
    tsr_result result = make_pairs(ctx, s, trials, count, samples, &arena, &round.pairs, &plans);
    if (!result.code && s->device->runs)
        result = s->build(ctx, s->user, plans, count, s->trial_path);
    if (!result.code) result = s->device->measure(ctx, &round);
    for (size_t i = 0; i < count && !result.code; i++) {
        trials[i].candidate->verdict =
            tsr_tune_decide(round.pairs[i].safe_ns, round.pairs[i].candidate_ns, samples);
        trials[i].candidate->is_measured = true;
    }
    tsr_arena_finish(&arena);
    return result;
}

/* A candidate that fails is a fault of the compiler: it is reported, and never chosen. */
static void note_fault(tsr_ctx *ctx, tsr_tune_search *s, const trial *t, const char *text) {
    t->candidate->fault = tsr_arena_strdup(s->arena, text);
    if (!t->candidate->fault) t->candidate->fault = "it cannot be used";
    s->faults++;
    tsr_log(ctx, TSR_LOG_WARNING, "a candidate of kernel '%s' is a fault of the compiler: %s",
            t->kernel->names[0], text);
}

/* True for failures that sizes can cause, if the safe plan ran. */
static bool is_fault(tsr_code code) {
    return code == TSR_MISMATCH || code == TSR_INTERNAL || code == TSR_COMPILE;
}

/* Measures the candidates together; if that fails, each alone, to find the faulty one. */
static tsr_result measure(tsr_ctx *ctx, tsr_tune_search *s, const trial *trials, size_t count,
                          uint32_t samples, uint32_t number, bool confirms) {
    uint64_t began_ns = tsr_clock_ns();
    tsr_ctx inner = tsr_ctx_fork(ctx);
    tsr_result result = measure_together(&inner, s, trials, count, samples, number);
    if (*s->stop && result.code) return TSR_SUCCESS; /* the signal ended the child, too */
    for (size_t i = 0; i < count && result.code && count > 1; i++)
        TRY(ctx, measure(ctx, s, &trials[i], 1, samples, number, confirms));
    if (result.code && count > 1) return TSR_SUCCESS;
    if (result.code && !is_fault(result.code)) FAIL(ctx, result.code, "%s", inner.error.text);
    if (result.code) note_fault(ctx, s, &trials[0], inner.error.text);
    for (size_t i = 0; i < count; i++) {
        s->trials += !confirms;
        add_event(s, trials[i].kernel, trials[i].candidate, began_ns, confirms);
    }
    return TSR_SUCCESS;
}

/* ---- the search ------------------------------------------------------------------------------ */

static void print_progress(const tsr_tune_search *s, size_t round, size_t rounds,
                           uint64_t began_ns) {
    double seconds = 1e-9 * (double)(tsr_clock_ns() - began_ns), best = 1;
    const char *name = NULL;
    for (size_t i = 0; i < s->kernel_count; i++)
        for (size_t k = 0; k < s->kernels[i].candidate_count; k++) {
            const tsr_tune_candidate *c = &s->kernels[i].candidates[k];
            if (!c->is_measured || !c->verdict.accepted || c->verdict.gain <= best) continue;
            best = c->verdict.gain;
            name = s->kernels[i].names[0];
        }
    fprintf(stderr,
            "tune: round %zu of %zu, %" PRIu64 " trials, best %.2fx%s%s, %.0f s, at most "
            "%.0f s left\n",
            round, rounds, s->trials, best, name ? " " : "", name ? name : "", seconds,
            seconds / (double)round * (double)(rounds - round));
}

static int compare_sizes(const tsr_tune_candidate *a, const tsr_tune_candidate *b) {
    for (size_t i = 0; i < TSR_MEASURED_SIZES_MAX; i++)
        if (a->sizes[i] != b->sizes[i]) return a->sizes[i] < b->sizes[i] ? -1 : 1;
    return 0;
}

static bool can_win(const tsr_tune_candidate *c) {
    return c->is_measured && !c->fault && c->verdict.accepted;
}

static tsr_tune_candidate *choose(const tsr_tune_kernel *kernel) {
    tsr_tune_candidate *winner = NULL;
    double best = 0;
    for (size_t i = 0; i < kernel->candidate_count; i++) {
        const tsr_tune_candidate *c = &kernel->candidates[i];
        if (can_win(c) && c->verdict.gain > best) best = c->verdict.gain;
    }
    for (size_t i = 0; i < kernel->candidate_count; i++) {
        tsr_tune_candidate *c = &kernel->candidates[i];
        if (can_win(c) && c->verdict.gain * NEAR >= best &&
            (!winner || compare_sizes(c, winner) < 0))
            winner = c;
    }
    return winner;
}

static tsr_result confirm(tsr_ctx *ctx, tsr_tune_search *s, trial *trials) {
    size_t count = 0;
    for (size_t i = 0; i < s->kernel_count; i++) {
        tsr_tune_kernel *kernel = &s->kernels[i];
        tsr_tune_candidate *winner = kernel->is_known ? NULL : choose(kernel);
        kernel->winner = winner;
        if (!winner) continue;
        winner->is_measured = false; /* until it wins again */
        trials[count++] = (trial){kernel, winner};
    }
    if (count) TRY(ctx, measure(ctx, s, trials, count, TSR_TUNE_CONFIRMS, UINT32_MAX, true));
    for (size_t i = 0; i < count; i++)
        if (!can_win(trials[i].candidate)) trials[i].kernel->winner = NULL;
    return TSR_SUCCESS;
}

/* Kernels that keep the safe sizes get the time of their best candidate's baseline. */
static void set_plan(const tsr_tune_search *s, tsr_tune_kernel *kernel) {
    const tsr_tune_candidate *winner = kernel->winner;
    if (kernel->is_known) return;
    kernel->plan = plan_of(s, kernel, winner ? winner->sizes : kernel->safe);
    for (size_t i = 0; i < kernel->candidate_count && !winner; i++)
        if (kernel->candidates[i].is_measured) {
            kernel->plan.safe_ns = (uint64_t)kernel->candidates[i].verdict.safe_ns;
            kernel->plan.measured_ns = kernel->plan.safe_ns;
        }
    if (!winner) return;
    kernel->plan.safe_ns = (uint64_t)winner->verdict.safe_ns;
    kernel->plan.measured_ns = (uint64_t)winner->verdict.candidate_ns;
}

/* Runs the safe plan against itself: what fails here is not the fault of a candidate. */
static tsr_result try_safe(tsr_ctx *ctx, const tsr_tune_search *s) {
    const tsr_tune_round round = {.safe = s->safe_path,
                                  .candidate = s->safe_path,
                                  .cpu = strchr(s->target, ':') + 1,
                                  .threads = s->threads,
                                  .timeout_ns = s->timeout_ns};
    return s->device->measure(ctx, &round);
}

static size_t list_trials(const tsr_tune_search *s, size_t round, trial *out_trials) {
    size_t count = 0;
    for (size_t i = 0; i < s->kernel_count; i++) {
        tsr_tune_kernel *kernel = &s->kernels[i];
        if (!kernel->is_known && round < kernel->candidate_count)
            out_trials[count++] = (trial){kernel, &kernel->candidates[round]};
    }
    return count;
}

tsr_result tsr_tune_run(tsr_ctx *ctx, tsr_tune_search *s) {
    uint64_t began_ns = tsr_clock_ns();
    size_t rounds = 0, done = 0;
    trial *trials = TSR_NEW(s->arena, trial, s->kernel_count + 1);
    if (!trials) FAIL(ctx, TSR_MEMORY, "no memory for %zu kernels", s->kernel_count);
    for (size_t i = 0; i < s->kernel_count; i++)
        if (!s->kernels[i].is_known && s->kernels[i].candidate_count > rounds)
            rounds = s->kernels[i].candidate_count;
    if (rounds) TRY(ctx, try_safe(ctx, s));
    for (; done < rounds && !is_over(s, began_ns); done++) {
        size_t count = list_trials(s, done, trials);
        TRY(ctx, measure(ctx, s, trials, count, TSR_TUNE_SAMPLES, (uint32_t)done, false));
        print_progress(s, done + 1, rounds, began_ns);
    }
    s->is_complete = done == rounds && !*s->stop;
    TRY(ctx, confirm(ctx, s, trials));
    for (size_t i = 0; i < s->kernel_count; i++) set_plan(s, &s->kernels[i]);
    return TSR_SUCCESS;
}
