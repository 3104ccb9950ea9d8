/* SPDX-License-Identifier: Apache-2.0
 *
 * The config blob of a bundle: the name of the program, the tensors it keeps (parameters, optimizer
 * state, constants) and its entries. Plain structs <-> canonical JSON (media type
 * application/vnd.tessera.bundle.config.v1+json; layout in manifests/README.md).
 */
#ifndef TSR_MANIFESTS_CONFIG_H
#define TSR_MANIFESTS_CONFIG_H

#include "runtime/base/arena.h"
#include "runtime/base/buffer.h"
#include "runtime/base/identity.h"
#include "runtime/base/tensor.h"
#include "tessera/config.h"

enum {
    TSR_CONFIG_VERSION_MAJOR = 1,
    TSR_CONFIG_VERSION_MINOR = 1,    /* the highest; 0: without a program digest */
    TSR_CONFIG_BYTES_MAX = 64 << 20, /* size of the JSON; see also runtime/base/io/json.h */
    TSR_CONFIG_VIRTUAL_RANKS_MAX = 65536,
    TSR_CONFIG_TENSORS_MAX = 1 << 20,
    TSR_CONFIG_ENTRIES_MAX = 256,
    TSR_CONFIG_PORTS_MAX = 256, /* inputs or outputs of one entry */
};

/* Returns true if a bundle may have this value of `numerics`. The suffix is the version of the
 * order in which sums and products are computed (compiler/tile/tile.h); version 1 has no suffix. */
#define TSR_NUMERICS_VERSION ".2"
bool tsr_config_numerics_valid(const char *numerics);
/* May matrix units and dot products be used? */
bool tsr_config_numerics_native(const char *numerics);

/* Checks everything that tsr_config_decode guarantees; errors have `code` and name the tensor or
 * entry, the field and both values. Names are 1 … 255 bytes of UTF-8 without control characters.
 * Tensors of random init have distinct streams. Dimensions are at least 1. A DATA port has `batch`
 * rows, and so does every input (except STEP and SEED) and output of an entry with independent
 * rows; `batch` of a training entry is a multiple of virtual_ranks. */
TSR_RESULT tsr_config_verify(tsr_ctx *ctx, const tsr_config *config, tsr_code code);

/* The program digest: of numerics, parameters, optimizer state and operations, in the encoding of
 * manifests/README.md. Zero if the operations are not known. */
tsr_digest tsr_config_program_digest(const tsr_config *config);

/* Verifies (TSR_COMPILE), then writes version 1.1, or 1.0 if the operations are not known. The
 * bytes depend only on the struct, not on its minor version; fields that the init kind does not use
 * are not written. *out_json is in the arena, NUL-terminated. */
TSR_RESULT tsr_config_encode(tsr_ctx *ctx, const tsr_config *config, tsr_arena *arena,
                             char **out_json, size_t *out_size_bytes);
/* Verifies everything: versions (TSR_VERSION), names, uniqueness, order, limits, shapes, roles, and
 * that the bytes are the canonical ones (TSR_CORRUPT). A later minor version, or a non-empty
 * `optional`, may add unknown members: then they are ignored, and the bytes need not be canonical.
 * The struct and everything it points to are in the arena. */
TSR_RESULT tsr_config_decode(tsr_ctx *ctx, const char *json, size_t size_bytes, tsr_arena *arena,
                             tsr_config *out_config);

/* False when no such name exists. */
bool tsr_tensor_role_parse(const char *name, tsr_tensor_role *out_role);
bool tsr_init_kind_parse(const char *name, tsr_init_kind *out_kind);
bool tsr_port_source_parse(const char *name, tsr_port_source *out_source);
bool tsr_entry_kind_parse(const char *name, tsr_entry_kind *out_kind);
bool tsr_effect_parse(const char *name, tsr_effect *out_effect);

enum { TSR_EFFECT_COUNT = 6, TSR_EFFECTS_TEXT_MAX = 64 };
/* Effect `index`, in the order of their numbers, as written in programs: "random". */
const char *tsr_effect_name(size_t index);
/* "random, state", or "none". Returns `out_text`. */
const char *tsr_effects_format(uint32_t effects, char out_text[static TSR_EFFECTS_TEXT_MAX]);

/* Appends ",\"open\":{…}", the member of an entry's open dim; nothing if it has none. */
void tsr_config_write_open(tsr_buffer *out, const tsr_config_entry *entry);

/* Stable 32-bit hash of a name: the first four bytes of its SHA-256, little-endian. */
uint32_t tsr_name_stream(const char *name);

/* UTF-8 of at most size_max bytes, without control characters: safe to print. */
bool tsr_text_valid(const char *text, size_t size_max);
/* The same, 1 … TSR_NAME_MAX bytes. */
bool tsr_name_valid(const char *name);

#endif
