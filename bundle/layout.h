/* SPDX-License-Identifier: Apache-2.0
 *
 * The OCI JSON of a bundle as plain structs, and the canonical archive that is derived from it
 * (FORMAT.md sections 1 to 3). Shared by the writer, the reader and repack.
 */
#ifndef TSR_BUNDLE_LAYOUT_H
#define TSR_BUNDLE_LAYOUT_H

#include "bundle/limits.h"
#include "bundle/tar.h"
#include "runtime/base/arena.h"
#include "runtime/base/buffer.h"
#include "runtime/base/hash/hash.h"
#include "runtime/base/io/io.h"

#define TSR_MEDIA_INDEX "application/vnd.oci.image.index.v1+json"
#define TSR_MEDIA_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define TSR_ARTIFACT_TYPE "application/vnd.tessera.bundle.v1"
#define TSR_OCI_LAYOUT "{\"imageLayoutVersion\":\"1.0.0\"}"
#define TSR_BLOB_FOLDER "blobs/sha256/"

#define TSR_KEY_COMPRESSION "dev.tessera.compression"
#define TSR_KEY_FORMAT "dev.tessera.format"
#define TSR_KEY_NEEDS "dev.tessera.needs"
#define TSR_KEY_REQUIRED "dev.tessera.required"
#define TSR_KEY_TARGET "dev.tessera.target"
#define TSR_KEY_PLAIN_DIGEST "dev.tessera.uncompressed-digest"
#define TSR_KEY_PLAIN_SIZE "dev.tessera.uncompressed-size"
#define TSR_KEY_FILEPATH "org.cncf.model.filepath"
#define TSR_KEY_REF_NAME "org.opencontainers.image.ref.name"
#define TSR_KEY_TITLE "org.opencontainers.image.title"

/* Version of FORMAT.md; the lowest version of tessera-run that reads the output of this library. */
#define TSR_FORMAT_TEXT "1.0"
#define TSR_FORMAT_NEEDS "0.1.0"
enum { TSR_FORMAT_MAJOR = 1 };

/* Returns the zstd level for a blob of this many uncompressed bytes: the best level for small
 * blobs; a fast one for large blobs, which level 19 would compress at seconds per MiB. */
int tsr_compression_level(uint64_t plain_size_bytes);

typedef struct tsr_descriptor {
    const char *media_type; /* borrowed */
    const char *title;      /* borrowed; or NULL */
    tsr_digest digest;
    uint64_t size_bytes;
    bool compressed; /* media type ends in +zstd; only then the next two are set */
    uint64_t plain_size_bytes;
    tsr_digest plain_digest;
    uint32_t blob; /* index in the owner's table of blobs, one for each digest */
} tsr_descriptor;

typedef struct tsr_manifest {
    tsr_descriptor self, config;
    const char *target;     /* borrowed; NULL: a foreign manifest */
    size_t layer_count;     /* 0: left out of a slice; then config and layers are unknown */
    tsr_descriptor *layers; /* borrowed; the last layer of a target is the chunk table */
} tsr_manifest;

typedef struct tsr_layout {
    tsr_descriptor index;
    size_t manifest_count;
    tsr_manifest *manifests; /* borrowed; in index order */
} tsr_layout;

/* Check the syntax of FORMAT.md section 3. */
bool tsr_media_type_valid(const char *text);
bool tsr_media_type_compressed(const char *media_type);
bool tsr_title_valid(const char *text);
bool tsr_target_valid(const char *text);
/* Order of two target names in the index: < 0, 0, > 0. */
int tsr_target_compare(const char *a, const char *b);

static inline uint64_t tsr_chunk_count(uint64_t size_bytes) {
    return size_bytes / TSR_HASH_CHUNK_BYTES + (size_bytes % TSR_HASH_CHUNK_BYTES != 0);
}

/* ---- JSON ---- */

void tsr_layout_format_root(tsr_buffer *out, const tsr_descriptor *index); /* index.json */
void tsr_layout_format_index(tsr_buffer *out, const tsr_layout *layout);
void tsr_layout_format_manifest(tsr_buffer *out, const tsr_manifest *manifest);

/* The origin of a piece of JSON, for messages. */
typedef struct tsr_json_source {
    const char *path;      /* path of the bundle */
    const char *what;      /* "index.json", "manifest" … */
    uint64_t offset_bytes; /* offset of its first byte */
    tsr_entry_text entry;
} tsr_json_source;

/* All strings and arrays go to the arena. Errors: TSR_CORRUPT, TSR_VERSION, TSR_MEMORY. `blob`
 * fields are not set. parse_index sets self and target of each manifest; parse_manifest needs these
 * and sets the other fields. */
TSR_RESULT tsr_layout_parse_marker(tsr_ctx *ctx, const tsr_json_source *source, const char *json,
                                   size_t size_bytes); /* oci-layout */
TSR_RESULT tsr_layout_parse_root(tsr_ctx *ctx, const tsr_json_source *source, const char *json,
                                 size_t size_bytes, tsr_arena *arena, tsr_descriptor *out_index);
TSR_RESULT tsr_layout_parse_index(tsr_ctx *ctx, const tsr_json_source *source, const char *json,
                                  size_t size_bytes, tsr_arena *arena, tsr_layout *out_layout);
TSR_RESULT tsr_layout_parse_manifest(tsr_ctx *ctx, const tsr_json_source *source, const char *json,
                                     size_t size_bytes, tsr_arena *arena, tsr_manifest *manifest);

/* ---- the canonical archive ---- */

#define TSR_PLAN_MARKER UINT32_MAX     /* the member oci-layout */
#define TSR_PLAN_ROOT (UINT32_MAX - 1) /* the member index.json */
enum { TSR_PLAN_HEAD_BYTES_MAX = TSR_BUNDLE_ALIGN_BYTES + 2 * TSR_TAR_BLOCK_BYTES };

typedef struct tsr_plan_entry {
    uint32_t blob; /* index in the layout's blob table, or one of the two above */
    tsr_digest digest;
    uint64_t head_offset_bytes; /* offset of the pax header, or of the header if there is no pax
                                   header */
    size_t pad_bytes;           /* length of the pax record; 0 without one */
    uint64_t data_offset_bytes, size_bytes;
} tsr_plan_entry;

typedef struct tsr_plan {
    size_t entry_count;
    tsr_plan_entry *entries; /* allocated in the arena */
    tsr_buffer root;         /* owned; the bytes of index.json */
    uint64_t file_size_bytes;
} tsr_plan;

/* `blob_count`: every `blob` of the layout is below it. */
TSR_RESULT tsr_plan_init(tsr_ctx *ctx, const tsr_layout *layout, size_t blob_count,
                         tsr_arena *arena, tsr_plan *out_plan);
void tsr_plan_finish(tsr_plan *plan); /* accepts NULL */
/* Writes everything of a member that precedes its bytes; returns the size. */
size_t tsr_plan_format_head(const tsr_plan_entry *entry,
                            unsigned char out_head[static TSR_PLAN_HEAD_BYTES_MAX]);
/* Returns the bytes of the two members that are not blobs; NULL for a blob. */
const char *tsr_plan_fixed_bytes(const tsr_plan *plan, const tsr_plan_entry *entry);

/* Writes the bytes of one blob to its offset in the open output. */
typedef tsr_result (*tsr_plan_copy_fn)(tsr_ctx *ctx, void *user, const tsr_plan_entry *entry,
                                       int fd, const char *path);
/* Writes the archive to `path`, whole or not at all. */
TSR_RESULT tsr_plan_write(tsr_ctx *ctx, const tsr_plan *plan, const char *path,
                          tsr_plan_copy_fn copy, void *user);
/* Writes the archive into a file that the caller opened and will commit; the file is truncated at
 * the end of the archive. */
TSR_RESULT tsr_plan_write_file(tsr_ctx *ctx, const tsr_plan *plan, const tsr_io_atomic *file,
                               tsr_plan_copy_fn copy, void *user);

#endif
