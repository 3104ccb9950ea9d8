/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a record of a span: its file, line and column, its line of the source.
 */
#include "compiler/frontend/language/syntax/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 1024, NOTES_MAX = 12 };

bool tsr_report_is_full(const tsr_report *report) {
    return report->memory || (report->errors_max && report->error_count >= report->errors_max);
}

static const char *copy_line(tsr_report *report, const tsr_source *source, uint32_t line) {
    const char *begin = source->text + source->lines[line - 1];
    return tsr_arena_strndup(report->arena, begin, strcspn(begin, "\n"));
}

static void locate(tsr_report *report, tsr_diag *diag, const tsr_source *source, tsr_span span) {
    diag->file = source->name;
    if (!source->lines) return;
    diag->line = tsr_source_line(source, span.begin);
    diag->column = tsr_source_column(source, span.begin);
    diag->source_line = copy_line(report, source, diag->line);
    size_t rest = diag->source_line ? strlen(diag->source_line) + 1 - diag->column : 0;
    uint32_t length = span.end > span.begin ? span.end - span.begin : 0;
    diag->length = length < rest ? length : (uint32_t)rest;
}

/* Whether the same was said at the same place: a function can be compiled for several signatures.
 */
static bool is_repeated(const tsr_report *report, const tsr_diag *diag) {
    const tsr_diag *d = report->errors_max ? report->first : NULL;
    for (; d; d = d->next)
        if (d->number == diag->number && d->line == diag->line && d->column == diag->column &&
            strcmp(d->file, diag->file) == 0 && strcmp(d->text, diag->text) == 0)
            return true;
    return false;
}

void tsr_report_add(tsr_report *report, tsr_diag *diag) {
    diag->next = NULL;
    if (is_repeated(report, diag)) return;
    if (report->last) report->last->next = diag;
    if (!report->first) report->first = diag;
    report->last = diag;
    report->error_count += diag->severity == TSR_SEVERITY_ERROR;
}

static tsr_diag *add(tsr_report *report, const tsr_source *source, tsr_span span,
                     tsr_diag_number number, tsr_severity severity, const char *text) {
    if (report->muted || tsr_report_is_full(report)) return NULL;
    tsr_diag *diag = TSR_NEW(report->arena, tsr_diag, 1);
    char *own = tsr_arena_strdup(report->arena, text);
    if (!diag || !own) {
        report->memory = true;
        return NULL;
    }
    *diag = (tsr_diag){.number = number, .severity = severity, .text = own};
    locate(report, diag, source, span);
    tsr_report_add(report, diag);
    return diag;
}

static tsr_diag *add_formatted(tsr_report *report, const tsr_source *source, tsr_span span,
                               tsr_diag_number number, tsr_severity severity, const char *format,
                               va_list args) {
    char text[TEXT_MAX];
    vsnprintf(text, sizeof text, format, args);
    return add(report, source, span, number, severity, text);
}

tsr_diag *tsr_report_error(tsr_report *report, const tsr_source *source, tsr_span span,
                           tsr_diag_number number, const char *format, ...) {
    va_list args;
    va_start(args, format);
    tsr_diag *diag = add_formatted(report, source, span, number, TSR_SEVERITY_ERROR, format, args);
    va_end(args);
    return diag;
}

tsr_diag *tsr_report_warning(tsr_report *report, const tsr_source *source, tsr_span span,
                             tsr_diag_number number, const char *format, ...) {
    va_list args;
    va_start(args, format);
    tsr_diag *diag =
        add_formatted(report, source, span, number,
                      report->strict ? TSR_SEVERITY_ERROR : TSR_SEVERITY_WARNING, format, args);
    va_end(args);
    return diag;
}

void tsr_report_note(tsr_report *report, tsr_diag *diag, const tsr_source *source, tsr_span span,
                     const char *format, ...) {
    char text[TEXT_MAX];
    va_list args;
    if (!diag || diag->note_count == NOTES_MAX) return;
    if (!diag->notes) diag->notes = TSR_NEW(report->arena, tsr_diag, NOTES_MAX);
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char *own = tsr_arena_strdup(report->arena, text);
    if (!diag->notes || !own) {
        report->memory = true;
        return;
    }
    tsr_diag *note = &diag->notes[diag->note_count++];
    *note = (tsr_diag){.severity = TSR_SEVERITY_NOTE, .text = own, .file = ""};
    if (source) locate(report, note, source, span);
}

void tsr_report_fix(tsr_report *report, tsr_diag *diag, const tsr_source *source, tsr_span span,
                    const char *text) {
    if (!diag || !text[0] || span.end <= span.begin) return;
    if (tsr_source_line(source, span.begin) != diag->line) return;
    diag->fix = tsr_arena_strdup(report->arena, text);
    diag->fix_column = tsr_source_column(source, span.begin);
    diag->fix_length = span.end - span.begin;
}

/* A record's place in the order: by file, in the order of their first records, line and column;
 * records of one place stay in their order. */
typedef struct position {
    tsr_diag *diag;
    size_t file, index;
} position;

static int by_position(const void *a, const void *b) {
    const position *x = a, *y = b;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    if (x->diag->line != y->diag->line) return x->diag->line < y->diag->line ? -1 : 1;
    if (x->diag->column != y->diag->column) return x->diag->column < y->diag->column ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static size_t first_of_file(const position *positions, size_t count, const char *file) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(positions[i].diag->file, file) == 0) return positions[i].file;
    return count;
}

static void sort(tsr_report *report) {
    size_t count = 0;
    for (const tsr_diag *d = report->first; d; d = d->next) count++;
    position *positions = count ? TSR_NEW(report->arena, position, count) : NULL;
    report->memory = report->memory || (count && !positions);
    if (!positions) return;
    count = 0;
    for (tsr_diag *d = report->first; d; d = d->next, count++)
        positions[count] = (position){d, first_of_file(positions, count, d->file), count};
    qsort(positions, count, sizeof *positions, by_position);
    for (size_t i = 0; i < count; i++)
        positions[i].diag->next = i + 1 < count ? positions[i + 1].diag : NULL;
    report->first = positions[0].diag;
    report->last = positions[count - 1].diag;
}

void tsr_report_send(tsr_report *report) {
    sort(report);
    for (tsr_diag *diag = report->first, *next; diag; diag = next) {
        next = diag->next;
        if (report->on_diag) report->on_diag(report->user, diag);
    }
}
