/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TSR_BENCH_MEDIAN_H
#define TSR_BENCH_MEDIAN_H

#include <stddef.h>
#include <stdlib.h>

static inline int median_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the values; count is at least 1. */
static inline double median_of(double *values, size_t count) {
    qsort(values, count, sizeof *values, median_compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

#endif
