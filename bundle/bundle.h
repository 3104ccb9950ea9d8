/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing and reading `.tsb` files: a canonical tar that is an OCI image layout. FORMAT.md beside
 * this file is normative.
 */
#ifndef TSR_BUNDLE_BUNDLE_H
#define TSR_BUNDLE_BUNDLE_H

#include "runtime/base/arena.h"
#include "runtime/base/hash.h"
#include "runtime/base/io.h"
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
    /* `size_bytes` from `offset_bytes` of the blob. Each byte is asked for once; called from
     * several threads, each with its context. */
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
    const tsr_bundle_blob *blobs; /* of this target only, in layer order */
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

/* Writes `path` whole or not at all. The bytes are a function of the spec alone. The chunk tables
 * are made here. Hashing and writing go on together, on every CPU this process may use; chunks of
 * zeros become holes of the file; memory taken is 4 MiB a thread, the digests, and what is
 * compressed. Fails with TSR_USAGE for a spec outside the format (no target, a name twice, a
 * malformed name, an empty blob, too many or too large ones), TSR_IO when the file cannot be
 * written. */
TSR_RESULT tsr_bundle_write(tsr_ctx *ctx, const char *path, const tsr_bundle_spec *spec);

/* Writes the canonical bytes of a bundle in any form that tsr_bundle_open accepts, whole or not at
 * all; `out_path` may be the input file. Every blob is verified while it is copied. */
TSR_RESULT tsr_bundle_repack(tsr_ctx *ctx, const char *in_path, const char *out_path);

/* ---- reading ---- */

typedef struct tsr_bundle tsr_bundle;

typedef struct tsr_bundle_open_options {
    size_t size_bytes; /* sizeof(tsr_bundle_open_options) */
    bool strict;       /* only canonical bytes: every single bit of the file matters, all of it is
                          verified at once */
    bool defer_blobs;  /* strict, but the caller verifies the blobs himself, next */
} tsr_bundle_open_options;

/* Walks the tar (or an unpacked layout directory), verifies index, manifests, config blobs and
 * chunk tables. Large blobs are verified when read. options may be NULL. Fails with TSR_CORRUPT,
 * TSR_VERSION ("needs tessera-run >= X"), TSR_IO (missing, unreadable, not a file). An open bundle
 * may be read by several threads at once, each with its own context. */
TSR_RESULT tsr_bundle_open(tsr_ctx *ctx, const char *path, const tsr_bundle_open_options *options,
                           tsr_bundle **out_bundle);
void tsr_bundle_close(tsr_ctx *ctx, tsr_bundle *bundle); /* accepts NULL */

const char *tsr_bundle_get_path(const tsr_bundle *bundle);
tsr_digest
tsr_bundle_get_digest(const tsr_bundle *bundle); /* root of trust: SHA-256 of the index blob */
uint64_t tsr_bundle_get_file_size(const tsr_bundle *bundle); /* 0 for a directory */
size_t tsr_bundle_get_target_count(const tsr_bundle *bundle);
/* The index names manifests that the file does not hold: FORMAT.md, "Slices". Targets are those
 * that are here. */
bool tsr_bundle_is_slice(const tsr_bundle *bundle);
/* The index-th target that a slice leaves out, borrowed; NULL: there are no more. */
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
    uint64_t offset_bytes;  /* in the file; 0 for a directory */
    tsr_digest digest;      /* of the stored bytes */
    uint32_t id;            /* internal */
} tsr_bundle_layer;
/* In the order of the manifest; the last one is the chunk table. */
size_t tsr_bundle_get_layer_count(const tsr_bundle *bundle, size_t target);
tsr_bundle_layer tsr_bundle_get_layer(const tsr_bundle *bundle, size_t target, size_t layer);
/* The first layer with the media type; false if there is none. */
bool tsr_bundle_find_layer(const tsr_bundle *bundle, size_t target, const char *media_type,
                           tsr_bundle_layer *out_layer);
/* The same, of a type `….vN…` that a reader cannot do without. TSR_VERSION where the target has it
 * in another `.vN` only, TSR_CORRUPT where it has none. */
TSR_RESULT tsr_bundle_need_layer(tsr_ctx *ctx, const tsr_bundle *bundle, size_t target,
                                 const char *media_type, tsr_bundle_layer *out_layer);

/* The bytes of a layer, verified against its chunk digests while read, decompressed if +zstd. In
 * the arena. */
TSR_RESULT tsr_bundle_read_layer(tsr_ctx *ctx, tsr_bundle *bundle, const tsr_bundle_layer *layer,
                                 tsr_arena *arena, void **out_bytes, size_t *out_size_bytes);
/* `size_bytes` stored bytes from `offset_bytes` of an uncompressed layer into caller memory; every
 * chunk they touch is verified. */
TSR_RESULT tsr_bundle_read_range(tsr_ctx *ctx, tsr_bundle *bundle, const tsr_bundle_layer *layer,
                                 uint64_t offset_bytes, void *bytes, size_t size_bytes);

/* Where a part of a layer's stored bytes goes. */
typedef struct tsr_bundle_piece {
    uint64_t offset_bytes; /* in the layer */
    size_t size_bytes;
    void *bytes; /* borrowed */
} tsr_bundle_piece;
/* Many parts of one layer, ordered by offset, without overlap (TSR_USAGE). Every chunk that holds
 * one is read and hashed once, on `threads` threads (0: all CPUs; little is read on one), straight
 * to where it goes: memory taken is 256 KiB a thread. After a failure the pieces hold nothing of
 * use. */
TSR_RESULT tsr_bundle_read_pieces(tsr_ctx *ctx, const tsr_bundle *bundle,
                                  const tsr_bundle_layer *layer, const tsr_bundle_piece *pieces,
                                  size_t piece_count, unsigned threads);

/* A file beside the bundle whose chunks have digests as those of a chunk table. */
typedef struct tsr_bundle_file {
    const char *path; /* borrowed */
    int fd;           /* borrowed */
    uint64_t size_bytes;
    tsr_digest digest;
    const tsr_digest *chunks; /* borrowed; one for each 4 MiB */
} tsr_bundle_file;
/* The same from such a file. TSR_MISMATCH for a chunk that is not the expected one. */
TSR_RESULT tsr_bundle_read_file_pieces(tsr_ctx *ctx, const tsr_bundle_file *file,
                                       const tsr_bundle_piece *pieces, size_t piece_count,
                                       unsigned threads);

/* Elsewhere than to the host's memory: who takes the chunks and hashes them. They are numbered from
 * 0 on; of each room, take, digest and put are called in this order, by whatever threads; room of a
 * chunk after take of that `window_count` before, take after all of that `depth` before. */
enum { TSR_BUNDLE_WINDOWS_MAX = 64 };
typedef struct tsr_bundle_sink {
    unsigned threads_max;         /* of those that read, one for each CPU */
    unsigned window_count, depth; /* depth: a multiple of the other */
    /* Where the chunk is read to, in parts by many threads (borrowed; TSR_HASH_CHUNK_BYTES); then
     * it lies there. */
    tsr_result (*room)(tsr_ctx *ctx, void *user, uint64_t number, void **out_room);
    tsr_result (*take)(tsr_ctx *ctx, void *user, uint64_t number, size_t size_bytes);
    tsr_result (*digest)(tsr_ctx *ctx, void *user, uint64_t number, size_t size_bytes,
                         tsr_digest *out_digest);
    /* The digest is the expected one: what is wanted of the chunk, by its offset there. */
    tsr_result (*put)(tsr_ctx *ctx, void *user, uint64_t number, const tsr_bundle_piece *piece);
    void *user; /* borrowed */
} tsr_bundle_sink;
/* As tsr_bundle_read_pieces and tsr_bundle_read_file_pieces, whose bytes are only addresses to the
 * sink. Of a layer with a chunk table. */
bool tsr_bundle_has_chunks(const tsr_bundle *bundle, const tsr_bundle_layer *layer);
TSR_RESULT tsr_bundle_send_pieces(tsr_ctx *ctx, const tsr_bundle *bundle,
                                  const tsr_bundle_layer *layer, const tsr_bundle_piece *pieces,
                                  size_t piece_count, const tsr_bundle_sink *sink);
TSR_RESULT tsr_bundle_send_file_pieces(tsr_ctx *ctx, const tsr_bundle_file *file,
                                       const tsr_bundle_piece *pieces, size_t piece_count,
                                       const tsr_bundle_sink *sink);

typedef struct tsr_bundle_verify_report {
    uint64_t blob_count, verified_bytes;
    double seconds;
} tsr_bundle_verify_report;
/* Every byte of every blob against the chunk tables, or the blob's digest where no table covers it.
 * `threads` 0: all CPUs. */
TSR_RESULT tsr_bundle_verify(tsr_ctx *ctx, tsr_bundle *bundle, unsigned threads,
                             tsr_bundle_verify_report *out_report);
/* The same against both digests, which takes about twice as long: what registries and other tools
 * will check. */
TSR_RESULT tsr_bundle_verify_full(tsr_ctx *ctx, tsr_bundle *bundle, unsigned threads,
                                  tsr_bundle_verify_report *out_report);

#endif
