/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing and reading `.tsb` files: a canonical tar that is an OCI image layout. FORMAT.md in this
 * folder is normative.
 */
#ifndef TSR_BUNDLE_BUNDLE_H
#define TSR_BUNDLE_BUNDLE_H

#include "runtime/base/arena.h"
#include "runtime/base/hash/hash.h"
#include "runtime/base/io/io.h"
#include "runtime/base/result.h"

#define TSR_MEDIA_CONFIG "application/vnd.tessera.bundle.config.v1+json"
#define TSR_MEDIA_IR "application/vnd.tessera.ir.v1+zstd"
#define TSR_MEDIA_SCHEDULE "application/vnd.tessera.schedule.v1+json"
#define TSR_MEDIA_PROGRAM "application/vnd.tessera.program.v1"
#define TSR_MEDIA_ELF "application/vnd.tessera.elf.v1"
#define TSR_MEDIA_FATBIN "application/vnd.tessera.fatbin.v1"
#define TSR_MEDIA_HSACO "application/vnd.tessera.hsaco.v1" /* reserved: nothing writes it */
/* Reserved: nothing writes it. */
#define TSR_MEDIA_SBOM "application/vnd.tessera.sbom.spdx.v1+json+zstd"
#define TSR_MEDIA_DEPLOYMENT "application/vnd.tessera.deployment.v1+json"
#define TSR_MEDIA_CHUNKS "application/vnd.tessera.chunks.v1"
#define TSR_MEDIA_WEIGHTS "application/vnd.cncf.model.weight.v1.raw"
#define TSR_MEDIA_STATE "application/vnd.tessera.state.v1.raw"
#define TSR_MEDIA_EXTERNAL "application/vnd.tessera.external.v1+json"
#define TSR_MEDIA_POSITION "application/vnd.tessera.position.v1+json"

/* ---- writing ---- */

/* Bytes that are read while they are written: a set of weights need not fit in memory. */
typedef struct tsr_bundle_source {
    /* Reads `size_bytes` bytes of the blob from `offset_bytes` on. Each byte is requested once;
     * called from several threads, each with its own context. */
    tsr_result (*read)(tsr_ctx *ctx, void *user, uint64_t offset_bytes, void *bytes,
                       size_t size_bytes);
    void *user; /* borrowed */
} tsr_bundle_source;

typedef struct tsr_bundle_blob {
    const char
        *media_type;   /* one of TSR_MEDIA_*; a type ending in +zstd is compressed by the writer */
    const char *title; /* org.opencontainers.image.title: a letter, digit or _, then also .+- ; or
                          NULL */
    const void *bytes; /* borrowed; uncompressed */
    uint64_t size_bytes;             /* 1 to 4 GiB; +zstd: to 256 MiB */
    const tsr_bundle_source *source; /* borrowed; instead of `bytes`, not for +zstd; or NULL */
} tsr_bundle_blob;

typedef struct tsr_bundle_target {
    const char *name;             /* "cpu:x86-64-v3": OCI annotation dev.tessera.target */
    const tsr_bundle_blob *blobs; /* this target's own blobs, in layer order */
    size_t blob_count;
} tsr_bundle_target;

typedef struct tsr_bundle_spec {
    size_t size_bytes; /* sizeof(tsr_bundle_spec) */
    const void *config;
    size_t config_size_bytes;
    const tsr_bundle_blob *blobs; /* shared by every target, listed before the target's own */
    size_t blob_count;
    const tsr_bundle_target *targets; /* any order: the writer puts them in canonical order */
    size_t target_count;
} tsr_bundle_spec;

/* Writes `path` whole or not at all. The bytes depend only on the spec. The writer makes
 * the chunk tables. The writer hashes and writes concurrently, on every CPU that this process may
 * use; chunks of zeros become holes of the file. The writer needs 4 MiB of memory per thread, plus
 * the digests and the compressed blobs. Fails with TSR_USAGE for a spec outside the format (no
 * target, a duplicate or malformed name, an empty blob, too many or too large blobs), TSR_IO when
 * the file cannot be written. */
TSR_RESULT tsr_bundle_write(tsr_ctx *ctx, const char *path, const tsr_bundle_spec *spec);

/* Writes the canonical bytes of a bundle in any form that tsr_bundle_open accepts, whole or not at
 * all; `out_path` may be the input file. Verifies every blob while copying it. */
TSR_RESULT tsr_bundle_repack(tsr_ctx *ctx, const char *in_path, const char *out_path);

/* ---- reading ---- */

typedef struct tsr_bundle tsr_bundle;

typedef struct tsr_bundle_open_options {
    size_t size_bytes; /* sizeof(tsr_bundle_open_options) */
    bool strict;       /* accept only canonical bytes: every bit counts, all are verified at once */
    bool defer_blobs;  /* strict mode: the caller verifies the blobs next */
} tsr_bundle_open_options;

/* Walks the tar (or an unpacked layout directory), verifies index, manifests, config blobs and
 * chunk tables. Large blobs are verified when they are read. options may be NULL. Fails with
 * TSR_CORRUPT, TSR_VERSION ("needs tessera-run >= X"), TSR_IO (missing, unreadable, not a file). An
 * open bundle may be read by several threads at once, each with its own context. */
TSR_RESULT tsr_bundle_open(tsr_ctx *ctx, const char *path, const tsr_bundle_open_options *options,
                           tsr_bundle **out_bundle);
void tsr_bundle_close(tsr_ctx *ctx, tsr_bundle *bundle); /* accepts NULL */

const char *tsr_bundle_get_path(const tsr_bundle *bundle);
tsr_digest
tsr_bundle_get_digest(const tsr_bundle *bundle); /* root of trust: SHA-256 of the index blob */
uint64_t tsr_bundle_get_file_size(const tsr_bundle *bundle); /* 0 for a directory */
size_t tsr_bundle_get_target_count(const tsr_bundle *bundle);
/* True if the index names manifests that the file does not contain: FORMAT.md, "Slices". The target
 * functions see only the targets that the file contains. */
bool tsr_bundle_is_slice(const tsr_bundle *bundle);
/* Returns the name of the index-th target that a slice leaves out, borrowed; NULL when there are no
 * more. */
const char *tsr_bundle_get_missing_target(const tsr_bundle *bundle, size_t index);
const char *tsr_bundle_get_target_name(const tsr_bundle *bundle,
                                       size_t target); /* "cpu:x86-64-v3" */
/* The verified config of a target (the same bytes for every target). Borrowed from the bundle. */
void tsr_bundle_get_config(const tsr_bundle *bundle, size_t target, const char **out_json,
                           size_t *out_size_bytes);

typedef struct tsr_bundle_layer {
    const char *media_type; /* borrowed from the bundle */
    const char *title;      /* or NULL */
    uint64_t size_bytes;    /* as stored */
    uint64_t offset_bytes;  /* offset in the file; 0 for a directory */
    tsr_digest digest;      /* SHA-256 of the stored bytes */
    uint32_t id;            /* internal */
} tsr_bundle_layer;
/* Layers are in the order of the manifest; the last one is the chunk table. */
size_t tsr_bundle_get_layer_count(const tsr_bundle *bundle, size_t target);
tsr_bundle_layer tsr_bundle_get_layer(const tsr_bundle *bundle, size_t target, size_t layer);
/* Finds the first layer with the media type; returns false if there is none. */
bool tsr_bundle_find_layer(const tsr_bundle *bundle, size_t target, const char *media_type,
                           tsr_bundle_layer *out_layer);
/* Finds a layer that the reader requires, of a type `….vN…`. Fails with TSR_VERSION if the target
 * has the type in another `.vN` only, TSR_CORRUPT if it has no such layer. */
TSR_RESULT tsr_bundle_need_layer(tsr_ctx *ctx, const tsr_bundle *bundle, size_t target,
                                 const char *media_type, tsr_bundle_layer *out_layer);

/* Reads all bytes of a layer into the arena, verifies them against its chunk digests, and
 * decompresses them if the type ends in +zstd. */
TSR_RESULT tsr_bundle_read_layer(tsr_ctx *ctx, tsr_bundle *bundle, const tsr_bundle_layer *layer,
                                 tsr_arena *arena, void **out_bytes, size_t *out_size_bytes);
/* Reads `size_bytes` stored bytes of an uncompressed layer, from `offset_bytes` on, into the
 * caller's memory. Verifies every chunk that they touch. */
TSR_RESULT tsr_bundle_read_range(tsr_ctx *ctx, tsr_bundle *bundle, const tsr_bundle_layer *layer,
                                 uint64_t offset_bytes, void *bytes, size_t size_bytes);

/* A part of a layer's stored bytes and its destination. */
typedef struct tsr_bundle_segment {
    uint64_t offset_bytes; /* offset in the layer */
    size_t size_bytes;
    void *bytes; /* borrowed */
} tsr_bundle_segment;
/* Reads many parts of one layer; they must be ordered by offset and not overlap (TSR_USAGE). Every
 * chunk that contains a part is read and hashed once, on `threads` threads (0: all CPUs; a small
 * amount is read on one thread), directly into its destination: 256 KiB of memory per thread. After
 * a failure the contents of the pieces are undefined. */
TSR_RESULT tsr_bundle_read_segments(tsr_ctx *ctx, const tsr_bundle *bundle,
                                    const tsr_bundle_layer *layer,
                                    const tsr_bundle_segment *segments, size_t segment_count,
                                    unsigned threads);

/* A file next to the bundle, with a digest for each chunk as in a chunk table. */
typedef struct tsr_bundle_file {
    const char *path; /* borrowed */
    int fd;           /* borrowed */
    uint64_t size_bytes;
    tsr_digest digest;
    const tsr_digest *chunks; /* borrowed; one for each 4 MiB */
} tsr_bundle_file;
/* Like tsr_bundle_read_segments, from such a file. Fails with TSR_MISMATCH if a chunk has another
 * digest. */
TSR_RESULT tsr_bundle_read_file_segments(tsr_ctx *ctx, const tsr_bundle_file *file,
                                         const tsr_bundle_segment *segments, size_t segment_count,
                                         unsigned threads);

/* A sink for chunks that go to memory other than the host's: it receives the chunks and hashes
 * them. Chunks are numbered from 0. For each chunk, room, take, digest and put are called in this
 * order, by any thread. room(n) is called after take(n - window_count); take(n) is called after all
 * calls for chunk n - depth. */
enum { TSR_BUNDLE_WINDOWS_MAX = 64 };
typedef struct tsr_bundle_sink {
    unsigned threads_max;         /* maximum number of reader threads, one for each CPU */
    unsigned window_count, depth; /* depth: a multiple of window_count */
    /* Provides the buffer for the chunk (borrowed; TSR_HASH_CHUNK_BYTES). Several threads read
     * parts of the chunk into it. */
    tsr_result (*get_window)(tsr_ctx *ctx, void *user, uint64_t number, void **out_window);
    tsr_result (*submit)(tsr_ctx *ctx, void *user, uint64_t number, size_t size_bytes);
    tsr_result (*digest)(tsr_ctx *ctx, void *user, uint64_t number, size_t size_bytes,
                         tsr_digest *out_digest);
    /* Called when the digest is the expected one: delivers one requested piece, whose offset is
     * within the chunk. */
    tsr_result (*put)(tsr_ctx *ctx, void *user, uint64_t number, const tsr_bundle_segment *segment);
    void *user; /* borrowed */
} tsr_bundle_sink;
/* Like tsr_bundle_read_segments and tsr_bundle_read_file_segments, except that `bytes` of a piece
 * is an address that only the sink interprets. The layer must have a chunk table:
 * tsr_bundle_has_chunks.
 */
bool tsr_bundle_has_chunks(const tsr_bundle *bundle, const tsr_bundle_layer *layer);
TSR_RESULT tsr_bundle_send_segments(tsr_ctx *ctx, const tsr_bundle *bundle,
                                    const tsr_bundle_layer *layer,
                                    const tsr_bundle_segment *segments, size_t segment_count,
                                    const tsr_bundle_sink *sink);
TSR_RESULT tsr_bundle_send_file_segments(tsr_ctx *ctx, const tsr_bundle_file *file,
                                         const tsr_bundle_segment *segments, size_t segment_count,
                                         const tsr_bundle_sink *sink);

typedef struct tsr_bundle_verify_report {
    uint64_t blob_count, verified_bytes;
    double seconds;
} tsr_bundle_verify_report;
/* Verifies every byte of every blob against the chunk tables, or against the blob's digest if no
 * table covers it. `threads` 0: all CPUs. */
TSR_RESULT tsr_bundle_verify(tsr_ctx *ctx, tsr_bundle *bundle, unsigned threads,
                             tsr_bundle_verify_report *out_report);
/* Verifies both digests, which takes about twice as long: registries and other tools check the
 * blob's digest. */
TSR_RESULT tsr_bundle_verify_full(tsr_ctx *ctx, tsr_bundle *bundle, unsigned threads,
                                  tsr_bundle_verify_report *out_report);

#endif
