/* SPDX-License-Identifier: Apache-2.0
 *
 * Uniform random numbers of [low, high) in a dtype: one rule for the values that the runtime gives
 * parameters and for `tessera.random_uniform` in kernels. A number u of [0, 1) becomes
 *
 *     min(round((low + span * u) * factor), last)
 *
 * where each operation is one of the type that u has (f64 for initial values and for f64 results,
 * else f32), and `round` rounds to the dtype, to nearest even. Without the minimum a result that is
 * rounded up could be `high`.
 */
#ifndef TSR_BASE_UNIFORM_H
#define TSR_BASE_UNIFORM_H

#include "runtime/base/tensor.h"

typedef struct tsr_uniform {
    double low, span; /* halves of them where high - low overflows the type of u */
    double factor;    /* 1, or then 2 */
    double last;      /* the largest number of the dtype that is below high */
} tsr_uniform;

/* `computed`, the type of u, is f64 or f32; `dtype` is a float. low < high, both finite in it. */
tsr_uniform tsr_uniform_make(tsr_dtype computed, tsr_dtype dtype, double low, double high);
/* Writes data[index]; `uniform` was made for f64. */
void tsr_uniform_write(const tsr_uniform *uniform, tsr_dtype dtype, double u, void *data,
                       uint64_t index);

#endif
