/* SPDX-License-Identifier: Apache-2.0
 *
 * Copying past the cache, for what nobody wants soon: memory then need not be fetched to be written
 * over, which is a third of what such a copy moves.
 */
#ifndef TSR_RUNTIME_STORE_STREAM_H
#define TSR_RUNTIME_STORE_STREAM_H

#include "runtime/base/tensor.h"

/* As memcpy; `size_bytes` is a multiple of the dtype's. True: of a float dtype an element may not
 * be finite, and tsr_dtype_find_nonfinite tells which; false: none is, or it is no float. */
bool tsr_stream_copy(tsr_dtype dtype, void *to, const void *from, size_t size_bytes);

#endif
