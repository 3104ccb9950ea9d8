/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds memory that consists of large pages, or will when it is touched. A disk writes directly
 * into large pages at full speed. Small pages are pinned one by one, so direct writes into them are
 * slower than a copy of the bytes.
 */
#ifndef TSR_RUNTIME_STORE_PAGES_H
#define TSR_RUNTIME_STORE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TSR_LARGE_PAGES_MAX = 64 };

typedef struct tsr_large_pages {
    struct {
        uintptr_t start, end;
    } ranges[TSR_LARGE_PAGES_MAX];
    unsigned count;
} tsr_large_pages;

/* Finds the ranges of this process in /proc/self/smaps; finds nothing if it cannot be read. */
void tsr_large_pages_find(tsr_large_pages *out_pages);
bool tsr_large_pages_hold(const tsr_large_pages *pages, const void *memory, uint64_t size_bytes);

#endif
