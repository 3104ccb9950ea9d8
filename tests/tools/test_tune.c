/* SPDX-License-Identifier: Apache-2.0
 *
 * The search of tessera-aot tune with a device whose times are known, and the decision that it
 * makes about two series of times.
 */
#include "runtime/base/array.h"
#include "tools/aot/tune/search.h"

#include <criterion/criterion.h>
#include <string.h>

enum { CANDIDATES = 4, ANY = 0 };

/* Times in us by the first size, for each kernel; negative: the results are wrong. Size 1 is the
 * safe plan. */
static const double *times[2];
static double confirm_factor; /* of times of candidates in the round that confirms */
static int builds;
static volatile sig_atomic_t stop;

static tsr_result measure(tsr_ctx *ctx, const tsr_tune_round *round) {
    for (size_t i = 0; i < round->pair_count; i++) {
        const tsr_tune_pair *pair = &round->pairs[i];
        const double *time = times[pair->signature[0] - 'a'];
        double factor = round->samples == TSR_TUNE_CONFIRMS ? confirm_factor : 1;
        if (time[pair->candidate_sizes[0]] < 0) FAIL(ctx, TSR_MISMATCH, "wrong results");
        for (uint32_t k = 0; k < round->samples; k++) {
            pair->safe_ns[k] = 1000 * time[pair->safe_sizes[0]];
            pair->candidate_ns[k] = 1000 * factor * time[pair->candidate_sizes[0]];
        }
    }
    return TSR_SUCCESS;
}

static const tsr_tune_device device = {.name = "known", .runs = true, .measure = measure};

static tsr_result build(tsr_ctx *ctx, void *user, const tsr_measured *plans, size_t count,
                        const char *path) {
    (void)ctx, (void)user, (void)path;
    cr_assert(count >= 1 && plans[0].count == 1);
    builds++;
    return TSR_SUCCESS;
}

typedef struct fixture {
    tsr_ctx ctx;
    tsr_arena arena;
    tsr_tune_kernel kernels[2];
    tsr_tune_candidate candidates[2][CANDIDATES];
    const char *names[2];
    tsr_tune_search search;
} fixture;

static uint64_t budget_ns;

/* Two kernels with the safe size 1 and the candidates 5, 4, 3, 2. */
static void run(fixture *f, const double *first, const double *second) {
    static const char *const signatures[] = {"a", "b"};
    times[0] = first, times[1] = second;
    builds = 0;
    for (size_t i = 0; i < 2; i++) {
        f->names[i] = signatures[i];
        f->kernels[i] = (tsr_tune_kernel){.signature = signatures[i],
                                          .names = &f->names[i],
                                          .name_count = 1,
                                          .size_count = 1,
                                          .safe = {1},
                                          .candidates = f->candidates[i],
                                          .candidate_count = CANDIDATES};
        for (int k = 0; k < CANDIDATES; k++)
            f->candidates[i][k] = (tsr_tune_candidate){.sizes = {1 + CANDIDATES - k}};
    }
    f->search = (tsr_tune_search){.target = "cpu:x86-64-v2",
                                  .device = &device,
                                  .stop = &stop,
                                  .budget_ns = budget_ns,
                                  .build = build,
                                  .arena = &f->arena,
                                  .kernels = f->kernels,
                                  .kernel_count = 2};
    cr_assert(tsr_tune_run(&f->ctx, &f->search).code == TSR_OK);
}

static fixture f;

static void begin(void) {
    confirm_factor = 1;
    stop = 0;
    budget_ns = 0;
}

static void end(void) {
    tsr_arena_finish(&f.arena);
    f = (fixture){0};
}

TestSuite(tune, .init = begin, .fini = end);

Test(tune, the_fastest_sizes_win) {
    run(&f, (double[]){ANY, 10, 9, 5, 7, 20}, (double[]){ANY, 10, 11, 12, 13, 14});
    cr_assert(f.search.trials == 8 && f.search.faults == 0 && f.search.is_complete);
    cr_assert(builds == CANDIDATES + 1, "%d", builds); /* one for each round, one to confirm */
    cr_assert(f.kernels[0].winner && f.kernels[0].plan.sizes[0] == 3);
    cr_assert(f.kernels[0].plan.safe_ns == 10000 && f.kernels[0].plan.measured_ns == 5000);
    cr_assert(!f.kernels[1].winner && f.kernels[1].plan.sizes[0] == 1);
}

Test(tune, less_than_seven_percent_is_no_gain) {
    run(&f, (double[]){ANY, 10, 9.4, 9.9, 9.5, 9.6}, (double[]){ANY, 10.7, 10, 11, 11, 11});
    cr_assert(!f.kernels[0].winner && f.kernels[0].plan.sizes[0] == 1);
    cr_assert(f.kernels[1].winner && f.kernels[1].plan.sizes[0] == 2);
}

Test(tune, near_ties_go_to_the_smaller_sizes) {
    run(&f, (double[]){ANY, 10, 5.05, 6, 5, 5.02}, (double[]){ANY, 10, 5.2, 6, 5, 5.02});
    cr_assert(f.kernels[0].plan.sizes[0] == 2); /* within 2 % of 4 */
    cr_assert(f.kernels[1].plan.sizes[0] == 4);
}

Test(tune, a_wrong_candidate_is_found_and_never_chosen) {
    run(&f, (double[]){ANY, 10, 9, -1, 7, 20}, (double[]){ANY, 10, 11, 6, 13, 14});
    cr_assert(f.search.faults == 1 && f.search.trials == 8);
    cr_assert(f.kernels[0].plan.sizes[0] == 4);
    cr_assert(f.candidates[0][2].fault && strcmp(f.candidates[0][2].fault, "wrong results") == 0);
    /* The other kernel's candidate of the same round was measured. */
    cr_assert(f.kernels[1].plan.sizes[0] == 3);
}

Test(tune, a_winner_has_to_win_again) {
    confirm_factor = 1.9;
    run(&f, (double[]){ANY, 10, 9, 5, 7, 20}, (double[]){ANY, 10, 11, 4, 13, 14});
    cr_assert(!f.kernels[0].winner && f.kernels[0].plan.sizes[0] == 1);
    cr_assert(f.kernels[1].winner && f.kernels[1].plan.sizes[0] == 3);
}

Test(tune, a_signal_ends_the_search) {
    stop = 1;
    run(&f, (double[]){ANY, 10, 9, 5, 7, 20}, (double[]){ANY, 10, 11, 4, 13, 14});
    cr_assert(!f.search.is_complete && f.search.trials == 0 && f.kernels[0].plan.sizes[0] == 1);
}

Test(tune, the_budget_ends_the_search) {
    budget_ns = 1;
    run(&f, (double[]){ANY, 10, 9, 5, 7, 20}, (double[]){ANY, 10, 11, 4, 13, 14});
    cr_assert(!f.search.is_complete && f.search.trials < 8 && f.kernels[0].plan.count == 1);
    end();
    budget_ns = UINT64_MAX;
    run(&f, (double[]){ANY, 10, 9, 5, 7, 20}, (double[]){ANY, 10, 11, 4, 13, 14});
    cr_assert(f.search.is_complete && f.search.trials == 8);
}

/* Binomial tail of 12 pairs: 10 wins 1.93 %, 11 wins 0.32 %. */
Test(tune, the_sign_test_wants_eleven_of_twelve) {
    double safe[12], fast[12];
    for (int wins = 9; wins <= 12; wins++) {
        for (int i = 0; i < 12; i++) {
            safe[i] = 100;
            fast[i] = i < wins ? 50 : 101;
        }
        tsr_tune_verdict verdict = tsr_tune_decide(safe, fast, 12);
        cr_assert(verdict.accepted == (wins >= 11) && verdict.gain == 2, "%d", wins);
    }
}
