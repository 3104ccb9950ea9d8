/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of the event log, without allocating.
 */
#include "runtime/state/event.h"

#include "runtime/base/io/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LINE_BYTES = 8192, TEXT_END = LINE_BYTES - 16 };

/* The line is always valid JSON: if the text is not UTF-8, each non-ASCII byte becomes \u00XX. */
static size_t put_text(char line[static LINE_BYTES], size_t at, const char *text) {
    const bool utf8 = tsr_utf8_valid(text, strlen(text));
    at += (size_t)snprintf(line + at, LINE_BYTES - at, ",\"text\":\"");
    for (const char *c = text; *c && at < TEXT_END; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte < 0x20 || byte == 0x7f || (byte > 0x7f && !utf8))
            at += (size_t)snprintf(line + at, LINE_BYTES - at, "\\u%04x", (unsigned)byte);
        else {
            if (byte == '"' || byte == '\\') line[at++] = '\\';
            line[at++] = (char)byte;
        }
    }
    line[at++] = '"';
    return at;
}

static void put_event(tsr_events *events, const char *name, const tsr_link *link, const char *text,
                      const char *more) {
    char line[LINE_BYTES], hex[TSR_DIGEST_HEX + 1];
    size_t at =
        (size_t)snprintf(line, sizeof line,
                         "{\"seq\":%" PRIu64 ",\"ns\":%" PRIu64 ",\"who\":\"%s\",\"pid\":%" PRIu64
                         ",\"epoch\":%" PRIu64 ",\"event\":\"%s\"",
                         ++events->sequence, events->now_ns(events->self), events->who,
                         events->process_id, events->epoch, name);
    if (link) {
        tsr_digest_format(&link->manifest_hash, hex);
        at += (size_t)snprintf(line + at, sizeof line - at,
                               ",\"generation\":%" PRIu64 ",\"of\":%" PRIu64 ",\"manifest\":\"%s\"",
                               link->generation, link->epoch, hex);
    }
    at += (size_t)snprintf(line + at, sizeof line - at, "%s", more);
    if (text) at = put_text(line, at, text);
    line[at++] = '}';
    line[at] = 0;
    events->line(events->self, line);
}

void tsr_event(tsr_events *events, const char *name, const tsr_link *link, const char *text) {
    if (events && events->line) put_event(events, name, link, text, "");
}

void tsr_event_more(tsr_events *events, const char *name, const tsr_link *link, const char *text,
                    const char *format, ...) {
    char more[1024] = ",";
    va_list list;
    if (!events || !events->line) return;
    va_start(list, format);
    vsnprintf(more + 1, sizeof more - 1, format, list);
    va_end(list);
    put_event(events, name, link, text, more);
}

void tsr_event_publish(tsr_events *events, const tsr_manifest *manifest) {
    const tsr_token *token = &manifest->token;
    const tsr_link *previous = &manifest->previous;
    const tsr_link link = {token->generation, token->epoch, manifest->hash};
    char state[TSR_DIGEST_HEX + 1], own[TSR_DIGEST_HEX + 1], before[TSR_DIGEST_HEX + 1];
    tsr_digest_format(&token->state_hash, state);
    tsr_digest_format(&manifest->token_hash, own);
    tsr_digest_format(&previous->manifest_hash, before);
    tsr_event_more(events, "publish", &link, NULL,
                   "\"step\":%" PRIu64 ",\"state\":\"%s\",\"token\":\"%s\",\"previous\":%" PRIu64
                   ",\"previous_of\":%" PRIu64 ",\"previous_manifest\":\"%s\",\"bytes\":%" PRIu64,
                   token->position.step, state, own, previous->generation, previous->epoch, before,
                   tsr_manifest_data_bytes(manifest));
}
