/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of a program, without byte order mark, with "\n" at the end of each line.
 */
#ifndef TSR_COMPILER_FRONTEND_LANGUAGE_SYNTAX_SOURCE_H
#define TSR_COMPILER_FRONTEND_LANGUAGE_SYNTAX_SOURCE_H

#include "runtime/base/arena.h"

/* Bytes of the source text, from `begin` to before `end`. */
typedef struct tsr_span {
    uint32_t begin, end;
} tsr_span;

typedef struct tsr_source {
    const char *name;
    const char *text; /* NUL after size_bytes */
    uint32_t size_bytes;
    uint32_t line_count;
    uint32_t *lines; /* where each line begins */
} tsr_source;

/* Copies the text, without byte order mark and with "\n" as line ends; a NUL follows it. False if
 * memory runs out. */
bool tsr_source_copy(tsr_arena *arena, const char *name, const char *bytes, size_t size_bytes,
                     tsr_source *out);
/* From 1; columns count bytes. */
uint32_t tsr_source_line(const tsr_source *source, uint32_t at);
uint32_t tsr_source_column(const tsr_source *source, uint32_t at);

#endif
