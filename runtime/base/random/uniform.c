/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/random/uniform.h"

#include <math.h>

tsr_uniform tsr_uniform_make(tsr_dtype computed, tsr_dtype dtype, double low, double high) {
    tsr_uniform uniform = {low, high - low, 1, tsr_dtype_below(dtype, high)};
    TSR_ASSERT(computed == TSR_DTYPE_F64 || computed == TSR_DTYPE_F32);
    if (isinf(computed == TSR_DTYPE_F64 ? uniform.span : (double)(float)uniform.span)) {
        uniform.low = low / 2;
        uniform.span = high / 2 - low / 2;
        uniform.factor = 2;
    }
    return uniform;
}

void tsr_uniform_write(const tsr_uniform *uniform, tsr_dtype dtype, double u, void *data,
                       uint64_t index) {
    double value = (uniform->low + uniform->span * u) * uniform->factor;
    tsr_dtype_write(dtype, value < uniform->last ? value : uniform->last, data, index);
}
