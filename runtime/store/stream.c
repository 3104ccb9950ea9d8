/* SPDX-License-Identifier: Apache-2.0
 *
 * On x86-64 this uses the SSE2 stores that bypass the cache (Intel SDM, MOVNTDQ) and checks the
 * loaded values. Other processors copy, then check.
 */
#include "runtime/store/stream.h"

#include <math.h>
#include <string.h>

/* Checks bytes that were copied, or bytes that cannot be streamed. */
static bool copy_and_scan(tsr_dtype dtype, void *to, const void *from, size_t size_bytes) {
    double value;
    memcpy(to, from, size_bytes);
    return tsr_dtype_is_float(dtype) &&
           tsr_dtype_find_nonfinite(dtype, from, size_bytes / tsr_dtype_size(dtype), &value) !=
               UINT64_MAX;
}

#ifdef __x86_64__

#include <emmintrin.h>

enum { LANE_BYTES = 16, LINE_BYTES = 64 };

/* Streams full cache lines to an aligned address; returns true if an exponent carried into its
 * sign. */
#define STREAM(name, type, mask, one)                                                              \
    typedef type lanes_##name __attribute__((vector_size(LANE_BYTES)));                            \
    static bool stream_##name(uint8_t *to, const uint8_t *from, size_t size_bytes) {               \
        lanes_##name carries = {0};                                                                \
        type any = 0;                                                                              \
        for (size_t at = 0; at < size_bytes; at += LANE_BYTES) {                                   \
            __m128i bits = _mm_loadu_si128((const __m128i *)(const void *)(from + at));            \
            carries |= ((lanes_##name)bits & (type)(mask)) + (type)(one);                          \
            _mm_stream_si128((__m128i *)(void *)(to + at), bits);                                  \
        }                                                                                          \
        for (size_t i = 0; i < LANE_BYTES / sizeof(type); i++) any |= carries[i];                  \
        return any >> (8 * sizeof(type) - 1);                                                      \
    }
#define X STREAM
#include "runtime/base/floats.def"
#undef X
STREAM(none, uint64_t, 0, 0)

static bool (*find_stream(tsr_dtype dtype))(uint8_t *, const uint8_t *, size_t) {
    switch (dtype) {
#define X(name, type, mask, one)                                                                   \
    case TSR_DTYPE_##name:                                                                         \
        return stream_##name;
#include "runtime/base/floats.def"
#undef X
    default:
        return stream_none;
    }
}

bool tsr_stream_copy(tsr_dtype dtype, void *to, const void *from, size_t size_bytes) {
    size_t head = (LINE_BYTES - (uintptr_t)to % LINE_BYTES) % LINE_BYTES;
    if (head % tsr_dtype_size(dtype) || size_bytes < head + LINE_BYTES)
        return copy_and_scan(dtype, to, from, size_bytes);
    size_t whole = (size_bytes - head) / LINE_BYTES * LINE_BYTES;
    bool found = find_stream(dtype)((uint8_t *)to + head, (const uint8_t *)from + head, whole);
    /* This fence must come before any store that tells other threads that the data is complete. */
    _mm_sfence();
    found |= copy_and_scan(dtype, to, from, head);
    return found | copy_and_scan(dtype, (uint8_t *)to + head + whole,
                                 (const uint8_t *)from + head + whole, size_bytes - head - whole);
}

#else

bool tsr_stream_copy(tsr_dtype dtype, void *to, const void *from, size_t size_bytes) {
    return copy_and_scan(dtype, to, from, size_bytes);
}

#endif
