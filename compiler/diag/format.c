/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a diagnostic as text and as JSON.
 */
#include "compiler/diag/record.h"

#include <string.h>

const char *tsr_diag_about(tsr_diag_number number) {
    switch (number) {
#define X(name, n, about, remedy)                                                                  \
    case n:                                                                                        \
        return about;
#include "compiler/diag/diag.def"
#undef X
    }
    return NULL;
}

static const char *const severity_names[] = {
    [TSR_SEVERITY_ERROR] = "error",
    [TSR_SEVERITY_WARNING] = "warning",
    [TSR_SEVERITY_NOTE] = "note",
    [TSR_SEVERITY_REMARK] = "remark",
};

static size_t character_begin(const char *line, size_t at) {
    while (at && ((unsigned char)line[at] & 0xc0) == 0x80) at--;
    return at;
}

/* Keeps tabs as tabs, so that the following text is printed under its column at any tab width. */
static void format_blanks(const char *line, size_t begin, size_t end, tsr_buffer *out) {
    for (size_t i = begin; i < end; i++) tsr_buffer_text(out, line[i] == '\t' ? "\t" : " ");
}

/* A caret under the first character, `~` under each further one. */
static void format_range(const char *line, size_t begin, size_t end, tsr_buffer *out) {
    tsr_buffer_text(out, "^");
    for (size_t i = begin + 1; i < end; i++)
        if (((unsigned char)line[i] & 0xc0) != 0x80) tsr_buffer_text(out, "~");
    tsr_buffer_text(out, "\n");
}

/* Appends the line (or only the text around the column, where stored weights make the line
 * megabytes long), the caret and the fix-it. */
static void format_excerpt(const tsr_diag *diag, tsr_buffer *out) {
    static const size_t excerpt_max = 160;
    const char *line = diag->source_line;
    uint32_t column = diag->column;
    size_t size = strlen(line), at = column ? column - 1 : 0, begin = 0, end = size;
    if (at > size) at = size;
    if (size > excerpt_max) {
        if (at > excerpt_max / 2) begin = character_begin(line, at - excerpt_max / 2);
        if (size - begin > excerpt_max) end = character_begin(line, begin + excerpt_max);
    }
    tsr_buffer_text(out, begin ? "…" : "");
    tsr_buffer_append(out, line + begin, end - begin);
    tsr_buffer_printf(out, "%s\n%s", end < size ? "…" : "", begin ? " " : "");
    format_blanks(line, begin, at, out);
    format_range(line, at, at + diag->length < end ? at + diag->length : end, out);
    if (!diag->fix || begin || diag->fix_column > size) return;
    format_blanks(line, 0, diag->fix_column - 1, out);
    tsr_buffer_printf(out, "%s\n", diag->fix);
}

static void format_one(const tsr_diag *diag, tsr_buffer *out) {
    if (diag->file[0]) tsr_buffer_printf(out, "%s:%u:%u: ", diag->file, diag->line, diag->column);
    tsr_buffer_printf(out, "%s: ", severity_names[diag->severity]);
    if (diag->number) tsr_buffer_printf(out, "[TSR-%04d] ", (int)diag->number);
    tsr_buffer_printf(out, "%s\n", diag->text);
    if (diag->source_line) format_excerpt(diag, out);
}

void tsr_diag_format(const tsr_diag *diag, tsr_buffer *out) {
    format_one(diag, out);
    for (size_t i = 0; i < diag->note_count; i++) format_one(&diag->notes[i], out);
}

void tsr_diag_format_json(const tsr_diag *diag, tsr_buffer *out) {
    tsr_buffer_text(out, "{");
    if (diag->number) tsr_buffer_printf(out, "\"number\":\"TSR-%04d\",", (int)diag->number);
    tsr_buffer_printf(out, "\"severity\":\"%s\",\"file\":", severity_names[diag->severity]);
    tsr_buffer_json_string(out, diag->file);
    tsr_buffer_printf(out, ",\"line\":%u,\"column\":%u,\"text\":", diag->line, diag->column);
    tsr_buffer_json_string(out, diag->text);
    if (diag->length) tsr_buffer_printf(out, ",\"length\":%u", diag->length);
    if (diag->fix) {
        tsr_buffer_printf(out, ",\"fix\":{\"column\":%u,\"length\":%u,\"text\":", diag->fix_column,
                          diag->fix_length);
        tsr_buffer_json_string(out, diag->fix);
        tsr_buffer_text(out, "}");
    }
    if (diag->severity != TSR_SEVERITY_NOTE) {
        tsr_buffer_text(out, ",\"notes\":[");
        for (size_t i = 0; i < diag->note_count; i++) {
            if (i) tsr_buffer_text(out, ",");
            tsr_diag_format_json(&diag->notes[i], out);
        }
        tsr_buffer_text(out, "]");
    }
    tsr_buffer_text(out, "}");
}
