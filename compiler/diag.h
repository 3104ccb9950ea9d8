/* SPDX-License-Identifier: Apache-2.0
 *
 * Diagnostics: what the author of a model gets told, many per compile. They are collected as
 * records; a tool prints them.
 *
 *     tsr_diag_list list = {.on_diag = print, .user = stderr};
 *     tsr_mlir_context_create(ctx, &list, &mlir);
 *     tsr_diag_add_source(&list, "digits.mlir", text, size);
 *     … every error emitted on `mlir` from here on arrives in `list` …
 *     tsr_diag_finish(&list);
 *
 * Text form:
 *     digits.mlir:12:8: error: [TSR-0102] tessera.matmul: …
 *         %m = tessera.matmul %x, %w …
 *              ^
 *     digits.mlir:4:3: note: …
 * A fix-it stands below the caret, at the place of what it replaces.
 */
#ifndef TSR_COMPILER_DIAG_H
#define TSR_COMPILER_DIAG_H

#include "runtime/base/arena.h"
#include "runtime/base/buffer.h"

#include <mlir-c/Diagnostics.h>
#include <mlir-c/IR.h>

typedef enum tsr_diag_number {
#define X(name, number, about, remedy) TSR_DIAG_##name = number,
#include "compiler/diag.def"
#undef X
} tsr_diag_number;

typedef enum tsr_severity {
    TSR_SEVERITY_ERROR,
    TSR_SEVERITY_WARNING,
    TSR_SEVERITY_NOTE,
    TSR_SEVERITY_REMARK,
} tsr_severity;

/* All strings lie in the list's arena. */
typedef struct tsr_diag {
    tsr_diag_number number; /* 0 for a note */
    tsr_severity severity;
    const char *file;        /* "" where the location is unknown */
    uint32_t line, column;   /* from 1; 0 unknown */
    const char *text;        /* one or more lines, without number and place */
    const char *source_line; /* NULL where the source is not at hand */
    const char *fix;         /* what to write in its place from fix_column on; NULL: no fix-it */
    uint32_t fix_column, fix_length; /* column from 1; bytes */
    size_t note_count;
    struct tsr_diag *notes; /* severity NOTE */
    struct tsr_diag *next;
} tsr_diag;

typedef struct tsr_diag_source {
    const char *name, *text; /* the text is borrowed; it ends with a NUL */
    size_t size_bytes;
    struct tsr_diag_source *next;
} tsr_diag_source;

/* Zero-initialise, set the callback, keep it alive as long as the context it is attached to. */
typedef struct tsr_diag_list {
    void (*on_diag)(void *user, const tsr_diag *diag); /* may be NULL */
    void *user;                                        /* borrowed */
    tsr_diag *first, *last;
    size_t error_count;
    tsr_diag_source *sources;
    MlirContext context; /* that it is attached to */
    bool bytecode;       /* what is read is bytecode */
    uint64_t verified;   /* the module that was verified last: tsr_shim_fingerprint; or 0 */
    tsr_arena arena;
} tsr_diag_list;

void tsr_diag_finish(tsr_diag_list *list); /* accepts NULL */
/* Text of a file as locations name it, followed by a NUL; borrowed until the list is finished.
 * False without memory. */
bool tsr_diag_add_source(tsr_diag_list *list, const char *name, const char *text,
                         size_t size_bytes);
/* All errors emitted on the context from now on go to the list. */
void tsr_diag_attach(tsr_diag_list *list, MlirContext context);

typedef struct tsr_diag_note {
    MlirLocation location;
    const char *text;
} tsr_diag_note;

/* Emits an error: "[TSR-0102] " and the text, at `location`, with notes (TSR_DIAG_NOTES_MAX). A few
 * numbers are of remarks, which are no errors: they arrive in the list with that severity. */
void tsr_diag_error(MlirLocation location, tsr_diag_number number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void tsr_diag_error_note(MlirLocation location, tsr_diag_number number, const char *text,
                         MlirLocation note_location, const char *note);
enum { TSR_DIAG_NOTES_MAX = 10 };
void tsr_diag_error_notes(MlirLocation location, tsr_diag_number number, const char *text,
                          size_t note_count, const tsr_diag_note *notes);

/* What the number is about; NULL for an unknown one. */
const char *tsr_diag_about(tsr_diag_number number);
/* Appends the text form, with newline. */
void tsr_diag_format(const tsr_diag *diag, tsr_buffer *out);
/* Appends one JSON object without newline, of schemas/diagnostic.schema.json. */
void tsr_diag_format_json(const tsr_diag *diag, tsr_buffer *out);

/* FAILs with TSR_COMPILE: "<what> failed: N errors; the first is <text>". */
TSR_RESULT tsr_diag_fail(tsr_ctx *ctx, const tsr_diag_list *list, const char *what);

#endif
