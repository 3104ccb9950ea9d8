/* SPDX-License-Identifier: Apache-2.0
 *
 * Times of kernels in two bundles of one program, which differ in the sizes of kernels only.
 */
#ifndef TSR_TOOLS_AOT_TUNE_MEASURE_H
#define TSR_TOOLS_AOT_TUNE_MEASURE_H

#include "runtime/base/arena.h"
#include "runtime/base/result.h"

#include <stdint.h>

enum {
    TSR_TUNE_WARM_UPS = 3,
    TSR_TUNE_SAMPLES = 12,  /* of each candidate */
    TSR_TUNE_CONFIRMS = 20, /* of each winner, once more */
};

/* One kernel in both bundles. */
typedef struct tsr_tune_pair {
    const char *signature;
    const char *const *names; /* the kernels with this signature */
    size_t name_count, size_count;
    const int64_t *safe_sizes, *candidate_sizes;
    double *safe_ns, *candidate_ns; /* out: one for each sample; of all launches in a run */
} tsr_tune_pair;

typedef struct tsr_tune_round {
    const char *safe, *candidate; /* paths of the bundles */
    const char *cpu;              /* "x86-64-v3" */
    unsigned threads;             /* 0: every CPU this process may use */
    uint32_t samples, round;
    uint64_t timeout_ns;
    tsr_tune_pair *pairs;
    size_t pair_count;
    uint64_t seed; /* of a device that draws its times */
} tsr_tune_round;

/* Where candidates run. */
typedef struct tsr_tune_device {
    const char *name;
    bool runs; /* else no bundle of candidates is built */
    /* Fills the samples. TSR_MISMATCH if the results of the bundles differ, TSR_INTERNAL if the
     * candidate died or did not end in time. */
    TSR_RESULT (*measure)(tsr_ctx *ctx, const tsr_tune_round *round);
} tsr_tune_device;

/* This host, in a child process. Every entry runs on random inputs, in both bundles: results and
 * state after the first run are compared by their bytes; then both run in turns. */
extern const tsr_tune_device tsr_tune_cpu;
/* Runs nothing: times are drawn from the seed, the signature and the sizes. For tests. */
extern const tsr_tune_device tsr_tune_fake;

/* The decision about one pair. */
typedef struct tsr_tune_verdict {
    double safe_ns, candidate_ns; /* medians */
    double gain;                  /* their ratio */
    bool accepted; /* at least 7 % faster, and a sign test over the pairs of samples agrees: such
                    * an outcome has a probability of at most 1 % if both are equally fast */
} tsr_tune_verdict;
tsr_tune_verdict tsr_tune_decide(const double *safe_ns, const double *candidate_ns, size_t count);

#endif
