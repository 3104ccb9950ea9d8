/* SPDX-License-Identifier: Apache-2.0
 *
 * What a bundle says about its program: the tensors that it keeps (parameters, optimizer state,
 * constants) and its entries, with their inputs and outputs.
 */
#ifndef TSR_TESSERA_CONFIG_H
#define TSR_TESSERA_CONFIG_H

#include "tessera/identity.h"
#include "tessera/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

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
    /* PARAM: what its optimizer was told. frozen: it is not trained; else its weight decay is 0
     * (no_decay), and its learning rate is multiplied by lr_factor, if that is not 0. */
    bool frozen, no_decay;
    double lr_factor;
} tsr_config_tensor;

typedef enum tsr_port_source {
    TSR_PORT_ARGUMENT = 1, /* the caller passes it (--input) */
    TSR_PORT_DATA = 2,     /* a data set is bound to it (--data): dimension 0 is the batch */
    TSR_PORT_STEP = 3,     /* scalar i64, filled by the runtime: the number of the step, from 1 */
    TSR_PORT_SEED = 4,     /* scalar i64, filled by the runtime: the seed of the run */
    /* scalar f32 or f64, filled by the runtime: a number that a run can set; inputs of training */
    TSR_PORT_HYPERPARAMETER = 5,
} tsr_port_source;

/* A number that a run can set. */
typedef struct tsr_config_hyperparameter {
    const char *name;   /* "lr"; several inputs of different dtypes may have one name */
    double value;       /* of the program */
    double least, most; /* the values that it may have: a finite range */
} tsr_config_hyperparameter;

typedef struct tsr_config_port {
    const char *name; /* unique among the inputs (or outputs) of the entry */
    tsr_dtype dtype;
    tsr_shape shape;
    tsr_port_source source; /* inputs only; outputs: TSR_PORT_ARGUMENT */
    bool may_be_infinite;   /* outputs only: infinity is an intended value of this output */
    bool watched;           /* outputs of training: must be finite, is not reported */
    const tsr_config_hyperparameter *hyperparameter; /* HYPERPARAMETER; else NULL */
    uint64_t dim_times; /* dim 0 is this number times the entry's open dim, and `shape` has its
                         * largest size; 0: every dim has one size */
} tsr_config_port;

typedef enum tsr_entry_kind {
    TSR_ENTRY_INFER = 1, /* reads parameters; never changes them */
    TSR_ENTRY_TRAIN = 2, /* one call is one step; scalar outputs are reported and must be finite */
    TSR_ENTRY_EVAL = 3,  /* row-wise outputs are averaged over the data set and reported */
} tsr_entry_kind;

/* A dim whose size the inputs of each call give. */
typedef struct tsr_open_dim {
    const char *name; /* "N"; NULL: the entry has no open dim */
    uint64_t low, high;
} tsr_open_dim;

/* What an entry does besides computing its results; sets are sums of these numbers. */
typedef enum tsr_effect {
    TSR_EFFECT_RANDOM = 1 << 0,     /* draws random numbers */
    TSR_EFFECT_IO = 1 << 1,         /* makes values durable during a step, or reads such values */
    TSR_EFFECT_MEMORY = 1 << 2,     /* keeps values in another memory than the device's */
    TSR_EFFECT_STATE = 1 << 3,      /* changes parameters or other state */
    TSR_EFFECT_MOVEMENT = 1 << 4,   /* copies values between memories */
    TSR_EFFECT_COLLECTIVE = 1 << 5, /* exchanges values with other ranks */
} tsr_effect;

typedef struct tsr_config_entry {
    const char *name;
    tsr_entry_kind kind;
    bool rows_independent; /* row r of each output depends on row r of the inputs only: any number
                            * of rows can be run in batches, the last one padded and cut */
    uint64_t batch;        /* rows per call; 0 when the entry has no batch dimension */
    size_t input_count, output_count;
    tsr_config_port *inputs, *outputs;
    tsr_open_dim open;   /* of entries of kind INFER only */
    bool states_effects; /* the program says what the entry may do */
    uint32_t effects;    /* then: a set of tsr_effect; else 0 */
} tsr_config_entry;

typedef struct tsr_config {
    uint32_t version_major, version_minor;
    const char *name;     /* name of the module */
    const char *producer; /* "tessera 0.1.0" */
    const char *numerics; /* for example "portable.2" */
    uint64_t virtual_ranks;
    /* Digest of the ops of all entries and of their constants; zero: not known, as before version
     * 1.1, and then the identity is empty. */
    tsr_digest operations;
    tsr_identity identity; /* its program digest is that of the whole config */
    size_t tensor_count, entry_count;
    tsr_config_tensor *tensors; /* sorted by name (bytes) */
    tsr_config_entry *entries;  /* sorted by name (bytes) */
} tsr_config;

/* As written in the JSON: "param", "uniform", "data", "train"; "?" for an unknown number. */
TSR_API const char *tsr_tensor_role_name(tsr_tensor_role role);
TSR_API const char *tsr_init_kind_name(tsr_init_kind kind);
TSR_API const char *tsr_port_source_name(tsr_port_source source);
TSR_API bool tsr_port_is_filled(tsr_port_source source); /* true if the runtime fills it: STEP,
                                                            SEED, HYPERPARAMETER */
/* True if the port is the hyper-parameter of this name. */
TSR_API bool tsr_port_is_hyperparameter(const tsr_config_port *port, const char *name);
TSR_API const char *tsr_entry_kind_name(tsr_entry_kind kind);

/* NULL when absent. An entry that was built for several sizes of its dims is "NAME[N=8]", … in the
 * config; for "NAME" the first of them is returned. */
TSR_API const tsr_config_tensor *tsr_config_find_tensor(const tsr_config *config, const char *name);
TSR_API const tsr_config_entry *tsr_config_find_entry(const tsr_config *config, const char *name);

#ifdef __cplusplus
}
#endif

#endif
