/* SPDX-License-Identifier: Apache-2.0
 *
 * Which memory consists of large pages, or will when it is touched. A disk writes straight into it
 * at full speed; into small pages, which are pinned one by one, slower than the bytes are copied.
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

/* Of this process, as /proc/self/smaps tells; none where it does not. */
void tsr_large_pages_find(tsr_large_pages *out_pages);
bool tsr_large_pages_hold(const tsr_large_pages *pages, const void *memory, uint64_t size_bytes);

#endif
