/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors stored as safetensors, in a weights blob of a bundle or in a file: the index is decoded
 * first, then single tensors are read. Private to this folder.
 */
#ifndef TSR_LOADER_WEIGHTS_WEIGHTS_H
#define TSR_LOADER_WEIGHTS_WEIGHTS_H

#include "bundle/bundle.h"
#include "loader/weights/sender.h"
#include "loader/weights/shards.h"
#include "manifests/config.h"
#include "runtime/data/array_file.h"

typedef struct tsr_weights {
    const char *subject; /* beginning of messages; in the arena */
    tsr_code code;       /* error for wrong bytes: TSR_CORRUPT for a bundle, TSR_DATA for a file */
    tsr_bundle *bundle;  /* borrowed; NULL: a file */
    tsr_bundle_layer layer;          /* layer of the bundle */
    const tsr_bundle_file *external; /* borrowed; used instead of a layer; or NULL */
    int fd;                          /* descriptor of the file; owned */
    const char *path;                /* path of the file; borrowed */
    tsr_safetensors index;           /* allocated in the arena */
} tsr_weights;

/* Reads and checks the header of the file. */
TSR_RESULT tsr_weights_open(tsr_ctx *ctx, const char *path, tsr_arena *arena,
                            tsr_weights *out_weights);
void tsr_weights_close(tsr_ctx *ctx, tsr_weights *weights);

/* Finds the tensor's entry, which must have the given dtype and shape. Fails with `code` if it is
 * absent or has another type. */
TSR_RESULT tsr_weights_find(tsr_ctx *ctx, const tsr_weights *weights,
                            const tsr_config_tensor *tensor, tsr_code code,
                            const tsr_safetensors_entry **out_entry);
TSR_RESULT tsr_weights_read(tsr_ctx *ctx, const tsr_weights *weights,
                            const tsr_safetensors_entry *entry, void *out_bytes);

/* ---- parameters from a user's file ---- */

/* A safetensors file, or an .npz file whose members are named like the parameters. */
typedef struct tsr_params tsr_params;
TSR_RESULT tsr_params_open(tsr_ctx *ctx, const char *path, tsr_arena *arena,
                           tsr_params **out_params);
void tsr_params_close(tsr_ctx *ctx, tsr_params *params); /* accepts NULL */
/* Returns the value of a parameter with the given dtype and shape; else fails with TSR_MISMATCH.
 * The result is valid as long as `params`; members of an .npz are read into the arena. */
TSR_RESULT tsr_params_get(tsr_ctx *ctx, tsr_params *params, const tsr_config_tensor *tensor,
                          tsr_value *out_value);

/* ---- a bundle ---- */

/* The folders that are searched for files that the bundle names. */
typedef struct tsr_weights_folders {
    const char *const *paths; /* borrowed */
    size_t count;
} tsr_weights_folders;

/* Loads every tensor of init DATA whose role is in the set `roles` (bit 1 << role), from the
 * weights blobs of a target or from the file that it names, into data[i], as large as
 * config->tensors[i]. Fails with TSR_CORRUPT if a tensor is not stored or has another type. With a
 * sender (otherwise NULL), data[i] is in the host's copy of the sender's memory, and large tensors
 * are sent directly to the device; out_sent[i] is then set. */
TSR_RESULT tsr_weights_load(tsr_ctx *ctx, tsr_bundle *bundle, size_t target,
                            const tsr_config *config, unsigned roles,
                            const tsr_weights_folders *folders, void *const *data,
                            tsr_sender *sender, bool *out_sent);

/* Fails with `code` and both types if they differ. `subject` begins the message. */
TSR_RESULT tsr_check_type(tsr_ctx *ctx, tsr_code code, const char *subject, const char *name,
                          tsr_dtype dtype, const tsr_shape *shape, tsr_dtype expected_dtype,
                          const tsr_shape *expected_shape);

#endif
