/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/store/pages.h"

#include <stdio.h>

enum { LINE_BYTES = 512 };

/* The values of smaps for one mapping. */
typedef struct mapping {
    unsigned long start, end;
    unsigned long resident_kib, large_kib, eligible;
} mapping;

/* If no page was touched yet, it is enough that large pages are available. */
static void add(tsr_large_pages *pages, const mapping *m) {
    bool large = m->eligible && m->large_kib * 10 >= m->resident_kib * 9;
    if (!large || pages->count == TSR_LARGE_PAGES_MAX) return;
    pages->ranges[pages->count].start = m->start;
    pages->ranges[pages->count++].end = m->end;
}

void tsr_large_pages_find(tsr_large_pages *out_pages) {
    char line[LINE_BYTES];
    mapping m = {0}, next = {0};
    *out_pages = (tsr_large_pages){.count = 0};
    FILE *file = fopen("/proc/self/smaps", "re");
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%lx-%lx ", &next.start, &next.end) == 2) {
            add(out_pages, &m);
            m = next;
        } else if (sscanf(line, "Rss: %lu", &m.resident_kib) != 1 &&
                   sscanf(line, "AnonHugePages: %lu", &m.large_kib) != 1)
            (void)sscanf(line, "THPeligible: %lu", &m.eligible);
    }
    add(out_pages, &m);
    fclose(file);
}

bool tsr_large_pages_hold(const tsr_large_pages *pages, const void *memory, uint64_t size_bytes) {
    const uintptr_t at = (uintptr_t)memory;
    for (unsigned i = 0; i < pages->count; i++)
        if (at >= pages->ranges[i].start && at < pages->ranges[i].end &&
            size_bytes <= pages->ranges[i].end - at)
            return true;
    return false;
}
