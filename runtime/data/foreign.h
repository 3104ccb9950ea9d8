/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: recognises files of other programs that are not arrays, by name or
 * content.
 */
#ifndef TSR_RUNTIME_DATA_FOREIGN_H
#define TSR_RUNTIME_DATA_FOREIGN_H

#include "runtime/data/array_source.h"

typedef struct tsr_foreign {
    const char *what, *advice; /* static: "a pickle", "load it in Python, …" */
} tsr_foreign;

/* Identifies the suffix of a path, ignoring case, also of "x.h5:member"; NULL: no known format. */
const tsr_foreign *tsr_foreign_by_name(const char *path);
/* TSR_DATA if the file of a flat array belongs to another program: by its name, by its first bytes,
 * or because it is text where multi-byte elements are expected. */
TSR_RESULT tsr_foreign_check(tsr_ctx *ctx, const tsr_array *array, tsr_dtype flat);

#endif
