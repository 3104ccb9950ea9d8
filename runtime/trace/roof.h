/* SPDX-License-Identifier: Apache-2.0
 *
 * Measured limits of a machine, to compare kernel times with (Williams, Waterman & Patterson,
 * "Roofline: an insightful visual performance model", CACM 2009).
 */
#ifndef TSR_RUNTIME_ROOF_H
#define TSR_RUNTIME_ROOF_H

#include "runtime/threads.h"

typedef struct tsr_limits {
    double bytes_per_s;        /* read and written by a copy that bypasses the caches; 0: unknown */
    double flops_per_s;        /* f32, one multiplication and one addition at a time; 0: unknown */
    double matrix_flops_per_s; /* matrix units, bf16 accumulated in f32; 0: none, or unknown */
} tsr_limits;

/* Measures the CPU, with all threads of the pool; takes about 0.2 s and 128 MiB. TSR_MEMORY. */
TSR_RESULT tsr_limits_measure(tsr_ctx *ctx, tsr_threads *threads, tsr_limits *out_limits);

#endif
