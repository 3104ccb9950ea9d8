/* SPDX-License-Identifier: Apache-2.0
 *
 * Uniform random numbers in [low, high) of a dtype. The same rule serves the runtime for initial
 * values of parameters and kernels for `tessera.random_uniform`. A number u in [0, 1) becomes
 *
 *     min(round((low + span * u) * factor), last)
 *
 * where each operation has the type of u (f64 for initial values and for f64 results, else f32),
 * and `round` rounds to the dtype, to nearest even. Without the minimum, a result that is rounded
 * up could equal `high`.
 */
#ifndef TSR_BASE_UNIFORM_H
#define TSR_BASE_UNIFORM_H

#include "runtime/base/tensor.h"

typedef struct tsr_uniform {
    double low, span; /* halved if high - low overflows the type of u */
    double factor;    /* 1, or 2 if they are halved */
    double last;      /* the largest number of the dtype below high */
} tsr_uniform;

/* `computed`, the type of u, is f64 or f32; `dtype` is a float. low < high; both are finite in
 * `dtype`. */
tsr_uniform tsr_uniform_make(tsr_dtype computed, tsr_dtype dtype, double low, double high);
/* Writes data[index]; `uniform` was made for f64. */
void tsr_uniform_write(const tsr_uniform *uniform, tsr_dtype dtype, double u, void *data,
                       uint64_t index);

#endif
