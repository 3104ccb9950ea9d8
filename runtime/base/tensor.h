/* SPDX-License-Identifier: Apache-2.0
 *
 * Searches in tensors, and properties of element types, that the public header does not offer.
 */
#ifndef TSR_BASE_TENSOR_H
#define TSR_BASE_TENSOR_H

#include "runtime/base/result.h"
#include "tessera/tensor.h"

/* Returns the tensor with that name, or NULL. Names are not NULL. */
const tsr_tensor *tsr_tensor_find(const tsr_tensor *tensors, size_t count, const char *name);
/* Does the same in logarithmic time, for tensors that ascend by name, like those of a stored
 * state. */
const tsr_tensor *tsr_tensor_find_sorted(const tsr_tensor *tensors, size_t count, const char *name);

const char *tsr_dtype_names(void); /* "f64, f32, ...": for messages */
/* Returns the largest number of the float dtype that is below `bound`; -inf if none exists. */
double tsr_dtype_below(tsr_dtype dtype, double bound);
/* True if `value`, rounded to the float dtype, is finite. */
bool tsr_dtype_rounds_finite(tsr_dtype dtype, double value);

/* Returns the index of the first of `count` elements that is NaN or infinite, and its value (a NaN
 * without sign); UINT64_MAX if all are finite. The elements need not be aligned. */
uint64_t tsr_dtype_find_nonfinite(tsr_dtype dtype, const void *data, uint64_t count,
                                  double *out_value);
/* The same, but only for NaN. */
uint64_t tsr_dtype_find_nan(tsr_dtype dtype, const void *data, uint64_t count);
uint64_t tsr_tensor_find_nonfinite(const tsr_tensor *tensor, double *out_value);

#endif
