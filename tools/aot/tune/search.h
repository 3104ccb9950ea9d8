/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for the fastest sizes of each kernel: in round i every kernel has its i-th candidate,
 * so that one build measures as many candidates as there are kernels. Winners are measured once
 * more, together, and those that do not win again are dropped.
 */
#ifndef TSR_TOOLS_AOT_TUNE_SEARCH_H
#define TSR_TOOLS_AOT_TUNE_SEARCH_H

#include "compiler/schedule/measured.h"
#include "runtime/base/buffer.h"
#include "tools/aot/tune/measure.h"

#include <signal.h>

struct cJSON;

typedef struct tsr_tune_candidate {
    int64_t sizes[TSR_MEASURED_SIZES_MAX];
    bool is_measured;
    tsr_tune_verdict verdict;
    const char *fault; /* why it cannot be used; NULL: it can */
} tsr_tune_candidate;

/* All kernels of one signature. */
typedef struct tsr_tune_kernel {
    const char *signature;
    const char **names;
    size_t name_count, size_count;
    int64_t safe[TSR_MEASURED_SIZES_MAX];
    tsr_tune_candidate *candidates; /* other sizes than the safe ones */
    size_t candidate_count;
    bool is_known;                    /* `plan` comes from the store */
    const tsr_tune_candidate *winner; /* NULL: the safe sizes stay */
    tsr_measured plan;                /* out: what to build */
} tsr_tune_kernel;

typedef struct tsr_tune_search {
    const char *target;
    const tsr_tune_device *device;
    const char *safe_path, *trial_path; /* bundles: of the model's sizes; written for each round */
    unsigned threads;
    uint64_t seed, budget_ns, timeout_ns;
    const volatile sig_atomic_t *stop; /* set: finish, with what was found */
    /* Builds a bundle with these plans. */
    TSR_RESULT(*build)
    (tsr_ctx *ctx, void *user, const tsr_measured *plans, size_t count, const char *path);
    void *user;        /* borrowed */
    tsr_buffer *trace; /* events of the Trace Event Format, one for each trial; or NULL */
    tsr_arena *arena;
    tsr_tune_kernel *kernels;
    size_t kernel_count;
    uint64_t trials, faults; /* out */
    bool is_complete;        /* out: every candidate was tried */
} tsr_tune_search;

/* Reads the kernels of the target from the schedule of a bundle. */
TSR_RESULT tsr_tune_read_kernels(tsr_ctx *ctx, const struct cJSON *schedule,
                                 tsr_tune_search *search);
/* Sets the plan of every kernel that is not known. */
TSR_RESULT tsr_tune_run(tsr_ctx *ctx, tsr_tune_search *search);

#endif
