/* SPDX-License-Identifier: Apache-2.0
 *
 * The digest of a file, read in blocks.
 */
#ifndef TSR_BASE_HASH_FILE_H
#define TSR_BASE_HASH_FILE_H

#include "runtime/base/hash/hash.h"

/* SHA-256 of a regular file. TSR_IO; TSR_MEMORY. */
TSR_RESULT tsr_file_digest(tsr_ctx *ctx, const char *path, tsr_digest *out_digest);

#endif
