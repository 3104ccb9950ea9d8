/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes arrays in file formats of other programs: NumPy .npy and members of .npz (stored
 * or deflated), safetensors, flat binary token files. File contents are untrusted and verified
 * before use.
 */
#ifndef TSR_RUNTIME_DATA_ARRAY_FILE_H
#define TSR_RUNTIME_DATA_ARRAY_FILE_H

#include "runtime/base/arena.h"
#include "runtime/base/hash/hash.h"
#include "runtime/base/tensor.h"

/* The path of standard input or output, as a .npy; "./-" is a file of that name. */
#define TSR_ARRAY_STREAM "-"

/* One array, opened but not necessarily in memory: rows (slices of dimension 0) are read on demand.
 */
typedef struct tsr_array tsr_array;

/* `spec` is a path; "file.npz:member" for a member of an npz (with or without its ".npy");
 * "file.safetensors:name" for a tensor; without a member, the only member. A file with an extension
 * other than .npy/.npz/.safetensors is a flat file of `flat_dtype` elements, little-endian, one
 * dimension (TSR_DTYPE_NONE: refused), unless its name or content belongs to another program's
 * format (foreign.def). TSR_ARRAY_STREAM is
 * read to its end, into memory; a second time it is empty. The file stays open until close; a
 * deflated member is inflated into memory by this call. Fails with TSR_IO (missing, unreadable,
 * directory), TSR_DATA (empty, truncated, trailing bytes, Fortran order, big-endian, object,
 * unknown dtype, wrong checksum; the message has both values; for a missing member, it lists the
 * existing ones) or TSR_USAGE (empty path or member). */
TSR_RESULT tsr_array_open(tsr_ctx *ctx, const char *spec, tsr_dtype flat_dtype,
                          tsr_array **out_array);
void tsr_array_close(tsr_ctx *ctx, tsr_array *array); /* accepts NULL */
/* Number of bytes of the path in a spec. */
size_t tsr_array_path_length(const char *spec);
/* True if a path has the extension of a known format (ours or another program's) other than
 * `extension`. */
bool tsr_array_says_other(const char *path, const char *extension);
tsr_dtype tsr_array_get_dtype(const tsr_array *array);
const tsr_shape *tsr_array_get_shape(const tsr_array *array);
/* Descriptor of the array's file. */
int tsr_array_get_fd(const tsr_array *array);
/* True for a flat file, whose single dimension does not describe the shape of the array. */
bool tsr_array_is_flat(const tsr_array *array);
/* Logs how a flat file is read, since it does not describe itself: "data 'x': 'x.bin' is a flat
 * file of ui8, 1438 rows of 64". `what` is "data", `shape` is the shape of its rows in the program.
 */
void tsr_array_tell_flat(tsr_ctx *ctx, const tsr_array *array, const char *what, const char *name,
                         const tsr_shape *shape);
/* Reads `count` elements from flat index `first`, which must exist; no allocation. TSR_IO, or
 * TSR_DATA for an i1 element that is neither 0 nor 1. Several threads may read one array, each with
 * its own context. */
TSR_RESULT tsr_array_read(tsr_ctx *ctx, const tsr_array *array, uint64_t first, uint64_t count,
                          void *out_elements);

/* tsr_hash_tree of the bytes of all elements. */
TSR_RESULT tsr_array_digest(tsr_ctx *ctx, const tsr_array *array, tsr_digest *out_digest);

/* Writes the file atomically (under a temporary name, then renamed). */
TSR_RESULT tsr_npy_write(tsr_ctx *ctx, const char *path, const tsr_tensor *tensor);
/* Makes an NPY 1.0 header of 64-byte-multiple length for a tensor, for writers that stream rows.
 * Stored in the arena. */
TSR_RESULT tsr_npy_header(tsr_ctx *ctx, tsr_dtype dtype, const tsr_shape *shape, tsr_arena *arena,
                          void **out_bytes, size_t *out_size_bytes);

/* safetensors: the header is padded with spaces so that the data begins at a multiple of
 * `align_bytes` (8 … 65536, power of two) from the start of the blob. Tensors are laid out sorted
 * by (dtype size descending, name), contiguous. `metadata` is an alternating key, value list ending
 * in NULL, or NULL. */
TSR_RESULT tsr_safetensors_write(tsr_ctx *ctx, const char *path, const tsr_tensor *tensors,
                                 size_t tensor_count, const char *const *metadata);
TSR_RESULT tsr_safetensors_encode(tsr_ctx *ctx, const tsr_tensor *tensors, size_t tensor_count,
                                  size_t align_bytes, const char *const *metadata, tsr_arena *arena,
                                  void **out_bytes, size_t *out_size_bytes);

/* Makes the header of a safetensors file in the arena, and the offset of each tensor in the data
 * after it; the data is not read. TSR_USAGE for names and sizes that no reader accepts. */
TSR_RESULT tsr_safetensors_assign_offsets(tsr_ctx *ctx, const tsr_tensor *tensors,
                                          size_t tensor_count, size_t align_bytes, tsr_arena *arena,
                                          void **out_header, size_t *out_header_bytes,
                                          uint64_t *out_offsets);

enum {
    TSR_SAFETENSORS_HEADER_MAX = 100 * 1000 * 1000, /* bytes of the JSON; the limit of the reference
                                                       implementation */
    TSR_SAFETENSORS_ALIGN_BYTES = 64,               /* alignment of a file's data */
};

/* Other programs' files may have tensors that cannot be represented here: with an unknown dtype,
 * more than TSR_RANK_MAX dimensions, or a longer name. The other tensors can still be read;
 * tsr_safetensors_check_entry refuses these. */
typedef struct tsr_safetensors_entry {
    const char *name;
    tsr_dtype dtype;           /* TSR_DTYPE_NONE: unknown */
    const char *unknown_dtype; /* dtype name in the file; NULL: known */
    tsr_shape shape;           /* the first TSR_RANK_MAX dimensions */
    size_t dim_count;
    uint64_t offset_bytes, size_bytes; /* from the start of the blob, header included */
} tsr_safetensors_entry;
typedef struct tsr_safetensors {
    tsr_safetensors_entry *entries; /* sorted by name */
    size_t entry_count;
    uint64_t data_offset_bytes;
} tsr_safetensors;
/* `bytes` has at least the header (8 bytes length + JSON); blob_size_bytes is the size of the
 * complete blob. Checks that the header is within the blob, offsets are sorted and contiguous and
 * cover the data, products do not overflow, and names are unique, but not that each tensor can be
 * used. `code` is the error code (TSR_CORRUPT for a bundle's blob, TSR_DATA for a user's file),
 * `subject` begins the message. Memory is at most 12 times the header. */
TSR_RESULT tsr_safetensors_decode(tsr_ctx *ctx, const void *bytes, size_t size_bytes,
                                  uint64_t blob_size_bytes, const char *subject, tsr_code code,
                                  tsr_arena *arena, tsr_safetensors *out_index);
/* Fails unless the tensor's name, dtype and rank are supported: checks one tensor, or all tensors
 * of a file (of a bundle's blob, which our own writer made). */
TSR_RESULT tsr_safetensors_check_entry(tsr_ctx *ctx, const tsr_safetensors_entry *entry,
                                       const char *subject, tsr_code code);
TSR_RESULT tsr_safetensors_check(tsr_ctx *ctx, const tsr_safetensors *index, const char *subject,
                                 tsr_code code);

#endif
