/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks what CPython checks before it reads tokens: the encoding and NUL bytes.
 */
#include "compiler/frontend/language/syntax/limits.h"
#include "compiler/frontend/language/syntax/report.h"
#include "runtime/base/io/json.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* The name of a "coding: NAME" comment (PEP 263) in a line; returns whether there is one. */
static bool find_coding(const char *line, tsr_span *out_name) {
    size_t at = strspn(line, " \t\f");
    if (line[at] != '#') return false;
    for (; line[at] && line[at] != '\n'; at++) {
        if (strncmp(line + at, "coding", 6) != 0) continue;
        if (line[at + 6] != ':' && line[at + 6] != '=') continue;
        size_t begin = at + 7 + strspn(line + at + 7, " \t"), end = begin;
        while (isalnum((unsigned char)line[end]) || (line[end] && strchr("-_.", line[end]))) end++;
        if (end == begin) continue;
        *out_name = (tsr_span){(uint32_t)begin, (uint32_t)end};
        return true;
    }
    return false;
}

/* A line of blanks and comment only, after which CPython also reads the second line. */
static bool is_blank(const char *line) {
    line += strspn(line, " \t\f");
    return *line == '#' || *line == '\n' || !*line;
}

static bool check_coding(tsr_report *report, const tsr_source *source) {
    for (uint32_t i = 0; i < 2 && i < source->line_count; i++) {
        const char *line = source->text + source->lines[i];
        tsr_span name;
        if (find_coding(line, &name)) {
            const char *word = line + name.begin;
            size_t length = name.end - name.begin;
            if ((length == 5 && strncasecmp(word, "utf-8", 5) == 0) ||
                (length == 5 && strncasecmp(word, "utf_8", 5) == 0) ||
                (length == 4 && strncasecmp(word, "utf8", 4) == 0) ||
                (length == 9 && strncasecmp(word, "utf-8-sig", 9) == 0))
                return true;
            uint32_t begin = source->lines[i] + name.begin;
            tsr_report_error(
                report, source, (tsr_span){begin, begin + (uint32_t)length}, TSR_DIAG_TEXT_ENCODING,
                "the encoding is '%.*s'; a program is read as UTF-8", (int)length, word);
            return false;
        }
        if (!is_blank(line)) return true;
    }
    return true;
}

/* The first byte that begins no UTF-8 character. */
static uint32_t find_bad_byte(const tsr_source *source) {
    uint32_t at = 0;
    while (at < source->size_bytes) {
        unsigned char c = (unsigned char)source->text[at];
        uint32_t length = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
        if (length > source->size_bytes - at || !tsr_utf8_valid(source->text + at, length))
            return at;
        at += length;
    }
    return at;
}

static bool check_bytes(tsr_report *report, const tsr_source *source) {
    const char *nul = memchr(source->text, 0, source->size_bytes);
    if (nul) {
        uint32_t at = (uint32_t)(nul - source->text);
        tsr_report_error(report, source, (tsr_span){at, at}, TSR_DIAG_TEXT_ENCODING,
                         "the text contains a NUL byte");
        return false;
    }
    if (tsr_utf8_valid(source->text, source->size_bytes)) return true;
    uint32_t at = find_bad_byte(source);
    tsr_report_error(report, source, (tsr_span){at, at}, TSR_DIAG_TEXT_ENCODING,
                     "byte 0x%02x is not UTF-8", (unsigned char)source->text[at]);
    return false;
}

bool tsr_source_init(tsr_report *report, const char *name, const char *bytes, size_t size_bytes,
                     tsr_source *out) {
    bool fits = size_bytes <= TSR_LANGUAGE_SOURCE_MAX;
    if (!tsr_source_copy(report->arena, name, bytes, fits ? size_bytes : 0, out)) {
        report->memory = true;
        return false;
    }
    if (fits) return check_coding(report, out) && check_bytes(report, out);
    out->lines = NULL; /* the text has none that a message could show */
    tsr_report_error(report, out, (tsr_span){0}, TSR_DIAG_TEXT_LIMIT,
                     "the source has %zu bytes; at most %d are allowed", size_bytes,
                     TSR_LANGUAGE_SOURCE_MAX);
    return false;
}
