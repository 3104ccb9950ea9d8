/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/frontend/language/syntax/source.h"

#include <string.h>

/* Copies the bytes without byte order mark, with uniform line ends. */
static bool copy_text(tsr_arena *arena, const char *bytes, size_t size_bytes, tsr_source *out) {
    if (size_bytes >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) {
        bytes += 3;
        size_bytes -= 3;
    }
    char *text = tsr_arena_alloc(arena, size_bytes + 1, 1, 1);
    if (!text) return false;
    size_t size = 0;
    for (size_t i = 0; i < size_bytes; i++) {
        if (bytes[i] == '\r' && i + 1 < size_bytes && bytes[i + 1] == '\n') continue;
        text[size++] = bytes[i] == '\r' ? '\n' : bytes[i];
    }
    out->text = text;
    out->size_bytes = (uint32_t)size;
    return true;
}

static bool index_lines(tsr_arena *arena, tsr_source *source) {
    uint32_t count = 1;
    for (uint32_t i = 0; i < source->size_bytes; i++) count += source->text[i] == '\n';
    source->lines = TSR_NEW(arena, uint32_t, count);
    if (!source->lines) return false;
    source->line_count = 1;
    for (uint32_t i = 0; i < source->size_bytes; i++)
        if (source->text[i] == '\n') source->lines[source->line_count++] = i + 1;
    return true;
}

uint32_t tsr_source_line(const tsr_source *source, uint32_t at) {
    uint32_t low = 0, high = source->line_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (source->lines[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low + 1;
}

uint32_t tsr_source_column(const tsr_source *source, uint32_t at) {
    return at - source->lines[tsr_source_line(source, at) - 1] + 1;
}

bool tsr_source_copy(tsr_arena *arena, const char *name, const char *bytes, size_t size_bytes,
                     tsr_source *out) {
    tsr_source source = {.name = tsr_arena_strdup(arena, name), .text = ""};
    *out = source;
    if (!source.name || !copy_text(arena, bytes, size_bytes, &source) ||
        !index_lines(arena, &source))
        return false;
    *out = source;
    return true;
}
