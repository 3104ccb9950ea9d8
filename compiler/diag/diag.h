/* SPDX-License-Identifier: Apache-2.0
 *
 * Diagnostics: the messages for the author of a model, many per compile. Diagnostics are collected
 * as records; a tool prints them.
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
 * A fix-it is printed below the caret, under the text that it replaces.
 */
#ifndef TSR_COMPILER_DIAG_DIAG_H
#define TSR_COMPILER_DIAG_DIAG_H

#include "compiler/diag/record.h"
#include "runtime/base/arena.h"

#include <mlir-c/Diagnostics.h>
#include <mlir-c/IR.h>

typedef struct tsr_diag_line {
    const char *begin; /* in the text of the source */
    const char *copy;  /* without newline; NULL until a diagnostic shows the line */
} tsr_diag_line;

typedef struct tsr_diag_source {
    const char *name, *text; /* the text is borrowed; it ends with a NUL */
    size_t size_bytes;
    size_t line_count;
    tsr_diag_line *lines; /* NULL until a diagnostic points to the source */
    struct tsr_diag_source *next;
} tsr_diag_source;

/* Zero-initialise, set the callback, keep it alive as long as the context it is attached to.
 * `accepts` is called twice for each diagnostic of MLIR: first with NULL, before the record is
 * made, and if it returns true again with the record. Thus rejected diagnostics take no memory. */
typedef struct tsr_diag_list {
    void (*on_diag)(void *user, const tsr_diag *diag);                 /* may be NULL */
    void *user;                                                        /* borrowed */
    bool (*accepts)(struct tsr_diag_list *list, const tsr_diag *diag); /* see below; NULL: all */
    void *accepts_user;                                                /* borrowed */
    tsr_diag *first, *last;
    size_t error_count;
    tsr_diag_source *sources;
    MlirContext context; /* the context it is attached to */
    bool bytecode;       /* the input is bytecode */
    uint64_t verified;   /* fingerprint of the module that was verified last (tsr_shim_fingerprint),
                          * or 0 */
    tsr_arena arena;
} tsr_diag_list;

void tsr_diag_finish(tsr_diag_list *list); /* accepts NULL */
/* Registers the text of a file under the name that locations use. The text is followed by a NUL
 * and borrowed until the list is finished. False if out of memory. */
bool tsr_diag_add_source(tsr_diag_list *list, const char *name, const char *text,
                         size_t size_bytes);
/* Adds a record that a front end made; all that it points to outlives the list. */
void tsr_diag_add(tsr_diag_list *list, tsr_diag *diag);
/* The byte of its source at which a diagnostic points; SIZE_MAX if it points to no known source. */
size_t tsr_diag_position(tsr_diag_list *list, const tsr_diag *diag);
/* All errors emitted on the context from now on go to the list, if it accepts them. */
void tsr_diag_attach(tsr_diag_list *list, MlirContext context);

typedef struct tsr_diag_note {
    MlirLocation location;
    const char *text;
} tsr_diag_note;

/* Emits an error: "[TSR-0102] " and the text, at `location`, with notes (TSR_DIAG_NOTES_MAX). A
 * few numbers are remarks, not errors: they arrive in the list with that severity. */
void tsr_diag_error(MlirLocation location, tsr_diag_number number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void tsr_diag_error_note(MlirLocation location, tsr_diag_number number, const char *text,
                         MlirLocation note_location, const char *note);
enum { TSR_DIAG_NOTES_MAX = 10 };
void tsr_diag_error_notes(MlirLocation location, tsr_diag_number number, const char *text,
                          size_t note_count, const tsr_diag_note *notes);

/* Fails with TSR_COMPILE: "<what> failed: N errors; the first is <text>". */
TSR_RESULT tsr_diag_fail(tsr_ctx *ctx, const tsr_diag_list *list, const char *what);

#endif
