/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies that bypass the cache, for data that is not needed soon. The destination then need not be
 * read before it is overwritten, which saves a third of the memory traffic of such a copy.
 */
#ifndef TSR_RUNTIME_STORE_STREAM_H
#define TSR_RUNTIME_STORE_STREAM_H

#include "runtime/base/tensor.h"

/* Like memcpy; `size_bytes` is a multiple of the dtype's size. Returns true if an element of a
 * float dtype may not be finite; tsr_dtype_find_nonfinite then finds it. Returns false if all are
 * finite or the dtype is not a float. */
bool tsr_stream_copy(tsr_dtype dtype, void *to, const void *from, size_t size_bytes);

#endif
