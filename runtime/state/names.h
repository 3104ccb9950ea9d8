/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of the files in a store's directory.
 */
#ifndef TSR_RUNTIME_STATE_NAMES_H
#define TSR_RUNTIME_STATE_NAMES_H

#include "runtime/base/arena.h"

typedef enum tsr_name_kind {
    TSR_NAME_OTHER,
    TSR_NAME_EPOCH,      /* EPOCH.<epoch> */
    TSR_NAME_BASE,       /* BASE.<epoch> */
    TSR_NAME_SPARE,      /* SPARE.<epoch>: second name of the manifest that this epoch resumed */
    TSR_NAME_MANIFEST,   /* MANIFEST.<generation>.<epoch> */
    TSR_NAME_TEMP,       /* TEMP.<epoch>.<pid>.<nonce> */
    TSR_NAME_GENERATION, /* <epoch>-<generation>, in gen/ */
    TSR_NAME_SEGMENT,    /* segment.<index>, in a generation's directory; index in `generation` */
    TSR_NAME_COMMITTED,  /* COMMITTED, in the same directory: the generation was acknowledged */
} tsr_name_kind;

typedef struct tsr_name {
    tsr_name_kind kind;
    uint64_t epoch, generation, pid, nonce; /* only those that belong to its kind */
} tsr_name;

enum {
    TSR_NAME_TEXT_MAX = 96,
    TSR_NAMES_TEXT_MAX = 320,
    TSR_DIRECT_ALIGN = 4096, /* alignment of memory, offset and size of I/O that bypasses the page
                                cache */
};
const char *tsr_name_format(const tsr_name *name, char out_text[static TSR_NAME_TEXT_MAX]);
tsr_name tsr_name_parse(const char *text);
/* Formats generations other than `without` for a message, from names that begin with the newest:
 * "none", "1, 2, 3", or the newest ten "and 5 older ones". True if `without` is among the names. */
bool tsr_names_list(const tsr_name *names, size_t count, uint64_t without,
                    char out_text[static TSR_NAMES_TEXT_MAX]);

#endif
