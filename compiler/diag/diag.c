/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts MLIR diagnostics to records: the number is the text's "[TSR-nnnn] " prefix if it has
 * one, else the number for MLIR's own messages. A location inside inlined code becomes the
 * original location in the source, with a note for each call that it was inlined through.
 */
#include "compiler/diag/diag.h"

#include "compiler/diag/fixit.h"
#include "compiler/diag/form.h"
#include "compiler/shim/shim.h"
#include "runtime/base/array.h"
#include "runtime/base/plural.h"
#include "runtime/base/tensor.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 1024, CALLS_MAX = 8 };

void tsr_diag_finish(tsr_diag_list *list) {
    if (!list) return;
    tsr_arena_finish(&list->arena);
    *list = (tsr_diag_list){.on_diag = list->on_diag, .user = list->user, .context = list->context};
}

bool tsr_diag_add_source(tsr_diag_list *list, const char *name, const char *text,
                         size_t size_bytes) {
    tsr_diag_source *source = TSR_NEW(&list->arena, tsr_diag_source, 1);
    const char *own = tsr_arena_strdup(&list->arena, name);
    if (!source || !own) return false;
    *source = (tsr_diag_source){
        .name = own, .text = text, .size_bytes = size_bytes, .next = list->sources};
    list->sources = source;
    return true;
}

/* Finds the begins of all lines once: a text can have many errors. */
static bool index_lines(tsr_diag_list *list, tsr_diag_source *source) {
    const char *end = source->text + source->size_bytes;
    size_t count = 0;
    if (source->lines) return true;
    for (const char *at = source->text; at && at < end; count++) {
        at = memchr(at, '\n', (size_t)(end - at));
        if (at) at++;
    }
    source->lines = TSR_NEW(&list->arena, tsr_diag_line, count + 1);
    if (!source->lines) return false;
    for (const char *at = source->text; source->line_count < count; at++) {
        source->lines[source->line_count++].begin = at;
        if (source->line_count < count) at = memchr(at, '\n', (size_t)(end - at));
    }
    return true;
}

/* A line of a source; NULL if the source is not available. */
static tsr_diag_line *find_line(tsr_diag_list *list, const char *file, uint32_t line,
                                const tsr_diag_source **out_source) {
    for (tsr_diag_source *s = list->sources; s && line > 0; s = s->next) {
        if (strcmp(s->name, file) != 0) continue;
        if (!index_lines(list, s) || line > s->line_count) return NULL;
        *out_source = s;
        return &s->lines[line - 1];
    }
    return NULL;
}

/* The text of a line, copied once for all diagnostics that show it. */
static const char *copy_line(tsr_diag_list *list, const char *file, uint32_t line) {
    const tsr_diag_source *source;
    tsr_diag_line *found = find_line(list, file, line, &source);
    if (!found || found->copy) return found ? found->copy : NULL;
    const char *end = source->text + source->size_bytes;
    const char *stop = memchr(found->begin, '\n', (size_t)(end - found->begin));
    found->copy =
        tsr_arena_strndup(&list->arena, found->begin, (size_t)((stop ? stop : end) - found->begin));
    return found->copy;
}

size_t tsr_diag_position(tsr_diag_list *list, const tsr_diag *diag) {
    const tsr_diag_source *source;
    const tsr_diag_line *found = find_line(list, diag->file, diag->line, &source);
    if (!found || !diag->column) return SIZE_MAX;
    size_t line = (size_t)(found->begin - source->text), column = diag->column - 1;
    size_t length = strcspn(found->begin, "\n");
    return line + (column < length ? column : length);
}

/* The innermost file position of a location. `calls` gets the callers it was inlined into. */
static MlirLocation resolve(MlirLocation location, MlirLocation *calls, size_t *call_count) {
    for (;;) {
        if (mlirLocationIsACallSite(location)) {
            if (*call_count < CALLS_MAX)
                calls[(*call_count)++] = mlirLocationCallSiteGetCaller(location);
            location = mlirLocationCallSiteGetCallee(location);
        } else if (mlirLocationIsAName(location)) {
            location = mlirLocationNameGetChildLoc(location);
        } else if (mlirLocationIsAFused(location) && mlirLocationFusedGetNumLocations(location)) {
            unsigned count = mlirLocationFusedGetNumLocations(location);
            MlirLocation *parts = calloc(count, sizeof *parts);
            if (!parts) return location;
            mlirLocationFusedGetLocations(location, parts);
            location = parts[0];
            free(parts);
        } else {
            return location;
        }
    }
}

static void locate(tsr_diag_list *list, tsr_diag *diag, MlirLocation location) {
    diag->file = "";
    if (!mlirLocationIsAFileLineColRange(location)) return;
    MlirStringRef file = mlirIdentifierStr(mlirLocationFileLineColRangeGetFilename(location));
    const char *name = tsr_arena_strndup(&list->arena, file.data, file.length);
    if (!name) return;
    diag->file = name;
    diag->line = (uint32_t)mlirLocationFileLineColRangeGetStartLine(location);
    diag->column = (uint32_t)mlirLocationFileLineColRangeGetStartColumn(location);
    diag->source_line = copy_line(list, name, diag->line);
    uint32_t end = (uint32_t)mlirLocationFileLineColRangeGetEndColumn(location);
    bool one_line = mlirLocationFileLineColRangeGetEndLine(location) == (int)diag->line;
    if (one_line && end > diag->column) diag->length = end - diag->column;
}

/* MLIR's advice addresses tools that allow unknown dialects; ours lists the known dialects. Needs
 * the diagnostic's location. */
static void reword(tsr_diag_list *list, tsr_diag *diag) {
    static const char what[] = " created with unregistered dialect";
    tsr_buffer text = {0};
    const char *end = strstr(diag->text, what), *word = NULL;
    size_t letters = 0;
    if (diag->source_line && diag->column && strlen(diag->source_line) >= diag->column) {
        word = diag->source_line + diag->column - 1;
        while (*word == ' ') word++; /* some locations are those of the blanks before a type */
        while (isalnum((unsigned char)word[letters]) || word[letters] == '_') letters++;
    }
    if (end && end - diag->text > 5 && strncmp(end - 5, " type", 5) == 0)
        tsr_buffer_printf(&text,
                          "%.*s is a type of no known dialect; the elements of a tensor are %s",
                          (int)(end - 5 - diag->text), diag->text, tsr_dtype_names());
    else if (end)
        tsr_buffer_printf(&text, "%.*s is of no known dialect", (int)(end - diag->text),
                          diag->text);
    else if (strstr(diag->text, "operation being parsed with an unregistered dialect"))
        tsr_buffer_printf(&text, "this operation is of no known dialect");
    else if (strcmp(diag->text, "expected non-function type") == 0 && letters)
        tsr_buffer_printf(&text, "'%.*s' is not a type; the elements of a tensor are %s",
                          (int)letters, word, tsr_dtype_names());
    const char *own =
        text.bytes && !text.failed ? tsr_arena_strdup(&list->arena, text.bytes) : NULL;
    if (own) diag->text = own;
    tsr_buffer_finish(&text);
}

static void append(MlirStringRef text, void *user) {
    tsr_buffer_append(user, text.data, text.length);
}

static void read_text(tsr_diag_list *list, tsr_diag *diag, MlirDiagnostic source) {
    tsr_buffer buffer = {0};
    mlirDiagnosticPrint(source, append, &buffer);
    const char *text = buffer.bytes && !buffer.failed ? buffer.bytes : "";
    unsigned number = 0;
    int end = 0;
    if (sscanf(text, "[TSR-%4u] %n", &number, &end) == 1 && end) {
        diag->number = (tsr_diag_number)number;
        text += end;
    }
    diag->text = tsr_arena_strdup(&list->arena, text);
    if (!diag->text) diag->text = "";
    tsr_buffer_finish(&buffer);
}

/* Returns the number of a message that MLIR wrote. */
static tsr_diag_number number_of(const tsr_diag_list *list, const char *text) {
    static const struct {
        tsr_diag_number number;
        const char *words;
    } rows[] = {
#define X(name, words) {TSR_DIAG_##name, words},
#include "compiler/diag/mlir-messages.def"
#undef X
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++)
        if (strstr(text, rows[i].words)) return rows[i].number;
    if (list->bytecode) return TSR_DIAG_BYTECODE;
    return text[0] == '\'' ? TSR_DIAG_VERIFIER : TSR_DIAG_SYNTAX;
}

/* All numbers except these are errors; MLIR's C API emits only errors. */
static bool is_remark(tsr_diag_number number) { return number == TSR_DIAG_ROWS_INDEPENDENT; }

static tsr_severity severity_of(MlirDiagnostic source) {
    switch (mlirDiagnosticGetSeverity(source)) {
    case MlirDiagnosticWarning:
        return TSR_SEVERITY_WARNING;
    case MlirDiagnosticNote:
        return TSR_SEVERITY_NOTE;
    case MlirDiagnosticRemark:
        return TSR_SEVERITY_REMARK;
    case MlirDiagnosticError:
        break;
    }
    return TSR_SEVERITY_ERROR;
}

static void read_notes(tsr_diag_list *list, tsr_diag *diag, MlirDiagnostic source,
                       const MlirLocation *calls, size_t call_count) {
    size_t count = (size_t)mlirDiagnosticGetNumNotes(source);
    diag->notes = TSR_NEW(&list->arena, tsr_diag, count + call_count + 1); /* add_form adds one */
    if (!diag->notes) return;
    for (size_t i = 0; i < call_count; i++) {
        tsr_diag *note = &diag->notes[diag->note_count++];
        MlirLocation ignored[CALLS_MAX];
        size_t ignored_count = 0;
        note->severity = TSR_SEVERITY_NOTE;
        note->text = "called from here";
        locate(list, note, resolve(calls[i], ignored, &ignored_count));
    }
    for (size_t i = 0; i < count; i++) {
        MlirDiagnostic from = mlirDiagnosticGetNote(source, (intptr_t)i);
        tsr_diag *note = &diag->notes[diag->note_count++];
        MlirLocation ignored[CALLS_MAX];
        size_t ignored_count = 0;
        note->severity = TSR_SEVERITY_NOTE;
        read_text(list, note, from);
        locate(list, note, resolve(mlirDiagnosticGetLocation(from), ignored, &ignored_count));
    }
}

/* Says how the op is written in which the parser stopped. */
static void add_form(tsr_diag_list *list, tsr_diag *diag) {
    const tsr_diag_source *source;
    size_t position = tsr_diag_position(list, diag);
    if (diag->number != TSR_DIAG_SYNTAX || position == SIZE_MAX || !diag->notes) return;
    if (!find_line(list, diag->file, 1, &source)) return;
    const char *form = tsr_form_find(source->text, position);
    const char *text = form ? tsr_arena_printf(&list->arena, "form: %s", form) : NULL;
    if (!text) return;
    diag->notes[diag->note_count++] =
        (tsr_diag){.severity = TSR_SEVERITY_NOTE, .file = "", .text = text};
}

void tsr_diag_add(tsr_diag_list *list, tsr_diag *diag) {
    if (list->last)
        list->last->next = diag;
    else
        list->first = diag;
    list->last = diag;
    list->error_count += diag->severity == TSR_SEVERITY_ERROR;
    if (list->on_diag) list->on_diag(list->user, diag);
}

static MlirLogicalResult handle(MlirDiagnostic source, void *user) {
    tsr_diag_list *list = user;
    if (list->accepts && !list->accepts(list, NULL)) return mlirLogicalResultSuccess();
    tsr_diag *diag = TSR_NEW(&list->arena, tsr_diag, 1);
    if (!diag) return mlirLogicalResultFailure();
    MlirLocation calls[CALLS_MAX];
    size_t call_count = 0;
    diag->severity = severity_of(source);
    read_text(list, diag, source);
    if (is_remark(diag->number)) diag->severity = TSR_SEVERITY_REMARK;
    locate(list, diag, resolve(mlirDiagnosticGetLocation(source), calls, &call_count));
    if (!diag->number) reword(list, diag);
    if (!diag->number) diag->number = number_of(list, diag->text);
    read_notes(list, diag, source, calls, call_count);
    tsr_diag_add_fix(list, diag);
    add_form(list, diag);
    if (!list->accepts || list->accepts(list, diag)) tsr_diag_add(list, diag);
    return mlirLogicalResultSuccess();
}

void tsr_diag_attach(tsr_diag_list *list, MlirContext context) {
    list->context = context;
    mlirContextAttachDiagnosticHandler(context, handle, list, NULL);
    tsr_shim_quiet_diagnostics(context);
}

void tsr_diag_error(MlirLocation location, tsr_diag_number number, const char *format, ...) {
    char text[TEXT_MAX];
    va_list args;
    int length = snprintf(text, sizeof text, "[TSR-%04d] ", (int)number);
    va_start(args, format);
    vsnprintf(text + length, sizeof text - (size_t)length, format, args);
    va_end(args);
    mlirEmitError(location, text);
}

void tsr_diag_error_notes(MlirLocation location, tsr_diag_number number, const char *text,
                          size_t note_count, const tsr_diag_note *notes) {
    char full[TEXT_MAX];
    MlirLocation locations[TSR_DIAG_NOTES_MAX];
    MlirStringRef texts[TSR_DIAG_NOTES_MAX];
    TSR_ASSERT(note_count <= TSR_DIAG_NOTES_MAX);
    snprintf(full, sizeof full, "[TSR-%04d] %s", (int)number, text);
    for (size_t i = 0; i < note_count; i++) {
        locations[i] = notes[i].location;
        texts[i] = mlirStringRefCreateFromCString(notes[i].text);
    }
    tsr_shim_emit_error(location, mlirStringRefCreateFromCString(full), note_count, locations,
                        texts);
}

void tsr_diag_error_note(MlirLocation location, tsr_diag_number number, const char *text,
                         MlirLocation note_location, const char *note) {
    tsr_diag_error_notes(location, number, text, 1, &(tsr_diag_note){note_location, note});
}

tsr_result tsr_diag_fail(tsr_ctx *ctx, const tsr_diag_list *list, const char *what) {
    for (const tsr_diag *d = list->first; d; d = d->next)
        if (d->severity == TSR_SEVERITY_ERROR)
            FAIL(ctx, TSR_COMPILE, "%s failed with %zu error%s; the first: %s", what,
                 list->error_count, TSR_PLURAL(list->error_count), d->text);
    FAIL(ctx, TSR_COMPILE, "%s failed without a diagnostic", what);
}
