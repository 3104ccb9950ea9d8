/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: files of other programs that are no arrays, told by name or content.
 */
#ifndef TSR_RUNTIME_DATA_FOREIGN_H
#define TSR_RUNTIME_DATA_FOREIGN_H

#include "runtime/data/array_source.h"

typedef struct tsr_foreign {
    const char *what, *advice; /* static: "a pickle", "load it in Python, …" */
} tsr_foreign;

/* By the suffix of a path, whatever its case, also of "x.h5:member"; NULL: none that is known. */
const tsr_foreign *tsr_foreign_by_name(const char *path);
/* TSR_DATA where the file of a flat array is one of another program: by its name, by its first
 * bytes, or because it is text where elements of several bytes are expected. */
TSR_RESULT tsr_foreign_check(tsr_ctx *ctx, const tsr_array *array, tsr_dtype flat);

#endif
