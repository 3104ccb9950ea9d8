/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of a store's event log: JSON objects (docs/state-store.md). Nothing is allocated.
 */
#ifndef TSR_RUNTIME_STATE_EVENT_H
#define TSR_RUNTIME_STATE_EVENT_H

#include "runtime/state/format.h"

/* The log of one coordinator or rank, whose lines are numbered from 1. */
typedef struct tsr_events {
    void *self; /* borrowed; passed first to both functions */
    uint64_t (*now_ns)(void *self);
    void (*line)(void *self, const char *line); /* gets a line without its newline; NULL: no log */
    char who[24];                               /* "coordinator", "rank 3" */
    uint64_t process_id, epoch, sequence;
} tsr_events;

/* `link` adds the members generation, of, manifest; `text` adds text, escaped. Both, and `events`,
 * may be NULL. */
void tsr_event(tsr_events *events, const char *name, const tsr_link *link, const char *text);
/* The same with more members, from `format`: "\"step\":%" PRIu64 */
void tsr_event_more(tsr_events *events, const char *name, const tsr_link *link, const char *text,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Called before the manifest is published. */
void tsr_event_publish(tsr_events *events, const tsr_manifest *manifest);

#endif
