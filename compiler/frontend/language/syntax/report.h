/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects the diagnostics of one compile.
 *
 *     tsr_diag *diag = tsr_report_error(report, source, span, TSR_DIAG_TEXT_SYNTAX, "…");
 *     tsr_report_note(report, diag, source, other, "…");
 *     tsr_report_fix(report, diag, source, span, "…");
 *
 * A muted report, and one that has its maximum of errors, returns NULL, which notes and fixes
 * accept.
 */
#ifndef TSR_COMPILER_FRONTEND_LANGUAGE_SYNTAX_REPORT_H
#define TSR_COMPILER_FRONTEND_LANGUAGE_SYNTAX_REPORT_H

#include "compiler/diag/record.h"
#include "compiler/frontend/language/syntax/source.h"

typedef struct tsr_report {
    tsr_arena *arena;                            /* borrowed; owns the records */
    void (*on_diag)(void *user, tsr_diag *diag); /* for each record once it is complete */
    void *user;
    tsr_diag *first, *last;
    size_t error_count;
    size_t errors_max; /* reported; 0: all */
    unsigned muted;    /* > 0: nothing is reported */
    bool strict;       /* spellings that Python lacks are errors */
    bool memory;       /* memory ran out */
} tsr_report;

/* Reads a text into the report's arena. Text that cannot be a program (its encoding, NUL bytes, its
 * size) is an error in the report; false is returned then, or if memory runs out. */
bool tsr_source_init(tsr_report *report, const char *name, const char *bytes, size_t size_bytes,
                     tsr_source *out);
tsr_diag *tsr_report_error(tsr_report *report, const tsr_source *source, tsr_span span,
                           tsr_diag_number number, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* An error in a strict report. */
tsr_diag *tsr_report_warning(tsr_report *report, const tsr_source *source, tsr_span span,
                             tsr_diag_number number, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void tsr_report_note(tsr_report *report, tsr_diag *diag, const tsr_source *source, tsr_span span,
                     const char *format, ...) __attribute__((format(printf, 5, 6)));
/* The text that should stand in the span, which is in the line of the diagnostic. */
void tsr_report_fix(tsr_report *report, tsr_diag *diag, const tsr_source *source, tsr_span span,
                    const char *text);
/* Whether nothing more is reported: the maximum of errors is reached, or memory ran out. */
bool tsr_report_is_full(const tsr_report *report);
/* Adds a record that was made elsewhere, unless the same is reported already. */
void tsr_report_add(tsr_report *report, tsr_diag *diag);
/* Passes the records to on_diag, in the order of their places. */
void tsr_report_send(tsr_report *report);

#endif
