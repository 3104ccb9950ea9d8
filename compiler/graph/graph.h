/* SPDX-License-Identifier: Apache-2.0
 *
 * Graph IR: the dialect `tessera`, its lowering to straight-line ops, and the tensors and entries
 * of a program. Ops are in ops.def; forms before and after lowering in README.md.
 */
#ifndef TSR_COMPILER_GRAPH_GRAPH_H
#define TSR_COMPILER_GRAPH_GRAPH_H

#include "compiler/passes.h"
#include "manifests/config.h"

/* Module attribute: "native"; absent: portable. */
#define TSR_NUMERICS_NAME "tessera.numerics"
/* Module attribute: maximum bytes of an entry's workspace, on a device with memory of its own. */
#define TSR_WORKSPACE_MAX_NAME "tessera.workspace_max"
/* Module attributes of pass tessera-identify: the digest of the ops, in hexadecimal; and the
 * hyper-parameters, a dictionary of strings. */
#define TSR_OPERATIONS_NAME "tessera.operations"
#define TSR_HYPERPARAMETERS_NAME "tessera.hyperparameters"
/* Reads them; the texts are borrowed from the MLIR context, the program digest stays zero. False if
 * the module has none. */
bool tsr_graph_identity_read(MlirModule module, tsr_arena *arena, tsr_digest *out_operations,
                             tsr_identity *out_identity);

/* The range of an op tessera.hyperparameter: by default, all numbers of f32. */
void tsr_hyperparameter_range(MlirOperation op, double *out_least, double *out_most);

/* Attribute of minimize, adamw and sgd, from pass tessera-identify: a run can set their numbers,
 * and the listed names of these begin with this text. */
#define TSR_SETTABLE_NAME "tessera.settable"
/* Attribute of adamw and sgd: the group of the parameter, a dictionary of the `optimizer` without
 * the group, `lr_factor` and `no_decay`. */
#define TSR_GROUP_NAME "tessera.group"

/* Attribute of tessera.matmul: a GPU's matrix units may multiply f32 as tf32, if numerics are
 * native. */
#define TSR_TF32_NAME "allow_tf32"

/* Attribute of tessera.exp: the operand is x minus the largest element of its row. Kernels may use
 * TSR_SHIFTED_NAME of compiler/target/target.h for it. The attribute is on the op, so that no bit
 * depends on fusion. */
#define TSR_EXP_SHIFTED "tessera.shifted"

/* Attribute of a result of an entry: an infinity is an intended value. */
#define TSR_INFINITE_NAME "tessera.may_be_infinite"

/* An entry with a dim that stays open at run time; the numbers of TSR_OPEN_DIM_NAME. */
typedef struct tsr_graph_open {
    const char *dim;
    int64_t low, high;
    int64_t inputs[TSR_CONFIG_PORTS_MAX], outputs[TSR_CONFIG_PORTS_MAX];
} tsr_graph_open;
/* False if the entry has none. */
bool tsr_graph_open_read(MlirOperation func, tsr_graph_open *out_open);
/* Checks whether the symbol can stay open in an entry whose types still have it, and adds these
 * attributes. False after an error. */
bool tsr_graph_open_mark(MlirOperation func, const char *symbol, int64_t low, int64_t high);

/* Attribute of functions that are bodies of tessera.loop: the symbol of the entry that they run
 * in. */
#define TSR_BODY_NAME "tessera.body"
/* True for an entry or such a body: the functions that are lowered and scheduled. */
bool tsr_graph_is_lowered_func(MlirOperation op);

/* The symbol of the module of kernels in Target IR, which is next to the entries: no entry may
 * have this name. */
#define TSR_DEVICE_NAME "device"

/* The passes of the stage, in order. */
#define TSR_GRAPH_CHECK                                                                            \
    "tsched-verify,tsched-apply,tessera-handlers,tessera-specialize-calls,tessera-verify,"         \
    "tessera-effects"
#define TSR_GRAPH_PIPELINE                                                                         \
    "tessera-constraints,tessera-bind-dims," TSR_GRAPH_CHECK                                       \
    ",tessera-drop-constraints,tessera-name-calls,inline,"                                         \
    "tessera-order-collectives,tessera-streams,tessera-drop-other-functions,tessera-mark-"         \
    "infinite,tessera-copy-anchors,"                                                               \
    "tessera-inline-regions,tessera-infer-shapes,tessera-prove-rows,tessera-count-samples,"        \
    "tessera-"                                                                                     \
    "flatten," TSR_CANONICALIZE ",cse,tessera-identify,tessera-split-products,"                    \
    "tessera-autodiff,tessera-outline,"                                                            \
    "tessera-optimizer-shard,tessera-insert-recompute,tessera-resilience-restart,"                 \
    "tessera-export-deployment-manifest,tessera-vrank-shards,tessera-local-collectives,"           \
    "tessera-decompose,"                                                                           \
    "tessera-fold-transposes,tessera-virtual-ranks,tessera-lower-experts," TSR_CANONICALIZE        \
    ",cse,tessera-verify,tessera-verify-lowered"

/* Lowers a source module in place. Afterwards every remaining function is an entry (attribute
 * tessera.entry) and a single block of static-shape tessera ops that are `kept` in ops.def.
 * TSR_COMPILE on error; the diagnostics are in `list`. `options` may be NULL. */
TSR_RESULT tsr_graph_lower(tsr_ctx *ctx, MlirModule module, tsr_diag_list *list,
                           const tsr_pass_options *options);

/* ---- ops ------------------------------------------------------------------------------------- */

#define TSR_GRAPH_NAME(mnemonic) "tessera." mnemonic

/* The value of `compare`'s attribute `predicate`. */
typedef enum tsr_predicate {
    TSR_PREDICATE_EQ,
    TSR_PREDICATE_NE,
    TSR_PREDICATE_LT,
    TSR_PREDICATE_LE,
    TSR_PREDICATE_GT,
    TSR_PREDICATE_GE,
    TSR_PREDICATE_COUNT
} tsr_predicate;
bool tsr_graph_predicate(MlirOperation compare, tsr_predicate *out_predicate);

/* The bounds of verify.numerics, infinite if it has none; false if they are not two numbers. */
bool tsr_graph_verify_bounds(MlirOperation op, double *out_low, double *out_high);

/* #tessera.adamw of a minimize or adamw op. */
typedef struct tsr_adamw {
    double lr, beta1, beta2, eps, weight_decay;
} tsr_adamw;
bool tsr_graph_adamw(MlirOperation op, tsr_adamw *out_adamw);
/* #tessera.sgd or #tessera.nesterov of a minimize or sgd op. */
typedef struct tsr_sgd {
    double lr, momentum, weight_decay;
    bool nesterov;
} tsr_sgd;

/* ---- tensors: parameters and optimizer state ------------------------------------------------- */

typedef struct tsr_graph_tensor {
    const char *name; /* borrowed from the MLIR context, as all strings here */
    tsr_tensor_role role;
    const char *of, *kind; /* STATE only */
    tsr_type type;         /* static */
    tsr_init_kind init;
    double init_a, init_b; /* CONSTANT: a; UNIFORM: [a, b); NORMAL: mean, deviation */
    MlirAttribute data;    /* DATA: read it with tsr_attr_elements(); else null */
    MlirOperation op;      /* the first one that reads it */
    bool frozen, no_decay; /* PARAM only, like lr_factor */
    double lr_factor;      /* 0: not given */
} tsr_graph_tensor;

/* Reads the declaration in a tessera.param or tessera.opt.state. False if `op` is neither, or
 * incomplete (as tsr_pass_verify would have reported). */
bool tsr_graph_tensor_read(MlirOperation op, tsr_graph_tensor *out_tensor);
/* Every tensor of a module, sorted by name, each once; in the arena. The module must have been
 * verified. */
TSR_RESULT tsr_graph_tensors(tsr_ctx *ctx, MlirModule module, tsr_arena *arena,
                             tsr_graph_tensor **out_tensors, size_t *out_count);

/* ---- entries --------------------------------------------------------------------------------- */

typedef struct tsr_graph_port {
    const char *name;
    tsr_port_source source; /* DATA or ARGUMENT */
    tsr_type type;
    bool may_be_infinite; /* outputs only: see TSR_INFINITE_NAME */
    bool watched;         /* a result: see TSR_WATCHED_NAME */
} tsr_graph_port;

/* A unit attribute of a result of a training entry: like all results it must be finite, but it is
 * not reported. */
#define TSR_WATCHED_NAME "tessera.watched"
/* Makes `value` a watched result, with this name or a similar one, of the training function. Does
 * nothing if the value is a result already, or the maximum number of results is reached. */
void tsr_graph_watch(MlirOperation func, MlirValue value, const char *name);

typedef struct tsr_graph_entry {
    const char *name;
    tsr_entry_kind kind;
    bool rows_independent;
    MlirOperation func;
    size_t input_count, output_count;
    tsr_graph_port *inputs, *outputs; /* the function's arguments and results, in order */
} tsr_graph_entry;

/* Reads one argument, result or entry of a function with attribute tessera.entry; false if
 * something is missing or wrong (as tsr_pass_verify would have reported). */
bool tsr_graph_input_read(MlirOperation func, size_t index, tsr_graph_port *out_port);
bool tsr_graph_output_read(MlirOperation func, size_t index, tsr_graph_port *out_port);
bool tsr_graph_entry_kind(MlirOperation func, tsr_entry_kind *out_kind);
bool tsr_graph_entry_read(MlirOperation func, tsr_arena *arena, tsr_graph_entry *out_entry);
/* The rules of whole programs, as pass tessera-verify; `scheduled`: entries also contain calls of
 * groups. False after an error. */
bool tsr_graph_verify(MlirModule module, bool scheduled);
/* called.c, part of tsr_pass_verify: checks that no function, with all that it calls, has too many
 * ops, and that no function that changes a tensor is called where changes are not allowed. */
bool tsr_graph_check_called(MlirModule module);
/* True if the op itself changes tensors, or checks numbers: it is not allowed in regions. */
bool tsr_graph_changes(MlirOperation op);
/* The innermost enclosing op that computes values of its regions, such as a branch, a loop or a
 * derivative; null: none. Checkpoints and regions of resilience only mark ops of a function; their
 * ops are inlined into it before any other processing. */
MlirOperation tsr_graph_computing(MlirOperation op);
/* Every entry of a verified module in the order of the text; in the arena. */
TSR_RESULT tsr_graph_entries(tsr_ctx *ctx, MlirModule module, tsr_arena *arena,
                             tsr_graph_entry **out_entries, size_t *out_count);

#endif
