/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights that a bundle names but does not hold: a safetensors file, known by its digest, with the
 * digests of its chunks (the layer TSR_MEDIA_EXTERNAL). Private to this folder.
 */
#ifndef TSR_LOADER_EXTERNAL_H
#define TSR_LOADER_EXTERNAL_H

#include "bundle/bundle.h"

typedef struct tsr_external {
    const char *title; /* name of the file when the bundle was built; no folder */
    tsr_bundle_file file;
} tsr_external;

/* Hashes the file at `path`; file.fd is not set. In the arena. TSR_USAGE for a name or a size that
 * tsr_external_read would refuse. */
TSR_RESULT tsr_external_make(tsr_ctx *ctx, const char *path, tsr_arena *arena,
                             tsr_external *out_external);
/* The layer's JSON, in the arena. */
TSR_RESULT tsr_external_encode(tsr_ctx *ctx, const tsr_external *external, tsr_arena *arena,
                               char **out_json, size_t *out_size_bytes);
/* False where the bundle names none. TSR_CORRUPT for a layer that is malformed. */
TSR_RESULT tsr_external_read(tsr_ctx *ctx, tsr_bundle *bundle, size_t target, tsr_arena *arena,
                             bool *out_found, tsr_external *out_external);

/* Opens the file: in each folder <digest>, blobs/sha256/<digest>, then its title; the first of the
 * size wanted is taken, and its chunks are verified when they are read. Sets file.fd and file.path.
 * TSR_IO, naming what was looked for and where, when there is none; TSR_MISMATCH with both sizes
 * for one that has the title and another size. */
TSR_RESULT tsr_external_open(tsr_ctx *ctx, const char *const *folders, size_t folder_count,
                             tsr_arena *arena, tsr_external *external);
void tsr_external_close(tsr_ctx *ctx, tsr_external *external);

#endif
