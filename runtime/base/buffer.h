/* SPDX-License-Identifier: Apache-2.0
 *
 * A growable byte buffer, also used to write text and JSON. An allocation that fails sets `failed`;
 * later calls do nothing, so it is checked once at the end.
 */
#ifndef TSR_BASE_BUFFER_H
#define TSR_BASE_BUFFER_H

#include "runtime/base/result.h"

typedef struct tsr_buffer {
    char *bytes; /* owned; NUL after size_bytes, once anything was appended */
    size_t size_bytes, capacity_bytes;
    bool failed;
} tsr_buffer;

void tsr_buffer_finish(tsr_buffer *buffer); /* accepts NULL */
void tsr_buffer_append(tsr_buffer *buffer, const void *bytes, size_t size_bytes);
void tsr_buffer_text(tsr_buffer *buffer, const char *text);
void tsr_buffer_printf(tsr_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Appends a JSON string with its quotes. If the text is not UTF-8, each non-ASCII byte becomes
 * \u00XX. <, > and & are not escaped. */
void tsr_buffer_json_string(tsr_buffer *buffer, const char *text);
/* Little-endian integers, for binary formats. */
void tsr_buffer_u32(tsr_buffer *buffer, uint32_t value);
void tsr_buffer_u64(tsr_buffer *buffer, uint64_t value);

#endif
