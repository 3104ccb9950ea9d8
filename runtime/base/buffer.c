/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/buffer.h"

#include "runtime/base/array.h"
#include "runtime/base/io/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tsr_buffer_finish(tsr_buffer *buffer) {
    if (!buffer) return;
    free(buffer->bytes);
    *buffer = (tsr_buffer){0};
}

static bool reserve(tsr_buffer *buffer, size_t extra) {
    size_t need;
    if (buffer->failed || __builtin_add_overflow(buffer->size_bytes, extra, &need) ||
        need == SIZE_MAX)
        return !(buffer->failed = true);
    if (need < buffer->capacity_bytes) return true;
    size_t capacity = tsr_grow_capacity(buffer->capacity_bytes, need + 1, 256, 1);
    char *bytes = capacity ? realloc(buffer->bytes, capacity) : NULL;
    if (!bytes) return !(buffer->failed = true);
    buffer->bytes = bytes;
    buffer->capacity_bytes = capacity;
    return true;
}

void tsr_buffer_append(tsr_buffer *buffer, const void *bytes, size_t size_bytes) {
    if (!reserve(buffer, size_bytes)) return;
    if (size_bytes) memcpy(buffer->bytes + buffer->size_bytes, bytes, size_bytes);
    buffer->size_bytes += size_bytes;
    buffer->bytes[buffer->size_bytes] = 0;
}

void tsr_buffer_text(tsr_buffer *buffer, const char *text) {
    tsr_buffer_append(buffer, text, strlen(text));
}

void tsr_buffer_printf(tsr_buffer *buffer, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    if (length < 0)
        buffer->failed = true;
    else if (reserve(buffer, (size_t)length)) {
        vsnprintf(buffer->bytes + buffer->size_bytes, (size_t)length + 1, format, again);
        buffer->size_bytes += (size_t)length;
    }
    va_end(again);
    va_end(args);
}

void tsr_buffer_json_string(tsr_buffer *buffer, const char *text) {
    const bool utf8 = tsr_utf8_valid(text, strlen(text));
    tsr_buffer_text(buffer, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            tsr_buffer_printf(buffer, "\\%c", c);
        else if (c == '\n')
            tsr_buffer_text(buffer, "\\n");
        else if (c < 0x20 || (c >= 0x7f && !utf8))
            tsr_buffer_printf(buffer, "\\u%04x", c);
        else
            tsr_buffer_append(buffer, text, 1);
    }
    tsr_buffer_text(buffer, "\"");
}

void tsr_buffer_u32(tsr_buffer *buffer, uint32_t value) {
    unsigned char bytes[4] = {(unsigned char)value, (unsigned char)(value >> 8),
                              (unsigned char)(value >> 16), (unsigned char)(value >> 24)};
    tsr_buffer_append(buffer, bytes, sizeof bytes);
}

void tsr_buffer_u64(tsr_buffer *buffer, uint64_t value) {
    tsr_buffer_u32(buffer, (uint32_t)value);
    tsr_buffer_u32(buffer, (uint32_t)(value >> 32));
}
