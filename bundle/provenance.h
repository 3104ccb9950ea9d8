/* SPDX-License-Identifier: Apache-2.0
 *
 * The record of the sources of a bundle: FORMAT.md, "Provenance". A bundle keeps the predicate of
 * SLSA Provenance v1 (slsa.dev/spec/v1.0/provenance) as a layer, so that a signature of the bundle
 * covers it. The statement that other tools read is derived from it and the index.
 */
#ifndef TSR_BUNDLE_PROVENANCE_H
#define TSR_BUNDLE_PROVENANCE_H

#include "bundle/bundle.h"

#define TSR_MEDIA_PROVENANCE "application/vnd.tessera.provenance.v1+json"
#define TSR_PROVENANCE_TITLE "provenance.json"

/* A file that was read, without its folder. */
typedef struct tsr_provenance_input {
    const char *name;
    tsr_digest digest; /* SHA-256 of its bytes */
} tsr_provenance_input;

/* A library or program and its version; or an option and its value. */
typedef struct tsr_provenance_pair {
    const char *name, *value;
} tsr_provenance_pair;

typedef struct tsr_provenance {
    size_t size_bytes;                  /* sizeof(tsr_provenance) */
    const char *builder_version;        /* version of Tessera */
    const tsr_provenance_input *inputs; /* the source first; at least one */
    size_t input_count;
    const char *const *targets;
    size_t target_count;
    const tsr_provenance_pair *options; /* options that change the output */
    size_t option_count;
    const tsr_provenance_pair *libraries; /* "llvm", "22.1.8"; the output depends on them */
    size_t library_count;
    const char *started_on; /* "2026-11-21T00:00:00Z", from SOURCE_DATE_EPOCH; or NULL: no time */
} tsr_provenance;

/* Writes the predicate as JSON into the arena: a function of the struct, and of the zstd library,
 * whose version is added. The order of the arrays is kept. */
TSR_RESULT tsr_provenance_encode(tsr_ctx *ctx, const tsr_provenance *provenance, tsr_arena *arena,
                                 char **out_json, size_t *out_size_bytes);

/* Reads the bundle's own provenance into the arena, verified against its digests; it proves only as
 * much as the signature of the bundle does. *out_found is false if the bundle has no provenance.
 * Fails with TSR_CORRUPT if the predicate has another form. */
TSR_RESULT tsr_provenance_read(tsr_ctx *ctx, tsr_bundle *bundle, tsr_arena *arena,
                               tsr_provenance *out_provenance, bool *out_found);

/* Adds inputs to a stored predicate, for a bundle that is made from another one; the version of the
 * zstd library is the current one. `subject` begins messages. The result is in the arena. Fails
 * with TSR_CORRUPT if the predicate has another form.
 */
TSR_RESULT tsr_provenance_extend(tsr_ctx *ctx, const char *subject, const char *json,
                                 size_t size_bytes, const tsr_provenance_input *inputs,
                                 size_t input_count, tsr_arena *arena, char **out_json,
                                 size_t *out_size_bytes);

/* Writes the in-toto statement into the arena: its subject is the index, its predicate the stored
 * one. Fails with TSR_DATA if the bundle has no provenance. */
TSR_RESULT tsr_provenance_statement(tsr_ctx *ctx, tsr_bundle *bundle, tsr_arena *arena,
                                    char **out_json, size_t *out_size_bytes);
/* Signs the statement and writes a Sigstore bundle to `path`, whole or not at all. Fails like
 * tsr_signature_write, or with TSR_DATA. */
TSR_RESULT tsr_provenance_write(tsr_ctx *ctx, tsr_bundle *bundle, const char *path,
                                const char *private_path, tsr_digest *out_key_id);

#endif
