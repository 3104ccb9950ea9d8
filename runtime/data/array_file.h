/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays in files of other programs: NumPy .npy and members of .npz (stored or deflated),
 * safetensors, flat binary token files. Everything in a file is untrusted and verified before use.
 */
#ifndef TSR_RUNTIME_DATA_ARRAY_FILE_H
#define TSR_RUNTIME_DATA_ARRAY_FILE_H

#include "runtime/base/arena.h"
#include "runtime/base/hash.h"
#include "runtime/base/tensor.h"

/* One array, opened but not necessarily in memory: rows (slices of dimension 0) are read at need.
 */
typedef struct tsr_array tsr_array;

/* `spec` is a path; "file.npz:member" for a member of an npz (with or without its ".npy");
 * "file.safetensors:name" for a tensor; without a member, the only one there is. A file of another
 * extension than .npy/.npz/.safetensors is a flat file of `flat_dtype` elements, little-endian, one
 * dimension (TSR_DTYPE_NONE: refused), unless its name or content is that of another program's
 * format (foreign.def). The file stays open until close; a deflated member is
 * inflated into memory at once. Fails with TSR_IO (missing, unreadable, directory), TSR_DATA
 * (empty, truncated, trailing bytes, Fortran order, big-endian, object, unknown dtype, wrong
 * checksum; the message has both values; a missing member lists those there are) or TSR_USAGE
 * (empty path or member). */
TSR_RESULT tsr_array_open(tsr_ctx *ctx, const char *spec, tsr_dtype flat_dtype,
                          tsr_array **out_array);
void tsr_array_close(tsr_ctx *ctx, tsr_array *array); /* accepts NULL */
/* How many bytes of a spec are its path. */
size_t tsr_array_path_length(const char *spec);
/* Whether a path ends in the extension of a format that is known, ours or another program's, and
 * that is not `extension`. */
bool tsr_array_says_other(const char *path, const char *extension);
tsr_dtype tsr_array_get_dtype(const tsr_array *array);
const tsr_shape *tsr_array_get_shape(const tsr_array *array);
/* Of the file that it lies in. */
int tsr_array_get_fd(const tsr_array *array);
/* It is a flat file, whose one dimension says nothing of the array that it holds. */
bool tsr_array_is_flat(const tsr_array *array);
/* Of a flat file, a notice of how it is read, since nothing in it says so: "data 'x': 'x.bin' is a
 * flat file of ui8, 1438 rows of 64". `what` is "data", `shape` that of its rows in the program. */
void tsr_array_tell_flat(tsr_ctx *ctx, const tsr_array *array, const char *what, const char *name,
                         const tsr_shape *shape);
/* `count` elements from flat index `first`, which lie inside; no allocation. TSR_IO, or TSR_DATA
 * for an i1 element that is neither 0 nor 1. Several threads may read one array, each with its
 * context.
 */
TSR_RESULT tsr_array_read(tsr_ctx *ctx, const tsr_array *array, uint64_t first, uint64_t count,
                          void *out_elements);

/* Of all its elements, as tsr_hash_tree of their bytes. */
TSR_RESULT tsr_array_digest(tsr_ctx *ctx, const tsr_array *array, tsr_digest *out_digest);

/* Whole or not at all (written under a temporary name, renamed). */
TSR_RESULT tsr_npy_write(tsr_ctx *ctx, const char *path, const tsr_tensor *tensor);
/* NPY 1.0 header of 64-byte-multiple length for a tensor; for writers that stream rows. In the
 * arena. */
TSR_RESULT tsr_npy_header(tsr_ctx *ctx, tsr_dtype dtype, const tsr_shape *shape, tsr_arena *arena,
                          void **out_bytes, size_t *out_size_bytes);

/* safetensors: header bytes padded with spaces so that data begins at a multiple of `align_bytes`
 * (8 … 65536, power of two) from the start of the blob. Tensors are laid out sorted by (dtype size
 * descending, name), contiguous. `metadata` is an alternating key, value list ending in NULL, or
 * NULL. */
TSR_RESULT tsr_safetensors_write(tsr_ctx *ctx, const char *path, const tsr_tensor *tensors,
                                 size_t tensor_count, const char *const *metadata);
TSR_RESULT tsr_safetensors_encode(tsr_ctx *ctx, const tsr_tensor *tensors, size_t tensor_count,
                                  size_t align_bytes, const char *const *metadata, tsr_arena *arena,
                                  void **out_bytes, size_t *out_size_bytes);

/* The header of a safetensors file in the arena, and where in the data behind it each tensor
 * begins; data is not looked at. TSR_USAGE for names and sizes that no reader takes. */
TSR_RESULT tsr_safetensors_place(tsr_ctx *ctx, const tsr_tensor *tensors, size_t tensor_count,
                                 size_t align_bytes, tsr_arena *arena, void **out_header,
                                 size_t *out_header_bytes, uint64_t *out_offsets);

enum {
    TSR_SAFETENSORS_HEADER_MAX = 100 * 1000 * 1000, /* bytes of the JSON; the reference's */
    TSR_SAFETENSORS_ALIGN_BYTES = 64,               /* of the data of a file */
};

/* Files of others hold tensors that cannot be represented here: of an unknown dtype, of more than
 * TSR_RANK_MAX dimensions, with a longer name. They do not keep anyone from reading the rest;
 * tsr_safetensors_check_entry refuses their use. */
typedef struct tsr_safetensors_entry {
    const char *name;
    tsr_dtype dtype;           /* TSR_DTYPE_NONE: unknown */
    const char *unknown_dtype; /* its name in the file; NULL: known */
    tsr_shape shape;           /* the first TSR_RANK_MAX dimensions */
    size_t dim_count;
    uint64_t offset_bytes, size_bytes; /* from the start of the blob, header included */
} tsr_safetensors_entry;
typedef struct tsr_safetensors {
    tsr_safetensors_entry *entries; /* sorted by name */
    size_t entry_count;
    uint64_t data_offset_bytes;
} tsr_safetensors;
/* `bytes` holds at least the header (8 bytes length + JSON); blob_size_bytes is the whole blob's
 * size. Checks: header within the blob, offsets sorted, contiguous, covering, products
 * overflow-checked, names unique; not that each tensor can be used. `code` is the error code
 * (TSR_CORRUPT for a bundle's blob, TSR_DATA for a user's file), `subject` begins the message.
 * Memory is at most 12 times the header. */
TSR_RESULT tsr_safetensors_decode(tsr_ctx *ctx, const void *bytes, size_t size_bytes,
                                  uint64_t blob_size_bytes, const char *subject, tsr_code code,
                                  tsr_arena *arena, tsr_safetensors *out_index);
/* Fails unless the tensor's name, dtype and rank are ones that can be used here: one tensor, or
 * all of a file (of a bundle's blob, which a writer of ours made). */
TSR_RESULT tsr_safetensors_check_entry(tsr_ctx *ctx, const tsr_safetensors_entry *entry,
                                       const char *subject, tsr_code code);
TSR_RESULT tsr_safetensors_check(tsr_ctx *ctx, const tsr_safetensors *index, const char *subject,
                                 tsr_code code);

#endif
