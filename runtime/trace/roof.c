/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/trace/roof.h"

#include "runtime/base/clock.h"
#include "runtime/base/trace/trace.h"
#include "runtime/cpu.h"

#include <immintrin.h>
#include <stdlib.h>
#include <string.h>

enum {
    COPY_BYTES = 64 << 20, /* far more than the caches hold */
    ROUNDS = 10,           /* the best one counts */
    CHAINS = 12,           /* more than a unit has in flight at once, but not more than there are
                              registers */
    STEPS = 1 << 18,
};

/* ---- memory ---- */

static void copy_part(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    const int64_t *parts = args->buffers[2];
    for (int64_t i = begin; i < end; i++) {
        int64_t from = COPY_BYTES / *parts * i,
                to = i + 1 < *parts ? COPY_BYTES / *parts * (i + 1) : COPY_BYTES;
        memcpy((char *)args->buffers[0] + from, (const char *)args->buffers[1] + from,
               (size_t)(to - from));
    }
}

/* ---- arithmetic: independent chains ---- */

static float sum(const float *values, int count) {
    float all = 0;
    for (int i = 0; i < count; i++) all += values[i];
    return all;
}

#define CHAIN_KERNEL(name, features, vector, lanes, set, join, store, step)                        \
    __attribute__((target(features))) static void name(const tsr_kernel_args *args, int64_t begin, \
                                                       int64_t end) {                              \
        float last[lanes], *out = args->buffers[0];                                                \
        for (int64_t program = begin; program < end; program++) {                                  \
            vector chain[CHAINS], a = set(0.999f), b = set(0.001f);                                \
            for (int k = 0; k < CHAINS; k++) chain[k] = set((float)k);                             \
            for (int64_t i = 0; i < STEPS; i++)                                                    \
                _Pragma("GCC unroll 12") for (int k = 0; k < CHAINS; k++) chain[k] = step;         \
            for (int k = 1; k < CHAINS; k++) chain[0] = join(chain[0], chain[k]);                  \
            store(last, chain[0]);                                                                 \
            out[16 * program] = sum(last, lanes);                                                  \
        }                                                                                          \
    }

CHAIN_KERNEL(chains_v2, "sse2", __m128, 4, _mm_set1_ps, _mm_add_ps, _mm_storeu_ps,
             _mm_add_ps(_mm_mul_ps(chain[k], a), b))
CHAIN_KERNEL(chains_v3, "avx2,fma", __m256, 8, _mm256_set1_ps, _mm256_add_ps, _mm256_storeu_ps,
             _mm256_fmadd_ps(chain[k], a, b))
CHAIN_KERNEL(chains_v4, "avx512f", __m512, 16, _mm512_set1_ps, _mm512_add_ps, _mm512_storeu_ps,
             _mm512_fmadd_ps(chain[k], a, b))

/* ---- the best of several rounds ---- */

static double time_best(tsr_threads *threads, tsr_kernel_fn kernel, void *const *buffers,
                        uint64_t grid) {
    uint64_t best = UINT64_MAX;
    tsr_fault fault;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t began = tsr_clock_ns();
        tsr_threads_launch(threads, kernel, buffers, grid, 0, &fault);
        uint64_t took = tsr_clock_ns() - began;
        if (took < best) best = took;
    }
    return (double)(best ? best : 1) * 1e-9;
}

tsr_result tsr_limits_measure(tsr_ctx *ctx, tsr_threads *threads, tsr_limits *out_limits) {
    const unsigned level = tsr_cpu_get_level();
    const tsr_kernel_fn chains = level >= 4 ? chains_v4 : level == 3 ? chains_v3 : chains_v2;
    const double lanes = level >= 4 ? 16 : level == 3 ? 8 : 4;
    int64_t parts = (int64_t)tsr_threads_get_count(threads);
    char *to = malloc(COPY_BYTES), *from = malloc(COPY_BYTES);
    float *sums = calloc(16 * (size_t)parts, sizeof *sums);
    tsr_result result = TSR_SUCCESS;
    if (!to || !from || !sums)
        FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to measure the machine's limits: %d bytes",
                  2 * COPY_BYTES);
    memset(to, 1, COPY_BYTES);
    memset(from, 2, COPY_BYTES);
    void *copied[] = {to, from, &parts}, *summed[] = {sums};
    tsr_threads_wake(threads);
    *out_limits = (tsr_limits){
        .bytes_per_s = 2.0 * COPY_BYTES / time_best(threads, copy_part, copied, (uint64_t)parts),
        .flops_per_s = 2.0 * lanes * CHAINS * STEPS * (double)parts /
                       time_best(threads, chains, summed, (uint64_t)parts)};
done:
    free(to);
    free(from);
    free(sums);
    return result;
}
