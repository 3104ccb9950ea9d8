/* SPDX-License-Identifier: Apache-2.0
 *
 * The C side of the C++ glue in this folder: the few functions that MLIR's C API lacks. It contains
 * no logic. Only compiler/ir/mlir.c, op.c, recover.c and the files named below may include it.
 */
#ifndef TSR_COMPILER_SHIM_SHIM_H
#define TSR_COMPILER_SHIM_SHIM_H

#include <mlir-c/IR.h>
#include <mlir-c/Pass.h>

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Dialect handles, one .cpp each. */
MlirDialectHandle mlirGetDialectHandle__tessera__(void);
MlirDialectHandle mlirGetDialectHandle__tessera_sr__(void);
MlirDialectHandle mlirGetDialectHandle__tsched__(void);
MlirDialectHandle mlirGetDialectHandle__tile__(void);
MlirDialectHandle mlirGetDialectHandle__tessera_target__(void);

/* ---- mlir.cpp ---- */
/* A module from text, which ends with a NUL; `name` is in its locations. It is not verified. Null
 * on error (diagnostics emitted). */
MlirModule tsr_shim_parse(MlirContext context, MlirStringRef source, MlirStringRef name);
/* Verifies each op by itself, and with `symbols` the symbols that it names, and emits every error.
 * Stops before the first op for which `goes_on` returns false. */
void tsr_shim_verify_ops(MlirModule module, bool symbols, bool (*goes_on)(void *user), void *user);
/* Turns off "see current operation" notes. */
void tsr_shim_quiet_diagnostics(MlirContext context);
/* Emits an error with notes at `location`. */
void tsr_shim_emit_error(MlirLocation location, MlirStringRef text, size_t note_count,
                         const MlirLocation *note_locations, const MlirStringRef *notes);
/* The element type and dims of a shaped type (INT64_MIN if dynamic), and the encoding of a tensor
 * (null: none). False if the type is not shaped, unranked, or has more than `limit` dims. */
bool tsr_shim_shape(MlirType type, size_t limit, MlirType *out_element, int64_t *out_dims,
                    size_t *out_rank, MlirAttribute *out_encoding);
/* The identity of a registered op, which mlirOperationGetTypeID returns for it in every context;
 * NULL if no op of this name is registered. */
const void *tsr_shim_op_type(MlirContext context, MlirStringRef name);
/* Calls `each` with the name of every registered op. */
void tsr_shim_op_names(MlirContext context, MlirStringCallback each, void *user);
/* Calls `each` with the name of every attribute that the op's declaration has. */
void tsr_shim_attribute_names(MlirOperation op, MlirStringCallback each, void *user);
/* Lets the inliner inline calls to functions that only have ops of registered dialects. */
void tsr_shim_allow_inlining(MlirDialectRegistry registry);

/* If C++ or LLVM cannot allocate memory, it calls `handler`, which ends the process. */
void tsr_shim_on_no_memory(void (*handler)(void));

/* ---- stablehlo.cpp ---- */
/* Lets the context read modules of StableHLO; none of its ops is declared. */
void tsr_shim_load_stablehlo(MlirContext context);

/* ---- pass.cpp ---- */
/* Adds a pass over modules to the global registry; `run` returns false after an error. The strings
 * are borrowed forever. */
void tsr_shim_register_pass(MlirStringRef name, MlirStringRef summary,
                            bool (*run)(MlirModule module));
/* A name for a comma-separated list of registered passes. The strings are borrowed forever. */
void tsr_shim_register_pipeline(MlirStringRef name, MlirStringRef summary, MlirStringRef passes);
/* Lists the registered passes on standard output. Returns 0, or its errno. */
int tsr_shim_print_passes(void);
/* Call it once per manager, before passes are added. The module is not verified again if a pass of
 * tsr_shim_register_pass did not change it since the last verification. `*verified` is the
 * fingerprint of the last verified module, or 0, and is kept up to date as long as passes succeed.
 * Calls `before` with the name of every pass that begins, including nested ones; calls `after`,
 * which may be NULL, with the name of every pass that succeeded on the whole module. */
void tsr_shim_watch_passes(MlirPassManager manager, uint64_t *verified,
                           void (*before)(const char *name),
                           void (*after)(void *user, const char *name, MlirModule module),
                           void *user);
/* A fingerprint of 64 bits of an op and the ops in it: name, location, operands, types, attributes,
 * properties, blocks, successors. Only comparable for the same ops: values and attributes count by
 * address. */
uint64_t tsr_shim_fingerprint(MlirOperation op);

/* ---- graph.cpp ---- */
/* How an op of dialect `tessera` is written; NULL for any other name. */
const char *tsr_shim_op_form(MlirStringRef name);
/* Parameters of #tessera.uniform/normal/constant/adamw/sgd/nesterov, in the order of their
 * declaration. Returns their number; 0 for any other attribute. */
enum { TSR_SHIM_PARAMETERS_MAX = 8 };
size_t tsr_shim_graph_attr(MlirAttribute attr, const char **out_mnemonic,
                           double out_parameters[TSR_SHIM_PARAMETERS_MAX]);

/* The strings of #tessera.dims: one expression for each dynamic dim, "?" for one that is not known.
 * The count is 0 for any other attribute. */
size_t tsr_shim_dims_count(MlirAttribute attr);
MlirAttribute tsr_shim_dims_get(MlirAttribute attr, size_t index);
MlirAttribute tsr_shim_dims_make(MlirContext context, size_t count, const MlirAttribute *dims);

/* Is this !tessera.opt.state? */
bool tsr_shim_is_opt_state(MlirType type);
/* The string of #tessera.opt.shard (its axis), opt.partition or opt.offload; `out_mesh` is set if a
 * shard has one. False for any other attribute. */
bool tsr_shim_opt_attr(MlirAttribute attr, const char **out_mnemonic, MlirAttribute *out_text,
                       MlirAttribute *out_mesh);

/* Called from the glue, defined in compiler/ir/dims.c: writes the canonical text of the expression;
 * false, with a static text, if the text is not an expression. */
enum { TSR_SHIM_DIM_TEXT_MAX = 128 };
bool tsr_dim_canonicalize(const char *text, size_t size_bytes, char out_text[TSR_SHIM_DIM_TEXT_MAX],
                          const char **out_error);
/* Called from the glue, defined in compiler/graph/. */
bool tsr_graph_verify_op(MlirOperation op);
/* The `count` result types that follow from the operands and attributes; the op's own result types
 * are ignored. Emits an error and returns false if the op breaks its rule. */
bool tsr_graph_infer(MlirOperation op, size_t count, MlirType *out_types);
/* `constants`: one per operand, null if unknown. Sets one of the outs, or returns false. */
bool tsr_graph_fold_op(MlirOperation op, const MlirAttribute *constants, size_t constant_count,
                       MlirAttribute *out_attr, MlirValue *out_value);

/* ---- graph.cpp and resilience.cpp ---- */
/* Called from the glue, defined in compiler/resilience/. */
bool tsr_sr_verify_op(MlirOperation op);

/* ---- schedule.cpp ---- */
/* Called from the glue, defined in compiler/schedule/. `callee` is null if there is no callee. */
bool tsr_schedule_verify_func(MlirOperation func);
bool tsr_schedule_verify_call(MlirOperation call, MlirOperation callee);
bool tsr_schedule_verify_plan(MlirOperation op); /* every PLAN op of dialect.def */

/* ---- tile.cpp ---- */
/* Stages, rows and columns of !tile.shared, rows and columns of !tile.fragment; false for any other
 * type. */
bool tsr_shim_tile_shared(MlirType type, int64_t out_dims[3], MlirType *out_element);
bool tsr_shim_tile_fragment(MlirType type, int64_t out_dims[2], MlirType *out_element,
                            bool *out_is_acc);
MlirType tsr_shim_tile_shared_make(const int64_t dims[3], MlirType element);
MlirType tsr_shim_tile_fragment_make(const int64_t dims[2], MlirType element, bool is_acc);
/* Called from the glue, defined in compiler/tile/. */
bool tsr_tile_verify_op(MlirOperation op);

/* ---- target.cpp ---- */
/* Called from the glue, defined in compiler/target/host/. */
bool tsr_target_verify_op(MlirOperation op);
/* `symbol` is the kernel of a launch, or the body of a kernel; null if there is no such symbol. */
bool tsr_target_verify_use(MlirOperation op, MlirOperation symbol);

#ifdef __cplusplus
}
#endif
#endif
