/* SPDX-License-Identifier: Apache-2.0
 *
 * The config blob of a bundle: the name of the program, the tensors it keeps (parameters, optimizer
 * state, constants) and its entries. Plain structs <-> canonical JSON (media type
 * application/vnd.tessera.bundle.config.v1+json; layout in manifests/README.md).
 */
#ifndef TSR_MANIFESTS_CONFIG_H
#define TSR_MANIFESTS_CONFIG_H

#include "runtime/base/arena.h"
#include "runtime/base/identity.h"
#include "runtime/base/tensor.h"

enum {
    TSR_CONFIG_VERSION_MAJOR = 1,
    TSR_CONFIG_VERSION_MINOR = 1,    /* the highest; 0: without a program digest */
    TSR_CONFIG_BYTES_MAX = 64 << 20, /* size of the JSON; see also runtime/base/io/json.h */
    TSR_CONFIG_VIRTUAL_RANKS_MAX = 65536,
    TSR_CONFIG_TENSORS_MAX = 1 << 20,
    TSR_CONFIG_ENTRIES_MAX = 256,
    TSR_CONFIG_PORTS_MAX = 256, /* inputs or outputs of one entry */
};

typedef enum tsr_tensor_role {
    TSR_ROLE_PARAM = 1,    /* trained; part of the state */
    TSR_ROLE_STATE = 2,    /* optimizer state; part of the state */
    TSR_ROLE_CONSTANT = 3, /* never changes; not part of the state */
} tsr_tensor_role;

typedef enum tsr_init_kind {
    TSR_INIT_DATA = 0,     /* stored in the weights blob, under the tensor's name */
    TSR_INIT_CONSTANT = 1, /* every element = a */
    TSR_INIT_UNIFORM = 2,  /* Philox by seed and logical index, in [a, b) */
    TSR_INIT_NORMAL = 3,   /* mean a, standard deviation b */
} tsr_init_kind;

typedef struct tsr_config_tensor {
    const char *name; /* stable, unique, non-empty */
    tsr_tensor_role role;
    const char *of;   /* STATE: the parameter it belongs to; else NULL */
    const char *kind; /* STATE: "adam_m", "adam_v", …; else NULL */
    tsr_dtype dtype;
    tsr_shape shape;
    tsr_init_kind init;
    double init_a, init_b;
    uint32_t init_stream; /* Philox key's second half: stable hash of the name */
} tsr_config_tensor;

typedef enum tsr_port_source {
    TSR_PORT_ARGUMENT = 1, /* the caller passes it (--input) */
    TSR_PORT_DATA = 2,     /* a data set is bound to it (--data): dimension 0 is the batch */
    TSR_PORT_STEP = 3,     /* scalar i64, filled by the runtime: the number of the step, from 1 */
    TSR_PORT_SEED = 4,     /* scalar i64, filled by the runtime: the seed of the run */
} tsr_port_source;

typedef struct tsr_config_port {
    const char *name; /* unique among the inputs (or outputs) of the entry */
    tsr_dtype dtype;
    tsr_shape shape;
    tsr_port_source source; /* inputs only; outputs: TSR_PORT_ARGUMENT */
    bool may_be_infinite;   /* outputs only: infinity is an intended value of this output */
    bool watched;           /* outputs of training: must be finite, is not reported */
} tsr_config_port;

typedef enum tsr_entry_kind {
    TSR_ENTRY_INFER = 1, /* reads parameters; never changes them */
    TSR_ENTRY_TRAIN = 2, /* one call is one step; scalar outputs are reported and must be finite */
    TSR_ENTRY_EVAL = 3,  /* row-wise outputs are averaged over the data set and reported */
} tsr_entry_kind;

typedef struct tsr_config_entry {
    const char *name;
    tsr_entry_kind kind;
    bool rows_independent; /* row r of each output depends on row r of the inputs only: any number
                            * of rows can be run in batches, the last one padded and cut */
    uint64_t batch;        /* rows per call; 0 when the entry has no batch dimension */
    size_t input_count, output_count;
    tsr_config_port *inputs, *outputs;
} tsr_config_entry;

/* Returns true if a bundle may have this value of `numerics`. The suffix is the version of the
 * order in which sums and products are computed (compiler/tile/tile.h); version 1 has no suffix. */
#define TSR_NUMERICS_VERSION ".2"
bool tsr_config_numerics_valid(const char *numerics);
/* May matrix units and dot products be used? */
bool tsr_config_numerics_native(const char *numerics);

typedef struct tsr_config {
    uint32_t version_major, version_minor;
    const char *name;     /* name of the module */
    const char *producer; /* "tessera 0.1.0" */
    const char *numerics; /* for example "portable.2"; see above */
    uint64_t virtual_ranks;
    /* Digest of the ops of all entries and of their constants; zero: not known, as before version
     * 1.1, and then the identity is empty. */
    tsr_digest operations;
    tsr_identity identity; /* its program digest is that of tsr_config_program_digest */
    size_t tensor_count, entry_count;
    tsr_config_tensor *tensors; /* sorted by name (bytes) */
    tsr_config_entry *entries;  /* sorted by name (bytes) */
} tsr_config;

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

/* As written in the JSON: "param", "uniform", "data", "train"; "?" for an unknown number. */
const char *tsr_tensor_role_name(tsr_tensor_role role);
const char *tsr_init_kind_name(tsr_init_kind kind);
const char *tsr_port_source_name(tsr_port_source source);
bool tsr_port_is_filled(tsr_port_source source); /* true if the runtime fills it: STEP, SEED */
const char *tsr_entry_kind_name(tsr_entry_kind kind);
/* False when no such name exists. */
bool tsr_tensor_role_parse(const char *name, tsr_tensor_role *out_role);
bool tsr_init_kind_parse(const char *name, tsr_init_kind *out_kind);
bool tsr_port_source_parse(const char *name, tsr_port_source *out_source);
bool tsr_entry_kind_parse(const char *name, tsr_entry_kind *out_kind);

/* NULL when absent. */
TSR_API const tsr_config_tensor *tsr_config_find_tensor(const tsr_config *config, const char *name);
TSR_API const tsr_config_entry *tsr_config_find_entry(const tsr_config *config, const char *name);

/* Stable 32-bit hash of a name: the first four bytes of its SHA-256, little-endian. */
uint32_t tsr_name_stream(const char *name);

/* UTF-8 of at most size_max bytes, without control characters: safe to print. */
bool tsr_text_valid(const char *text, size_t size_max);
/* The same, 1 … TSR_NAME_MAX bytes. */
bool tsr_name_valid(const char *name);

#endif
