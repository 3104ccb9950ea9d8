/* SPDX-License-Identifier: Apache-2.0
 *
 * What a machine does at most, measured: what the times of kernels are compared with (Williams,
 * Waterman & Patterson, "Roofline: an insightful visual performance model", CACM 2009).
 */
#ifndef TSR_RUNTIME_ROOF_H
#define TSR_RUNTIME_ROOF_H

#include "runtime/threads.h"

typedef struct tsr_limits {
    double bytes_per_s;        /* read and written by a copy past the caches; 0: not known */
    double flops_per_s;        /* f32, a multiplication and an addition at a time; 0: not known */
    double matrix_flops_per_s; /* of matrix units, bf16 summed in f32; 0: none, or not known */
} tsr_limits;

/* Of the CPU, with all threads of the pool; takes about 0.2 s and 128 MiB. TSR_MEMORY. */
TSR_RESULT tsr_limits_measure(tsr_ctx *ctx, tsr_threads *threads, tsr_limits *out_limits);

#endif
