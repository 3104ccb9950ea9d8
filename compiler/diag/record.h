/* SPDX-License-Identifier: Apache-2.0
 *
 * One diagnostic as a record, and its forms as text and JSON. Needs no MLIR.
 */
#ifndef TSR_COMPILER_DIAG_RECORD_H
#define TSR_COMPILER_DIAG_RECORD_H

#include "runtime/base/buffer.h"

typedef enum tsr_diag_number {
#define X(name, number, about, remedy) TSR_DIAG_##name = number,
#include "compiler/diag/diag.def"
#undef X
} tsr_diag_number;

typedef enum tsr_severity {
    TSR_SEVERITY_ERROR,
    TSR_SEVERITY_WARNING,
    TSR_SEVERITY_NOTE,
    TSR_SEVERITY_REMARK,
} tsr_severity;

/* All strings are stored in the arena of the list or report that the record is in. */
typedef struct tsr_diag {
    tsr_diag_number number; /* 0 for a note */
    tsr_severity severity;
    const char *file;        /* "" where the location is unknown */
    uint32_t line, column;   /* 1-based; 0 if unknown */
    const char *text;        /* one or more lines, without number and location */
    uint32_t length;         /* bytes of the range in its line; 0 if only its begin is known */
    const char *source_line; /* NULL if the source is not available */
    const char *fix;         /* replacement text from fix_column on; NULL: no fix-it */
    uint32_t fix_column, fix_length; /* 1-based column; number of bytes */
    size_t note_count;
    struct tsr_diag *notes; /* severity NOTE */
    struct tsr_diag *next;
} tsr_diag;

/* Returns the description of the number; NULL for an unknown one. */
const char *tsr_diag_about(tsr_diag_number number);
/* Appends the text form, with newline. */
void tsr_diag_format(const tsr_diag *diag, tsr_buffer *out);
/* Appends one JSON object without newline, of schemas/diagnostic.schema.json. */
void tsr_diag_format_json(const tsr_diag *diag, tsr_buffer *out);

#endif
