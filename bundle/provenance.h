/* SPDX-License-Identifier: Apache-2.0
 *
 * What a bundle was built from: FORMAT.md, "Provenance". A bundle keeps the predicate of SLSA
 * Provenance v1 (slsa.dev/spec/v1.0/provenance) as a layer, so that a signature of the bundle
 * covers it; the statement that other tools read follows from it and the index.
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
    const char *builder_version;        /* of Tessera */
    const tsr_provenance_input *inputs; /* the source first; at least one */
    size_t input_count;
    const char *const *targets;
    size_t target_count;
    const tsr_provenance_pair *options; /* that change what is built */
    size_t option_count;
    const tsr_provenance_pair *libraries; /* "llvm", "22.1.8"; what the bytes depend on */
    size_t library_count;
    const char *started_on; /* "2026-11-21T00:00:00Z", from SOURCE_DATE_EPOCH; or NULL: no time */
} tsr_provenance;

/* The predicate: a function of the struct, and of the zstd library, whose version is added. The
 * order of the arrays is kept. In the arena. */
TSR_RESULT tsr_provenance_encode(tsr_ctx *ctx, const tsr_provenance *provenance, tsr_arena *arena,
                                 char **out_json, size_t *out_size_bytes);

/* What the bundle says of itself, verified against its digests; it proves as much as the signature
 * of the bundle does. *out_found is false where it says nothing. All in the arena. TSR_CORRUPT for
 * a predicate of another form. */
TSR_RESULT tsr_provenance_read(tsr_ctx *ctx, tsr_bundle *bundle, tsr_arena *arena,
                               tsr_provenance *out_provenance, bool *out_found);

/* A stored predicate with more inputs, for a bundle made of another one; the zstd library is the
 * one of now. `subject` begins messages. In the arena. TSR_CORRUPT for a predicate of another form.
 */
TSR_RESULT tsr_provenance_extend(tsr_ctx *ctx, const char *subject, const char *json,
                                 size_t size_bytes, const tsr_provenance_input *inputs,
                                 size_t input_count, tsr_arena *arena, char **out_json,
                                 size_t *out_size_bytes);

/* The in-toto statement: the index as subject, the stored predicate. In the arena. TSR_DATA for a
 * bundle without provenance. */
TSR_RESULT tsr_provenance_statement(tsr_ctx *ctx, tsr_bundle *bundle, tsr_arena *arena,
                                    char **out_json, size_t *out_size_bytes);
/* The same, signed: a Sigstore bundle, written to `path` whole or not at all. Errors as of
 * tsr_signature_write, and TSR_DATA. */
TSR_RESULT tsr_provenance_write(tsr_ctx *ctx, tsr_bundle *bundle, const char *path,
                                const char *private_path, tsr_digest *out_key_id);

#endif
