/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules of pipelines, run step by step: every step waits for its inputs, a rank does one thing
 * at a time, and all steps have equal length. The results are compared with the closed forms.
 */
#include "compiler/ir/pipeline.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

typedef struct run {
    uint32_t live_most; /* activations on one rank */
    uint32_t end;       /* end of the whole run, in steps */
} run;

/* The end time of the step of (direction, microbatch, stage); 0 if it has not ended. */
static uint32_t *ended(uint32_t *times, const tsr_wavefront *p, bool backward, uint32_t microbatch,
                       uint32_t stage) {
    uint32_t stages = p->ranks * p->chunks;
    return &times[((backward ? p->microbatches : 0) + microbatch) * stages + stage];
}

/* The earliest begin, or UINT32_MAX if a step that it reads has not ended. */
static uint32_t ready(uint32_t *times, const tsr_wavefront *p, tsr_wavefront_step step,
                      uint32_t stage) {
    uint32_t last = p->ranks * p->chunks - 1, first, second = 1;
    if (!step.backward && stage == 0) return 0;
    if (!step.backward)
        first = *ended(times, p, false, step.microbatch, stage - 1);
    else {
        first = *ended(times, p, false, step.microbatch, stage);
        if (stage < last) second = *ended(times, p, true, step.microbatch, stage + 1);
    }
    if (!first || !second) return UINT32_MAX;
    return first > second ? first : second;
}

static void simulate(const tsr_wavefront *p, run *runs) {
    uint32_t stages = p->ranks * p->chunks, steps = tsr_wavefront_step_count(p), done = 0;
    uint32_t *times = calloc((size_t)2 * p->microbatches * stages, sizeof *times);
    uint32_t *at = calloc(p->ranks, sizeof *at), *free_at = calloc(p->ranks, sizeof *free_at);
    uint32_t *live = calloc(p->ranks, sizeof *live);
    memset(runs, 0, p->ranks * sizeof *runs);
    while (done < steps * p->ranks) {
        uint32_t before = done;
        for (uint32_t r = 0; r < p->ranks; r++) {
            if (at[r] == steps) continue;
            tsr_wavefront_step step = tsr_wavefront_step_at(p, r, at[r]);
            cr_assert_lt(step.microbatch, p->microbatches);
            cr_assert_lt(step.chunk, p->chunks);
            uint32_t stage = step.chunk * p->ranks + r, begin = ready(times, p, step, stage);
            if (begin == UINT32_MAX) continue;
            uint32_t *end = ended(times, p, step.backward, step.microbatch, stage);
            cr_assert_eq(*end, 0, "a step is run twice");
            *end = (begin > free_at[r] ? begin : free_at[r]) + 1;
            free_at[r] = *end;
            live[r] = step.backward ? live[r] - 1 : live[r] + 1;
            if (live[r] > runs[r].live_most) runs[r].live_most = live[r];
            at[r]++;
            done++;
        }
        cr_assert_gt(done, before, "the ranks wait for each other");
    }
    for (uint32_t r = 0; r < p->ranks; r++)
        for (uint32_t k = 0; k < p->ranks; k++)
            if (free_at[k] > runs[r].end) runs[r].end = free_at[k];
    free(times);
    free(at);
    free(free_at);
    free(live);
}

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

static void check(const tsr_wavefront *p) {
    run runs[16];
    uint32_t steps = tsr_wavefront_step_count(p);
    simulate(p, runs);
    for (uint32_t r = 0; r < p->ranks; r++) {
        cr_assert_eq(runs[r].live_most, tsr_wavefront_live(p, r), "p %u m %u v %u rank %u",
                     p->ranks, p->microbatches, p->chunks, r);
        if (p->chunks == 1) {
            cr_assert_eq(runs[r].live_most, smaller(p->ranks - r, p->microbatches));
            cr_assert_eq(tsr_wavefront_warmup(p, r), smaller(p->ranks - 1 - r, p->microbatches));
        } else
            cr_assert_eq(tsr_wavefront_warmup(p, r),
                         smaller(2 * (p->ranks - r - 1) + (p->chunks - 1) * p->ranks,
                                 p->microbatches * p->chunks));
    }
    double idle = 1.0 - (double)steps / runs[0].end;
    cr_assert_float_eq(idle, tsr_wavefront_bubble(p), 1e-12, "p %u m %u v %u: idle %g, formula %g",
                       p->ranks, p->microbatches, p->chunks, idle, tsr_wavefront_bubble(p));
}

Test(pipeline, one_forward_one_backward) {
    for (uint32_t p = 1; p <= 9; p++)
        for (uint32_t m = 1; m <= 20; m++)
            check(&(tsr_wavefront){.ranks = p, .microbatches = m, .chunks = 1});
}

Test(pipeline, interleaved) {
    for (uint32_t p = 2; p <= 6; p++)
        for (uint32_t groups = 1; groups <= 4; groups++)
            for (uint32_t v = 2; v <= 4; v++)
                check(&(tsr_wavefront){.ranks = p, .microbatches = p * groups, .chunks = v});
}
