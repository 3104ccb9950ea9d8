/* SPDX-License-Identifier: Apache-2.0
 *
 * Anchors: the copies of an entry that a build makes for several sizes of its open dims. The copies
 * of "predict" are the entries "predict[N=1,S=4]", "predict[N=8,S=4]", …; they have the same
 * symbols, and the same ports except for sizes of dims; tsr_config_verify checks this.
 */
#ifndef TSR_MANIFESTS_ANCHOR_H
#define TSR_MANIFESTS_ANCHOR_H

#include "runtime/base/buffer.h"
#include "tessera/config.h"

enum { TSR_ANCHOR_SYMBOLS_MAX = 32 };

typedef struct tsr_anchor_size {
    const char *symbol; /* not terminated; borrowed from the entry's name */
    size_t length;
    uint64_t size;
} tsr_anchor_size;

typedef struct tsr_anchor {
    size_t name_length; /* of the entry's name, without the sizes */
    size_t count;
    tsr_anchor_size sizes[TSR_ANCHOR_SYMBOLS_MAX];
} tsr_anchor;

/* Reads NAME[SYMBOL=SIZE,…]; false for any other name. */
bool tsr_anchor_read(const char *entry_name, tsr_anchor *out_anchor);
/* True if both list the same symbols in the same order. */
bool tsr_anchor_same_symbols(const tsr_anchor *a, const tsr_anchor *b);
/* The first copy of the entry `name`, or config->entry_count if it has none. Its copies follow. */
size_t tsr_anchor_find(const tsr_config *config, const char *name);
/* The length of an entry's name without the sizes of its dims: "predict[N=8]" has 7. */
size_t tsr_anchor_name_length(const char *entry_name);
/* Appends the names of the entries, "other, predict"; copies of one entry are listed once. */
void tsr_anchor_list_entries(const tsr_config *config, tsr_buffer *list);
/* True if entry `index` is a copy of the same entry as the one before it. */
bool tsr_anchor_follows(const tsr_config *config, size_t index);

#endif
