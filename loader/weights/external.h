/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights that a bundle names but does not contain: a safetensors file, identified by its digest,
 * with the digests of its chunks (the layer TSR_MEDIA_EXTERNAL). Private to this folder.
 */
#ifndef TSR_LOADER_WEIGHTS_EXTERNAL_H
#define TSR_LOADER_WEIGHTS_EXTERNAL_H

#include "bundle/bundle.h"

typedef struct tsr_external {
    const char *title; /* name of the file when the bundle was built, without folder */
    tsr_bundle_file file;
} tsr_external;

/* Hashes the file at `path` into the arena; file.fd is not set. Fails with TSR_USAGE for a name or
 * a size that tsr_external_read would refuse. */
TSR_RESULT tsr_external_make(tsr_ctx *ctx, const char *path, tsr_arena *arena,
                             tsr_external *out_external);
/* Writes the layer's JSON into the arena. */
TSR_RESULT tsr_external_encode(tsr_ctx *ctx, const tsr_external *external, tsr_arena *arena,
                               char **out_json, size_t *out_size_bytes);
/* *out_found is false if the bundle names no file. Fails with TSR_CORRUPT if the layer is
 * malformed. */
TSR_RESULT tsr_external_read(tsr_ctx *ctx, tsr_bundle *bundle, size_t target, tsr_arena *arena,
                             bool *out_found, tsr_external *out_external);

/* Opens the file: looks in each folder for <digest>, blobs/sha256/<digest>, then the title; takes
 * the first file with the expected size. The file's chunks are verified when they are read. Sets
 * file.fd and file.path. If there is no such file, fails with TSR_IO, naming the file and the
 * folders; fails with TSR_MISMATCH and both sizes if a file has the title but another size. */
TSR_RESULT tsr_external_open(tsr_ctx *ctx, const char *const *folders, size_t folder_count,
                             tsr_arena *arena, tsr_external *external);
void tsr_external_close(tsr_ctx *ctx, tsr_external *external);

#endif
