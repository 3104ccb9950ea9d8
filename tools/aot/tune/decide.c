/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/aot/tune/measure.h"

#include <stdlib.h>
#include <string.h>

static const double GAIN_MIN = 1.07, CHANCE_MAX = 0.01;
enum { SAMPLES_MAX = 64 };

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, size_t count) {
    double sorted[SAMPLES_MAX];
    memcpy(sorted, values, count * sizeof *values);
    qsort(sorted, count, sizeof *sorted, by_value);
    return count % 2 ? sorted[count / 2] : 0.5 * (sorted[count / 2 - 1] + sorted[count / 2]);
}

/* The probability of at least `wins` heads in `count` throws of a coin. */
static double chance_of(size_t wins, size_t count) {
    double term = 1, sum = 0; /* term: ways to choose k of count */
    for (size_t k = 0; k <= count; k++) {
        if (k >= wins) sum += term;
        term = term * (double)(count - k) / (double)(k + 1);
    }
    for (size_t i = 0; i < count; i++) sum *= 0.5;
    return sum;
}

tsr_tune_verdict tsr_tune_decide(const double *safe_ns, const double *candidate_ns, size_t count) {
    TSR_ASSERT(count && count <= SAMPLES_MAX);
    tsr_tune_verdict verdict = {.safe_ns = median(safe_ns, count),
                                .candidate_ns = median(candidate_ns, count)};
    size_t wins = 0;
    for (size_t i = 0; i < count; i++) wins += candidate_ns[i] < safe_ns[i];
    verdict.gain = verdict.candidate_ns > 0 ? verdict.safe_ns / verdict.candidate_ns : 0;
    verdict.accepted = verdict.gain >= GAIN_MIN && chance_of(wins, count) <= CHANCE_MAX;
    return verdict;
}
