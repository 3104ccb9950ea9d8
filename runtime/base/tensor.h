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

/* The largest number of a dtype; none is left out. */
#define X(...) +1
enum {
    TSR_DTYPE_COUNT = 0
#include "tessera/dtype.def"
};
#undef X

bool tsr_dtype_is_signed(tsr_dtype dtype);   /* a signed integer */
bool tsr_dtype_is_unsigned(tsr_dtype dtype); /* an unsigned integer; i1 is not */
bool tsr_dtype_is_small(tsr_dtype dtype); /* a float of 8 bits, which ops only move and convert */
unsigned tsr_dtype_bits(tsr_dtype dtype); /* of its values: i1 has 1 */
/* The integer type, or i1, with so many bits; TSR_DTYPE_NONE if there is no such type. */
tsr_dtype tsr_dtype_of_integer(unsigned bits, bool is_unsigned);
/* The type as which devices store the elements: integers of any kind are signed, i1 and 8-bit
 * floats are i8. */
tsr_dtype tsr_dtype_stored(tsr_dtype dtype);
/* The range of an integer type, or of i1. */
int64_t tsr_dtype_lowest(tsr_dtype dtype);
uint64_t tsr_dtype_highest(tsr_dtype dtype);
/* True if `value` is a whole number in that range; 8-bit floats: if it is rounded to a finite one.
 */
bool tsr_dtype_holds(tsr_dtype dtype, double value);

const char *tsr_dtype_names(void); /* "f64, f32, ...": for messages */
/* Returns the largest number of the float dtype that is below `bound`; -inf if none exists. */
double tsr_dtype_below(tsr_dtype dtype, double bound);
/* True if `value`, rounded to the float dtype, of 8 bits too, is finite. */
bool tsr_dtype_rounds_finite(tsr_dtype dtype, double value);

/* Returns the index of the first of `count` elements that is NaN or infinite, and its value (a NaN
 * without sign); UINT64_MAX if all are finite. The elements need not be aligned. */
uint64_t tsr_dtype_find_nonfinite(tsr_dtype dtype, const void *data, uint64_t count,
                                  double *out_value);
/* The same, but only for NaN. */
uint64_t tsr_dtype_find_nan(tsr_dtype dtype, const void *data, uint64_t count);
uint64_t tsr_tensor_find_nonfinite(const tsr_tensor *tensor, double *out_value);

#endif
